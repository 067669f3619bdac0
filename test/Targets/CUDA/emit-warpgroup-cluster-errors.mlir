// RUN: kiln-opt %s --cuda-emit-kernels --split-input-file --verify-diagnostics

// Operands that threads bring cannot be shared.
// expected-error@+1 {{whose blocks share an operand that does not come in boxes which can be shared out}}
kernel.func @computed(%x: tensor<512x64xbf16>, %w: tensor<512x64xbf16>) -> tensor<512x512xf32> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <16>, threads = 384>, schedule = #cuda.wgmma<m = 128, n = 128, stages = 4, registers = [56, 224], cluster = [1, 2], sharing = [4, 2]>} {
  %y = kernel.contract batch [] m [512] n [512] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x64xbf16> -> bf16
    %n = arith.negf %a : bf16
    kernel.yield %n : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x64xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<512x512xf32>
  kernel.return %y : tensor<512x512xf32>
}

// -----

// Half of 64 neighbours is no box.
// expected-error@+1 {{whose blocks share an operand that does not come in boxes which can be shared out}}
kernel.func @half(%x: tensor<512x64xbf16>, %w: tensor<64x512xbf16>) -> tensor<512x512xf32> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <32>, threads = 384>, schedule = #cuda.wgmma<m = 128, n = 64, stages = 4, registers = [56, 224], cluster = [2, 1], sharing = [4, 2]>} {
  %y = kernel.contract batch [] m [512] n [512] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x64xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<64x512xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<512x512xf32>
  kernel.return %y : tensor<512x512xf32>
}

