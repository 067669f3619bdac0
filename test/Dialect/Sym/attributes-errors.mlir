// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expression overflows 64 bits or divides by zero}}
module attributes {test.a = #sym.expr<9223372036854775807 + 1>} {}

// -----

// expected-error @below {{expression overflows 64 bits or divides by zero}}
module attributes {test.a = #sym.expr<s0 floordiv 0>} {}

// -----

// expected-error @below {{expression overflows 64 bits or divides by zero}}
module attributes {test.a = #sym.expr<4*(s0 mod 0)>} {}

// -----

// expected-error @below {{expression is nested too deeply}}
module attributes {test.a = #sym.expr<(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((s0)))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))>} {}

// -----

// expected-error @below {{expression is nested too deeply}}
module attributes {test.a = #sym.expr<- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - s0>} {}

// -----

// expected-error @below {{expected valid keyword}}
module attributes {test.a = #sym.expr<>} {}

// -----

// expected-error @below {{expected valid keyword}}
module attributes {test.a = #sym.expr<s0 + >} {}

// -----

// expected-error @below {{expected valid keyword}}
module attributes {test.a = #sym.expr<s0 - *>} {}

// -----

// expected-error @below {{expected valid keyword}}
module attributes {test.a = #sym.expr<s0 ceildiv +>} {}

// -----

// expected-error @below {{expected valid keyword}}
module attributes {test.a = #sym.expr<2* >} {}

// -----

// expected-error @below {{expected ')'}}
module attributes {test.a = #sym.expr<(s0 + 1, 2)>} {}

// -----

// expected-error @below {{expected valid keyword}}
module attributes {test.a = #sym.expr<max(s0, )>} {}

// -----

// expected-error @below {{expected '['}}
module attributes {test.a = #sym.shape<s0>} {}

// -----

// expected-error @below {{expected dim 'd1'}}
module attributes {test.a = #sym.map<(d0, d2) -> (d0)>} {}

// -----

// expected-error @below {{expected valid keyword}}
module attributes {test.a = #sym.map<(d0, 4) -> (d0)>} {}

// -----

// expected-error @below {{expected '->'}}
module attributes {test.a = #sym.map<(d0) (d0)>} {}

// -----

// expected-error @below {{#sym.shape lists 1 sizes for a tensor of rank 2}}
func.func private @rank(tensor<?x4xf32, #sym.shape<[s0]>>)

// -----

// expected-error @below {{#sym.shape disagrees with dimension 1 of the tensor type}}
func.func private @size(tensor<?x4xf32, #sym.shape<[s0, 5]>>)

// -----

func.func @index(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = kernel.map {
    // expected-error @below {{expected dim 'd0'}}
    %a = kernel.read %x (d1) -> (d1) : tensor<4xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @bounds(%x: tensor<4xf32>) -> tensor<4xi1> {
  %y = kernel.map {
    // expected-error @below {{expected '['}}
    %a = kernel.inside (d0) -> (d0) bounds 4
    kernel.yield %a : i1
  } : tensor<4xi1>
  return %y : tensor<4xi1>
}

// -----

func.func @part(%x: tensor<4x4xf32>) -> tensor<1x4x4xf32> {
  // expected-error @below {{expression overflows 64 bits or divides by zero}}
  %y = kernel.contract batch [] m [4] n [4] k [4] part 4 floordiv 0 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x4xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %x (d0, d1, d2) -> (d1, d2) : tensor<4x4xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<1x4x4xf32>
  return %y : tensor<1x4x4xf32>
}
