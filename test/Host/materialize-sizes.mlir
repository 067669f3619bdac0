// RUN: kiln-opt %s --wrapper-materialize-sizes --split-input-file | FileCheck %s

// The grid, a size and a part of an index; not s0, 2*s1 or s0 + 1, which cost next to nothing.
// CHECK: module attributes {sym.symbols = {s0 = {min = 2 : i64}, s1 = {min = 1 : i64},
// CHECK-SAME: size.0 = {size = #sym.expr<(s0 + 6) floordiv 8>}
// CHECK-SAME: size.1 = {size = #sym.expr<max(s1 - s0, 0)>}
// CHECK-SAME: size.2 = {size = #sym.expr<s0 floordiv 2>}
// CHECK-NOT: size.3
// CHECK: kernel.func @k(%arg0: tensor<?x?xf32, #sym.shape<[s0 + 1, 2*s1]>>) -> tensor<?xf32, #sym.shape<[s0 floordiv 2]>>
// CHECK: wrapper.program @main
// CHECK-SAME: size.0 = {size =
// CHECK: wrapper.bind "s1"
// CHECK-NEXT: wrapper.define "size.0" = (s0 + 6) floordiv 8
// CHECK-NEXT: wrapper.define "size.1" = max(s1 - s0, 0)
// CHECK-NEXT: wrapper.define "size.2" = s0 floordiv 2
// CHECK-NEXT: wrapper.assert
module attributes {sym.symbols = {s0 = {min = 2 : i64}, s1 = {min = 1 : i64}}} {
  kernel.func @k(%x: tensor<?x?xf32, #sym.shape<[s0 + 1, 2*s1]>>) -> tensor<?xf32, #sym.shape<[s0 floordiv 2]>>
      attributes {launch = #kernel.launch<grid = <(s0 + 6) floordiv 8>>} {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0, d0 + max(s1 - s0, 0)) : tensor<?x?xf32, #sym.shape<[s0 + 1, 2*s1]>> -> f32
      kernel.yield %a : f32
    } : tensor<?xf32, #sym.shape<[s0 floordiv 2]>>
    kernel.return %y : tensor<?xf32, #sym.shape<[s0 floordiv 2]>>
  }
  wrapper.program @main(%x: !wrapper.buffer<[s0 + 1, 2*s1], [2*s1, 1], f32> {wrapper.name = "x"})
      -> (!wrapper.buffer<[s0 floordiv 2], [1], f32> {wrapper.name = "y"})
      attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64,
                  symbols = {s0 = {min = 2 : i64}, s1 = {min = 1 : i64}}} {
    wrapper.bind "s0" from %x size 0 as s0 + 1 : !wrapper.buffer<[s0 + 1, 2*s1], [2*s1, 1], f32>
    wrapper.bind "s1" from %x size 1 as 2*s1 : !wrapper.buffer<[s0 + 1, 2*s1], [2*s1, 1], f32>
    wrapper.assert s1 - 2, "s1 must be at least 2"
    %y = wrapper.output 0 : !wrapper.buffer<[s0 floordiv 2], [1], f32>
    wrapper.launch @k ins(%x : !wrapper.buffer<[s0 + 1, 2*s1], [2*s1, 1], f32>)
        outs(%y : !wrapper.buffer<[s0 floordiv 2], [1], f32>)
  }
}

// -----

// What depends on data is computed where the data is there. A name that the model has is left alone.
// CHECK-LABEL: wrapper.program @late
// CHECK: wrapper.define "u0" from
// CHECK-NEXT: wrapper.define "size.1" = (s0*u0) ceildiv 64
// CHECK-NEXT: wrapper.define "size.2" = s0*u0
// CHECK-NEXT: wrapper.assert
module attributes {sym.symbols = {s0 = {}, size.0 = {}, u0 = {}}} {
  kernel.func @k() -> tensor<?xf32, #sym.shape<[s0*u0]>> attributes {launch = #kernel.launch<grid = <(s0*u0) ceildiv 64>>} {
    %y = kernel.map {
      %a = arith.constant 1.0 : f32
      kernel.yield %a : f32
    } : tensor<?xf32, #sym.shape<[s0*u0]>>
    kernel.return %y : tensor<?xf32, #sym.shape<[s0*u0]>>
  }
  wrapper.program @late(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"},
                        %n: !wrapper.buffer<[], [], i64> {wrapper.name = "n"})
      -> (!wrapper.buffer<[s0*u0], [1], f32> {wrapper.name = "y"})
      attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64, symbols = {s0 = {}, size.0 = {}, u0 = {}}} {
    wrapper.bind "s0" from %x size 0 as s0 : !wrapper.buffer<[s0], [1], f32>
    wrapper.define "u0" from %n : !wrapper.buffer<[], [], i64>
    wrapper.assert u0, "u0 must not be negative"
    %y = wrapper.output 0 : !wrapper.buffer<[s0*u0], [1], f32>
    wrapper.launch @k ins() outs(%y : !wrapper.buffer<[s0*u0], [1], f32>)
  }
}
