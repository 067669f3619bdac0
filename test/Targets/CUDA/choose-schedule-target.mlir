// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file --remarks-filter=cuda-choose-schedule -o /dev/null 2>&1 | FileCheck %s

// 400 rows fill a GPU of 16 multiprocessors with a warp each, and not one of 132.
module attributes {cuda.target = #cuda.target<arch = "sm_87", multiprocessors = 16, shared = 166912, cache = 4194304, products = 1024, cache_rate = 40, copy_rate = 64, memory_rate = 150, schedulers = 4, warps = 32, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>} {
  // CHECK: [Analysis] Schedule | Category:cuda-choose-schedule | Function={{[a-z]+}}
  // CHECK-SAME: Reason="a row is as long as a warp's registers hold", Remark="kernel @few: #cuda.map<threads = 256, team = 32, keep = 64>, 
  kernel.func @few(%x: tensor<400x1024xf32>) -> tensor<400xf32> {
    %y = kernel.map {
      %zero = arith.constant 0.0 : f32
      %s = kernel.reduce [1024] init(%zero : f32) {
        %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<400x1024xf32> -> f32
        kernel.yield %a : f32
      } combine {
      ^bb0(%p: f32, %q: f32):
        %r = arith.addf %p, %q : f32
        kernel.yield %r : f32
      } : f32
      kernel.yield %s : f32
    } : tensor<400xf32>
    kernel.return %y : tensor<400xf32>
  }
}

// -----

// They do, if two warps keep one of 132 busy.
module attributes {cuda.target = #cuda.target<arch = "sm_90", multiprocessors = 132, shared = 232448, cache = 52428800, products = 2048, cache_rate = 40, copy_rate = 64, memory_rate = 1909, schedulers = 2, warps = 32, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>} {
  // CHECK: [Analysis] Schedule | Category:cuda-choose-schedule | Function={{[a-z]+}}
  // CHECK-SAME: Reason="a row is as long as a warp's registers hold", Remark="kernel @few: #cuda.map<threads = 256, team = 32, keep = 64>, 
  kernel.func @few(%x: tensor<400x1024xf32>) -> tensor<400xf32> {
    %y = kernel.map {
      %zero = arith.constant 0.0 : f32
      %s = kernel.reduce [1024] init(%zero : f32) {
        %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<400x1024xf32> -> f32
        kernel.yield %a : f32
      } combine {
      ^bb0(%p: f32, %q: f32):
        %r = arith.addf %p, %q : f32
        kernel.yield %r : f32
      } : f32
      kernel.yield %s : f32
    } : tensor<400xf32>
    kernel.return %y : tensor<400xf32>
  }
}

// -----

// CHECK: [Analysis] Schedule | Category:cuda-choose-schedule | Function={{[a-z]+}}
// CHECK-SAME: Reason="rows are too few for a warp each", Remark="kernel @few: #cuda.map<threads = 256, team = 256, keep = 64>, 
kernel.func @few(%x: tensor<400x1024xf32>) -> tensor<400xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [1024] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<400x1024xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      kernel.yield %r : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<400xf32>
  kernel.return %y : tensor<400xf32>
}

// -----

// A product of 512 x 512 has enough blocks of 128 x 128 for the one, and for the other only of 32 x 64.
module attributes {cuda.target = #cuda.target<arch = "sm_87", multiprocessors = 16, shared = 166912, cache = 4194304, products = 1024, cache_rate = 40, copy_rate = 64, memory_rate = 150, schedulers = 4, warps = 32, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>} {
  // CHECK: [Analysis] Schedule | Category:cuda-choose-schedule | Function={{[a-z]+}}
  // CHECK-SAME: Reason="the largest blocks of which enough fill a GPU", Remark="kernel @product: #cuda.fma<m = 128, n = 128, k = 16, thread = [8, 8], stages = 2>, 
  kernel.func @product(%x: tensor<512x64xf32>, %w: tensor<512x64xf32>) -> tensor<512x512xf32> {
    %y = kernel.contract batch [] m [512] n [512] k [64] lhs {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x64xf32> -> f32
      kernel.yield %a : f32
    } rhs {
      %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x64xf32> -> f32
      kernel.yield %b : f32
    } epilogue {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    } : tensor<512x512xf32>
    kernel.return %y : tensor<512x512xf32>
  }
}

// -----

// CHECK: [Analysis] Schedule | Category:cuda-choose-schedule | Function={{[a-z]+}}
// CHECK-SAME: Reason="the largest blocks of which enough fill a GPU", Remark="kernel @product: #cuda.fma<m = 32, n = 64, k = 16, thread = [2, 4]>, 
kernel.func @product(%x: tensor<512x64xf32>, %w: tensor<512x64xf32>) -> tensor<512x512xf32> {
  %y = kernel.contract batch [] m [512] n [512] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<512x512xf32>
  kernel.return %y : tensor<512x512xf32>
}
