// RUN: kiln-opt %s --cuda-split-sorts | FileCheck %s
// RUN: kiln-opt %s --run-reference --cuda-split-sorts --run-reference -o /dev/null

// Keys of 32 bits are in one word with their positions. Three tiles are sorted, then merged twice; what reads a position
// reads the word.
// CHECK-LABEL: func.func @words
// CHECK: %[[TILES:.*]] = kernel.merge 4096 of 1 {
// CHECK: %[[KEY:.*]] = arith.extsi
// CHECK: %[[POSITION:.*]] = kernel.index (d0, d1) -> (d1)
// CHECK: %[[HIGH:.*]] = arith.shli %[[KEY]], %c32_i64
// CHECK: %[[WORD:.*]] = arith.ori %[[HIGH]], %[[POSITION]]
// CHECK: kernel.yield %[[WORD]] : i64
// CHECK: %[[PAIR:.*]] = kernel.merge 8192 of 4096 {
// CHECK: kernel.read %[[TILES]] (d0, d1) -> (d0, d1)
// CHECK: %[[ROW:.*]] = kernel.merge 16384 of 8192 {
// CHECK: kernel.read %[[PAIR]] (d0, d1) -> (d0, d1)
// CHECK: kernel.map
// CHECK: %[[SORTED:.*]] = kernel.read %[[ROW]] (d0, d1) -> (d0, d1)
// CHECK: %[[PLACE:.*]] = arith.andi %[[SORTED]], %c4294967295_i64
// CHECK: kernel.read %arg0 (d0, d1, d2) -> (d0, d2) values(%[[PLACE]])
// CHECK-NOT: kernel.map
func.func @words(%x: tensor<2x10000xi32>) -> tensor<2x10000xi32> {
  %p, %k, %s = kernel.sort {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2x10000xi32> -> i32
    %key = arith.extsi %a : i32 to i64
    kernel.yield %key : i64
  } : tensor<2x10000xi64>, tensor<2x10000xi64>, tensor<2x10000xi64>
  %y = kernel.map {
    %at = kernel.read %p (d0, d1) -> (d0, d1) : tensor<2x10000xi64> -> i64
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) values(%at) : tensor<2x10000xi32> -> i32
    kernel.yield %a : i32
  } : tensor<2x10000xi32>
  return %y : tensor<2x10000xi32>
}

// Of other keys there are pairs. Positions that are a result are written by a map.
// CHECK-LABEL: func.func @pairs
// CHECK: kernel.merge 4096 of 1 {
// CHECK: arith.trunci %{{.*}} : i64 to i32
// CHECK: } : tensor<5000xi64>, tensor<5000xi32>
// CHECK: %[[ROW:.*]]:2 = kernel.merge 8192 of 4096 {
// CHECK: kernel.map
// CHECK: %[[PLACE:.*]] = kernel.read %[[ROW]]#1
// CHECK: arith.extui %[[PLACE]]
func.func @pairs(%x: tensor<5000xi64>) -> tensor<5000xi64> {
  %p, %k, %s = kernel.sort {
    %key = kernel.read %x (d0) -> (d0) : tensor<5000xi64> -> i64
    kernel.yield %key : i64
  } : tensor<5000xi64>, tensor<5000xi64>, tensor<5000xi64>
  return %p : tensor<5000xi64>
}

// The first few of one very long row are worth all blocks; of a shorter one, or of many, they are not.
// CHECK-LABEL: func.func @front
// CHECK: kernel.merge 262144 of 131072
// CHECK-NOT: kernel.sort
func.func @front(%x: tensor<2x150000xi64>) -> tensor<2x150000xi64> {
  %p, %k, %s = kernel.sort attributes {first = 10 : i64} {
    %key = kernel.read %x (d0, d1) -> (d0, d1) : tensor<2x150000xi64> -> i64
    kernel.yield %key : i64
  } : tensor<2x150000xi64>, tensor<2x150000xi64>, tensor<2x150000xi64>
  return %p : tensor<2x150000xi64>
}

// CHECK-LABEL: func.func @front_of_many
// CHECK: kernel.sort
func.func @front_of_many(%x: tensor<16x150000xi64>) -> tensor<16x150000xi64> {
  %p, %k, %s = kernel.sort attributes {first = 10 : i64} {
    %key = kernel.read %x (d0, d1) -> (d0, d1) : tensor<16x150000xi64> -> i64
    kernel.yield %key : i64
  } : tensor<16x150000xi64>, tensor<16x150000xi64>, tensor<16x150000xi64>
  return %p : tensor<16x150000xi64>
}

// A row that fits a block, or of unknown length, is sorted by one.
// CHECK-LABEL: func.func @tile
// CHECK: kernel.sort
func.func @tile(%x: tensor<100x4096xi64>) -> tensor<100x4096xi64> {
  %p, %k, %s = kernel.sort {
    %key = kernel.read %x (d0, d1) -> (d0, d1) : tensor<100x4096xi64> -> i64
    kernel.yield %key : i64
  } : tensor<100x4096xi64>, tensor<100x4096xi64>, tensor<100x4096xi64>
  return %p : tensor<100x4096xi64>
}

// CHECK-LABEL: func.func @unknown
// CHECK: kernel.sort
func.func @unknown(%x: tensor<?xi64, #sym.shape<[s0]>>) -> tensor<?xi64, #sym.shape<[s0]>> {
  %p, %k, %s = kernel.sort {
    %key = kernel.read %x (d0) -> (d0) : tensor<?xi64, #sym.shape<[s0]>> -> i64
    kernel.yield %key : i64
  } : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
  return %p : tensor<?xi64, #sym.shape<[s0]>>
}
