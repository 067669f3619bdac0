// RUN: kiln-opt %s --kernel-fuse-attention --split-input-file | FileCheck %s

// Products as bmm has them, of a softmax of four dims, which is 0 where a whole row is left out; -inf that is a tensor.
// CHECK-LABEL: func.func @batches
// CHECK: kernel.attention batch [s0, 3] m <8> n <6> d <4> dv <5> scale 1.000000e+00 perm [0, 2, 1, 3] q {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)
// CHECK: } k {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (3*d0 + d1, d3, d4)
// CHECK: } v {
// CHECK-NEXT: kernel.read %{{.*}} (d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5)
// CHECK: } bias {
// CHECK: arith.select
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d0 floordiv 3, d0 mod 3, d1, d2)
func.func @batches(%q: tensor<?x3x8x4xf32, #sym.shape<[s0, 3, 8, 4]>>, %k: tensor<?x6x4xf32, #sym.shape<[3*s0, 6, 4]>>, %v: tensor<?x3x6x5xf32, #sym.shape<[s0, 3, 6, 5]>>, %mask: tensor<8x6xi1>) -> tensor<?x8x5xf32, #sym.shape<[3*s0, 8, 5]>> {
  %s = kernel.contract batch [3*s0] m [8] n [6] k [4] lhs {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0 floordiv 3, d0 mod 3, d1, d3) : tensor<?x3x8x4xf32, #sym.shape<[s0, 3, 8, 4]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %k (d0, d1, d2, d3) -> (d0, d2, d3) : tensor<?x6x4xf32, #sym.shape<[3*s0, 6, 4]>> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    kernel.yield %c : f32
  } : tensor<?x8x6xf32, #sym.shape<[3*s0, 8, 6]>>
  %none = kernel.map {
    %lowest = arith.constant 0xFF800000 : f32
    kernel.yield %lowest : f32
  } : tensor<f32>
  %m = kernel.map {
    %x = kernel.read %s (d0, d1, d2, d3) -> (3*d0 + d1, d2, d3) : tensor<?x8x6xf32, #sym.shape<[3*s0, 8, 6]>> -> f32
    %c = kernel.read %mask (d0, d1, d2, d3) -> (d2, d3) : tensor<8x6xi1> -> i1
    %n = kernel.read %none (d0, d1, d2, d3) -> () : tensor<f32> -> f32
    %y = arith.select %c, %x, %n : f32
    kernel.yield %y : f32
  } : tensor<?x3x8x6xf32, #sym.shape<[s0, 3, 8, 6]>>
  %p = kernel.map {
    %zero = arith.constant 0.0 : f32
    %lowest = arith.constant 0xFF800000 : f32
    %x = kernel.read %m (d0, d1, d2, d3) -> (d0, d1, d2, d3) : tensor<?x3x8x6xf32, #sym.shape<[s0, 3, 8, 6]>> -> f32
    %max = kernel.reduce [6] init(%lowest : f32) {
      %e = kernel.read %m (d0, d1, d2, d3, d4) -> (d0, d1, d2, d4) : tensor<?x3x8x6xf32, #sym.shape<[s0, 3, 8, 6]>> -> f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maximumf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %sum = kernel.reduce [6] init(%zero : f32) {
      %e = kernel.read %m (d0, d1, d2, d3, d4) -> (d0, d1, d2, d4) : tensor<?x3x8x6xf32, #sym.shape<[s0, 3, 8, 6]>> -> f32
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
    %isNone = arith.cmpf oeq, %max, %lowest : f32
    %r = arith.select %isNone, %zero, %w : f32
    kernel.yield %r : f32
  } : tensor<?x3x8x6xf32, #sym.shape<[s0, 3, 8, 6]>>
  %o = kernel.contract batch [3*s0] m [8] n [5] k [6] lhs {
    %a = kernel.read %p (d0, d1, d2, d3) -> (d0 floordiv 3, d0 mod 3, d1, d3) : tensor<?x3x8x6xf32, #sym.shape<[s0, 3, 8, 6]>> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %v (d0, d1, d2, d3) -> (d0 floordiv 3, d0 mod 3, d3, d2) : tensor<?x3x6x5xf32, #sym.shape<[s0, 3, 6, 5]>> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%c: f32):
    kernel.yield %c : f32
  } : tensor<?x8x5xf32, #sym.shape<[3*s0, 8, 5]>>
  return %o : tensor<?x8x5xf32, #sym.shape<[3*s0, 8, 5]>>
}
