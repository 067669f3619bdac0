// RUN: kiln-opt %s --split-input-file --wrapper-share-kernels | FileCheck %s

// The sizes that data gives are u0 and u1: the kernel of the first serves both. Nothing is known of u2 that would be the same.
// CHECK-LABEL: wrapper.program @main
// CHECK: wrapper.launch @scale_0 ins(%{{.*}}) outs(%{{[^{]*}})
// CHECK-NOT: symbols =
// CHECK: wrapper.launch @scale_0 {{.*}} {symbols = {u0 = #sym.expr<u1>}}
// CHECK: wrapper.launch @scale_2
// CHECK-NOT: kernel.func @scale_1
module attributes {sym.symbols = {u0 = {max = 64 : i64, min = 0 : i64}, u1 = {max = 64 : i64, min = 0 : i64}, u2 = {min = 1 : i64}}} {
  kernel.func @scale_0(%x: tensor<?xf32, #sym.shape<[u0]>>) -> tensor<?x2xf32, #sym.shape<[u0, 2]>> attributes {launch = #kernel.launch<grid = <u0 ceildiv 4>>} {
    %y = kernel.map {
      %e = kernel.read %x (d0, d1) -> (u0 - d0 - 1) : tensor<?xf32, #sym.shape<[u0]>> -> f32
      kernel.yield %e : f32
    } : tensor<?x2xf32, #sym.shape<[u0, 2]>>
    kernel.return %y : tensor<?x2xf32, #sym.shape<[u0, 2]>>
  }
  kernel.func @scale_1(%x: tensor<?xf32, #sym.shape<[u1]>>) -> tensor<?x2xf32, #sym.shape<[u1, 2]>> attributes {launch = #kernel.launch<grid = <u1 ceildiv 4>>} {
    %y = kernel.map {
      %e = kernel.read %x (d0, d1) -> (u1 - d0 - 1) : tensor<?xf32, #sym.shape<[u1]>> -> f32
      kernel.yield %e : f32
    } : tensor<?x2xf32, #sym.shape<[u1, 2]>>
    kernel.return %y : tensor<?x2xf32, #sym.shape<[u1, 2]>>
  }
  kernel.func @scale_2(%x: tensor<?xf32, #sym.shape<[u2]>>) -> tensor<?x2xf32, #sym.shape<[u2, 2]>> attributes {launch = #kernel.launch<grid = <u2 ceildiv 4>>} {
    %y = kernel.map {
      %e = kernel.read %x (d0, d1) -> (u2 - d0 - 1) : tensor<?xf32, #sym.shape<[u2]>> -> f32
      kernel.yield %e : f32
    } : tensor<?x2xf32, #sym.shape<[u2, 2]>>
    kernel.return %y : tensor<?x2xf32, #sym.shape<[u2, 2]>>
  }
  wrapper.program @main(%a: !wrapper.buffer<[u0], [1], f32> {wrapper.name = "a"}, %b: !wrapper.buffer<[u1], [1], f32> {wrapper.name = "b"}, %c: !wrapper.buffer<[u2], [1], f32> {wrapper.name = "c"}) attributes {symbols = {u0 = {}, u1 = {}, u2 = {}}} {
    %0 = wrapper.alloc : <[u0, 2], [2, 1], f32>
    wrapper.launch @scale_0 ins(%a : !wrapper.buffer<[u0], [1], f32>) outs(%0 : !wrapper.buffer<[u0, 2], [2, 1], f32>)
    %1 = wrapper.alloc : <[u1, 2], [2, 1], f32>
    wrapper.launch @scale_1 ins(%b : !wrapper.buffer<[u1], [1], f32>) outs(%1 : !wrapper.buffer<[u1, 2], [2, 1], f32>)
    %2 = wrapper.alloc : <[u2, 2], [2, 1], f32>
    wrapper.launch @scale_2 ins(%c : !wrapper.buffer<[u2], [1], f32>) outs(%2 : !wrapper.buffer<[u2, 2], [2, 1], f32>)
  }
}

// -----

// Kernels of other sizes are others, and so is one whose size is used twice.
// CHECK-LABEL: wrapper.program @others
// CHECK: wrapper.launch @row
// CHECK: wrapper.launch @square
// CHECK-NOT: symbols
module attributes {sym.symbols = {u0 = {min = 0 : i64}, u1 = {min = 0 : i64}}} {
  kernel.func @row(%x: tensor<f32>) -> tensor<?x?xf32, #sym.shape<[u0, u1]>> {
    %y = kernel.map {
      %e = kernel.read %x (d0, d1) -> () : tensor<f32> -> f32
      kernel.yield %e : f32
    } : tensor<?x?xf32, #sym.shape<[u0, u1]>>
    kernel.return %y : tensor<?x?xf32, #sym.shape<[u0, u1]>>
  }
  kernel.func @square(%x: tensor<f32>) -> tensor<?x?xf32, #sym.shape<[u1, u1]>> {
    %y = kernel.map {
      %e = kernel.read %x (d0, d1) -> () : tensor<f32> -> f32
      kernel.yield %e : f32
    } : tensor<?x?xf32, #sym.shape<[u1, u1]>>
    kernel.return %y : tensor<?x?xf32, #sym.shape<[u1, u1]>>
  }
  wrapper.program @others(%a: !wrapper.buffer<[], [], f32> {wrapper.name = "a"}) attributes {symbols = {u0 = {}, u1 = {}}} {
    %0 = wrapper.alloc : <[u0, u1], [u1, 1], f32>
    wrapper.launch @row ins(%a : !wrapper.buffer<[], [], f32>) outs(%0 : !wrapper.buffer<[u0, u1], [u1, 1], f32>)
    %1 = wrapper.alloc : <[u1, u1], [u1, 1], f32>
    wrapper.launch @square ins(%a : !wrapper.buffer<[], [], f32>) outs(%1 : !wrapper.buffer<[u1, u1], [u1, 1], f32>)
  }
}
