// RUN: kiln-opt %s --lower-extern --split-input-file --verify-diagnostics

func.func @types(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{calls @f, which is '(tensor<?xf32, #sym.shape<[p.0]>>) -> tensor<?xf32, #sym.shape<[2*p.0]>>', as '(tensor<8xf32>) -> tensor<8xf32>'}}
  %0 = kernel.invoke_extern @f(%x) symbols [8] : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(tensor<?xf32, #sym.shape<[p.0]>>) -> tensor<?xf32, #sym.shape<[2*p.0]>>

// -----

func.func @nowhere(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'f' is not a function}}
  %0 = kernel.invoke_extern @f(%x) symbols [8] : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @uncompiled(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{@f is no declaration of compiled code}}
  %0 = kernel.invoke_extern @f(%x) symbols [] : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(tensor<8xf32>) -> tensor<8xf32>
