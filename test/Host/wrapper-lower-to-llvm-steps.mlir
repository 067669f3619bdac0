// RUN: kiln-opt %s --wrapper-lower-to-llvm="steps-alone" | FileCheck %s
// RUN: kiln-opt %s --wrapper-lower-to-llvm="steps-alone device" | FileCheck %s --check-prefix=DEVICE

// A step takes the symbols that its kernel computes with, and finds the named sizes itself. Two launches of a kernel are one step.
module attributes {sym.symbols = {s0 = {max = 64 : i64, min = 2 : i64}, size.0 = {size = #sym.expr<s0 ceildiv 8>}}} {
kernel.func @k(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
    attributes {launch = #kernel.launch<grid = <s0 ceildiv 8>>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0]>> -> f32
    kernel.yield %a : f32
  } : tensor<?xf32, #sym.shape<[s0]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[s0]>>
}
kernel.func @l(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>>
    attributes {launch = #kernel.launch<grid = <s0>>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0]>> -> f32
    kernel.yield %a : f32
  } : tensor<?xf32, #sym.shape<[s0]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[s0]>>
}

wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"}) -> (!wrapper.buffer<[s0], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<64*(s0 ceildiv 16)>, weights_bytes = 0 : i64,
                symbols = {s0 = {max = 64 : i64, min = 2 : i64}, size.0 = {size = #sym.expr<s0 ceildiv 8>}}} {
  wrapper.bind "s0" from %x size 0 as s0 : <[s0], [1], f32>
  wrapper.define "size.0" = s0 ceildiv 8
  %a = wrapper.alloc at 0 : <[s0], [1], f32>
  wrapper.launch @k ins(%x : !wrapper.buffer<[s0], [1], f32>) outs(%a : !wrapper.buffer<[s0], [1], f32>)
  %y = wrapper.output 0 : <[s0], [1], f32>
  wrapper.launch @k ins(%a : !wrapper.buffer<[s0], [1], f32>) outs(%y : !wrapper.buffer<[s0], [1], f32>)
  wrapper.launch @k ins(%a : !wrapper.buffer<[s0], [1], f32>) outs(%y : !wrapper.buffer<[s0], [1], f32>)
      {alternatives = [@l], when = [#sym.expr<s0 - 20>]}
  wrapper.free %a : <[s0], [1], f32>
}
}

// CHECK: llvm.mlir.global external hidden constant @kiln_steps
// CHECK-LABEL: llvm.func internal @kiln_step_0(%arg0: !llvm.ptr, %arg1: !llvm.ptr) -> i32
// CHECK: %[[SLOT:.*]] = llvm.getelementptr %{{.*}}[1] : (!llvm.ptr) -> !llvm.ptr, i64
// CHECK: llvm.store %{{.*}}, %[[SLOT]] : i64, !llvm.ptr
// CHECK: %[[K:.*]] = llvm.mlir.addressof @k
// CHECK: llvm.call @kiln_rt_launch(%arg0, %[[K]], %arg1, %{{.*}})
// A launch that chooses by a size is another one.
// CHECK-LABEL: llvm.func internal @kiln_step_1(%arg0: !llvm.ptr, %arg1: !llvm.ptr) -> i32
// CHECK: %[[K1:.*]] = llvm.mlir.addressof @k
// CHECK: %[[HOLDS:.*]] = llvm.icmp "sge"
// CHECK: %[[L:.*]] = llvm.mlir.addressof @l
// CHECK: %[[CHOSEN:.*]] = llvm.select %[[HOLDS]], %[[L]], %[[K1]]
// CHECK: %[[GRID:.*]] = llvm.select %[[HOLDS]]
// CHECK: llvm.call @kiln_rt_launch(%arg0, %[[CHOSEN]], %arg1, %[[GRID]]
// CHECK-NOT: @kiln_step_2
// CHECK-LABEL: llvm.func internal @kiln_main
// CHECK-NOT: kiln_rt_launch
// CHECK: llvm.call @kiln_rt_fail

// DEVICE-LABEL: llvm.func internal @kiln_step_1
// DEVICE: %[[K:.*]] = llvm.mlir.addressof @kiln_device_k
// DEVICE: %[[HOLDS:.*]] = llvm.icmp "sge"
// DEVICE: %[[L:.*]] = llvm.mlir.addressof @kiln_device_l
// DEVICE: %[[CHOSEN:.*]] = llvm.select %[[HOLDS]], %[[L]], %[[K]]
// DEVICE: %[[GRID:.*]] = llvm.select %[[HOLDS]]
// DEVICE: llvm.call @kiln_rt_device_launch(%arg0, %[[CHOSEN]], %arg1, %[[GRID]]
