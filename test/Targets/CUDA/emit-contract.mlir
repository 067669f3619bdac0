// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// Ordinary multiplications: elements of memory as it is come one by one by asynchronous copies, eight neighbouring ones of
// a row (32 bytes) by neighbouring threads, three steps ahead. Steps are not a loop. A thread reads two neighbours at a time.
// CHECK-LABEL: llvm.func @product(
// CHECK-SAME: nvvm.maxntid = array<i32: 128>
// CHECK: arith.divui %{{.*}}, %c8_i64
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 4, cache = ca
// CHECK: nvvm.cp.async.commit.group
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 2
// CHECK: nvvm.barrier0
// CHECK-NOT: nvvm.barrier0
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK-NOT: scf.for
// CHECK: llvm.load {{.*}}alignment = 8{{.*}} -> vector<2xf32>
// CHECK-COUNT-128: math.fma
// CHECK: llvm.return
kernel.func @product(%x: tensor<100x70xf32>, %w: tensor<50x70xf32>, %b: tensor<50xf32>) -> tensor<100x50xf32> {
  %y = kernel.contract batch [] m [100] n [50] k [70] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<100x70xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<50x70xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    %bias = kernel.read %b (d0, d1, d2) -> (d1) : tensor<50xf32> -> f32
    %s = arith.addf %sum, %bias : f32
    kernel.yield %s : f32
  } : tensor<100x50xf32>
  kernel.return %y : tensor<100x50xf32>
}

// -----

// What is computed of memory takes turns in two places of shared memory, one barrier a step.
// CHECK-LABEL: llvm.func @computed(
// CHECK: llvm.load
// CHECK: arith.select
// CHECK: scf.for
// CHECK: llvm.store
// CHECK: nvvm.barrier0
// CHECK-NOT: nvvm.barrier0
// CHECK: math.fma
// CHECK: llvm.return
kernel.func @computed(%x: tensor<100x70xf32>, %w: tensor<50x70xf32>, %b: tensor<50xf32>) -> tensor<100x50xf32> {
  %y = kernel.contract batch [] m [100] n [50] k [70] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<100x70xf32> -> f32
    %negative = arith.negf %a : f32
    kernel.yield %negative : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<50x70xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    %bias = kernel.read %b (d0, d1, d2) -> (d1) : tensor<50xf32> -> f32
    %s = arith.addf %sum, %bias : f32
    kernel.yield %s : f32
  } : tensor<100x50xf32>
  kernel.return %y : tensor<100x50xf32>
}

// -----

// The largest blocks: 16 bytes of neighbours are read at once, and two blocks share the registers of a multiprocessor.
// CHECK-LABEL: llvm.func @large(
// CHECK-SAME: nvvm.minctasm = 2
// CHECK-COUNT-16: nvvm.cp.async.shared.global
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 0
// CHECK-COUNT-16: nvvm.cp.async.shared.global
// CHECK-COUNT-4: llvm.load {{.*}}alignment = 16{{.*}} -> vector<4xf32>
// CHECK: math.fma
// CHECK: llvm.store {{.*}}vector<4xf32>
// CHECK: llvm.return
kernel.func @large(%x: tensor<2048x512xf32>, %w: tensor<2048x512xf32>) -> tensor<2048x2048xf32> attributes {aligned} {
  %y = kernel.contract batch [] m [2048] n [2048] k [512] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x512xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2048x2048xf32>
  kernel.return %y : tensor<2048x2048xf32>
}

// -----

// Halves on tensor cores. Memory as it is comes by asynchronous copies, of which three steps' are under way: nothing
// but sums is carried. A warp multiplies 64 x 64 elements, 16 steps at a time, with eight loads of four matrices each.
// CHECK-LABEL: llvm.func @halves(
// CHECK-SAME: %{{.*}}: !llvm.ptr {llvm.align = 16 : i64}
// CHECK-SAME: nvvm.maxntid = array<i32: 128>
// A thread's chunks of an operand, which are 32 rows apart, have one address and constants.
// CHECK: %[[FIRST:.*]] = llvm.getelementptr %arg0[%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, bf16
// CHECK: nvvm.cp.async.shared.global
// CHECK: llvm.getelementptr %[[FIRST]][32768] : (!llvm.ptr) -> !llvm.ptr, bf16
// CHECK-COUNT-7: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 2
// CHECK: nvvm.barrier0
// CHECK-COUNT-8: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK-COUNT-4: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>{{.*}}num = 4
// CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>{{.*}}num = 4
// CHECK-COUNT-8: nvvm.mma.sync{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// CHECK: nvvm.ldmatrix
// CHECK: nvvm.mma.sync
// CHECK: llvm.return
kernel.func @halves(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}

// -----

// Bytes: an instruction has 32 steps, and sums wrap around in i32. Those of a right operand whose columns are neighbours are put in the order of
// steps as they are stored, since nothing turns bytes round.
// CHECK-LABEL: llvm.func @bytes(
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16
// CHECK: llvm.store %{{.*}} : i8
// CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>{{.*}}num = 4
// CHECK-NOT: layout = #nvvm.mma_layout<col>, num
// CHECK: nvvm.mma.sync {{.*}}intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 32>
kernel.func @bytes(%x: tensor<64x64xi8>, %w: tensor<64x64xi8>) -> tensor<64x64xi32> attributes {aligned} {
  %y = kernel.contract batch [] m [64] n [64] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xi8> -> i8
    kernel.yield %a : i8
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<64x64xi8> -> i8
    kernel.yield %a : i8
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<64x64xi32>
  kernel.return %y : tensor<64x64xi32>
}

// -----

// Columns of the right operand that are neighbours in memory are neighbours in shared memory, too, and turned round as
// they are loaded.
// CHECK-LABEL: llvm.func @columns(
// CHECK: arith.xori
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>
// CHECK: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>
// CHECK: nvvm.mma.sync
kernel.func @columns(%x: tensor<64x64xf16>, %w: tensor<64x64xf16>) -> tensor<64x64xf16> attributes {aligned} {
  %y = kernel.contract batch [] m [64] n [64] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<64x64xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to f16
    kernel.yield %s : f16
  } : tensor<64x64xf16>
  kernel.return %y : tensor<64x64xf16>
}

// -----

// f32 rounded to TF32: the left operand, along the steps, by ldmatrix, the other element by element.
// CHECK-LABEL: llvm.func @rounded(
// CHECK: nvvm.cp.async.shared.global
// CHECK: scf.for
// CHECK: llvm.load {{.*}} -> i32
// CHECK: nvvm.convert.float.to.tf32 {{.*}}rna
// CHECK: nvvm.ldmatrix
// CHECK: nvvm.convert.float.to.tf32 {{.*}}rna
// CHECK: nvvm.mma.sync{{.*}}tf32{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 8>
kernel.func @rounded(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32>
    attributes {aligned, schedule = #cuda.mma<m = 32, n = 64, k = 16, warp = [16, 32], step = 8, stages = 4>} {
  %y = kernel.contract batch [] m [64] n [64] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

// f32 as a sum of two numbers of TF32: three products. Infinity has no second number, and no product with another's.
// CHECK-LABEL: llvm.func @split(
// CHECK: scf.for
// CHECK: nvvm.ldmatrix
// CHECK: %[[MAGNITUDE:.*]] = arith.andi
// CHECK: %[[LARGE:.*]] = arith.cmpi sge, %[[MAGNITUDE]]
// CHECK: %[[INFINITE:.*]] = arith.cmpi eq, %[[MAGNITUDE]]
// CHECK: %[[CUT:.*]] = arith.andi
// CHECK: %[[ROUNDED:.*]] = nvvm.convert.float.to.tf32 {{.*}}rna
// CHECK: %[[HIGH:.*]] = arith.select %[[LARGE]], %[[CUT]], %[[ROUNDED]]
// CHECK: arith.subf
// CHECK: nvvm.convert.float.to.tf32 {{.*}}rna
// CHECK: %[[LOW:.*]] = arith.select %[[LARGE]]
// CHECK: arith.select %[[INFINITE]], %{{.*}}, %[[LOW]]
// CHECK: arith.select %[[INFINITE]], %{{.*}}, %[[HIGH]]
// CHECK-COUNT-3: nvvm.mma.sync{{.*}}tf32
// CHECK-NOT: nvvm.mma.sync
// CHECK: llvm.return
kernel.func @split(%x: tensor<16x64xf32>, %w: tensor<8x64xf32>) -> tensor<16x8xf32>
    attributes {aligned, schedule = #cuda.mma<m = 16, n = 8, k = 8, warp = [16, 8], step = 8, stages = 4, products = 3>} {
  %y = kernel.contract batch [] m [16] n [8] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<16x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<8x64xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<16x8xf32>
  kernel.return %y : tensor<16x8xf32>
}

// -----

// A convolution's windows are copied as well, where channels are neighbours: nothing of the image's surroundings is read.
// CHECK-LABEL: llvm.func @window(
// CHECK: arith.cmpi slt
// CHECK: %[[BYTES:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : i32
// CHECK: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache =  cg, %[[BYTES]]
// CHECK: scf.for
// CHECK-NOT: llvm.load
// CHECK: nvvm.cp.async.wait.group 2
// CHECK: nvvm.mma.sync
// CHECK: llvm.return
kernel.func @window(%x: tensor<64x56x56x128xbf16>, %w: tensor<256x3x3x128xbf16>) -> tensor<64x56x56x256xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [64, 56, 56] n [256] k [3, 3, 128] lhs {
    %zero = arith.constant 0.0 : bf16
    %in = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (d1 + d4 - 1, d2 + d5 - 1) bounds [56, 56]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4 - 1, d2 + d5 - 1, d6) if %in else(%zero : bf16) : tensor<64x56x56x128xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6) : tensor<256x3x3x128xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<64x56x56x256xbf16>
  kernel.return %y : tensor<64x56x56x256xbf16>
}

// -----

// A prologue is evaluated by threads, which hold a part in registers; the weights beside it are copied.
// CHECK-LABEL: llvm.func @prologue(
// CHECK: nvvm.cp.async.shared.global
// CHECK: scf.for
// CHECK: llvm.store
// CHECK: nvvm.cp.async.wait.group 2
// CHECK: nvvm.barrier0
// CHECK: nvvm.cp.async.shared.global
// CHECK: arith.maximumf
// CHECK: nvvm.mma.sync
// CHECK: scf.yield
kernel.func @prologue(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %zero = arith.constant 0.0 : bf16
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    %r = arith.maximumf %a, %zero : bf16
    kernel.yield %r : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}
