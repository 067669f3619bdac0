// RUN: kiln-opt %s --wrapper-lower-to-llvm="debug-level=2" --split-input-file | FileCheck %s
// RUN: kiln-opt %s --wrapper-lower-to-llvm="debug-level=3 debug-filter=other,aten.foo.default" --split-input-file | FileCheck %s --check-prefix=FILTER
// RUN: kiln-opt %s --wrapper-lower-to-llvm="device debug-level=1" --split-input-file | FileCheck %s --check-prefix=DEVICE
// RUN: kiln-opt %s --wrapper-lower-to-llvm --split-input-file | FileCheck %s --check-prefix=OFF

// Without a level nothing is left of it.
// OFF: llvm.func internal @kiln_main
// OFF-NOT: kiln_{{(rt_)?}}debug

// Names of tensors: the program's own, else numbers.
// CHECK-DAG: "fc.w\00"
// CHECK-DAG: "buf2\00"
// CHECK-DAG: "z\00"
// CHECK-DAG: "bfloat16\00"
// CHECK-DAG: "aten.foo.default\00"
// CHECK-DAG: @kiln_debug_tensors_1() {{.*}}!llvm.array<2 x struct<(ptr, ptr, ptr, ptr, ptr, i8, i8, i16, i32)>>
// Sizes and strides of z: 4 and expression 0, as those of inputs.
// CHECK-DAG: dense<[4, -1]>
// CHECK-DAG: dense<[1, 4]>

kernel.func @k(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> attributes {launch = #kernel.launch<grid = <3>>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0]>> -> f32
    kernel.yield %a : f32
  } : tensor<?xf32, #sym.shape<[s0]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[s0]>>
}
kernel.func @other(%x: tensor<?xf32, #sym.shape<[s0]>>) -> tensor<?xf32, #sym.shape<[s0]>> attributes {launch = #kernel.launch<grid = <3>>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<?xf32, #sym.shape<[s0]>> -> f32
    %b = arith.negf %a : f32
    kernel.yield %b : f32
  } : tensor<?xf32, #sym.shape<[s0]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[s0]>>
}
wrapper.program @main(%x: !wrapper.buffer<[s0], [1], f32> {wrapper.name = "x"})
    -> (!wrapper.buffer<[s0], [1], f32> {wrapper.name = "y"}, !wrapper.buffer<[4, s0], [1, 4], bf16> {wrapper.name = "z"})
    attributes {symbols = {s0 = {min = 1}}, arena_bytes = #sym.expr<4*s0>, weights_bytes = 64 : i64} {
  wrapper.bind "s0" from %x size 0 as s0 : !wrapper.buffer<[s0], [1], f32>
  %w = wrapper.constant "fc.w" at 0 dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  %a = wrapper.alloc at 0 : !wrapper.buffer<[s0], [1], f32>
  %y = wrapper.output 0 : !wrapper.buffer<[s0], [1], f32>
  %z = wrapper.output 1 : !wrapper.buffer<[4, s0], [1, 4], bf16>
  // The inputs as they are, then each step's tensors before and after; a failure ends the run.
  // CHECK-LABEL: llvm.func internal @kiln_main(%arg0: !llvm.ptr) -> i32
  // CHECK: %[[INPUTS:.*]] = llvm.load %arg0 : !llvm.ptr -> !llvm.ptr
  // CHECK: %[[START:.*]] = llvm.mlir.addressof @kiln_debug_step_0 : !llvm.ptr
  // CHECK: %[[TIME0:.*]] = llvm.mlir.constant(0 : i32)
  // CHECK: llvm.call @kiln_rt_debug(%arg0, %[[START]], %[[TIME0]], %[[INPUTS]])
  // CHECK: %[[STEP:.*]] = llvm.mlir.addressof @kiln_debug_step_1 : !llvm.ptr
  // CHECK: %[[TIME1:.*]] = llvm.mlir.constant(1 : i32)
  // CHECK: %[[STATUS:.*]] = llvm.call @kiln_rt_debug(%arg0, %[[STEP]], %[[TIME1]], %[[BUFFERS:.*]]) :
  // CHECK: llvm.cond_br %{{.*}}, ^{{.*}}(%[[STATUS]] : i32), ^
  // CHECK: llvm.call @kiln_rt_launch(%arg0, %{{.*}}, %[[BUFFERS]], %{{.*}})
  // CHECK: %[[TIME2:.*]] = llvm.mlir.constant(2 : i32)
  // CHECK: llvm.call @kiln_rt_debug(%arg0, %[[STEP]], %[[TIME2]], %[[BUFFERS]])
  // CHECK: %[[EXTERN:.*]] = llvm.mlir.addressof @kiln_debug_step_2 : !llvm.ptr
  // CHECK: llvm.call @kiln_rt_debug(%arg0, %[[EXTERN]],
  // CHECK: llvm.call @kiln_rt_extern
  // CHECK: llvm.call @kiln_rt_debug(%arg0, %[[EXTERN]],
  // CHECK: llvm.call @kiln_rt_launch
  // FILTER-LABEL: llvm.func internal @kiln_main
  // FILTER: llvm.call @kiln_rt_debug
  // FILTER: llvm.mlir.addressof @k :
  // FILTER-NOT: llvm.call @kiln_rt_debug
  // FILTER: llvm.call @kiln_rt_launch
  // FILTER-NOT: llvm.call @kiln_rt_launch
  // FILTER: llvm.call @kiln_rt_debug
  // FILTER: llvm.call @kiln_rt_extern
  // FILTER: llvm.call @kiln_rt_debug
  // FILTER: llvm.call @kiln_rt_debug
  // FILTER: llvm.call @kiln_rt_launch
  // FILTER: llvm.call @kiln_rt_debug
  // FILTER-NOT: llvm.call @kiln_rt_debug
  // DEVICE-LABEL: llvm.func internal @kiln_main
  // DEVICE: llvm.call @kiln_rt_device_debug
  // DEVICE: llvm.call @kiln_rt_device_debug
  // DEVICE: llvm.call @kiln_rt_device_launch
  // DEVICE: llvm.call @kiln_rt_device_debug
  wrapper.launch @k ins(%x : !wrapper.buffer<[s0], [1], f32>) outs(%a : !wrapper.buffer<[s0], [1], f32>)
  wrapper.extern_call "torch" "aten.foo.default" args = [#sym.arg<0>, #sym.arg<1>] ins(%a, %w : !wrapper.buffer<[s0], [1], f32>, !wrapper.buffer<[4], [1], f32>)
      outs(%z : !wrapper.buffer<[4, s0], [1, 4], bf16>) projection = [0]
  wrapper.launch @other ins(%a : !wrapper.buffer<[s0], [1], f32>) outs(%y : !wrapper.buffer<[s0], [1], f32>)
}
