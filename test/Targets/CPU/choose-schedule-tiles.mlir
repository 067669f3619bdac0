// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=sapphirerapids},kernel.func(cpu-choose-schedule))' --split-input-file | FileCheck %s
// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=sapphirerapids,-amx-bf16,-amx-int8},kernel.func(cpu-choose-schedule))' --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=sapphirerapids},kernel.func(cpu-choose-schedule),cpu-emit-kernels)' --split-input-file | FileCheck %s --check-prefix=CODE

// 33 rows are tiles of 17 and 16; memory has the sums of one and the configuration.
// CHECK-LABEL: kernel.func @bytes
// CHECK-SAME: scratch = 2240
// CHECK-SAME: #cpu.contract<tile_rows = 17, vectors = 2, lanes = 16, block_rows = 34, block_columns = 32, block_sums = 16, epilogue = memory, unit = tiles>
// NONE-LABEL: kernel.func @bytes
// NONE-NOT: tiles
// CODE-LABEL: llvm.func @bytes
// CODE: llvm.call_intrinsic "llvm.x86.ldtilecfg"
// CODE-NOT: ldtilecfg
// CODE-COUNT-4: llvm.call_intrinsic "llvm.x86.tdpbusd"
// CODE: llvm.call_intrinsic "llvm.x86.tilerelease"
kernel.func @bytes(%x: tensor<33x16xi32>, %w: tensor<1x16x32xi32>) -> tensor<33x32xi32> {
  %r = kernel.contract batch [] m [33] n [32] k [16] panel 32 bytes 4 lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<33x16xi32> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<1x16x32xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<33x32xi32>
  kernel.return %r : tensor<33x32xi32>
}

// -----

// Up to four rows wait for the right operand, in vectors.
// CHECK-LABEL: kernel.func @few_rows
// CHECK-NOT: tiles
// CODE-LABEL: llvm.func @few_rows
// CODE-NOT: ldtilecfg
kernel.func @few_rows(%x: tensor<4x16xi32>, %w: tensor<1x16x32xi32>) -> tensor<4x32xi32> {
  %r = kernel.contract batch [] m [4] n [32] k [16] panel 32 bytes 4 lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x16xi32> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<1x16x32xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<4x32xi32>
  kernel.return %r : tensor<4x32xi32>
}

// -----

// Of an open number, rows share the code of tiles; few of them are left to vectors all the same.
// CHECK-LABEL: kernel.func @open_rows
// CHECK-SAME: #cpu.contract<tile_rows = 32, {{.*}}, epilogue = memory, share_tiles = true, unit = tiles>
// CODE-LABEL: llvm.func @open_rows
// CODE: llvm.call_intrinsic "llvm.x86.ldtilecfg"
// CODE: llvm.call @tile_4x2x16_
// CODE-COUNT-6: llvm.call_intrinsic "llvm.x86.tdpbusd"
kernel.func @open_rows(%x: tensor<?x16xi32, #sym.shape<[n, 16]>>, %w: tensor<1x16x32xi32>) -> tensor<?x32xi32, #sym.shape<[n, 32]>> {
  %r = kernel.contract batch [] m [n] n [32] k [16] panel 32 bytes 4 lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x16xi32, #sym.shape<[n, 16]>> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<1x16x32xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<?x32xi32, #sym.shape<[n, 32]>>
  kernel.return %r : tensor<?x32xi32, #sym.shape<[n, 32]>>
}

// -----

// Pairs of bf16: 37 words are two tiles of 16, and five in vectors.
// CHECK-LABEL: kernel.func @pairs
// CHECK-SAME: unit = tiles
// NONE-LABEL: kernel.func @pairs
// NONE-NOT: tiles
// CODE-LABEL: llvm.func @pairs
// CODE-COUNT-4: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// CODE: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
kernel.func @pairs(%x: tensor<40x74xbf16>, %w: tensor<1x37x32xi32>) -> tensor<40x32xf32> {
  %r = kernel.contract batch [] m [40] n [32] k [37, 2] panel 32 lhs {
    %0 = kernel.read %x (d0, d1, d2, d3) -> (d0, 2*d2 + d3) : tensor<40x74xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<1x37x32xi32> -> i32
    %1 = kernel.index (d0, d1, d2, d3) -> (16*d3)
    %2 = arith.trunci %1 : i64 to i32
    %3 = arith.shrui %0, %2 : i32
    %4 = arith.trunci %3 : i32 to i16
    %5 = arith.bitcast %4 : i16 to bf16
    kernel.yield %5 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<40x32xf32>
  kernel.return %r : tensor<40x32xf32>
}

// -----

// Two rows of an image have a register each: four products of what three loads bring.
// CHECK-LABEL: kernel.func @short_rows
// CHECK-SAME: #cpu.contract<tile_rows = 14, {{.*}}, tile_axes = 2, block_axes = 2, unit = tiles>
// CODE-LABEL: llvm.func @short_rows
// CODE-COUNT-4: llvm.call_intrinsic "llvm.x86.tdpbusd"
kernel.func @short_rows(%x: tensor<10x9x16xi32>, %w: tensor<1x144x32xi32>) -> tensor<8x7x32xi32> {
  %r = kernel.contract batch [] m [8, 7] n [32] k [3, 3, 16] panel 32 bytes 4 lhs {
    %0 = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d0 + d3, d1 + d4, d5) : tensor<10x9x16xi32> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 32, 48*d3 + 16*d4 + d5, d2 mod 32) : tensor<1x144x32xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<8x7x32xi32>
  kernel.return %r : tensor<8x7x32xi32>
}

// -----

// Blocks of rows stay in level 2 cache, and the next panel is on its way there.
// CHECK-LABEL: kernel.func @many_rows
// CHECK-SAME: #cpu.contract<tile_rows = 32, {{.*}} block_rows = 512, {{.*}} prefetch = l2, unit = tiles>
// CODE-LABEL: llvm.func @many_rows
// CODE: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// CODE: llvm.intr.prefetch
// CODE-COUNT-3: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
kernel.func @many_rows(%x: tensor<1024x1024xbf16>, %w: tensor<32x512x32xi32>) -> tensor<1024x1024xf32> {
  %r = kernel.contract batch [] m [1024] n [1024] k [512, 2] panel 32 lhs {
    %0 = kernel.read %x (d0, d1, d2, d3) -> (d0, 2*d2 + d3) : tensor<1024x1024xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<32x512x32xi32> -> i32
    %1 = kernel.index (d0, d1, d2, d3) -> (16*d3)
    %2 = arith.trunci %1 : i64 to i32
    %3 = arith.shrui %0, %2 : i32
    %4 = arith.trunci %3 : i32 to i16
    %5 = arith.bitcast %4 : i16 to bf16
    kernel.yield %5 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1024x1024xf32>
  kernel.return %r : tensor<1024x1024xf32>
}

// -----

// One row reads its panels once, in the order of memory: fetched ahead on CPUs for which that is faster.
// CHECK-LABEL: kernel.func @one_row
// CHECK-SAME: prefetch = l2>
kernel.func @one_row(%x: tensor<1x2048xf32>, %w: tensor<16x2048x128xf32>) -> tensor<1x2048xf32> {
  %r = kernel.contract batch [] m [1] n [2048] k [2048] panel 128 lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x2048xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2) -> (d1 floordiv 128, d2, d1 mod 128) : tensor<16x2048x128xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x2048xf32>
  kernel.return %r : tensor<1x2048xf32>
}

// -----

// Blocks of fewer rows than a tile has, of an image whose size is known in a run, fetch nothing ahead.
// CHECK-LABEL: kernel.func @open_image
// CHECK-SAME: #cpu.contract<tile_rows = 14, vectors = 1, lanes = 16, block_rows = 4, block_columns = 64, block_sums = 144, block_axes = 2>
kernel.func @open_image(%x: tensor<1x?x?x16xf32, #sym.shape<[1, h + 2, w + 2, 16]>>, %w: tensor<4x144x16xf32>) -> tensor<1x?x?x64xf32, #sym.shape<[1, h, w, 64]>> {
  %r = kernel.contract batch [] m [1, h, w] n [64] k [3, 3, 16] panel 16 lhs {
    %0 = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6) : tensor<1x?x?x16xf32, #sym.shape<[1, h + 2, w + 2, 16]>> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3 floordiv 16, 48*d4 + 16*d5 + d6, d3 mod 16) : tensor<4x144x16xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x?x?x64xf32, #sym.shape<[1, h, w, 64]>>
  kernel.return %r : tensor<1x?x?x64xf32, #sym.shape<[1, h, w, 64]>>
}
