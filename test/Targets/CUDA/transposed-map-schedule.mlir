// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file | FileCheck %s

// A block has 32 elements of a row of the source by 64 of a row of the result, of which a thread writes four at once.
// CHECK-LABEL: kernel.func @transpose
// CHECK-SAME: launch = #kernel.launch<grid = <1024>
// CHECK-SAME: schedule = #cuda.transposed_map<threads = 256, read = 32, written = 64, vector = 4>
kernel.func @transpose(%x: tensor<2048x1024xf32>) -> tensor<1024x2048xf32> attributes {aligned} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<2048x1024xf32> -> f32
    kernel.yield %a : f32
  } : tensor<1024x2048xf32>
  kernel.return %y : tensor<1024x2048xf32>
}

// -----

// Where buffers may begin anywhere, elements come one by one.
// CHECK-LABEL: kernel.func @unaligned
// CHECK-SAME: schedule = #cuda.transposed_map<threads = 256, read = 64, written = 64>
kernel.func @unaligned(%x: tensor<2048x1024xbf16>) -> tensor<1024x2048xbf16> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<2048x1024xbf16> -> bf16
    kernel.yield %a : bf16
  } : tensor<1024x2048xbf16>
  kernel.return %y : tensor<1024x2048xbf16>
}

// -----

// Images of unknown size to channels first: height and width are one loop, and the tile has all of the three channels.
// CHECK-LABEL: kernel.func @channels_first
// CHECK-SAME: launch = #kernel.launch<grid = <s0*((s1*s2) ceildiv 512)>
// CHECK-SAME: schedule = #cuda.transposed_map<threads = 256, read = 3, written = 512>
kernel.func @channels_first(%x: tensor<?x?x?x3xf32, #sym.shape<[s0, s1, s2, 3]>>) -> tensor<?x3x?x?xf32, #sym.shape<[s0, 3, s1, s2]>> attributes {aligned} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d2, d3, d1) : tensor<?x?x?x3xf32, #sym.shape<[s0, s1, s2, 3]>> -> f32
    kernel.yield %a : f32
  } : tensor<?x3x?x?xf32, #sym.shape<[s0, 3, s1, s2]>>
  kernel.return %y : tensor<?x3x?x?xf32, #sym.shape<[s0, 3, s1, s2]>>
}

// -----

// To channels last: the threads of a block read whole runs of three rows as they come.
// CHECK-LABEL: kernel.func @channels_last
// CHECK-SAME: schedule = #cuda.map<threads = 256, steps = 4>
kernel.func @channels_last(%x: tensor<8x3x224x224xf32>) -> tensor<8x224x224x3xf32> attributes {aligned} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d3, d1, d2) : tensor<8x3x224x224xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8x224x224x3xf32>
  kernel.return %y : tensor<8x224x224x3xf32>
}

// -----

// Two tiles, of two reads; the third read is along the result. The widest element says how large tiles are.
// CHECK-LABEL: kernel.func @sum
// CHECK-SAME: schedule = #cuda.transposed_map<threads = 256, read = 32, written = 64, vector = 4>
kernel.func @sum(%x: tensor<512x512xbf16>, %y: tensor<512x512xf32>, %z: tensor<512x512xf32>) -> tensor<512x512xf32> attributes {aligned} {
  %r = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<512x512xbf16> -> bf16
    %b = kernel.read %y (d0, d1) -> (d1, d0) : tensor<512x512xf32> -> f32
    %c = kernel.read %z (d0, d1) -> (d0, d1) : tensor<512x512xf32> -> f32
    %d = arith.extf %a : bf16 to f32
    %s = arith.addf %d, %b : f32
    %t = arith.addf %s, %c : f32
    kernel.yield %t : f32
  } : tensor<512x512xf32>
  kernel.return %r : tensor<512x512xf32>
}

// -----

// Heads of a decoder's keys: batch and head are where the tile is.
// CHECK-LABEL: kernel.func @keys
// CHECK-SAME: launch = #kernel.launch<grid = <8*s0*(s1 ceildiv 64)>
// CHECK-SAME: schedule = #cuda.transposed_map<threads = 256, read = 64, written = 64>
kernel.func @keys(%x: tensor<?x8x?x64xf16, #sym.shape<[s0, 8, s1, 64]>>) -> tensor<?x8x64x?xf16, #sym.shape<[s0, 8, 64, s1]>> attributes {aligned} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d1, d3, d2) : tensor<?x8x?x64xf16, #sym.shape<[s0, 8, s1, 64]>> -> f16
    kernel.yield %a : f16
  } : tensor<?x8x64x?xf16, #sym.shape<[s0, 8, 64, s1]>>
  kernel.return %y : tensor<?x8x64x?xf16, #sym.shape<[s0, 8, 64, s1]>>
}

// -----

// What fits a few blocks is not worth tiles.
// CHECK-LABEL: kernel.func @small
// CHECK-SAME: schedule = #cuda.map<threads = 256>
kernel.func @small(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {aligned} {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<64x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

// Of a batch of unknown size only so much is the tile's as there may be.
// CHECK-LABEL: kernel.func @few
// CHECK-SAME: schedule = #cuda.transposed_map<threads = 256, read = 128, written = 16>
module attributes {sym.symbols = {s0 = {min = 1 : i64, max = 12 : i64}, s1 = {min = 1 : i64}}} {
  kernel.func @few(%x: tensor<?x?xf32, #sym.shape<[s0, s1]>>) -> tensor<?x?xf32, #sym.shape<[s1, s0]>> attributes {aligned} {
    %y = kernel.map {
      %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<?x?xf32, #sym.shape<[s0, s1]>> -> f32
      kernel.yield %a : f32
    } : tensor<?x?xf32, #sym.shape<[s1, s0]>>
    kernel.return %y : tensor<?x?xf32, #sym.shape<[s1, s0]>>
  }
}
