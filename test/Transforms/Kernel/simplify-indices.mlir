// RUN: kiln-opt %s --kernel-simplify-indices --canonicalize --kernel-simplify-indices --canonicalize --split-input-file | FileCheck %s
// RUN: kiln-opt %s --run-reference --kernel-simplify-indices --canonicalize --kernel-simplify-indices --canonicalize --run-reference --split-input-file -o /dev/null

// CHECK-LABEL: func.func @bounds
func.func @bounds(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: %[[IN:.*]] = kernel.inside (d0, d1) -> (d0 - 1) bounds [8]
  // CHECK: kernel.read %{{.*}} if %[[IN]]
  // CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1) : tensor
  // CHECK-NOT: kernel.read
  // CHECK: kernel.yield
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.inside (d0, d1) -> (d0 - 1, d1) bounds [8, 4]
    %b = kernel.inside (d0, d1) -> (d0, d1) bounds [8, 4]
    %c = kernel.inside (d0, d1) -> (d0 + 8) bounds [8]
    %u = kernel.read %x (d0, d1) -> (d0 - 1, d1) if %a else(%zero : f32) : tensor<8x4xf32> -> f32
    %v = kernel.read %x (d0, d1) -> (d0, d1) if %b else(%zero : f32) : tensor<8x4xf32> -> f32
    %w = kernel.read %x (d0, d1) -> (d0 + 8, d1) if %c else(%zero : f32) : tensor<8x4xf32> -> f32
    %s = arith.addf %u, %v : f32
    %t = arith.addf %s, %w : f32
    kernel.yield %t : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

// A value that no index uses any more is dropped.
// CHECK-LABEL: func.func @unused_value
// CHECK: kernel.read %{{.*}} (d0) -> (d0) : tensor<8xf32>
func.func @unused_value(%x: tensor<8xf32>, %i: tensor<8xi64>) -> tensor<8xf32> {
  %y = kernel.map {
    %v = kernel.read %i (d0) -> (d0) : tensor<8xi64> -> i64
    %e = kernel.read %x (d0, d1) -> (d0) values(%v) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A position that was wrapped and looked up as data is an expression, and stays one where it can be
// proved to be inside.
// CHECK-LABEL: func.func @absorbed
// CHECK: kernel.read %{{.*}} (d0) -> (d0 + 2) : tensor<10xf32>
// CHECK: %[[I:.*]] = kernel.index (d0) -> (d0 + 3)
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d1) values(%[[I]]) : tensor<10xf32>
func.func @absorbed(%x: tensor<10xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0 : i64
    %two = arith.constant 2 : i64
    %three = arith.constant 3 : i64
    %ten = arith.constant 10 : i64
    %i = kernel.index (d0) -> (d0)
    %j = arith.addi %i, %two : i64
    %negative = arith.cmpi slt, %j, %zero : i64
    %wrapped = arith.addi %j, %ten : i64
    %k = arith.select %negative, %wrapped, %j : i64
    %a = kernel.read %x (d0, d1) -> (d1) values(%k) : tensor<10xf32> -> f32
    %l = arith.addi %i, %three : i64
    %b = kernel.read %x (d0, d1) -> (d1) values(%l) : tensor<10xf32> -> f32
    %c = arith.addf %a, %b : f32
    kernel.yield %c : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}
