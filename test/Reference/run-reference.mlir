// RUN: kiln-opt %s --run-reference='inputs=count print=true' --split-input-file -o /dev/null 2>&1 | FileCheck %s

// Sums over a row, the masked value left out; sizes are symbols, the first of which is 3.
// CHECK: remark: result 0: tensor<3xf32> [1, 7, 13]
// CHECK: remark: result 1: tensor<3xi64> [0, 1, 2]
func.func @map(%x: tensor<?x3xf32, #sym.shape<[s0, 3]>>) -> (tensor<?xf32, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>) {
  %y, %n = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [3] init(%zero : f32) {
      %inside = kernel.inside (d0, d1) -> (d1) bounds [2]
      %a = kernel.read %x (d0, d1) -> (d0, d1) if %inside else(%zero : f32) : tensor<?x3xf32, #sym.shape<[s0, 3]>> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %three = arith.constant 3.0 : f32
    %third = arith.divf %sum, %three : f32
    %back = arith.mulf %third, %three : f32
    %i = kernel.index (d0) -> (d0)
    %half = math.roundeven %back : f32
    kernel.yield %half, %i : f32, i64
  } : tensor<?xf32, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
  return %y, %n : tensor<?xf32, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
}

// -----

// [0 1 2; 3 4 5] times its transpose, less one, in two parts of two and one steps.
// CHECK: remark: result 0: tensor<2x2xf32> [4, 13, 13, 49]
// CHECK: remark: result 1: tensor<2x2x2xf32> [1, 4, 4, 25, 4, 10, 10, 25]
func.func @contract(%x: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2x2xf32>) {
  %y = kernel.contract batch [] m [2] n [2] k [3] perm [1, 0] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x3xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %x (d0, d1, d2) -> (d1, d2) : tensor<2x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    %one = arith.constant 1.0 : f32
    %r = arith.subf %s, %one : f32
    kernel.yield %r : f32
  } : tensor<2x2xf32>
  %z = kernel.contract batch [] m [2] n [2] k [3] part 2 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x3xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %x (d0, d1, d2) -> (d1, d2) : tensor<2x3xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<2x2x2xf32>
  return %y, %z : tensor<2x2xf32>, tensor<2x2x2xf32>
}

// -----

// Products of groups of four bytes, the left ones without signs: 3*3 + 2*2 + 255*1 + 1*-1, twice; of two halves and two bytes:
// -3*3 + 300*-1, twice. Integers wrap around to
// their type's width: 120 * 3. Complex numbers: (0 + 0i)(1 + 2i) + (1 + i)(1 + 2i) and so on.
// CHECK: remark: result 0: tensor<1x1xi32> [534]
// CHECK: remark: result 1: tensor<1x1xi32> [-618]
// CHECK: remark: result 2: tensor<1x1xi8> [104]
// CHECK: remark: result 3: tensor<2x1xcomplex<f32>> [-1 + 3i, -5 + 15i]
func.func @other_products(%x: tensor<2x2xf32>) -> (tensor<1x1xi32>, tensor<1x1xi32>, tensor<1x1xi8>, tensor<2x1xcomplex<f32>>) {
  %bytes = kernel.contract batch [] m [1] n [1] k [2] bytes 4 lhs {
    %a = arith.constant 0x01FF0203 : i32
    kernel.yield %a : i32
  } rhs {
    %b = arith.constant 0xFF010203 : i32
    kernel.yield %b : i32
  } epilogue {
  ^bb0(%s: i32):
    kernel.yield %s : i32
  } : tensor<1x1xi32>
  %halves = kernel.contract batch [] m [1] n [1] k [2] bytes 2 lhs {
    %a = arith.constant 0x012CFFFD : i32
    kernel.yield %a : i32
  } rhs {
    %b = arith.constant 0xFF03 : i16
    kernel.yield %b : i16
  } epilogue {
  ^bb0(%s: i32):
    kernel.yield %s : i32
  } : tensor<1x1xi32>
  %narrow = kernel.contract batch [] m [1] n [1] k [3] lhs {
    %a = arith.constant 120 : i8
    kernel.yield %a : i8
  } rhs {
    %b = arith.constant 1 : i8
    kernel.yield %b : i8
  } epilogue {
  ^bb0(%s: i8):
    kernel.yield %s : i8
  } : tensor<1x1xi8>
  %complex = kernel.contract batch [] m [2] n [1] k [2] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2x2xf32> -> f32
    %c = complex.create %a, %a : complex<f32>
    kernel.yield %c : complex<f32>
  } rhs {
    %b = complex.constant [1.0 : f32, 2.0 : f32] : complex<f32>
    kernel.yield %b : complex<f32>
  } epilogue {
  ^bb0(%s: complex<f32>):
    kernel.yield %s : complex<f32>
  } : tensor<2x1xcomplex<f32>>
  return %bytes, %halves, %narrow, %complex : tensor<1x1xi32>, tensor<1x1xi32>, tensor<1x1xi8>, tensor<2x1xcomplex<f32>>
}

// -----

// With one feature the scores are products of numbers. In row 0, the first key alone is seen.
// CHECK: remark: result 0: tensor<2x1xf64> [0, 0.731058579]
func.func @attention(%x: tensor<2x1xf64>) -> tensor<2x1xf64> {
  %y = kernel.attention batch [] m <2> n <2> d <1> dv <1> scale 1.0 causal q {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d2) : tensor<2x1xf64> -> f64
    kernel.yield %a : f64
  } k {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d1, d2) : tensor<2x1xf64> -> f64
    kernel.yield %a : f64
  } v {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d1, d3) : tensor<2x1xf64> -> f64
    kernel.yield %a : f64
  } bias {
  } : tensor<2x1xf64>
  return %y : tensor<2x1xf64>
}

// -----

// A part for each key: its value, its score and 1. The score is 1 where query and key are both the second one.
// CHECK: remark: result 0: tensor<2x2x1xf32> [0, 0, 1, 1]
// CHECK: remark: result 1: tensor<2x2xf32> [0, 0, 0, 1]
// CHECK: remark: result 2: tensor<2x2xf32> [1, 1, 1, 1]
func.func @attention_parts(%x: tensor<2x1xf32>) -> (tensor<2x2x1xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %o:3 = kernel.attention batch [] m <2> n <2> d <1> dv <1> scale 1.0 part 1 q {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d2) : tensor<2x1xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d1, d2) : tensor<2x1xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d1, d3) : tensor<2x1xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x2x1xf32>, tensor<2x2xf32>, tensor<2x2xf32>
  return %o#0, %o#1, %o#2 : tensor<2x2x1xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// Running sums, then numbers scattered to places that data gives, the greatest of each kept.
// CHECK: remark: result 0: tensor<2x3xi32> [0, 1, 3, 3, 7, 12]
// CHECK: remark: result 1: tensor<3xi32> [-1, 4, 5]
// CHECK: remark: result 2: tensor<4xi64> [1, 3, 0, 2]
// CHECK: remark: result 3: tensor<3xi64> [1, 2, 2]
func.func @ordered(%x: tensor<2x3xi32>, %n: tensor<3xi64>) -> (tensor<2x3xi32>, tensor<3xi32>, tensor<4xi64>, tensor<3xi64>) {
  %y = kernel.scan dim 1 init {
    %zero = arith.constant 0 : i32
    kernel.yield %zero : i32
  } body {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2x3xi32> -> i32
    kernel.yield %a : i32
  } combine {
  ^bb0(%sum: i32, %next: i32):
    %s = arith.addi %sum, %next : i32
    kernel.yield %s : i32
  } finish {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<2x3xi32>
  %z = kernel.scatter batch [] targets [3] places [2, 2] init {
    %none = arith.constant -1 : i32
    kernel.yield %none : i32
  } update {
    %at = kernel.index (d0, d1, d2) -> (d2 + 1)
    %always = arith.constant true
    %new = kernel.read %x (d0, d1, d2) -> (d1, d2 + 1) : tensor<2x3xi32> -> i32
    kernel.yield %at, %always, %new : i64, i1, i32
  } combine {
  ^bb0(%old: i32, %new: i32):
    %max = arith.maxsi %old, %new : i32
    kernel.yield %max : i32
  } : tensor<3xi32>
  %positions, %keys, %spare = kernel.sort {
    %i = kernel.index (d0) -> ((d0 + 1) mod 2)
    kernel.yield %i : i64
  } : tensor<4xi64>, tensor<4xi64>, tensor<4xi64>
  %places = kernel.repeat total 3 chunk 4096 count {
    %c = kernel.read %n (d0, d1) -> (4096*d0 + d1) : tensor<3xi64> -> i64
    kernel.yield %c : i64
  } start {
    %s = arith.constant 0 : i64
    kernel.yield %s : i64
  } : tensor<3xi64>
  return %y, %z, %positions, %places : tensor<2x3xi32>, tensor<3xi32>, tensor<4xi64>, tensor<3xi64>
}

// -----

// Nothing is repeated at places before the first, however often.
// CHECK: remark: result 0: tensor<3xi64> [0, 0, 0]
func.func @repeat_before() -> tensor<3xi64> {
  %places = kernel.repeat total 3 chunk 4096 count {
    %c = arith.constant 9223372036854775807 : i64
    kernel.yield %c : i64
  } start {
    %s = arith.constant -1 : i64
    kernel.yield %s : i64
  } : tensor<3xi64>
  return %places : tensor<3xi64>
}

// -----

// Five rounds that each add 2, then one of two branches, for each row.
// CHECK: remark: result 0: tensor<i64> [10]
// CHECK: remark: result 1: tensor<3xi64> [1, 3, 5]
func.func @graphs(%n: tensor<i64>, %x: tensor<3x2xi64>) -> (tensor<i64>, tensor<3xi64>) {
  %r = kernel.while @condition do @body (%n) with() : (tensor<i64>) -> tensor<i64>
  %y = kernel.for @each length 3 () over(%x) with() : (tensor<3x2xi64>) -> tensor<3xi64>
  return %r, %y : tensor<i64>, tensor<3xi64>
}
func.func private @condition(%n: tensor<i64>) -> tensor<i1> {
  %c = kernel.map {
    %a = kernel.read %n () -> () : tensor<i64> -> i64
    %ten = arith.constant 10 : i64
    %b = arith.cmpi slt, %a, %ten : i64
    kernel.yield %b : i1
  } : tensor<i1>
  return %c : tensor<i1>
}
func.func private @body(%n: tensor<i64>) -> tensor<i64> {
  %m = kernel.call @add_two(%n) : (tensor<i64>) -> tensor<i64>
  return %m : tensor<i64>
}
kernel.func @add_two(%n: tensor<i64>) -> tensor<i64> {
  %m = kernel.map {
    %a = kernel.read %n () -> () : tensor<i64> -> i64
    %two = arith.constant 2 : i64
    %b = arith.addi %a, %two : i64
    kernel.yield %b : i64
  } : tensor<i64>
  kernel.return %m : tensor<i64>
}
func.func private @each(%x: tensor<2xi64>) -> tensor<i64> {
  %y = kernel.map {
    %a = kernel.read %x () -> (1) : tensor<2xi64> -> i64
    kernel.yield %a : i64
  } : tensor<i64>
  return %y : tensor<i64>
}

// -----

// Without functions, kernels are run. Half precision rounds after each op; the series ends when its terms do.
// CHECK: remark: result 0: tensor<2xf16> [2048, 2048]
// CHECK: remark: result 1: tensor<2xi64> [6, 6]
kernel.func @kernel(%x: tensor<2xf16>) -> (tensor<2xf16>, tensor<2xi64>) {
  %y, %n = kernel.map {
    %big = arith.constant 2048.0 : f16
    %a = kernel.read %x (d0) -> (d0) : tensor<2xf16> -> f16
    %s = arith.addf %big, %a : f16
    %zero = arith.constant 0 : i64
    %three = arith.constant 3 : i64
    %count, %total = kernel.iterate at_most 100 init(%zero, %zero : i64, i64) {
    ^bb0(%i: i64, %sum: i64):
      %one = arith.constant 1 : i64
      %next = arith.addi %i, %one : i64
      %more = arith.addi %sum, %next : i64
      %again = arith.cmpi slt, %next, %three : i64
      kernel.yield %again, %next, %more : i1, i64, i64
    } : i64, i64
    kernel.yield %s, %total : f16, i64
  } : tensor<2xf16>, tensor<2xi64>
  kernel.return %y, %n : tensor<2xf16>, tensor<2xi64>
}

// -----

// CHECK: remark: fails: it is negative
func.func @failure(%x: tensor<2xi64>) -> tensor<2xi64> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<2xi64> -> i64
    %one = arith.constant 1 : i64
    %b = arith.subi %a, %one : i64
    %zero = arith.constant 0 : i64
    %ok = arith.cmpi sge, %b, %zero : i64
    %c = kernel.expect %b if %ok, "it is negative" : i64
    kernel.yield %c : i64
  } : tensor<2xi64>
  return %y : tensor<2xi64>
}

// -----

// Checks that a run of the program would fail.
// CHECK: remark: fails: {{.*}}the index 3 in a dim of size 3
func.func @scattered(%x: tensor<4xi64>) -> tensor<3xi64> {
  %y = kernel.scatter batch [] targets [3] places [4] init {
    %zero = arith.constant 0 : i64
    kernel.yield %zero : i64
  } update {
    %at = kernel.read %x (d0, d1) -> (d1) : tensor<4xi64> -> i64
    %always = arith.constant true
    kernel.yield %at, %always, %at : i64, i1, i64
  } combine {
  ^bb0(%old: i64, %new: i64):
    kernel.yield %new : i64
  } : tensor<3xi64>
  return %y : tensor<3xi64>
}
