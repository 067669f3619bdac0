// A kernel's parameters are limited: 2100 tensors are too many.
// RUN: awk 'BEGIN { for (i = 0; i < 2100; ++i) { arguments = arguments (i ? ", " : "") "%%x" i ": tensor<8xf32>"; reads = reads "%%a" i " = kernel.read %%x" i " (d0) -> (d0) : tensor<8xf32> -> f32\n" } print "kernel.func @many(" arguments ") -> tensor<8xf32> {\n%%y = kernel.map {\n" reads "kernel.yield %%a0 : f32\n} : tensor<8xf32>\nkernel.return %%y : tensor<8xf32>\n}" }' > %t
// RUN: not kiln-opt %t --cuda-choose-schedule --cuda-emit-kernels 2>&1 | FileCheck %s
// CHECK: error: cannot be compiled for CUDA: 2101 tensors and sizes of one kernel, of which there may be 2040
