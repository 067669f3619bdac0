// Says how each kernel is launched, and which products have a variant or why they have none.
// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels --remarks-filter='cuda-.*' --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s

// CHECK: Category:cuda-choose-schedule
// CHECK-SAME: Remark="kernel @product: #{{[a-z_.]+}}<{{.*}}>, #kernel.launch<grid = {{.*}}>", Where="node 'mm' (model.py:3)"
// CHECK: Remark="kernel @singles: #{{[a-z_.]+}}<
// CHECK: [Passed] Variant
// CHECK-SAME: Cycles={{[1-9][0-9]*}}, Reason="of all tiles these take the fewest cycles", Remark="kernel @product_sm_90a: #{{.*}}, #kernel.launch<{{.*}}threads = 384
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
  } : tensor<2048x2048xbf16> loc("mm"("model.py":3:0))
  kernel.return %y : tensor<2048x2048xbf16>
}

// CHECK: [Missed] NoVariant
// CHECK-SAME: Reason="it is no product of f16, bf16 or f8 with sums of f32, nor of bytes with sums of i32", Remark="kernel @singles has no variant for compute capability 9.0", Where="node 'mm_1' (model.py:4)"
kernel.func @singles(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {aligned} {
  %y = kernel.contract batch [] m [64] n [64] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<64x64xf32> loc("mm_1"("model.py":4:0))
  kernel.return %y : tensor<64x64xf32>
}
