// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file --verify-diagnostics

// expected-error @below {{stages = 8, of which shared memory has room for 4}}
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned, cuda.variant_schedule = #cuda.wgmma<m = 128, n = 256, stages = 8, registers = [56, 224], sharing = [4, 2]>} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}

// -----

// expected-error @below {{has a cuda.variant_schedule of another kind of kernel}}
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned, cuda.variant_schedule = #cuda.wgmma_attention<consumers = 2, keys = 64, stages = 2, registers = [40, 232], cached = 1024, ordered = true>} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}

// -----

// expected-error @below {{cuda.variant_schedule is a #cuda.wgmma, #cuda.wgmma_attention or #cuda.tcgen05 of a kernel}}
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned, cuda.variant_schedule = #cuda.fma<m = 64, n = 64, k = 16, thread = [4, 4]>} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}

// -----

// expected-error @below {{has a cuda.variant_schedule, but no variant: a buffer may begin where vectors do not}}
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {test.open, cuda.variant_schedule = #cuda.wgmma<m = 128, n = 256, stages = 3, registers = [56, 224], sharing = [4, 2]>} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}

// -----

// expected-error @below {{blocks take 262144 bytes of shared memory, of which GPUs have 101376}}
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned, schedule = #cuda.mma<m = 128, n = 128, k = 64, warp = [64, 64], step = 16, stages = 8>} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}

// -----

// expected-error @below {{stages = 6, of which shared memory has room for 4}}
kernel.func @product(%x: tensor<2048x1024xbf16>, %w: tensor<2048x1024xbf16>) -> tensor<2048x2048xbf16> attributes {aligned, cuda.variant_schedule = #cuda.tcgen05<n = 256, stages = 6, registers = [56, 224]>} {
  %y = kernel.contract batch [] m [2048] n [2048] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } rhs {
    %a = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %s = arith.truncf %sum : f32 to bf16
    kernel.yield %s : bf16
  } : tensor<2048x2048xbf16>
  kernel.return %y : tensor<2048x2048xbf16>
}
