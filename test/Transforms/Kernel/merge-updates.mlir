// RUN: kiln-opt %s --pass-pipeline='builtin.module(func.func(kernel-merge-updates))' --split-input-file | FileCheck %s

// cache[1, :, 3:5] = x; cache[2] is copied into at places that data gives, and read.
// CHECK-LABEL: func.func @main(%arg0: tensor<3x4x8x16xf32>
// CHECK-SAME: %arg1: tensor<4x2x16xf32>
func.func @main(%cache: tensor<3x4x8x16xf32> {torch.name = "cache"}, %x: tensor<4x2x16xf32> {torch.name = "x"}, %at: tensor<2xi64> {torch.name = "at"})
    -> (tensor<4x8x16xf32> {torch.name = "y"}, tensor<3x4x8x16xf32> {torch.mutates = "cache"}) {
  // The slice of the slice: a scatter whose places are the part.
  // CHECK: %[[A:.*]] = kernel.scatter batch [3, 4, 16] targets [8] places [2] perm [0, 1, 3, 2] init {
  // CHECK: kernel.read %arg0 (d0, d1, d2, d3, d4) -> (d0, d1, d3, d2)
  // CHECK: update
  // CHECK-DAG: %[[I:.*]] = kernel.index (d0, d1, d2, d3, d4) -> (d4 + 3)
  // CHECK-DAG: %[[ON:.*]] = arith.constant true
  // CHECK-DAG: %[[V:.*]] = kernel.read %arg1 (d0, d1, d2, d3, d4) -> (d1, d4, d2)
  // CHECK: kernel.yield %[[I]], %[[ON]], %[[V]]
  %a = kernel.map {
    %in = kernel.inside (d0, d1, d2, d3) -> (d2 - 3) bounds [2]
    %old = kernel.read %cache (d0, d1, d2, d3) -> (d0, d1, d2, d3) : tensor<3x4x8x16xf32> -> f32
    %new = kernel.read %x (d0, d1, d2, d3) -> (d1, d2 - 3, d3) if %in else(%old : f32) : tensor<4x2x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<3x4x8x16xf32>
  // CHECK: %[[B:.*]] = kernel.scatter batch [4, 16] targets [3, 8] places [2] perm [2, 0, 3, 1] init {
  // CHECK: kernel.read %[[A]]
  // CHECK: update
  // CHECK-DAG: %[[P:.*]] = kernel.read %arg2 (d0, d1, d2, d3, d4) -> (d4)
  // CHECK-DAG: %[[L:.*]] = kernel.index (d0, d1, d2, d3, d4) -> (2)
  // CHECK-DAG: %[[W:.*]] = kernel.read %arg1 (d0, d1, d2, d3, d4) -> (d0, d4, d1)
  // CHECK: kernel.yield %[[L]], %[[P]], %{{.*}}, %[[W]]
  %b = kernel.scatter batch [4, 16] targets [8] places [2] perm [0, 2, 1] init {
    %old = kernel.read %a (d0, d1, d2, d3) -> (2, d0, d2, d1) : tensor<3x4x8x16xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1, d2, d3) -> (d3) : tensor<2xi64> -> i64
    %v = kernel.read %x (d0, d1, d2, d3) -> (d0, d3, d1) : tensor<4x2x16xf32> -> f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%p: f32, %q: f32):
    kernel.yield %q : f32
  } : tensor<4x8x16xf32>
  // CHECK: kernel.map {
  // CHECK-NEXT: kernel.read %[[B]] (d0, d1, d2) -> (2, d0, d1, d2)
  %y = kernel.map {
    %v = kernel.read %b (d0, d1, d2) -> (d0, d1, d2) : tensor<4x8x16xf32> -> f32
    %w = arith.addf %v, %v : f32
    kernel.yield %w : f32
  } : tensor<4x8x16xf32>
  %c = kernel.map {
    %in = kernel.inside (d0, d1, d2, d3) -> (d0 - 2) bounds [1]
    %old = kernel.read %a (d0, d1, d2, d3) -> (d0, d1, d2, d3) : tensor<3x4x8x16xf32> -> f32
    %new = kernel.read %b (d0, d1, d2, d3) -> (d1, d2, d3) if %in else(%old : f32) : tensor<4x8x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<3x4x8x16xf32>
  // CHECK: return %{{.*}}, %[[B]]
  return %y, %c : tensor<4x8x16xf32>, tensor<3x4x8x16xf32>
}

// -----

// A start that is not known is checked; what lies outside is not written, as in the map.
module attributes {sym.symbols = {u0 = {min = 0}}} {
// CHECK-LABEL: func.func @main
func.func @main(%cache: tensor<8x16xf32> {torch.name = "cache"}, %x: tensor<2x16xf32> {torch.name = "x"}) -> (tensor<8x16xf32> {torch.mutates = "cache"}) {
  // CHECK: kernel.scatter batch [16] targets [8] places [2] perm [1, 0]
  // CHECK-DAG: kernel.index (d0, d1, d2) -> (d2 + u0)
  // CHECK-DAG: kernel.inside (d0, d1, d2) -> (d2 + u0) bounds [8]
  %a = kernel.map {
    %in = kernel.inside (d0, d1) -> (d0 - u0) bounds [2]
    %old = kernel.read %cache (d0, d1) -> (d0, d1) : tensor<8x16xf32> -> f32
    %new = kernel.read %x (d0, d1) -> (d0 - u0, d1) if %in else(%old : f32) : tensor<2x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<8x16xf32>
  return %a : tensor<8x16xf32>
}
}

// -----

// Maps that stay: on what is not mutated; with a map in between that writes everything; of most of each row; along a diagonal.
// CHECK-LABEL: func.func @main
// CHECK-NOT: kernel.scatter
func.func @main(%u: tensor<8x16xf32> {torch.name = "u"}, %v: tensor<8x16xf32> {torch.name = "v"}, %w: tensor<8x16xf32> {torch.name = "w"},
    %d: tensor<8x16xf32> {torch.name = "d"}, %x: tensor<2x16xf32> {torch.name = "x"}, %z: tensor<8x12xf32> {torch.name = "z"})
    -> (tensor<8x16xf32> {torch.name = "y"}, tensor<8x16xf32> {torch.mutates = "v"}, tensor<8x16xf32> {torch.mutates = "w"}, tensor<8x16xf32> {torch.mutates = "d"}) {
  %a = kernel.map {
    %in = kernel.inside (d0, d1) -> (d0 - 1) bounds [2]
    %old = kernel.read %u (d0, d1) -> (d0, d1) : tensor<8x16xf32> -> f32
    %new = kernel.read %x (d0, d1) -> (d0 - 1, d1) if %in else(%old : f32) : tensor<2x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<8x16xf32>
  %b0 = kernel.map {
    %old = kernel.read %v (d0, d1) -> (d0, d1) : tensor<8x16xf32> -> f32
    %new = arith.addf %old, %old : f32
    kernel.yield %new : f32
  } : tensor<8x16xf32>
  %b = kernel.map {
    %in = kernel.inside (d0, d1) -> (d0 - 1) bounds [2]
    %old = kernel.read %b0 (d0, d1) -> (d0, d1) : tensor<8x16xf32> -> f32
    %new = kernel.read %x (d0, d1) -> (d0 - 1, d1) if %in else(%old : f32) : tensor<2x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<8x16xf32>
  %c = kernel.map {
    %in = kernel.inside (d0, d1) -> (d1 - 3) bounds [12]
    %old = kernel.read %w (d0, d1) -> (d0, d1) : tensor<8x16xf32> -> f32
    %new = kernel.read %z (d0, d1) -> (d0, d1 - 3) if %in else(%old : f32) : tensor<8x12xf32> -> f32
    kernel.yield %new : f32
  } : tensor<8x16xf32>
  %e = kernel.map {
    %in = kernel.inside (d0, d1) -> (d0, d1 - d0) bounds [2, 1]
    %old = kernel.read %d (d0, d1) -> (d0, d1) : tensor<8x16xf32> -> f32
    %new = kernel.read %x (d0, d1) -> (0, d0) if %in else(%old : f32) : tensor<2x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<8x16xf32>
  return %a, %b, %c, %e : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Scatters that stay on their parts: of another place than where the part is put back; along a piece of a dim.
// CHECK-LABEL: func.func @main
// CHECK: kernel.scatter batch [16] targets [4] places [2]
func.func @main(%u: tensor<3x8x16xf32> {torch.name = "u"}, %v: tensor<8x16xf32> {torch.name = "v"}, %x: tensor<2x16xf32> {torch.name = "x"}, %at: tensor<2xi64> {torch.name = "at"})
    -> (tensor<3x8x16xf32> {torch.mutates = "u"}, tensor<8x16xf32> {torch.mutates = "v"}) {
  %a = kernel.scatter batch [16] targets [4] places [2] perm [1, 0] init {
    %old = kernel.read %u (d0, d1, d2) -> (1, d1, d0) : tensor<3x8x16xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1, d2) -> (d2) : tensor<2xi64> -> i64
    %w = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<2x16xf32> -> f32
    %always = arith.constant true
    kernel.yield %i, %always, %w : i64, i1, f32
  } combine {
  ^bb0(%p: f32, %q: f32):
    kernel.yield %q : f32
  } : tensor<4x16xf32>
  // CHECK: kernel.scatter batch [16] targets [3, 8] places [4]
  %b = kernel.map {
    %in = kernel.inside (d0, d1, d2) -> (d0 - 2, d1) bounds [1, 4]
    %old = kernel.read %u (d0, d1, d2) -> (d0, d1, d2) : tensor<3x8x16xf32> -> f32
    %new = kernel.read %a (d0, d1, d2) -> (d1, d2) if %in else(%old : f32) : tensor<4x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<3x8x16xf32>
  %c = kernel.scatter batch [16] targets [4] places [2] perm [1, 0] init {
    %old = kernel.read %v (d0, d1, d2) -> (d1 + 2, d0) : tensor<8x16xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1, d2) -> (d2) : tensor<2xi64> -> i64
    %w = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<2x16xf32> -> f32
    %always = arith.constant true
    kernel.yield %i, %always, %w : i64, i1, f32
  } combine {
  ^bb0(%p: f32, %q: f32):
    kernel.yield %q : f32
  } : tensor<4x16xf32>
  // CHECK: kernel.scatter batch [16] targets [4] places [2]
  // CHECK: kernel.scatter batch [16] targets [8] places [4]
  %d = kernel.map {
    %in = kernel.inside (d0, d1) -> (d0 - 2) bounds [4]
    %old = kernel.read %v (d0, d1) -> (d0, d1) : tensor<8x16xf32> -> f32
    %new = kernel.read %c (d0, d1) -> (d0 - 2, d1) if %in else(%old : f32) : tensor<4x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<8x16xf32>
  return %b, %d : tensor<3x8x16xf32>, tensor<8x16xf32>
}

// -----

// Through views: of a layer of a transposed part, and of what was transposed before.
// CHECK-LABEL: func.func @main
func.func @main(%cache: tensor<3x2x8x16xf32> {torch.name = "cache"}, %x: tensor<8x16xf32> {torch.name = "x"})
    -> (tensor<3x2x8x16xf32> {torch.mutates = "cache"}) {
  // cache[1].transpose(0, 1)[:, 1] = x
  // CHECK: %[[A:.*]] = kernel.scatter batch [8, 16] targets [3, 2] places [] perm [2, 3, 0, 1] init {
  // CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d2, d3, d0, d1)
  // CHECK: update
  // CHECK-DAG: %[[L:.*]] = kernel.index (d0, d1, d2, d3) -> (1)
  // CHECK-DAG: %[[V:.*]] = kernel.read %arg1 (d0, d1, d2, d3) -> (d0, d1)
  // CHECK: kernel.yield %{{.*}}, %{{.*}}, %{{.*}}, %[[V]]
  // CHECK-NOT: kernel.map
  %a = kernel.map {
    %in = kernel.inside (d0, d1, d2) -> (d1 - 1) bounds [1]
    %zero = arith.constant 0.0 : f32
    %old = kernel.read %cache (d0, d1, d2) -> (1, d1, d0, d2) : tensor<3x2x8x16xf32> -> f32
    %new = kernel.read %x (d0, d1, d2) -> (d0, d2) if %in else(%zero : f32) : tensor<8x16xf32> -> f32
    %both = arith.select %in, %new, %old : f32
    kernel.yield %both : f32
  } : tensor<8x2x16xf32>
  %b = kernel.map {
    %in = kernel.inside (d0, d1, d2, d3) -> (d0 - 1) bounds [1]
    %old = kernel.read %cache (d0, d1, d2, d3) -> (d0, d1, d2, d3) : tensor<3x2x8x16xf32> -> f32
    %new = kernel.read %a (d0, d1, d2, d3) -> (d2, d1, d3) if %in else(%old : f32) : tensor<8x2x16xf32> -> f32
    kernel.yield %new : f32
  } : tensor<3x2x8x16xf32>
  // CHECK: return %[[A]]
  return %b : tensor<3x2x8x16xf32>
}
