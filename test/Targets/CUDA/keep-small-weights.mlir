// RUN: kiln-opt %s --cuda-keep-small-weights --canonicalize --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cuda-keep-small-weights --remarks-filter=cuda-keep-small-weights --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: kiln-opt %s --run-reference --cuda-keep-small-weights --run-reference --split-input-file -o /dev/null

// Four bits, eight in a word; the weights are transposed on their way. Nothing is rounded before the sum.
// REMARK: weights of small integers widened where multiplied
// CHECK-LABEL: func.func @fours
// CHECK: %[[WORDS:.*]] = kernel.map {
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, 8*d1 + 7) : tensor<16x64xi8> -> i8
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "weights of more than four bits" : i32
// CHECK: } : tensor<16x8xi32>
// CHECK-NOT: kernel.map
// CHECK: kernel.contract
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: kernel.yield %[[X]] : f32
// CHECK: rhs {
// CHECK: %[[WORD:.*]] = kernel.read %[[WORDS]] (d0, d1, d2) -> (d1, d2 floordiv 8) : tensor<16x8xi32> -> i32
// CHECK: %[[INDEX:.*]] = kernel.index (d0, d1, d2) -> (16*d2 - 28*(d2 floordiv 2) - 16*(d2 floordiv 8))
// CHECK: %[[PLACE:.*]] = arith.trunci %[[INDEX]] : i64 to i32
// CHECK: %[[LOW:.*]] = arith.shrui %[[WORD]], %[[PLACE]] : i32
// CHECK: %[[BITS:.*]] = arith.andi %[[LOW]], %c15_i32 : i32
// CHECK: %[[SUM:.*]] = arith.ori %[[BITS]], %c1258291200_i32 : i32
// CHECK: %[[NUMBER:.*]] = arith.bitcast %[[SUM]] : i32 to f32
// CHECK: arith.subf %[[NUMBER]], %cst{{.*}} : f32
// CHECK-NOT: arith.truncf
// CHECK: %[[WEIGHT:.*]] = arith.mulf
// CHECK: kernel.yield %[[WEIGHT]] : f32
func.func @fours(%x: tensor<4x64xbf16>) -> tensor<4x16xbf16> {
  %w = kernel.constant "w" dense<-7> : tensor<16x64xi8> : tensor<16x64xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<16x2xbf16> : tensor<16x2xbf16>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d1, d0) : tensor<16x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    %2 = arith.extf %1 : bf16 to f32
    %3 = kernel.read %s (d0, d1) -> (d1, d0 floordiv 32) : tensor<16x2xbf16> -> bf16
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    %6 = arith.truncf %5 : f32 to bf16
    kernel.yield %6 : bf16
  } : tensor<64x16xbf16>
  %r = kernel.contract batch [] m [4] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d2, d1) : tensor<64x16xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<4x16xbf16>
  return %r : tensor<4x16xbf16>
}

// -----

// Unsigned ones keep their sign; a length that is no multiple of eight, or a number that needs more bits, leaves bytes.
// CHECK-LABEL: func.func @unsigned
// CHECK: kernel.contract
// CHECK: %[[LOW:.*]] = arith.shrui %{{.*}}, %{{.*}} : i32
// CHECK: %[[BITS:.*]] = arith.andi %[[LOW]], %c15_i32 : i32
// CHECK: kernel.contract
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2) : tensor<16x64xi8> -> i8
// CHECK: kernel.contract
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2) : tensor<16x12xi8> -> i8
func.func @unsigned(%x: tensor<1x64xf32>, %z: tensor<1x12xf32>) -> (tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>) {
  %w = kernel.constant "w" dense<9> : tensor<16x64xi8> : tensor<16x64xi8>
  %v = kernel.constant "v" dense<16> : tensor<16x64xi8> : tensor<16x64xi8>
  %u = kernel.constant "u" dense<1> : tensor<16x12xi8> : tensor<16x12xi8>
  %0 = kernel.map {
    %3 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<16x64xi8> -> i8
    %4 = arith.uitofp %3 : i8 to f32
    kernel.yield %4 : f32
  } : tensor<16x64xf32>
  %1 = kernel.map {
    %3 = kernel.read %v (d0, d1) -> (d0, d1) : tensor<16x64xi8> -> i8
    %4 = arith.sitofp %3 : i8 to f32
    kernel.yield %4 : f32
  } : tensor<16x64xf32>
  %2 = kernel.map {
    %3 = kernel.read %u (d0, d1) -> (d0, d1) : tensor<16x12xi8> -> i8
    %4 = arith.sitofp %3 : i8 to f32
    kernel.yield %4 : f32
  } : tensor<16x12xf32>
  %a = kernel.contract batch [] m [1] n [16] k [64] lhs {
    %3 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %3 : f32
  } rhs {
    %3 = kernel.read %0 (d0, d1, d2) -> (d1, d2) : tensor<16x64xf32> -> f32
    kernel.yield %3 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x16xf32>
  %b = kernel.contract batch [] m [1] n [16] k [64] lhs {
    %3 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %3 : f32
  } rhs {
    %3 = kernel.read %1 (d0, d1, d2) -> (d1, d2) : tensor<16x64xf32> -> f32
    kernel.yield %3 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x16xf32>
  %c = kernel.contract batch [] m [1] n [16] k [12] lhs {
    %3 = kernel.read %z (d0, d1, d2) -> (d0, d2) : tensor<1x12xf32> -> f32
    kernel.yield %3 : f32
  } rhs {
    %3 = kernel.read %2 (d0, d1, d2) -> (d1, d2) : tensor<16x12xf32> -> f32
    kernel.yield %3 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x16xf32>
  return %a, %b, %c : tensor<1x16xf32>, tensor<1x16xf32>, tensor<1x16xf32>
}

// -----

// A column alone has floats, and so do weights that take as long to read as they are.
// REMARK: it has one column, or neighbours are not steps
// REMARK: what they are computed of takes as long to read
// CHECK-LABEL: func.func @floats
// CHECK: } : tensor<1x64xf32>
// CHECK: } : tensor<16x64xf32>
// CHECK-NOT: i8 to f32
// CHECK: return
func.func @floats(%x: tensor<5x64xf32>, %z: tensor<1x64xf32>) -> (tensor<5x1xf32>, tensor<1x16xf32>) {
  %w = kernel.constant "w" dense<9> : tensor<1x64xi8> : tensor<1x64xi8>
  %v = kernel.constant "v" dense<9> : tensor<16x64xi8> : tensor<16x64xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<16x64xf32> : tensor<16x64xf32>
  %0 = kernel.map {
    %2 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<1x64xi8> -> i8
    %3 = arith.sitofp %2 : i8 to f32
    kernel.yield %3 : f32
  } : tensor<1x64xf32>
  %1 = kernel.map {
    %2 = kernel.read %v (d0, d1) -> (d0, d1) : tensor<16x64xi8> -> i8
    %3 = arith.sitofp %2 : i8 to f32
    %4 = kernel.read %s (d0, d1) -> (d0, d1) : tensor<16x64xf32> -> f32
    %5 = arith.mulf %3, %4 : f32
    kernel.yield %5 : f32
  } : tensor<16x64xf32>
  %a = kernel.contract batch [] m [5] n [1] k [64] lhs {
    %2 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xf32> -> f32
    kernel.yield %2 : f32
  } rhs {
    %2 = kernel.read %0 (d0, d1, d2) -> (d1, d2) : tensor<1x64xf32> -> f32
    kernel.yield %2 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x1xf32>
  %b = kernel.contract batch [] m [1] n [16] k [64] lhs {
    %2 = kernel.read %z (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %2 : f32
  } rhs {
    %2 = kernel.read %1 (d0, d1, d2) -> (d1, d2) : tensor<16x64xf32> -> f32
    kernel.yield %2 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x16xf32>
  return %a, %b : tensor<5x1xf32>, tensor<1x16xf32>
}

// -----

// Zero points that are zero are checked where the scales beside them are read.
// CHECK-LABEL: func.func @zeros
// CHECK: %[[SCALES:.*]] = kernel.map {
// CHECK: kernel.expect %{{.*}} if %{{.*}}, "weights with zero points other than 0" : bf16
// CHECK: } : tensor<16x2xbf16>
// CHECK: rhs {
// CHECK: arith.subf %{{.*}}, %cst{{.*}} : f32
// CHECK-NOT: arith.subf
// CHECK: kernel.read %[[SCALES]] (d0, d1, d2) -> (d1, d2 floordiv 32)
func.func @zeros(%x: tensor<4x64xbf16>) -> tensor<4x16xbf16> {
  %w = kernel.constant "w" dense<-7> : tensor<16x64xi8> : tensor<16x64xi8>
  %z = kernel.constant "z" dense<0> : tensor<16x2xi8> : tensor<16x2xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<16x2xbf16> : tensor<16x2xbf16>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d1, d0) : tensor<16x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    %z0 = kernel.read %z (d0, d1) -> (d1, d0 floordiv 32) : tensor<16x2xi8> -> i8
    %z1 = arith.sitofp %z0 : i8 to bf16
    %z2 = arith.extf %z1 : bf16 to f32
    %w2 = arith.extf %1 : bf16 to f32
    %2 = arith.subf %w2, %z2 : f32
    %3 = kernel.read %s (d0, d1) -> (d1, d0 floordiv 32) : tensor<16x2xbf16> -> bf16
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %2, %4 : f32
    %6 = arith.truncf %5 : f32 to bf16
    kernel.yield %6 : bf16
  } : tensor<64x16xbf16>
  %r = kernel.contract batch [] m [4] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<4x64xbf16> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d2, d1) : tensor<64x16xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<4x16xbf16>
  return %r : tensor<4x16xbf16>
}

// -----

// Many rows are multiplied on tensor cores: weights stay halves, which are added and multiplied as such.
// CHECK-LABEL: func.func @rows
// CHECK: kernel.contract
// CHECK: rhs {
// CHECK: %[[BITS:.*]] = arith.trunci %{{.*}} : i32 to i16
// CHECK: %[[SUM:.*]] = arith.ori %[[BITS]], %c17152_i16 : i16
// CHECK: %[[NUMBER:.*]] = arith.bitcast %[[SUM]] : i16 to bf16
// CHECK: %[[WHOLE:.*]] = arith.subf %[[NUMBER]], %cst{{.*}} : bf16
// CHECK: %[[ZERO:.*]] = arith.sitofp %{{.*}} : i8 to bf16
// CHECK: %[[DIFFERENCE:.*]] = arith.subf %[[WHOLE]], %[[ZERO]] : bf16
// CHECK: %[[WEIGHT:.*]] = arith.mulf %[[DIFFERENCE]], %{{.*}} : bf16
// CHECK: kernel.yield %[[WEIGHT]] : bf16
func.func @rows(%x: tensor<?x64xbf16, #sym.shape<[s, 64]>>) -> tensor<?x16xbf16, #sym.shape<[s, 16]>> {
  %w = kernel.constant "w" dense<-7> : tensor<16x64xi8> : tensor<16x64xi8>
  %z = kernel.constant "z" dense<3> : tensor<16x2xi8> : tensor<16x2xi8>
  %s = kernel.constant "s" dense<0.5> : tensor<16x2xbf16> : tensor<16x2xbf16>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d1, d0) : tensor<16x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to bf16
    %z0 = kernel.read %z (d0, d1) -> (d1, d0 floordiv 32) : tensor<16x2xi8> -> i8
    %z1 = arith.sitofp %z0 : i8 to bf16
    %z2 = arith.extf %z1 : bf16 to f32
    %w2 = arith.extf %1 : bf16 to f32
    %2 = arith.subf %w2, %z2 : f32
    %d = arith.truncf %2 : f32 to bf16
    %d2 = arith.extf %d : bf16 to f32
    %3 = kernel.read %s (d0, d1) -> (d1, d0 floordiv 32) : tensor<16x2xbf16> -> bf16
    %4 = arith.extf %3 : bf16 to f32
    %5 = arith.mulf %d2, %4 : f32
    %6 = arith.truncf %5 : f32 to bf16
    kernel.yield %6 : bf16
  } : tensor<64x16xbf16>
  %r = kernel.contract batch [] m [s] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x64xbf16, #sym.shape<[s, 64]>> -> bf16
    kernel.yield %0 : bf16
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d2, d1) : tensor<64x16xbf16> -> bf16
    kernel.yield %0 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %0 = arith.truncf %sum : f32 to bf16
    kernel.yield %0 : bf16
  } : tensor<?x16xbf16, #sym.shape<[s, 16]>>
  return %r : tensor<?x16xbf16, #sym.shape<[s, 16]>>
}

// -----

// A zero point that is taken off the integers leaves these four bits.
// CHECK-LABEL: func.func @integers
// CHECK: kernel.contract
// CHECK: rhs {
// CHECK: %[[BITS:.*]] = arith.andi %{{.*}}, %c15_i32 : i32
// CHECK: %[[WHOLE:.*]] = arith.addi %[[BITS]], %c-8_i32 : i32
// CHECK: %[[BYTE:.*]] = arith.trunci %[[WHOLE]] : i32 to i8
// CHECK: arith.extsi %[[BYTE]] : i8 to i32
func.func @integers(%x: tensor<1x64xf32>) -> tensor<1x16xf32> {
  %w = kernel.constant "w" dense<-7> : tensor<16x64xi8> : tensor<16x64xi8>
  %z = kernel.constant "z" dense<3> : tensor<16x2xi8> : tensor<16x2xi8>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<16x64xi8> -> i8
    %1 = arith.extsi %0 : i8 to i32
    %2 = kernel.read %z (d0, d1) -> (d0, d1 floordiv 32) : tensor<16x2xi8> -> i8
    %3 = arith.extsi %2 : i8 to i32
    %4 = arith.subi %1, %3 : i32
    %5 = arith.sitofp %4 : i32 to f32
    kernel.yield %5 : f32
  } : tensor<16x64xf32>
  %r = kernel.contract batch [] m [1] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<16x64xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x16xf32>
  return %r : tensor<1x16xf32>
}

// -----

// Weights that are stored in groups are packed along all of their steps.
// CHECK-LABEL: func.func @groups
// CHECK: kernel.map
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, d1 floordiv 4, 8*(d1 mod 4) + 7) : tensor<16x2x32xi8> -> i8
// CHECK: : tensor<16x8xi32>
// CHECK: kernel.contract
// CHECK: rhs {
// CHECK: kernel.read %{{.*}} (d0, d1, d2) -> (d1, d2 floordiv 8) : tensor<16x8xi32> -> i32
func.func @groups(%x: tensor<1x64xf32>) -> tensor<1x16xf32> {
  %w = kernel.constant "w" dense<-7> : tensor<16x2x32xi8> : tensor<16x2x32xi8>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1 floordiv 32, d1 mod 32) : tensor<16x2x32xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    kernel.yield %1 : f32
  } : tensor<16x64xf32>
  %r = kernel.contract batch [] m [1] n [16] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<16x64xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x16xf32>
  return %r : tensor<1x16xf32>
}
