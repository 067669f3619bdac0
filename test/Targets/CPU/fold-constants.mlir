// RUN: kiln-opt %s --cpu-fold-constants --split-input-file --mlir-print-elementsattrs-with-hex-if-larger=-1 | FileCheck %s
// RUN: kiln-opt %s --run-reference --cpu-fold-constants --run-reference --split-input-file -o /dev/null
// RUN: kiln-opt %s --cpu-fold-constants=views=true --split-input-file | FileCheck %s --check-prefix=VIEWS

// 2.0 * 3.0 + 1.0 is 7.0, 0x40E00000. @w can be replaced: its kernels are kept.
// CHECK-LABEL: func.func @scale
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: %[[THREE:.*]] = kernel.constant dense<3.0
// CHECK: %[[Y:.*]] = kernel.constant dense_resource<{{.*}}> from @fold_0 result 0 of(%[[W]], %[[THREE]] : tensor<2xf32>, tensor<f32>) : tensor<2xf32>
// CHECK: %[[Z:.*]] = kernel.constant dense_resource<{{.*}}> from @fold_1 result 0 of(%[[Y]] : tensor<2xf32>) : tensor<2xf32>
// CHECK: return %[[Z]] : tensor<2xf32>
// CHECK: kernel.func @fold_0(
// CHECK: kernel.func @fold_1(
// CHECK: folded{{.*}}: "0x400000000000E0400000E040"
func.func @scale() -> tensor<2xf32> {
  %w = kernel.constant "w" dense<2.0> : tensor<2xf32> : tensor<2xf32>
  %three = kernel.constant dense<3.0> : tensor<f32> : tensor<f32>
  %y = kernel.map {
    %a = kernel.read %w (d0) -> (d0) : tensor<2xf32> -> f32
    %b = kernel.read %three (d0) -> () : tensor<f32> -> f32
    %p = arith.mulf %a, %b : f32
    kernel.yield %p : f32
  } : tensor<2xf32>
  %z = kernel.map {
    %one = arith.constant 1.0 : f32
    %a = kernel.read %y (d0) -> (d0) : tensor<2xf32> -> f32
    %s = arith.addf %a, %one : f32
    kernel.yield %s : f32
  } : tensor<2xf32>
  return %z : tensor<2xf32>
}

// -----

// The constant that an earlier fold has made is gone, and its kernel goes.
// CHECK-LABEL: func.func @gone
// CHECK-NOT: kernel.func
func.func @gone(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
kernel.func @fold_7(%w: tensor<2xf32>) -> tensor<2xf32> {
  %0 = kernel.map {
    %a = kernel.read %w (d0) -> (d0) : tensor<2xf32> -> f32
    %b = arith.negf %a : f32
    kernel.yield %b : f32
  } : tensor<2xf32>
  kernel.return %0 : tensor<2xf32>
}

// -----

// Readers see through a view; only at the end is it data. What would grow much is not folded.
// CHECK-LABEL: func.func @view
// CHECK-COUNT-2: kernel.map
// VIEWS-LABEL: func.func @view
// VIEWS-COUNT-1: kernel.map
// VIEWS-NOT: kernel.map
// VIEWS: return
func.func @view() -> (tensor<3x2xf32>, tensor<1000000xf32>) {
  %w = kernel.constant "w" dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32> : tensor<2x3xf32>
  %t = kernel.map {
    %a = kernel.read %w (d0, d1) -> (d1, d0) : tensor<2x3xf32> -> f32
    kernel.yield %a : f32
  } : tensor<3x2xf32>
  %big = kernel.map {
    %two = arith.constant 2.0 : f32
    %a = kernel.read %w (d0) -> (0, 0) : tensor<2x3xf32> -> f32
    %b = arith.mulf %a, %two : f32
    kernel.yield %b : f32
  } : tensor<1000000xf32>
  return %t, %big : tensor<3x2xf32>, tensor<1000000xf32>
}

// -----

// A table looked up out of range fails the run, not the compilation.
// CHECK-LABEL: func.func @out_of_range
// CHECK: kernel.map
func.func @out_of_range() -> tensor<2xf32> {
  %table = kernel.constant dense<1.0> : tensor<4xf32> : tensor<4xf32>
  %ids = kernel.constant dense<[0, 9]> : tensor<2xi64> : tensor<2xi64>
  %y = kernel.map {
    %i = kernel.read %ids (d0) -> (d0) : tensor<2xi64> -> i64
    %a = kernel.read %table (d0, d1) -> (d1) values(%i) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// What no list of parameters has cannot be replaced: nothing is kept. Equal folds share a kernel.
// CHECK-LABEL: func.func @lifted
// CHECK: kernel.constant dense_resource<{{.*}}> : tensor<2xf32>
// CHECK: kernel.constant dense_resource<{{.*}}> from @fold_0 result 0 of(%{{.*}} : tensor<2xf32>)
// CHECK: kernel.constant dense_resource<{{.*}}> from @fold_0 result 0 of(%{{.*}} : tensor<2xf32>)
// CHECK-COUNT-1: kernel.func
// CHECK-NOT: kernel.func
// CHECK: dialect_resources
module attributes {torch.constants = [{name = "a", type = tensor<2xf32>}, {name = "b", type = tensor<2xf32>}]} {
  func.func @lifted() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %lifted = kernel.constant "lifted" dense<2.0> : tensor<2xf32> : tensor<2xf32>
    %a = kernel.constant "a" dense<3.0> : tensor<2xf32> : tensor<2xf32>
    %b = kernel.constant "b" dense<4.0> : tensor<2xf32> : tensor<2xf32>
    %x = kernel.map {
      %e = kernel.read %lifted (d0) -> (d0) : tensor<2xf32> -> f32
      %n = arith.negf %e : f32
      kernel.yield %n : f32
    } : tensor<2xf32>
    %y = kernel.map {
      %e = kernel.read %a (d0) -> (d0) : tensor<2xf32> -> f32
      %n = arith.negf %e : f32
      kernel.yield %n : f32
    } : tensor<2xf32>
    %z = kernel.map {
      %e = kernel.read %b (d0) -> (d0) : tensor<2xf32> -> f32
      %n = arith.negf %e : f32
      kernel.yield %n : f32
    } : tensor<2xf32>
    return %x, %y, %z : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}

// -----

// What is computed twice is one constant, also of another graph; @b may be replaced alone.
// CHECK-LABEL: func.func private @graph
// CHECK: kernel.constant dense_resource<[[A:.*]]> : tensor<2xf32> from @fold_0
// CHECK-LABEL: func.func @again
// CHECK: %[[X:.*]] = kernel.constant dense_resource<[[A]]> : tensor<2xf32> from @fold_0
// CHECK-NOT: dense_resource<[[A]]>
// CHECK: %[[Z:.*]] = kernel.constant dense_resource<{{.*}}> : tensor<2xf32> from @fold_0
// CHECK: return %[[X]], %[[X]], %[[Z]]
module attributes {torch.constants = [{name = "a", type = tensor<2xf32>}, {name = "b", type = tensor<2xf32>}]} {
  func.func private @graph() -> tensor<2xf32> {
    %a = kernel.constant "a" dense<3.0> : tensor<2xf32> : tensor<2xf32>
    %x = kernel.map {
      %e = kernel.read %a (d0) -> (d0) : tensor<2xf32> -> f32
      %n = arith.negf %e : f32
      kernel.yield %n : f32
    } : tensor<2xf32>
    return %x : tensor<2xf32>
  }
  func.func @again() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %a = kernel.constant "a" dense<3.0> : tensor<2xf32> : tensor<2xf32>
    %b = kernel.constant "b" dense<3.0> : tensor<2xf32> : tensor<2xf32>
    %x = kernel.map {
      %e = kernel.read %a (d0) -> (d0) : tensor<2xf32> -> f32
      %n = arith.negf %e : f32
      kernel.yield %n : f32
    } : tensor<2xf32>
    %y = kernel.map {
      %e = kernel.read %a (d0) -> (d0) : tensor<2xf32> -> f32
      %n = arith.negf %e : f32
      kernel.yield %n : f32
    } : tensor<2xf32>
    %z = kernel.map {
      %e = kernel.read %b (d0) -> (d0) : tensor<2xf32> -> f32
      %n = arith.negf %e : f32
      kernel.yield %n : f32
    } : tensor<2xf32>
    return %x, %y, %z : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
