// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: kiln-opt %s --canonicalize --cse | FileCheck %s --check-prefix=KEPT

// Other processes wait for a collective whose result nobody uses, and for each of two equal ones.
// CHECK-LABEL: func.func @kinds
// KEPT-LABEL: func.func @kinds
func.func @kinds(%x: tensor<4x8xf32>, %y: tensor<?xbf16, #sym.shape<[n]>>) {
  // CHECK: kernel.collective "all_reduce"(%{{.*}}) reduction "sum" group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  // KEPT-COUNT-7: kernel.collective
  %a = kernel.collective "all_reduce"(%x) reduction "sum" group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  %again = kernel.collective "all_reduce"(%x) reduction "sum" group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: kernel.collective "reduce_scatter"(%{{.*}}) reduction "avg" group "0" of 2 : tensor<4x8xf32> -> tensor<2x8xf32>
  %b = kernel.collective "reduce_scatter"(%x) reduction "avg" group "0" of 2 : tensor<4x8xf32> -> tensor<2x8xf32>
  // CHECK: kernel.collective "all_gather"(%{{.*}}) group "tp" of 3 : tensor<?xbf16, #sym.shape<[n]>> -> tensor<?xbf16, #sym.shape<[3*n]>>
  %c = kernel.collective "all_gather"(%y) group "tp" of 3 : tensor<?xbf16, #sym.shape<[n]>> -> tensor<?xbf16, #sym.shape<[3*n]>>
  // CHECK: kernel.collective "all_to_all"(%{{.*}}) send <[3, 1]> receive <[3, 2]> group "0" of 2
  %d = kernel.collective "all_to_all"(%x) send <[3, 1]> receive <[3, 2]> group "0" of 2 : tensor<4x8xf32> -> tensor<5x8xf32>
  // CHECK: kernel.collective "broadcast"(%{{.*}}) root 1 group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  %e = kernel.collective "broadcast"(%x) root 1 group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  %f = kernel.collective "reduce_scatter"(%y) reduction "max" group "0" of 2 : tensor<?xbf16, #sym.shape<[n]>> -> tensor<?xbf16, #sym.shape<[n floordiv 2]>>
  return
}
