// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file --verify-diagnostics

// expected-error @below {{stages reads, but the tile fits none that goes along another loop than the result}}
kernel.func @along(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {schedule = #kernel.schedule<tile = [32, 64], block = [256], lanes = 1, stage = true>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

// expected-error @below {{stages reads, but the tile fits none that goes along another loop than the result}}
kernel.func @too_much_memory(%x: tensor<512x512xf32>) -> tensor<512x512xf32> attributes {schedule = #kernel.schedule<tile = [512, 512], block = [256], lanes = 1, stage = true>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<512x512xf32> -> f32
    kernel.yield %a : f32
  } : tensor<512x512xf32>
  kernel.return %y : tensor<512x512xf32>
}

// -----

// expected-error @below {{stages reads needs tile = [elements read, elements written] and block = [threads], a power of two, 32 to 1024}}
kernel.func @sides(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {schedule = #kernel.schedule<tile = [32], block = [256], lanes = 1, stage = true>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}
