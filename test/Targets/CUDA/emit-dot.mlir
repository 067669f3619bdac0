// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file | FileCheck %s --check-prefix=SCHEDULE
// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels --split-input-file | FileCheck %s

// Warps are few: each has eight reads of its weights under way. All are issued before the first of what they are multiplied with.
// SCHEDULE-LABEL: kernel.func @row
// SCHEDULE-SAME: schedule = #cuda.dot<threads = 256, rows = 1, columns = 1, ahead = 8>
// CHECK-LABEL: llvm.func @row
// CHECK: scf.for
// CHECK-COUNT-8: llvm.load
// CHECK-NOT: llvm.load
// CHECK: nvvm.bar.warp.sync
// CHECK: llvm.load
kernel.func @row(%x: tensor<1x512xf32>, %w: tensor<64x512xf32>) -> tensor<1x64xf32> {
  %y = kernel.contract batch [] m [1] n [64] k [512] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x512xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x512xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x64xf32>
  kernel.return %y : tensor<1x64xf32>
}

// -----

// Some lanes have a step more than others: they cannot meet.
// SCHEDULE-LABEL: kernel.func @ragged
// SCHEDULE-SAME: schedule = #cuda.dot<threads = 256, rows = 2, columns = 1, ahead = 4>
// CHECK-LABEL: llvm.func @ragged
// CHECK-NOT: nvvm.bar.warp.sync
// CHECK: llvm.return
kernel.func @ragged(%x: tensor<2x500xf32>, %w: tensor<64x500xf32>) -> tensor<2x64xf32> {
  %y = kernel.contract batch [] m [2] n [64] k [500] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x500xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x500xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<2x64xf32>
  kernel.return %y : tensor<2x64xf32>
}
