// RUN: kiln-opt %s --cuda-choose-schedule --cuda-specialize-kernels | FileCheck %s

// The variant is run as its kernel says: sixteen rows of tiles by eight columns, none of them divided. The kernel itself is planned as ever.
// CHECK-LABEL: kernel.func @product(
// CHECK-SAME: schedule = #cuda.mma<
// CHECK-LABEL: kernel.func @product_sm_90a(
// CHECK-NOT: cuda.variant_schedule
// CHECK-SAME: launch = #kernel.launch<grid = <128>, threads = 384>
// CHECK-SAME: schedule = #cuda.wgmma<m = 128, n = 256, stages = 3, registers = [56, 224], sharing = [65536, 65536]>
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned, cuda.variant_schedule = #cuda.wgmma<m = 128, n = 256, stages = 3, registers = [56, 224], sharing = [65536, 65536]>} {
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
