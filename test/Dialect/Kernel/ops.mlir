// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// CHECK-LABEL: func @scan
func.func @scan(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: kernel.scan dim 1 init {
  // CHECK: } body {
  // CHECK: } combine {
  // CHECK: } finish {
  // CHECK: } : tensor<8x4xf32>
  %y = kernel.scan dim 1 init {
    %zero = arith.constant 0.0 : f64
    kernel.yield %zero : f64
  } body {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %w = arith.extf %a : f32 to f64
    kernel.yield %w : f64
  } combine {
  ^bb0(%sum: f64, %next: f64):
    %s = arith.addf %sum, %next : f64
    kernel.yield %s : f64
  } finish {
  ^bb0(%sum: f64):
    %s = arith.truncf %sum : f64 to f32
    kernel.yield %s : f32
  } : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// CHECK-LABEL: func @scatter
func.func @scatter(%x: tensor<100x64xf32>, %index: tensor<7xi64>, %source: tensor<7x64xf32>) -> tensor<100x64xf32> {
  // CHECK: kernel.scatter batch [64] targets [100] places [7] perm [1, 0] init {
  // CHECK: } update {
  // CHECK: kernel.yield %{{.*}}, %{{.*}}, %{{.*}} : i64, i1, f32
  // CHECK: } combine {
  %y = kernel.scatter batch [64] targets [100] places [7] perm [1, 0] init {
    %old = kernel.read %x (d0, d1, d2) -> (d1, d0) : tensor<100x64xf32> -> f32
    kernel.yield %old : f32
  } update {
    %at = kernel.read %index (d0, d1, d2) -> (d2) : tensor<7xi64> -> i64
    %new = kernel.read %source (d0, d1, d2) -> (d2, d0) : tensor<7x64xf32> -> f32
    %always = arith.constant true
    kernel.yield %at, %always, %new : i64, i1, f32
  } combine {
  ^bb0(%old: f32, %new: f32):
    %sum = arith.addf %old, %new : f32
    kernel.yield %sum : f32
  } : tensor<100x64xf32>
  return %y : tensor<100x64xf32>
}

// CHECK-LABEL: func @sort
func.func @sort(%x: tensor<8x4xi64>) -> tensor<8x4xi64> {
  // CHECK: kernel.sort {
  // CHECK: } : tensor<8x4xi64>, tensor<8x4xi64>, tensor<8x4xi64>
  %positions, %keys, %spare = kernel.sort {
    %key = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xi64> -> i64
    kernel.yield %key : i64
  } : tensor<8x4xi64>, tensor<8x4xi64>, tensor<8x4xi64>
  return %positions : tensor<8x4xi64>
}

// CHECK-LABEL: func @merge
func.func @merge(%x: tensor<8x40xi64>) -> tensor<8x40xi32> {
  // CHECK: kernel.merge 16 of 8 {
  // CHECK: } : tensor<8x40xi64>, tensor<8x40xi32>
  %merged:2 = kernel.merge 16 of 8 {
    %key = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x40xi64> -> i64
    %place = arith.trunci %key : i64 to i32
    kernel.yield %key, %place : i64, i32
  } : tensor<8x40xi64>, tensor<8x40xi32>
  return %merged#1 : tensor<8x40xi32>
}
