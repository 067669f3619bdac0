// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-pack-contracts --verify-diagnostics

func.func @no_vectors(%x: tensor<64x64xf32>, %w: tensor<96x64xf32>) -> tensor<64x96xf32> {
  // expected-error@+1 {{cannot have #cpu.layout<rhs = copied, panel = 40>: panels are whole vectors of 16 columns}}
  %r = kernel.contract batch [] m [64] n [96] k [64] attributes {cpu.layout = #cpu.layout<rhs = copied, panel = 40>} lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<96x64xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  } : tensor<64x96xf32>
  return %r : tensor<64x96xf32>
}
