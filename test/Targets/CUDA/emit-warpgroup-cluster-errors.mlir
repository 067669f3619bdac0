// RUN: kiln-opt %s --cuda-emit-kernels --split-input-file --verify-diagnostics

// expected-error@+1 {{clusters of two blocks at most}}
kernel.func @four(%x: tensor<512x64xbf16>, %w: tensor<512x64xbf16>) -> tensor<512x512xf32> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <16>, threads = 384, cluster = [2, 2]>, schedule = #kernel.schedule<tile = [64, 128], block = [128, 128, 64], lanes = 16, stage = false>} {
  %y = kernel.contract batch [] m [512] n [512] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x64xbf16> -> bf16
    kernel.yield %a : bf16
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

// What threads bring cannot be shared.
// expected-error@+1 {{which share what comes in boxes}}
kernel.func @computed(%x: tensor<512x64xbf16>, %w: tensor<512x64xbf16>) -> tensor<512x512xf32> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <16>, threads = 384, cluster = [1, 2]>, schedule = #kernel.schedule<tile = [64, 128], block = [128, 128, 64], lanes = 16, stage = false>} {
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
// expected-error@+1 {{which share what comes in boxes}}
kernel.func @half(%x: tensor<512x64xbf16>, %w: tensor<64x512xbf16>) -> tensor<512x512xf32> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <32>, threads = 384, cluster = [2, 1]>, schedule = #kernel.schedule<tile = [64, 64], block = [128, 64, 64], lanes = 16, stage = false>} {
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

// -----

// expected-error@+1 {{a schedule for warpgroups needs}}
kernel.func @nothing(%x: tensor<512x64xbf16>, %w: tensor<512x64xbf16>) -> tensor<512x512xf32> attributes {aligned, cuda.variant_of = @base, launch = #kernel.launch<grid = <16>, threads = 384, cluster = [2]>, schedule = #kernel.schedule<tile = [64, 128], block = [128, 128, 64], lanes = 16, stage = false>} {
  %y = kernel.contract batch [] m [512] n [512] k [64] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<512x64xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x64xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<512x512xf32>
  kernel.return %y : tensor<512x512xf32>
}
