// RUN: kiln-opt %s --wrapper-lower-to-llvm --split-input-file | FileCheck %s

// Folds that are layouts say where each row goes: divisor, size, stride and 1 for a digit of the row's
// number, from the last dim of the result on. Dims of size 1 are no digits.

// Row 32*d0 + d2, behind the last of which is padding; element d1.
// CHECK-DAG: dense<[1, 32, 1, 1, 1, 24, 32, 0, 32, 2, 768, 1]> : tensor<12xi64>
kernel.func @panels(%w: tensor<50x24xf32>) -> tensor<2x24x32xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %inside = kernel.inside (d0, d1, d2) -> (32*d0 + d2) bounds [50]
    %zero = arith.constant 0.0 : f32
    %e = kernel.read %w (d0, d1, d2) -> (32*d0 + d2, d1) if %inside else(%zero : f32) : tensor<50x24xf32> -> f32
    kernel.yield %e : f32
  } : tensor<2x24x32xf32>
  kernel.return %0 : tensor<2x24x32xf32>
}

// A convolution's: the element is (d1 floordiv 9, ...), which is d1.
// CHECK-DAG: dense<[1, 16, 1, 1, 1, 27, 16, 0]> : tensor<8xi64>
kernel.func @window(%w: tensor<8x3x3x3xf32>) -> tensor<1x27x16xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %inside = kernel.inside (d0, d1, d2) -> (16*d0 + d2) bounds [8]
    %zero = arith.constant 0.0 : f32
    %e = kernel.read %w (d0, d1, d2) -> (d2, d1 floordiv 9, (d1 floordiv 3) mod 3, d1 mod 3) if %inside else(%zero : f32) : tensor<8x3x3x3xf32> -> f32
    kernel.yield %e : f32
  } : tensor<1x27x16xf32>
  kernel.return %0 : tensor<1x27x16xf32>
}

// A matrix that is multiplied from the right: rows are d1, and columns 8*d0 + d2 four of each.
// CHECK-DAG: dense<[1, 8, 1, 0, 1, 30, 8, 1, 8, 3, 240, 0]> : tensor<12xi64>
kernel.func @columns(%w: tensor<30x20xf32>) -> tensor<3x30x8xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %inside = kernel.inside (d0, d1, d2) -> (8*d0 + d2) bounds [20]
    %zero = arith.constant 0.0 : f32
    %e = kernel.read %w (d0, d1, d2) -> (d1, 8*d0 + d2) if %inside else(%zero : f32) : tensor<30x20xf32> -> f32
    kernel.yield %e : f32
  } : tensor<3x30x8xf32>
  kernel.return %0 : tensor<3x30x8xf32>
}

wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (none {wrapper.name = "n"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 16384 : i64} {
  %a = wrapper.constant "a" dense<1.0> : tensor<50x24xf32> to !wrapper.buffer<[50, 24], [24, 1], f32>
  %b = wrapper.constant "b" dense<1.0> : tensor<8x3x3x3xf32> to !wrapper.buffer<[8, 3, 3, 3], [27, 9, 3, 1], f32>
  %c = wrapper.constant "c" dense<1.0> : tensor<30x20xf32> to !wrapper.buffer<[30, 20], [20, 1], f32>
  %pa = wrapper.constant at 0 dense<1.0> : tensor<2x24x32xf32> to !wrapper.buffer<[2, 24, 32], [768, 32, 1], f32>
  %pb = wrapper.constant at 8192 dense<1.0> : tensor<1x27x16xf32> to !wrapper.buffer<[1, 27, 16], [432, 16, 1], f32>
  %pc = wrapper.constant at 12288 dense<1.0> : tensor<3x30x8xf32> to !wrapper.buffer<[3, 30, 8], [240, 8, 1], f32>
  wrapper.fold @panels ins(%a : !wrapper.buffer<[50, 24], [24, 1], f32>) outs(%pa : !wrapper.buffer<[2, 24, 32], [768, 32, 1], f32>)
  wrapper.fold @window ins(%b : !wrapper.buffer<[8, 3, 3, 3], [27, 9, 3, 1], f32>) outs(%pb : !wrapper.buffer<[1, 27, 16], [432, 16, 1], f32>)
  wrapper.fold @columns ins(%c : !wrapper.buffer<[30, 20], [20, 1], f32>) outs(%pc : !wrapper.buffer<[3, 30, 8], [240, 8, 1], f32>)
}

// -----

// No layouts: a part of the rows, rows from the second on, a value that is computed, rows that are there
// twice, a mask that leaves elements out, padding between elements.
// CHECK-LABEL: llvm.mlir.global {{.*}}constant @kiln_folds
// CHECK-NOT: tensor<{{8|12}}xi64>
// CHECK: @kiln_program
kernel.func @part(%w: tensor<50x24xf32>) -> tensor<1x24x32xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %e = kernel.read %w (d0, d1, d2) -> (32*d0 + d2, d1) : tensor<50x24xf32> -> f32
    kernel.yield %e : f32
  } : tensor<1x24x32xf32>
  kernel.return %0 : tensor<1x24x32xf32>
}
kernel.func @behind(%w: tensor<50x24xf32>) -> tensor<24x49xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %e = kernel.read %w (d0, d1) -> (d1 + 1, d0) : tensor<50x24xf32> -> f32
    kernel.yield %e : f32
  } : tensor<24x49xf32>
  kernel.return %0 : tensor<24x49xf32>
}
kernel.func @computed(%w: tensor<50x24xf32>) -> tensor<24x50xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %e = kernel.read %w (d0, d1) -> (d1, d0) : tensor<50x24xf32> -> f32
    %f = arith.negf %e : f32
    kernel.yield %f : f32
  } : tensor<24x50xf32>
  kernel.return %0 : tensor<24x50xf32>
}
kernel.func @repeated(%w: tensor<50x24xf32>) -> tensor<2x24x50xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %e = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<50x24xf32> -> f32
    kernel.yield %e : f32
  } : tensor<2x24x50xf32>
  kernel.return %0 : tensor<2x24x50xf32>
}
kernel.func @masked(%w: tensor<50x24xf32>) -> tensor<24x50xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %inside = kernel.inside (d0, d1) -> (d1) bounds [40]
    %zero = arith.constant 0.0 : f32
    %e = kernel.read %w (d0, d1) -> (d1, d0) if %inside else(%zero : f32) : tensor<50x24xf32> -> f32
    kernel.yield %e : f32
  } : tensor<24x50xf32>
  kernel.return %0 : tensor<24x50xf32>
}
kernel.func @between(%w: tensor<50x3x5xf32>) -> tensor<3x8x50xf32> attributes {launch = #kernel.launch<grid = <1>>} {
  %0 = kernel.map {
    %inside = kernel.inside (d0, d1, d2) -> (d1) bounds [5]
    %zero = arith.constant 0.0 : f32
    %e = kernel.read %w (d0, d1, d2) -> (d2, d0, d1) if %inside else(%zero : f32) : tensor<50x3x5xf32> -> f32
    kernel.yield %e : f32
  } : tensor<3x8x50xf32>
  kernel.return %0 : tensor<3x8x50xf32>
}
wrapper.program @main(%x: !wrapper.buffer<[4], [1], f32> {wrapper.name = "x"}) -> (none {wrapper.name = "n"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 65536 : i64} {
  %w = wrapper.constant "w" dense<1.0> : tensor<50x24xf32> to !wrapper.buffer<[50, 24], [24, 1], f32>
  %v = wrapper.constant "v" dense<1.0> : tensor<50x3x5xf32> to !wrapper.buffer<[50, 3, 5], [15, 5, 1], f32>
  %a = wrapper.constant at 0 dense<1.0> : tensor<1x24x32xf32> to !wrapper.buffer<[1, 24, 32], [768, 32, 1], f32>
  %b = wrapper.constant at 4096 dense<1.0> : tensor<24x49xf32> to !wrapper.buffer<[24, 49], [49, 1], f32>
  %c = wrapper.constant at 12288 dense<1.0> : tensor<24x50xf32> to !wrapper.buffer<[24, 50], [50, 1], f32>
  %d = wrapper.constant at 20480 dense<1.0> : tensor<2x24x50xf32> to !wrapper.buffer<[2, 24, 50], [1200, 50, 1], f32>
  %e = wrapper.constant at 32768 dense<1.0> : tensor<24x50xf32> to !wrapper.buffer<[24, 50], [50, 1], f32>
  %f = wrapper.constant at 40960 dense<1.0> : tensor<3x8x50xf32> to !wrapper.buffer<[3, 8, 50], [400, 50, 1], f32>
  wrapper.fold @part ins(%w : !wrapper.buffer<[50, 24], [24, 1], f32>) outs(%a : !wrapper.buffer<[1, 24, 32], [768, 32, 1], f32>)
  wrapper.fold @behind ins(%w : !wrapper.buffer<[50, 24], [24, 1], f32>) outs(%b : !wrapper.buffer<[24, 49], [49, 1], f32>)
  wrapper.fold @computed ins(%w : !wrapper.buffer<[50, 24], [24, 1], f32>) outs(%c : !wrapper.buffer<[24, 50], [50, 1], f32>)
  wrapper.fold @repeated ins(%w : !wrapper.buffer<[50, 24], [24, 1], f32>) outs(%d : !wrapper.buffer<[2, 24, 50], [1200, 50, 1], f32>)
  wrapper.fold @masked ins(%w : !wrapper.buffer<[50, 24], [24, 1], f32>) outs(%e : !wrapper.buffer<[24, 50], [50, 1], f32>)
  wrapper.fold @between ins(%v : !wrapper.buffer<[50, 3, 5], [15, 5, 1], f32>) outs(%f : !wrapper.buffer<[3, 8, 50], [400, 50, 1], f32>)
}
