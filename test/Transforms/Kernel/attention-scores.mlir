// RUN: kiln-opt %s --kernel-fuse-attention --split-input-file | FileCheck %s

// Another function of the sum.
// CHECK-LABEL: func.func @capped
// CHECK-NOT: kernel.contract
// CHECK: kernel.attention batch [2] m <s0> n <6> d <4> dv <5> scale 1.000000e+00 nan q {
// CHECK: } bias {
// CHECK-NEXT: } score {
// CHECK-NEXT: ^bb0(%[[PRODUCT:.*]]: f32):
// CHECK-NEXT: %[[SCORE:.*]] = math.tanh %[[PRODUCT]] : f32
// CHECK-NEXT: kernel.yield %[[SCORE]] : f32
func.func @capped(%q: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>, %mask: tensor<?x6xi1, #sym.shape<[s0, 6]>>, %bias: tensor<6xf32>) -> tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>> {
  %s = kernel.contract batch [2] m [s0] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x6x4xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    %x = math.tanh %c : f32
    kernel.yield %x : f32
  } : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
  %p = kernel.map {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %x = kernel.read %s (d0, d1, d2) -> (d0, d1, d2) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
    %max = kernel.reduce [6] init(%lowest : f32) {
      %e = kernel.read %s (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %sum = kernel.reduce [6] init(%zero : f32) {
      %e = kernel.read %s (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
      %f = arith.subf %e, %max : f32
      %g = math.exp %f : f32
      kernel.yield %g : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %d = arith.subf %x, %max : f32
    %e = math.exp %d : f32
    %w = arith.divf %e, %sum : f32
    kernel.yield %w : f32
  } : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
  %o = kernel.contract batch [2] m [s0] n [5] k [6] lhs {
    %a = kernel.read %p (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %v (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<2x6x5xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    kernel.yield %c : f32
  } : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
  return %o : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
}

// -----

// A number where a condition does not hold, and a factor that is a tensor.
// CHECK-LABEL: func.func @chosen
// CHECK-NOT: kernel.contract
// CHECK: kernel.attention batch [2] m <s0> n <6> d <4> dv <5> scale 2.000000e+00 nan q {
// CHECK: } bias {
// CHECK: %[[KEEP:.*]] = kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d1, d2)
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[CHOICE:.*]] = arith.select %[[KEEP]], %[[ONE]], %[[ZERO]] : f32
// CHECK-NEXT: kernel.yield %[[CHOICE]] : f32
// CHECK-NEXT: } score {
// CHECK-NEXT: ^bb0(%[[PRODUCT:.*]]: f32, %[[BIAS:.*]]: f32):
// CHECK-DAG: %[[KEPT:.*]] = arith.cmpf une, %[[BIAS]], %{{.*}} : f32
// CHECK-DAG: %[[OTHER:.*]] = arith.constant -1.000000e+09 : f32
// CHECK: %[[SCORE:.*]] = arith.select %[[KEPT]], %[[PRODUCT]], %[[OTHER]] : f32
// CHECK-NEXT: kernel.yield %[[SCORE]] : f32
func.func @chosen(%q: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>, %mask: tensor<?x6xi1, #sym.shape<[s0, 6]>>, %bias: tensor<6xf32>) -> tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>> {
  %number = kernel.map {
    %i = arith.constant 2 : i64
    kernel.yield %i : i64
  } : tensor<i64>
  %factor = kernel.map {
    %i = kernel.read %number () -> () : tensor<i64> -> i64
    %f = arith.sitofp %i : i64 to f32
    kernel.yield %f : f32
  } : tensor<f32>
  %s = kernel.contract batch [2] m [s0] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x6x4xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    %two = kernel.read %factor (d0, d1, d2, d3) -> () : tensor<f32> -> f32
    %lowest = arith.constant -1.0e+09 : f32
    %m = kernel.read %mask (d0, d1, d2, d3) -> (d1, d2) : tensor<?x6xi1, #sym.shape<[s0, 6]>> -> i1
    %x = arith.mulf %c, %two : f32
    %y = arith.select %m, %x, %lowest : f32
    kernel.yield %y : f32
  } : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
  %p = kernel.map {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %x = kernel.read %s (d0, d1, d2) -> (d0, d1, d2) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
    %max = kernel.reduce [6] init(%lowest : f32) {
      %e = kernel.read %s (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %sum = kernel.reduce [6] init(%zero : f32) {
      %e = kernel.read %s (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
      %f = arith.subf %e, %max : f32
      %g = math.exp %f : f32
      kernel.yield %g : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %d = arith.subf %x, %max : f32
    %e = math.exp %d : f32
    %w = arith.divf %e, %sum : f32
    kernel.yield %w : f32
  } : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
  %o = kernel.contract batch [2] m [s0] n [5] k [6] lhs {
    %a = kernel.read %p (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %v (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<2x6x5xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    kernel.yield %c : f32
  } : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
  return %o : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
}

// -----

// A row of nothing but -1e9 is the mean of all values: adding that to scores would not be.
// CHECK-LABEL: func.func @replaced
// CHECK-NOT: kernel.attention
// CHECK-COUNT-2: kernel.contract
func.func @replaced(%q: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>, %mask: tensor<?x6xi1, #sym.shape<[s0, 6]>>, %bias: tensor<6xf32>) -> tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>> {
  %s = kernel.contract batch [2] m [s0] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x6x4xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    %half = arith.constant 0.5 : f32
    %lowest = arith.constant -1.0e+09 : f32
    %m = kernel.read %mask (d0, d1, d2, d3) -> (d1, d2) : tensor<?x6xi1, #sym.shape<[s0, 6]>> -> i1
    %b = kernel.read %bias (d0, d1, d2, d3) -> (d2) : tensor<6xf32> -> f32
    %x = arith.mulf %c, %half : f32
    %y = arith.addf %x, %b : f32
    %z = arith.select %m, %lowest, %y : f32
    kernel.yield %z : f32
  } : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
  %p = kernel.map {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %x = kernel.read %s (d0, d1, d2) -> (d0, d1, d2) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
    %max = kernel.reduce [6] init(%lowest : f32) {
      %e = kernel.read %s (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %sum = kernel.reduce [6] init(%zero : f32) {
      %e = kernel.read %s (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
      %f = arith.subf %e, %max : f32
      %g = math.exp %f : f32
      kernel.yield %g : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %d = arith.subf %x, %max : f32
    %e = math.exp %d : f32
    %w = arith.divf %e, %sum : f32
    kernel.yield %w : f32
  } : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
  %o = kernel.contract batch [2] m [s0] n [5] k [6] lhs {
    %a = kernel.read %p (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %v (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<2x6x5xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    kernel.yield %c : f32
  } : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
  return %o : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
}

// -----

// A bias that is scaled with the scores is the other number that they are made of.
// CHECK-LABEL: func.func @scaled_bias
// CHECK: kernel.attention batch [2] m <s0> n <6> d <4> dv <5> scale 1.000000e+00 nan q {
// CHECK: } score {
// CHECK-NEXT: ^bb0(%[[PRODUCT:.*]]: f32, %[[BIAS:.*]]: f32):
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[PRODUCT]], %[[BIAS]] : f32
// CHECK-NEXT: %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-NEXT: arith.mulf %[[SUM]], %[[HALF]] : f32
func.func @scaled_bias(%q: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>, %mask: tensor<?x6xi1, #sym.shape<[s0, 6]>>, %bias: tensor<6xf32>) -> tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>> {
  %s = kernel.contract batch [2] m [s0] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x6x4xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    %half = arith.constant 0.5 : f32
    %b = kernel.read %bias (d0, d1, d2, d3) -> (d2) : tensor<6xf32> -> f32
    %x = arith.addf %c, %b : f32
    %y = arith.mulf %x, %half : f32
    kernel.yield %y : f32
  } : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
  %p = kernel.map {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %x = kernel.read %s (d0, d1, d2) -> (d0, d1, d2) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
    %max = kernel.reduce [6] init(%lowest : f32) {
      %e = kernel.read %s (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %sum = kernel.reduce [6] init(%zero : f32) {
      %e = kernel.read %s (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
      %f = arith.subf %e, %max : f32
      %g = math.exp %f : f32
      kernel.yield %g : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %d = arith.subf %x, %max : f32
    %e = math.exp %d : f32
    %w = arith.divf %e, %sum : f32
    kernel.yield %w : f32
  } : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
  %o = kernel.contract batch [2] m [s0] n [5] k [6] lhs {
    %a = kernel.read %p (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %v (d0, d1, d2, d3) -> (d0, d3, d2) : tensor<2x6x5xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    kernel.yield %c : f32
  } : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
  return %o : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
}
