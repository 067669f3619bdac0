// RUN: kiln-opt %s --cpu-fold-constants --verify-diagnostics

// A resource without data, as text that was printed without it has, and that no host can give any.
func.func @missing() -> tensor<2xf32> {
  %w = kernel.constant dense_resource<missing> : tensor<2xf32> : tensor<2xf32>
  // expected-error@+1 {{an operand's constant data is missing}}
  %y = kernel.map {
    %a = kernel.read %w (d0) -> (d0) : tensor<2xf32> -> f32
    %b = arith.addf %a, %a : f32
    kernel.yield %b : f32
  } : tensor<2xf32>
  return %y : tensor<2xf32>
}
