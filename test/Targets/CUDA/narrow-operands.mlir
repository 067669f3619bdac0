// RUN: kiln-opt %s --cuda-narrow-operands | FileCheck %s
// RUN: kiln-opt %s --run-reference --cuda-narrow-operands --run-reference -o /dev/null

// One operand is widened where it is multiplied, the other by a map that nobody else reads.
// CHECK-LABEL: func.func @widened
// CHECK-NOT: kernel.map
// CHECK: kernel.contract batch [] m [2] n [3] k [4] lhs {
// CHECK-NEXT: %[[A:.*]] = kernel.read %arg0 (d0, d1, d2) -> (d0, d2) : tensor<2x4xi8> -> i8
// CHECK-NEXT: kernel.yield %[[A]] : i8
// CHECK: %[[B:.*]] = kernel.read %arg1 (d0, d1, d2) -> (d1, d2) : tensor<3x4xi8> -> i8
// CHECK-NEXT: kernel.yield %[[B]] : i8
// CHECK: ^bb0(%{{.*}}: i32):
func.func @widened(%x: tensor<2x4xi8>, %w: tensor<3x4xi8>) -> tensor<2x3xi32> {
  %wide = kernel.map {
    %a = kernel.read %w (d0, d1) -> (d1, d0) : tensor<3x4xi8> -> i8
    %b = arith.extsi %a : i8 to i32
    kernel.yield %b : i32
  } : tensor<4x3xi32>
  %y = kernel.contract batch [] m [2] n [3] k [4] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x4xi8> -> i8
    %b = arith.extsi %a : i8 to i32
    kernel.yield %b : i32
  } rhs {
    %a = kernel.read %wide (d0, d1, d2) -> (d2, d1) : tensor<4x3xi32> -> i32
    kernel.yield %a : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<2x3xi32>
  return %y : tensor<2x3xi32>
}

// An unsigned byte, and a map that does more than widen one.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: kernel.yield %{{.*}} : i32
// CHECK: kernel.contract
// CHECK-COUNT-2: kernel.yield %{{.*}} : i32
// CHECK: epilogue
func.func @others(%x: tensor<2x4xi8>, %w: tensor<3x4xi8>) -> tensor<2x3xi32> {
  %unsigned = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2x4xi8> -> i8
    %b = arith.extui %a : i8 to i32
    kernel.yield %b : i32
  } : tensor<2x4xi32>
  %more = kernel.map {
    %a = kernel.read %w (d0, d1) -> (d0, d1) : tensor<3x4xi8> -> i8
    %one = arith.constant 1 : i8
    %b = arith.subi %a, %one : i8
    %c = arith.extsi %b : i8 to i32
    kernel.yield %c : i32
  } : tensor<3x4xi32>
  %y = kernel.contract batch [] m [2] n [3] k [4] lhs {
    %a = kernel.read %unsigned (d0, d1, d2) -> (d0, d2) : tensor<2x4xi32> -> i32
    kernel.yield %a : i32
  } rhs {
    %a = kernel.read %more (d0, d1, d2) -> (d1, d2) : tensor<3x4xi32> -> i32
    kernel.yield %a : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<2x3xi32>
  return %y : tensor<2x3xi32>
}

// Bytes of floats that are read as other numbers than these.
// CHECK-LABEL: func.func @bytes
// CHECK-COUNT-2: kernel.yield %{{.*}} : f32
// CHECK: epilogue
func.func @bytes(%x: tensor<5x4xf8E5M2>, %w: tensor<3x4xf8E5M2>) -> tensor<5x3xf32> {
  %y = kernel.contract batch [] m [5] n [3] k [4] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x4xf8E5M2> -> i8
    %z = arith.sitofp %a : i8 to f32
    kernel.yield %z : f32
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<3x4xf8E5M2> -> i8
    %z = arith.sitofp %a : i8 to f32
    kernel.yield %z : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}
