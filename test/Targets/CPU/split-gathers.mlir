// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --cpu-split-gathers | FileCheck %s
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v4 --cpu-split-gathers --run-reference -o /dev/null

// Sums along the columns for each of 8 rows, once for both of the rows that an element lies between.
// CHECK-LABEL: func.func @rows_and_columns
// CHECK: %[[P:.*]] = kernel.map {
// CHECK: kernel.index (d0, d1, d2) -> (d2)
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, d1, d3) values(%{{.*}}) : tensor<3x8x16xf32>
// CHECK: kernel.read %arg0 (d0, d1, d2, d3) -> (d0, d1, d3) values(%{{.*}}) : tensor<3x8x16xf32>
// CHECK: } : tensor<3x8x64xf32>
// CHECK-NEXT: kernel.map {
// CHECK-NOT: kernel.index (d0, d1, d2) -> (d2)
// CHECK: kernel.read %[[P]] (d0, d1, d2, d3) -> (d0, d3, d2) values(%{{.*}}) : tensor<3x8x64xf32>
// CHECK: kernel.read %[[P]] (d0, d1, d2, d3) -> (d0, d3, d2) values(%{{.*}}) : tensor<3x8x64xf32>
// CHECK: math.exp
// CHECK: } : tensor<3x32x64xf32>
// CHECK-NEXT: return
func.func @rows_and_columns(%x: tensor<3x8x16xf32>) -> tensor<3x32x64xf32> {
  %y = kernel.map {
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %last_row = arith.constant 7 : i64
    %last_column = arith.constant 15 : i64
    %near = arith.constant 0.75 : f32
    %far = arith.constant 0.25 : f32
    %i = kernel.index (d0, d1, d2) -> (d1)
    %top = arith.divsi %i, %four : i64
    %below = arith.addi %top, %one : i64
    %bottom = arith.minsi %below, %last_row : i64
    %j = kernel.index (d0, d1, d2) -> (d2)
    %left = arith.divsi %j, %four : i64
    %beside = arith.addi %left, %one : i64
    %right = arith.minsi %beside, %last_column : i64
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %left) : tensor<3x8x16xf32> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %right) : tensor<3x8x16xf32> -> f32
    %aw = arith.mulf %a, %near : f32
    %ab = arith.addf %aw, %b : f32
    %c = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%bottom, %left) : tensor<3x8x16xf32> -> f32
    %d = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%bottom, %right) : tensor<3x8x16xf32> -> f32
    %cw = arith.mulf %c, %near : f32
    %cd = arith.addf %cw, %d : f32
    %abw = arith.mulf %ab, %near : f32
    %cdw = arith.mulf %cd, %far : f32
    %sum = arith.addf %abw, %cdw : f32
    %z = math.exp %sum : f32
    kernel.yield %z : f32
  } : tensor<3x32x64xf32>
  return %y : tensor<3x32x64xf32>
}

// Sizes that are not known.
// CHECK-LABEL: func.func @symbols
// CHECK: } : tensor<3x?x?xf32, #sym.shape<[3, s0, 4*s1]>>
// CHECK: } : tensor<3x?x?xf32, #sym.shape<[3, 4*s0, 4*s1]>>
func.func @symbols(%x: tensor<3x?x?xf32, #sym.shape<[3, s0, s1]>>) -> tensor<3x?x?xf32, #sym.shape<[3, 4*s0, 4*s1]>>
    attributes {sym.symbols = {s0 = {min = 2, max = 100}, s1 = {min = 2, max = 100}}} {
  %y = kernel.map {
    %four = arith.constant 4 : i64
    %one = arith.constant 1 : i64
    %i = kernel.index (d0, d1, d2) -> (d1)
    %top = arith.divsi %i, %four : i64
    %j = kernel.index (d0, d1, d2) -> (d2)
    %left = arith.divsi %j, %four : i64
    %beside = arith.addi %left, %one : i64
    %last = kernel.index (d0, d1, d2) -> (s1 - 1)
    %right = arith.minsi %beside, %last : i64
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %left) : tensor<3x?x?xf32, #sym.shape<[3, s0, s1]>> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %right) : tensor<3x?x?xf32, #sym.shape<[3, s0, s1]>> -> f32
    %ab = arith.addf %a, %b : f32
    kernel.yield %ab : f32
  } : tensor<3x?x?xf32, #sym.shape<[3, 4*s0, 4*s1]>>
  return %y : tensor<3x?x?xf32, #sym.shape<[3, 4*s0, 4*s1]>>
}

// Three dims: planes first, and of those the rows.
// CHECK-LABEL: func.func @three_dims
// CHECK: } : tensor<4x8x64xf32>
// CHECK: } : tensor<4x32x64xf32>
// CHECK: } : tensor<16x32x64xf32>
// CHECK-NEXT: return
func.func @three_dims(%x: tensor<4x8x16xf32>) -> tensor<16x32x64xf32> {
  %y = kernel.map {
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %last_plane = arith.constant 3 : i64
    %last_row = arith.constant 7 : i64
    %last_column = arith.constant 15 : i64
    %h = kernel.index (d0, d1, d2) -> (d0)
    %front = arith.divsi %h, %four : i64
    %behind = arith.addi %front, %one : i64
    %back = arith.minsi %behind, %last_plane : i64
    %i = kernel.index (d0, d1, d2) -> (d1)
    %top = arith.divsi %i, %four : i64
    %below = arith.addi %top, %one : i64
    %bottom = arith.minsi %below, %last_row : i64
    %j = kernel.index (d0, d1, d2) -> (d2)
    %left = arith.divsi %j, %four : i64
    %beside = arith.addi %left, %one : i64
    %right = arith.minsi %beside, %last_column : i64
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d4, d5) values(%front, %top, %left) : tensor<4x8x16xf32> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d4, d5) values(%front, %top, %right) : tensor<4x8x16xf32> -> f32
    %ab = arith.addf %a, %b : f32
    %c = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d4, d5) values(%front, %bottom, %left) : tensor<4x8x16xf32> -> f32
    %d = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d4, d5) values(%front, %bottom, %right) : tensor<4x8x16xf32> -> f32
    %cd = arith.addf %c, %d : f32
    %abcd = arith.addf %ab, %cd : f32
    %e = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d4, d5) values(%back, %top, %left) : tensor<4x8x16xf32> -> f32
    %f = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d4, d5) values(%back, %top, %right) : tensor<4x8x16xf32> -> f32
    %ef = arith.addf %e, %f : f32
    %g = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d4, d5) values(%back, %bottom, %left) : tensor<4x8x16xf32> -> f32
    %k = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d4, d5) values(%back, %bottom, %right) : tensor<4x8x16xf32> -> f32
    %gk = arith.addf %g, %k : f32
    %efgk = arith.addf %ef, %gk : f32
    %z = arith.subf %abcd, %efgk : f32
    kernel.yield %z : f32
  } : tensor<16x32x64xf32>
  return %y : tensor<16x32x64xf32>
}

// Channels last: vectors of channels read what lies together already.
// CHECK-LABEL: func.func @channels_last
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
func.func @channels_last(%x: tensor<8x16x64xf32>) -> tensor<32x64x64xf32> {
  %y = kernel.map {
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %last = arith.constant 15 : i64
    %i = kernel.index (d0, d1, d2) -> (d0)
    %top = arith.divsi %i, %four : i64
    %j = kernel.index (d0, d1, d2) -> (d1)
    %left = arith.divsi %j, %four : i64
    %beside = arith.addi %left, %one : i64
    %right = arith.minsi %beside, %last : i64
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d3, d4, d2) values(%top, %left) : tensor<8x16x64xf32> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4) -> (d3, d4, d2) values(%top, %right) : tensor<8x16x64xf32> -> f32
    %ab = arith.addf %a, %b : f32
    kernel.yield %ab : f32
  } : tensor<32x64x64xf32>
  return %y : tensor<32x64x64xf32>
}

// A fourth of the image's rows is read: sums of all of them would take longer.
// CHECK-LABEL: func.func @fewer_rows
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
func.func @fewer_rows(%x: tensor<3x64x16xf32>) -> tensor<3x16x64xf32> {
  %y = kernel.map {
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %last = arith.constant 15 : i64
    %i = kernel.index (d0, d1, d2) -> (d1)
    %top = arith.muli %i, %four : i64
    %j = kernel.index (d0, d1, d2) -> (d2)
    %left = arith.divsi %j, %four : i64
    %beside = arith.addi %left, %one : i64
    %right = arith.minsi %beside, %last : i64
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %left) : tensor<3x64x16xf32> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %right) : tensor<3x64x16xf32> -> f32
    %ab = arith.addf %a, %b : f32
    kernel.yield %ab : f32
  } : tensor<3x16x64xf32>
  return %y : tensor<3x16x64xf32>
}

// Columns that depend on the row of the result, as those of a grid do.
// CHECK-LABEL: func.func @grid
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
func.func @grid(%x: tensor<3x8x80xf32>) -> tensor<3x32x64xf32> {
  %y = kernel.map {
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %i = kernel.index (d0, d1, d2) -> (d1)
    %top = arith.divsi %i, %four : i64
    %j = kernel.index (d0, d1, d2) -> (d2)
    %slanted = arith.addi %i, %j : i64
    %left = arith.divsi %slanted, %four : i64
    %right = arith.addi %left, %one : i64
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %left) : tensor<3x8x80xf32> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %right) : tensor<3x8x80xf32> -> f32
    %ab = arith.addf %a, %b : f32
    kernel.yield %ab : f32
  } : tensor<3x32x64xf32>
  return %y : tensor<3x32x64xf32>
}

// The part would read all of the rows, the masked ones with them.
// CHECK-LABEL: func.func @masked
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
func.func @masked(%x: tensor<3x8x16xf32>) -> tensor<3x32x64xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %last = arith.constant 15 : i64
    %in = kernel.inside (d0, d1, d2) -> (d0 - 1) bounds [2]
    %i = kernel.index (d0, d1, d2) -> (d1)
    %top = arith.divsi %i, %four : i64
    %j = kernel.index (d0, d1, d2) -> (d2)
    %left = arith.divsi %j, %four : i64
    %beside = arith.addi %left, %one : i64
    %right = arith.minsi %beside, %last : i64
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %left) if %in else(%zero : f32) : tensor<3x8x16xf32> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %right) if %in else(%zero : f32) : tensor<3x8x16xf32> -> f32
    %ab = arith.addf %a, %b : f32
    kernel.yield %ab : f32
  } : tensor<3x32x64xf32>
  return %y : tensor<3x32x64xf32>
}

// Each row has a weight of its own before its elements are put together: a part would hold no sum.
// CHECK-LABEL: func.func @weighted_apart
// CHECK-COUNT-1: kernel.map
// CHECK-NOT: kernel.map
func.func @weighted_apart(%x: tensor<3x8x16xf32>, %w: tensor<32xf32>) -> tensor<3x32x64xf32> {
  %y = kernel.map {
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %last = arith.constant 15 : i64
    %i = kernel.index (d0, d1, d2) -> (d1)
    %top = arith.divsi %i, %four : i64
    %j = kernel.index (d0, d1, d2) -> (d2)
    %left = arith.divsi %j, %four : i64
    %beside = arith.addi %left, %one : i64
    %right = arith.minsi %beside, %last : i64
    %weight = kernel.read %w (d0, d1, d2) -> (d1) : tensor<32xf32> -> f32
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %left) : tensor<3x8x16xf32> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %right) : tensor<3x8x16xf32> -> f32
    %aw = arith.mulf %a, %weight : f32
    %bw = arith.mulf %b, %weight : f32
    %ab = arith.addf %aw, %bw : f32
    kernel.yield %ab : f32
  } : tensor<3x32x64xf32>
  return %y : tensor<3x32x64xf32>
}

// The kernel that folds constants has one op.
// CHECK-LABEL: kernel.func @fold
// CHECK: kernel.map
// CHECK-NOT: kernel.map
// CHECK: kernel.return
kernel.func @fold(%x: tensor<3x8x16xf32>) -> tensor<3x32x64xf32> {
  %y = kernel.map {
    %one = arith.constant 1 : i64
    %four = arith.constant 4 : i64
    %last_row = arith.constant 7 : i64
    %last_column = arith.constant 15 : i64
    %near = arith.constant 0.75 : f32
    %far = arith.constant 0.25 : f32
    %i = kernel.index (d0, d1, d2) -> (d1)
    %top = arith.divsi %i, %four : i64
    %below = arith.addi %top, %one : i64
    %bottom = arith.minsi %below, %last_row : i64
    %j = kernel.index (d0, d1, d2) -> (d2)
    %left = arith.divsi %j, %four : i64
    %beside = arith.addi %left, %one : i64
    %right = arith.minsi %beside, %last_column : i64
    %a = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %left) : tensor<3x8x16xf32> -> f32
    %b = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%top, %right) : tensor<3x8x16xf32> -> f32
    %aw = arith.mulf %a, %near : f32
    %ab = arith.addf %aw, %b : f32
    %c = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%bottom, %left) : tensor<3x8x16xf32> -> f32
    %d = kernel.read %x (d0, d1, d2, d3, d4) -> (d0, d3, d4) values(%bottom, %right) : tensor<3x8x16xf32> -> f32
    %cw = arith.mulf %c, %near : f32
    %cd = arith.addf %cw, %d : f32
    %abw = arith.mulf %ab, %near : f32
    %cdw = arith.mulf %cd, %far : f32
    %sum = arith.addf %abw, %cdw : f32
    %z = math.exp %sum : f32
    kernel.yield %z : f32
  } : tensor<3x32x64xf32>
  kernel.return %y : tensor<3x32x64xf32>
}
