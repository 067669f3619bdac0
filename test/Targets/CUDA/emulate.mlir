// RUN: kiln-opt %s --cuda-lower-kernels --cuda-emulate | FileCheck %s

// The device's instructions are calls, and every address is checked first.
// CHECK-NOT: @kiln_shared
// CHECK-LABEL: llvm.func @row_sums(
// CHECK-NOT: nvvm
// CHECK: llvm.call @kiln_emulator_thread() : () -> i32
// CHECK: llvm.call @kiln_emulator_block() : () -> i32
// CHECK: %[[CHECKED:.*]] = llvm.call @kiln_emulator_access(%{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr, i64, i32) -> !llvm.ptr
// CHECK: llvm.load %[[CHECKED]]
// CHECK: llvm.call @kiln_emulator_shuffle
// CHECK: llvm.call @kiln_emulator_shared() : () -> !llvm.ptr
// CHECK: llvm.call @kiln_emulator_barrier
// CHECK: llvm.return

// The twin names the buffers with their sizes, of which one is an expression.
// CHECK-LABEL: llvm.func @row_sums_emulated(%{{.*}}: !llvm.ptr)
// CHECK: %[[BYTES:.*]] = llvm.mul
// CHECK: llvm.call @kiln_emulator_buffer(%{{.*}}, %[[BYTES]]) : (!llvm.ptr, i64) -> ()
// CHECK: llvm.call @kiln_emulator_buffer
// CHECK: llvm.call @kiln_emulator_buffer
// CHECK: llvm.call @row_sums(
// CHECK: @row_sums_parameters(4 : i64)
kernel.func @row_sums(%x: tensor<?x768xf32, #sym.shape<[s0, 768]>>) -> tensor<?xf32, #sym.shape<[s0]>> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x768xf32, #sym.shape<[s0, 768]>> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<?xf32, #sym.shape<[s0]>>
  kernel.return %y : tensor<?xf32, #sym.shape<[s0]>>
}
