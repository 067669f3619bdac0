// RUN: kiln-opt %s --kernel-fuse-attention --split-input-file | FileCheck %s

// The scale is the attention's. A softmax that is left out as a whole is NaN.
// CHECK-LABEL: func.func @scaled
// CHECK-NEXT: %[[O:.*]] = kernel.attention batch [2] m <s0> n <6> d <4> dv <5> scale 1.250000e-01 nan q {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d0, d1, d3)
// CHECK: } k {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d0, d2, d3)
// CHECK: } v {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d0, d2, d4)
// CHECK: } bias {
// CHECK-NEXT: }
// CHECK-NEXT: return %[[O]]
func.func @scaled(%q: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>) -> tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>> {
  %s = kernel.contract batch [2] m [s0] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x6x4xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    %eight = arith.constant 8.0 : f32
    %x = arith.divf %c, %eight : f32
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

// What is added, and what is put in the place of scores, is what the epilogue makes of a sum of (minus) zero. One division may do for all weights.
// CHECK-LABEL: func.func @masked
// CHECK: kernel.attention {{.*}} scale 5.000000e-01 nan q
// CHECK: bias {
// CHECK-DAG: %[[SUM:.*]] = arith.constant -0.0
// CHECK-DAG: %[[M:.*]] = kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d1, d2) : tensor<?x6xi1
// CHECK-DAG: %[[B:.*]] = kernel.read %{{.*}} (d0, d1, d2, d3, d4) -> (d2) : tensor<6xf32>
// CHECK: %[[X:.*]] = arith.mulf %[[SUM]],
// CHECK: %[[Y:.*]] = arith.addf %[[X]], %[[B]]
// CHECK: %[[Z:.*]] = arith.select %[[M]], %{{.*}}, %[[Y]]
// CHECK: kernel.yield %[[Z]]
// CHECK-NOT: kernel.contract
func.func @masked(%q: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>, %mask: tensor<?x6xi1, #sym.shape<[s0, 6]>>, %bias: tensor<6xf32>) -> tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>> {
  %s = kernel.contract batch [2] m [s0] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x6x4xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    %half = arith.constant 0.5 : f32
    %lowest = arith.constant 0xFF800000 : f32
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
    %one = arith.constant 1.0 : f32
    %inverse = arith.divf %one, %sum : f32
    %w = arith.mulf %e, %inverse : f32
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

// The weights are a result, too.
// CHECK-LABEL: func.func @shown
// CHECK-NOT: kernel.attention
func.func @shown(%q: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>) -> (tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>, tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>) {
  %s = kernel.contract batch [2] m [s0] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x6x4xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    %eight = arith.constant 8.0 : f32
    %x = arith.divf %c, %eight : f32
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
  return %o, %p : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>, tensor<2x?x6xf32, #sym.shape<[2, s0, 6]>>
}

// -----

// Attention has no epilogue.
// CHECK-LABEL: func.func @epilogue
// CHECK-NOT: kernel.attention
func.func @epilogue(%q: tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>>, %k: tensor<2x6x4xf32>, %v: tensor<2x6x5xf32>) -> tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>> {
  %s = kernel.contract batch [2] m [s0] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d1, d3) : tensor<2x?x4xf32, #sym.shape<[2, s0, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<2x6x4xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    %eight = arith.constant 8.0 : f32
    %x = arith.divf %c, %eight : f32
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
    %x = math.tanh %c : f32
    kernel.yield %x : f32
  } : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
  return %o : tensor<2x?x5xf32, #sym.shape<[2, s0, 5]>>
}
