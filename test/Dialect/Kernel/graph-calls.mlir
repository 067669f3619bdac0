// RUN: kiln-opt %s | kiln-opt | FileCheck %s
// RUN: kiln-opt --mlir-print-op-generic %s | kiln-opt | FileCheck %s

func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func private @nothing() {
  return
}
func.func private @positive(%x: tensor<8xf32>) -> tensor<1xi1> {
  %c = kernel.constant dense<false> : tensor<1xi1> : tensor<1xi1>
  return %c : tensor<1xi1>
}
func.func private @step(%c: tensor<f32>, %x: tensor<4xf32>, %w: tensor<8xf32>) -> (tensor<f32>, tensor<4xf32>) {
  return %c, %x : tensor<f32>, tensor<4xf32>
}

func.func @main(%p: tensor<i1>, %x: tensor<8xf32>, %c: tensor<f32>, %xs: tensor<?x4xf32, #sym.shape<[s0, 4]>>) {
  // CHECK: kernel.invoke @f(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
  %0 = kernel.invoke @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: kernel.cond %{{.*}} : tensor<i1> then @f else @f(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = kernel.cond %p : tensor<i1> then @f else @f (%x) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: kernel.cond when s0 - 5 then @nothing else @nothing() : () -> ()
  kernel.cond when s0 - 5 then @nothing else @nothing () : () -> ()
  // CHECK: kernel.while @positive do @f(%{{.*}}) with() : (tensor<8xf32>) -> tensor<8xf32>
  %2 = kernel.while @positive do @f (%x) with() : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: kernel.for @step length s0(%{{.*}}) over(%{{.*}}) with(%{{.*}}) : (tensor<f32>, tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<8xf32>) -> (tensor<f32>, tensor<?x4xf32, #sym.shape<[s0, 4]>>)
  %3:2 = kernel.for @step length s0 (%c) over(%xs) with(%x) : (tensor<f32>, tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<8xf32>)
      -> (tensor<f32>, tensor<?x4xf32, #sym.shape<[s0, 4]>>)
  return
}
