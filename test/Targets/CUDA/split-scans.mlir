// RUN: kiln-opt %s --cuda-split-scans | FileCheck %s
// RUN: kiln-opt %s --run-reference --cuda-split-scans --run-reference -o /dev/null

// Eight parts: what the first seven come to, the running sum of that, and parts that start from it.
// CHECK-LABEL: func.func @sum
// CHECK: %[[SUMS:.*]] = kernel.map {
// CHECK: kernel.reduce [4096]
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0, 4096*d1 + d2) : tensor<2x32000xf32> -> f32
// CHECK: } : tensor<2x7xf64>
// CHECK: %[[BEFORE:.*]] = kernel.scan dim 1
// CHECK: kernel.read %[[SUMS]] (d0, d1) -> (d0, d1) : tensor<2x7xf64> -> f64
// CHECK: } : tensor<2x7xf64>
// CHECK: kernel.scan dim 1 part 4096 init {
// CHECK: %[[ZERO:.*]] = arith.constant
// CHECK: %[[IN:.*]] = kernel.inside (d0, d1) -> (d1 floordiv 4096 - 1) bounds [7]
// CHECK: kernel.read %[[BEFORE]] (d0, d1) -> (d0, d1 floordiv 4096 - 1) if %[[IN]] else(%[[ZERO]] : f64) : tensor<2x7xf64> -> f64
// CHECK: } : tensor<2x32000xf32>
// CHECK-NOT: kernel.cond
func.func @sum(%x: tensor<2x32000xf32>) -> tensor<2x32000xf32> {
  %y = kernel.scan dim 1 init {
    %zero = arith.constant 0.0 : f64
    kernel.yield %zero : f64
  } body {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2x32000xf32> -> f32
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
  } : tensor<2x32000xf32>
  return %y : tensor<2x32000xf32>
}

// Many lines, and a state of two values, stay with a block each.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: kernel.map
// CHECK-NOT: part {{[0-9]}}
func.func @alone(%x: tensor<100x32000xi32>, %y: tensor<32000xf32>) -> (tensor<100x32000xi32>, tensor<32000xf32>, tensor<32000xi64>) {
  %a = kernel.scan dim 1 init {
    %zero = arith.constant 0 : i32
    kernel.yield %zero : i32
  } body {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<100x32000xi32> -> i32
    kernel.yield %e : i32
  } combine {
  ^bb0(%sum: i32, %next: i32):
    %s = arith.addi %sum, %next : i32
    kernel.yield %s : i32
  } finish {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<100x32000xi32>
  %b:2 = kernel.scan dim 0 associative init {
    %least = arith.constant 0xFF800000 : f32
    %zero = arith.constant 0 : i64
    kernel.yield %least, %zero : f32, i64
  } body {
    %e = kernel.read %y (d0) -> (d0) : tensor<32000xf32> -> f32
    %i = kernel.index (d0) -> (d0)
    kernel.yield %e, %i : f32, i64
  } combine {
  ^bb0(%most: f32, %at: i64, %next: f32, %i: i64):
    %c = arith.cmpf oge, %next, %most : f32
    %m = arith.select %c, %next, %most : f32
    %p = arith.select %c, %i, %at : i64
    kernel.yield %m, %p : f32, i64
  } finish {
  ^bb0(%most: f32, %at: i64):
    kernel.yield %most, %at : f32, i64
  } : tensor<32000xf32>, tensor<32000xi64>
  return %a, %b#0, %b#1 : tensor<100x32000xi32>, tensor<32000xf32>, tensor<32000xi64>
}

// Of unknown length: the run shows whether it is long.
// CHECK-LABEL: func.func @unknown
// CHECK: kernel.cond when s0 - 16384 then @scan_in_parts else @scan(
// CHECK-LABEL: func.func private @scan_in_parts
// CHECK: kernel.map
// CHECK: kernel.scan
// CHECK: kernel.scan dim 0 part 1024*max(
// CHECK-LABEL: func.func private @scan(
// CHECK-NOT: part {{[0-9]}}
func.func @unknown(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
  %y = kernel.scan dim 0 init {
    %one = arith.constant 1.0 : f32
    kernel.yield %one : f32
  } body {
    %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0]>> -> f32
    kernel.yield %a : f32
  } combine {
  ^bb0(%p: f32, %next: f32):
    %s = arith.mulf %p, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%p: f32):
    kernel.yield %p : f32
  } : tensor<?xf32, #sym.shape<[s0]>>
  return %y : tensor<?xf32, #sym.shape<[s0]>>
}
