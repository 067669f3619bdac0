// RUN: kiln-opt %s --kernel-read-packed-rows --split-input-file | FileCheck %s

// The rows of a head's weight, of which the last panel has one column: what lies behind it is no row.
// CHECK-LABEL: func.func @tied
// CHECK-SAME: (%[[IDS:.*]]: tensor<4xi64>, %{{.*}}: tensor<16384x64xf32>
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: %[[PANELS:.*]] = kernel.map
// CHECK: kernel.read %[[W]] (d0, d1, d2) -> (32*d0 + d2, d1) if
// CHECK: kernel.map
// CHECK: %[[ROW:.*]] = kernel.read %[[IDS]]
// CHECK: %[[END:.*]] = arith.constant 4097 : i64
// CHECK: %[[NONE:.*]] = arith.constant -1 : i64
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[ROW]], %[[END]]
// CHECK: %[[AT:.*]] = arith.select %[[INSIDE]], %[[ROW]], %[[NONE]]
// CHECK: kernel.read %[[PANELS]] (d0, d1, d2) -> (d2 floordiv 32, d1, d2 mod 32) values(%[[AT]])
// CHECK: kernel.contract
func.func @tied(%ids: tensor<4xi64>, %x: tensor<16384x64xf32>) -> (tensor<4x64xf32>, tensor<16384x4097xf32>) {
  %w = kernel.constant "w" dense<1.0> : tensor<4097x64xf32> : tensor<4097x64xf32>
  %rows = kernel.map {
    %row = kernel.read %ids (d0, d1) -> (d0) : tensor<4xi64> -> i64
    %e = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%row) : tensor<4097x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<4x64xf32>
  %packed = kernel.map {
    %inside = kernel.inside (d0, d1, d2) -> (32*d0 + d2) bounds [4097]
    %zero = arith.constant 0.0 : f32
    %e = kernel.read %w (d0, d1, d2) -> (32*d0 + d2, d1) if %inside else(%zero : f32) : tensor<4097x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<129x64x32xf32>
  %y = kernel.contract batch [] m [16384] n [4097] k [64] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<16384x64xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %packed (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<129x64x32xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<16384x4097xf32>
  return %rows, %y : tensor<4x64xf32>, tensor<16384x4097xf32>
}

// -----

// Full panels need no test. The product is in another graph; here there is enough else to do.
// CHECK-LABEL: func.func private @graph
// CHECK-LABEL: func.func @full
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: %[[PANELS:.*]] = kernel.map
// CHECK: kernel.read %[[W]] (d0, d1, d2) -> (32*d0 + d2, d1) :
// CHECK: %[[ROW:.*]] = kernel.read %{{.*}} (d0, d1) -> (d0)
// CHECK-NEXT: kernel.read %[[PANELS]] (d0, d1, d2) -> (d2 floordiv 32, d1, d2 mod 32) values(%[[ROW]])
func.func private @graph(%x: tensor<4x64xf32>) -> tensor<2x64x32xf32> {
  %w = kernel.constant "w" dense<1.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %packed = kernel.map {
    %e = kernel.read %w (d0, d1, d2) -> (32*d0 + d2, d1) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<2x64x32xf32>
  return %packed : tensor<2x64x32xf32>
}
func.func @full(%ids: tensor<4xi64>, %x: tensor<1024x1024xf32>) -> (tensor<4x64xf32>, tensor<1024x1024xf32>) {
  %w = kernel.constant "w" dense<1.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %rows = kernel.map {
    %row = kernel.read %ids (d0, d1) -> (d0) : tensor<4xi64> -> i64
    %e = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%row) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<4x64xf32>
  %y = kernel.contract batch [] m [1024] n [1024] k [1024] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1024x1024xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %x (d0, d1, d2) -> (d1, d2) : tensor<1024x1024xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1024x1024xf32>
  return %rows, %y : tensor<4x64xf32>, tensor<1024x1024xf32>
}

// -----

// Many rows beside few products: both layouts.
// CHECK-LABEL: func.func @many
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: kernel.read %[[W]] (d0, d1, d2) -> (d2, d1) values
func.func @many(%ids: tensor<1000xi64>) -> (tensor<1000x64xf32>, tensor<2x64x32xf32>) {
  %w = kernel.constant "w" dense<1.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %rows = kernel.map {
    %row = kernel.read %ids (d0, d1) -> (d0) : tensor<1000xi64> -> i64
    %e = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%row) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<1000x64xf32>
  %packed = kernel.map {
    %e = kernel.read %w (d0, d1, d2) -> (32*d0 + d2, d1) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<2x64x32xf32>
  return %rows, %packed : tensor<1000x64xf32>, tensor<2x64x32xf32>
}

// -----

// Something else reads the table as it is, so it is stored anyway.
// CHECK-LABEL: func.func @plain
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: kernel.read %[[W]] (d0, d1, d2) -> (d2, d1) values
func.func @plain(%ids: tensor<0xi64>) -> (tensor<0x64xf32>, tensor<2x64x32xf32>, tensor<64x64xf32>) {
  %w = kernel.constant "w" dense<1.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %rows = kernel.map {
    %row = kernel.read %ids (d0, d1) -> (d0) : tensor<0xi64> -> i64
    %e = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%row) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<0x64xf32>
  %packed = kernel.map {
    %e = kernel.read %w (d0, d1, d2) -> (32*d0 + d2, d1) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<2x64x32xf32>
  return %rows, %packed, %w : tensor<0x64xf32>, tensor<2x64x32xf32>, tensor<64x64xf32>
}

// -----

// A buffer that the program writes to is no table.
// CHECK-LABEL: func.func @written
// CHECK: %[[W:.*]] = kernel.constant "w"
// CHECK: kernel.read %[[W]] (d0, d1, d2) -> (d2, d1) values
func.func @written(%ids: tensor<0xi64>) -> (tensor<0x64xf32>, tensor<2x64x32xf32>) {
  %w = kernel.constant "w" {kernel.mutated} dense<1.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %rows = kernel.map {
    %row = kernel.read %ids (d0, d1) -> (d0) : tensor<0xi64> -> i64
    %e = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%row) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<0x64xf32>
  %packed = kernel.map {
    %e = kernel.read %w (d0, d1, d2) -> (32*d0 + d2, d1) : tensor<64x64xf32> -> f32
    kernel.yield %e : f32
  } : tensor<2x64x32xf32>
  return %rows, %packed : tensor<0x64xf32>, tensor<2x64x32xf32>
}

// -----

// A result without columns is no panel.
// CHECK-LABEL: func.func @empty
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d2, d1) : tensor<4x3xf32>
func.func @empty() -> tensor<2x3x0xf32> {
  %w = kernel.constant dense<1.0> : tensor<4x3xf32> : tensor<4x3xf32>
  %none = kernel.map {
    %e = kernel.read %w (d0, d1, d2) -> (d2, d1) : tensor<4x3xf32> -> f32
    kernel.yield %e : f32
  } : tensor<2x3x0xf32>
  return %none : tensor<2x3x0xf32>
}
