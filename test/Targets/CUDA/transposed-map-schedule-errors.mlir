// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file --verify-diagnostics

// expected-error @below {{a tile of 32 x 64 elements fits no read that goes along another loop than the result}}
kernel.func @along(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {schedule = #cuda.transposed_map<threads = 256, read = 32, written = 64>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

// expected-error @below {{a tile of 512 x 512 elements fits no read that goes along another loop than the result}}
kernel.func @too_much_memory(%x: tensor<512x512xf32>) -> tensor<512x512xf32> attributes {schedule = #cuda.transposed_map<threads = 256, read = 512, written = 512>} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<512x512xf32> -> f32
    kernel.yield %a : f32
  } : tensor<512x512xf32>
  kernel.return %y : tensor<512x512xf32>
}
