// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// Parameters come in any order; those that say nothing are not printed.
// CHECK-LABEL: kernel.func @all
// CHECK-SAME: {aligned, launch = #kernel.launch<grid = <s0 ceildiv 4>, threads = 256, scratch = 128>}
kernel.func @all(%x: tensor<8xf32>) -> tensor<8xf32> attributes {aligned, launch = #kernel.launch<scratch = 128, threads = 256, grid = <s0 ceildiv 4>>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// CHECK-LABEL: kernel.func @grid
// CHECK-SAME: {launch = #kernel.launch<grid = <8>>}
kernel.func @grid(%x: tensor<8xf32>) -> tensor<8xf32> attributes {launch = #kernel.launch<grid = <8>, threads = 0, scratch = 0>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
