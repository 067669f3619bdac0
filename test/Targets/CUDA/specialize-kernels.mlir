// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels --split-input-file | FileCheck %s

// Both operands are memory as it is: the product gets a variant, with the largest tiles of which there are enough, in pairs that share columns. Two blocks may share
// each of the 128, whose 16 steps are enough for that.
// CHECK-LABEL: kernel.func @product(
// CHECK: kernel.func @product_sm_90a(
// CHECK-SAME: cuda.variant_of = @product
// CHECK-SAME: launch = #kernel.launch<grid = <256>, threads = 384>
// CHECK-SAME: #cuda.wgmma<m = 128, n = 256, stages = 4, registers = [56, 224], cluster = [2, 1], sharing = [4, 3]>
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned} {
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

// Few rows of unknown number, dims of the rows that are one in memory, weights whose columns are neighbours.
// CHECK-LABEL: kernel.func @rows(
// CHECK: kernel.func @rows_sm_90a(
// CHECK-SAME: #cuda.wgmma<m = 64, n = 64, stages = 12, registers = [56, 224], sharing = [5, 3]>
kernel.func @rows(%x: tensor<?x4x512xf16, #sym.shape<[s0, 4, 512]>>, %w: tensor<512x1024xf16>) -> tensor<1024x?x4xf16, #sym.shape<[1024, s0, 4]>> attributes {aligned} {
  %y = kernel.contract batch [] m [s0, 4] n [1024] k [512] perm [2, 0, 1] lhs {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<?x4x512xf16, #sym.shape<[s0, 4, 512]>> -> f16
    kernel.yield %a : f16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3) -> (d3, d2) : tensor<512x1024xf16> -> f16
    kernel.yield %a : f16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to f16
    kernel.yield %s : f16
  } : tensor<1024x?x4xf16, #sym.shape<[1024, s0, 4]>>
  kernel.return %y : tensor<1024x?x4xf16, #sym.shape<[1024, s0, 4]>>
}

// -----

// Threads evaluate what is computed on the way, and copy windows.
// CHECK: kernel.func @window_sm_90a(
// CHECK-SAME: #cuda.wgmma<m = 64, n = 128, stages = 8, cluster = [2, 1], sharing = [6, 3]>
// CHECK: kernel.func @prologue_sm_90a(
kernel.func @window(%x: tensor<32x28x28x64xbf16>, %w: tensor<128x3x3x64xbf16>) -> tensor<32x28x28x128xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [32, 28, 28] n [128] k [3, 3, 64] lhs {
    %zero = arith.constant 0.0 : bf16
    %inside = kernel.inside (d0, d1, d2, d3, d4, d5, d6) -> (d1 + d4 - 1, d2 + d5 - 1) bounds [28, 28]
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4 - 1, d2 + d5 - 1, d6) if %inside else(%zero : bf16) : tensor<32x28x28x64xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6) : tensor<128x3x3x64xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<32x28x28x128xbf16>
  kernel.return %y : tensor<32x28x28x128xbf16>
}

kernel.func @prologue(%x: tensor<256x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<256x256xf32> attributes {aligned} {
  %y = kernel.contract batch [] m [256] n [256] k [256] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<256x256xbf16> -> bf16
    %n = arith.negf %a : bf16
    kernel.yield %n : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<256x256xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<256x256xf32>
  kernel.return %y : tensor<256x256xf32>
}

// -----

// Rows that begin at odd addresses, prologues with loops, buffers that are not aligned, and f32 have none.
// CHECK-LABEL: kernel.func @odd(
// CHECK-NOT: sm_90a
kernel.func @odd(%x: tensor<256x255xbf16>, %w: tensor<256x256xbf16>) -> tensor<256x256xf32> attributes {aligned} {
  %y = kernel.contract batch [] m [256] n [256] k [255] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<256x255xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<256x256xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<256x256xf32>
  kernel.return %y : tensor<256x256xf32>
}

kernel.func @unaligned(%x: tensor<256x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<256x256xf32> {
  %y = kernel.contract batch [] m [256] n [256] k [256] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<256x256xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<256x256xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<256x256xf32>
  kernel.return %y : tensor<256x256xf32>
}

kernel.func @floats(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> attributes {aligned} {
  %y = kernel.contract batch [] m [256] n [256] k [256] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<256x256xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<256x256xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<256x256xf32>
  kernel.return %y : tensor<256x256xf32>
}

// -----

// Attention of many queries over memory as it is has one, too; with few, or over what is computed, it has none.
// CHECK-LABEL: kernel.func @attention(
// CHECK: kernel.func @attention_sm_90a(
// CHECK-SAME: launch = #kernel.launch<grid = <8>, threads = 384
// CHECK-SAME: #cuda.wgmma_attention<consumers = 2, keys = 128, stages = 8, registers = [40, 232], cached = 33554432, ordered = true>
// CHECK: kernel.func @few(
// CHECK-NOT: sm_90a
kernel.func @attention(%x: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> attributes {aligned} {
  %o = kernel.attention batch [2] m <512> n <512> d <64> dv <64> scale 0.125 q {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x512x64xf16>
  kernel.return %o : tensor<2x512x64xf16>
}
kernel.func @few(%q: tensor<2x8x64xf16>, %x: tensor<2x512x64xf16>) -> tensor<2x8x64xf16> attributes {aligned} {
  %o = kernel.attention batch [2] m <8> n <512> d <64> dv <64> scale 0.125 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x8x64xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x8x64xf16>
  kernel.return %o : tensor<2x8x64xf16>
}
kernel.func @computed(%x: tensor<2x512x64xf16>) -> tensor<2x512x64xf16> attributes {aligned} {
  %o = kernel.attention batch [2] m <512> n <512> d <64> dv <64> scale 0.125 q {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x512x64xf16> -> f16
    %b = arith.negf %a : f16
    kernel.yield %b : f16
  } k {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<2x512x64xf16>
  kernel.return %o : tensor<2x512x64xf16>
}

// -----

// Keys in parts as well, in blocks that divide a part.
// CHECK-LABEL: kernel.func @keys_in_parts_sm_90a(
// CHECK-SAME: launch = #kernel.launch<grid = <8*(s0 ceildiv 192)>
// CHECK-SAME: #cuda.wgmma_attention<consumers = 2, keys = 64, stages = 8, registers = [56, 224], cached = 33554432, ordered = true>
kernel.func @keys_in_parts(%q: tensor<2x512x64xf16>, %k: tensor<2x?x64xf16, #sym.shape<[2, s0, 64]>>)
    -> (tensor<?x2x512x64xf32, #sym.shape<[s0 ceildiv 192, 2, 512, 64]>>, tensor<?x2x512xf32, #sym.shape<[s0 ceildiv 192, 2, 512]>>,
        tensor<?x2x512xf32, #sym.shape<[s0 ceildiv 192, 2, 512]>>) attributes {aligned, sym.symbols = {s0 = {min = 1 : i64, max = 100000 : i64}}} {
  %o:3 = kernel.attention batch [2] m <512> n <s0> d <64> dv <64> scale 0.125 part 192 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x512x64xf16> -> f16
    kernel.yield %a : f16
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x?x64xf16, #sym.shape<[2, s0, 64]>> -> f16
    kernel.yield %a : f16
  } v {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x?x64xf16, #sym.shape<[2, s0, 64]>> -> f16
    kernel.yield %a : f16
  } bias {
  } : tensor<?x2x512x64xf32, #sym.shape<[s0 ceildiv 192, 2, 512, 64]>>, tensor<?x2x512xf32, #sym.shape<[s0 ceildiv 192, 2, 512]>>,
      tensor<?x2x512xf32, #sym.shape<[s0 ceildiv 192, 2, 512]>>
  kernel.return %o#0, %o#1, %o#2 : tensor<?x2x512x64xf32, #sym.shape<[s0 ceildiv 192, 2, 512, 64]>>, tensor<?x2x512xf32, #sym.shape<[s0 ceildiv 192, 2, 512]>>,
      tensor<?x2x512xf32, #sym.shape<[s0 ceildiv 192, 2, 512]>>
}

// -----

// Whatever GPU the other kernels are planned for, a variant has the shared memory of one that runs it.
module attributes {cuda.target = #cuda.target<arch = "sm_86", multiprocessors = 84, shared = 101376, cache = 6291456, products = 512, cache_rate = 40, copy_rate = 64, memory_rate = 400, schedulers = 4, warps = 32, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>} {
  // CHECK-LABEL: kernel.func @elsewhere_sm_90a
  // CHECK-SAME: #cuda.wgmma<m = 128, n = 256, stages = 4, registers = [56, 224], cluster = [2, 1], sharing = [4, 3]>
  kernel.func @elsewhere(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned} {
    %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
      kernel.yield %a : bf16
    } rhs {
      %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
      kernel.yield %a : bf16
    } epilogue {
    ^bb0(%sum: f32):
      %t = arith.truncf %sum : f32 to bf16
      kernel.yield %t : bf16
    } : tensor<2048x2048xbf16>
    kernel.return %y : tensor<2048x2048xbf16>
  }
}

// -----

// Sixteen rows and memory that is the limit: many places, without room for rows that there are not, and tiles that fill a GPU undivided.
// CHECK: kernel.func @few_rows_sm_90a(
// CHECK-SAME: #kernel.launch<grid = <128>, threads = 384>, schedule = #cuda.wgmma<m = 64, n = 32, stages = 16, registers = [56, 224], sharing = [65536, 65536]>
kernel.func @few_rows(%x: tensor<16x4096xbf16>, %w: tensor<4096x4096xbf16>) -> tensor<16x4096xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [16] n [4096] k [4096] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<16x4096xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<4096x4096xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<16x4096xbf16>
  kernel.return %y : tensor<16x4096xbf16>
}

// -----

// Beside a residual, which takes longer to write, both warpgroups have a part of each tile; without one, each has its own tiles.
// CHECK-LABEL: kernel.func @residual_sm_90a
// CHECK-SAME: schedule = #cuda.wgmma<m = 128, n = 64, stages = 8, registers = [56, 224], sharing = [4, 2]>
kernel.func @residual(%x: tensor<1024x768xbf16>, %w: tensor<768x768xbf16>, %z: tensor<1024x768xbf16>) -> tensor<1024x768xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [1024] n [768] k [768] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1024x768xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<768x768xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %r = kernel.read %z (d0, d1, d2) -> (d0, d1) : tensor<1024x768xbf16> -> bf16
    %s = arith.truncf %sum : f32 to bf16
    %t = arith.addf %r, %s : bf16
    kernel.yield %t : bf16
  } : tensor<1024x768xbf16>
  kernel.return %y : tensor<1024x768xbf16>
}

// -----

// CHECK-LABEL: kernel.func @plain_sm_90a
// CHECK-SAME: schedule = #cuda.wgmma<m = 64, n = 128, stages = 8, registers = [56, 224], sharing = [4, 2]>
kernel.func @plain(%x: tensor<1024x768xbf16>, %w: tensor<768x768xbf16>) -> tensor<1024x768xbf16> attributes {aligned} {
  %y = kernel.contract batch [] m [1024] n [768] k [768] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1024x768xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<768x768xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<1024x768xbf16>
  kernel.return %y : tensor<1024x768xbf16>
}
