// RUN: kiln-opt %s --cpu-set-target=cpu=sapphirerapids --cpu-multiply-bytes --canonicalize --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v3 --cpu-multiply-bytes --canonicalize --split-input-file | FileCheck %s --check-prefix=HALVES
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=znver4 --cpu-multiply-bytes --run-reference --split-input-file -o /dev/null
// RUN: kiln-opt %s --run-reference --cpu-set-target=cpu=x86-64-v3 --cpu-multiply-bytes --cpu-pack-contracts --run-reference --split-input-file -o /dev/null

// Where there are no products of bytes, an element has two steps: of the left operand widened to 16 bits.
// HALVES-LABEL: func.func @unsigned
// HALVES: kernel.map {
// HALVES: kernel.read %arg0 (d0, d1) -> (d0, 2*d1) : tensor<5x64xui8> -> i8
// HALVES: arith.extui %{{.*}} : i8 to i32
// HALVES: } : tensor<5x32xi32>
// HALVES: kernel.read %{{.*}} (d0, d1) -> (d0, 2*d1 + 1) : tensor<24x64xi8> -> i8
// HALVES: } : tensor<24x32xi16>
// HALVES: arith.muli %{{.*}}, %c3_i32
// HALVES: kernel.contract batch [] m [5] n [24] k [32] bytes 2 lhs {

// The term of a zero point of 3 follows from the sums of the weights; unsigned bytes stay as they are.
// CHECK-LABEL: func.func @unsigned
// CHECK: kernel.map {
// CHECK: kernel.read %arg0 (d0, d1) -> (d0, 4*d1) : tensor<5x64xui8> -> i8
// CHECK-NOT: arith.xori
// CHECK: } : tensor<5x16xi32>
// CHECK: kernel.map {
// CHECK: kernel.read %{{.*}} (d0, d1) -> (d0, 4*d1 + 3) : tensor<24x64xi8> -> i8
// CHECK: } : tensor<24x16xi32>
// CHECK: kernel.map {
// CHECK: kernel.reduce [64]
// CHECK: arith.muli %{{.*}}, %c3_i32
// CHECK: } : tensor<24xi32>
// CHECK: kernel.contract batch [] m [5] n [24] k [16] bytes 4 lhs {
// CHECK: } epilogue {
// CHECK: ^bb0(%[[SUM:.*]]: i32):
// CHECK: %[[EXACT:.*]] = arith.subi %[[SUM]]
// CHECK: arith.sitofp %[[EXACT]] : i32 to f32
func.func @unsigned(%q: tensor<5x64xui8>) -> tensor<5x24xf32> {
  %w = kernel.constant "w" dense<1> : tensor<24x64xi8> : tensor<24x64xi8>
  %x = kernel.map {
    %zero = arith.constant 3.0 : f32
    %scale = arith.constant 0.5 : f32
    %0 = kernel.read %q (d0, d1) -> (d0, d1) : tensor<5x64xui8> -> i8
    %1 = arith.uitofp %0 : i8 to f32
    %2 = arith.subf %1, %zero : f32
    %3 = arith.mulf %2, %scale : f32
    kernel.yield %3 : f32
  } : tensor<5x64xf32>
  %y = kernel.map {
    %scale = arith.constant 0.25 : f32
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<24x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    %2 = arith.mulf %1, %scale : f32
    kernel.yield %2 : f32
  } : tensor<24x64xf32>
  %z = kernel.contract batch [] m [5] n [24] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<24x64xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x24xf32>
  return %z : tensor<5x24xf32>
}

// -----

// HALVES-LABEL: func.func @integers
// HALVES-NOT: arith.xori
// HALVES: arith.extsi %{{.*}} : i8 to i16
// HALVES: } : tensor<5x9xi32>
// HALVES: kernel.contract batch [] m [5] n [24] k [9] bytes 2 lhs {
// HALVES: kernel.read {{.*}} -> i16
// HALVES: ^bb0(%[[SUM:.*]]: i32):
// HALVES-NEXT: kernel.yield %[[SUM]]

// Signed bytes are made unsigned; 18 steps are five groups, the last of which ends with zeros.
// CHECK-LABEL: func.func @integers
// CHECK: arith.xori %{{.*}}, %c128_i32
// CHECK: } : tensor<5x5xi32>
// CHECK: kernel.inside (d0, d1) -> (4*d0 + 3) bounds [18]
// CHECK: } : tensor<5x24xi32>
// CHECK: kernel.contract batch [] m [5] n [24] k [5] bytes 4 lhs {
func.func @integers(%q: tensor<5x18xi8>) -> tensor<5x24xi32> {
  %w = kernel.constant "w" dense<1> : tensor<18x24xi8> : tensor<18x24xi8>
  %x = kernel.map {
    %0 = kernel.read %q (d0, d1) -> (d0, d1) : tensor<5x18xi8> -> i8
    %1 = arith.extsi %0 : i8 to i32
    kernel.yield %1 : i32
  } : tensor<5x18xi32>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<18x24xi8> -> i8
    %1 = arith.extsi %0 : i8 to i32
    kernel.yield %1 : i32
  } : tensor<18x24xi32>
  %z = kernel.contract batch [] m [5] n [24] k [18] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x18xi32> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d2, d1) : tensor<18x24xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<5x24xi32>
  return %z : tensor<5x24xi32>
}

// -----

// A zero point of one weight is another product.
// CHECK-LABEL: func.func @zero_points
// CHECK-NOT: {{ bytes [24]}}
func.func @zero_points(%q: tensor<5x64xi8>) -> tensor<5x24xf32> {
  %w = kernel.constant "w" dense<1> : tensor<24x64xi8> : tensor<24x64xi8>
  %zeros = kernel.constant "z" dense<1> : tensor<24xi64> : tensor<24xi64>
  %x = kernel.map {
    %0 = kernel.read %q (d0, d1) -> (d0, d1) : tensor<5x64xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    kernel.yield %1 : f32
  } : tensor<5x64xf32>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<24x64xi8> -> i8
    %1 = kernel.read %zeros (d0, d1) -> (d0) : tensor<24xi64> -> i64
    %2 = arith.extsi %0 : i8 to i64
    %3 = arith.subi %2, %1 : i64
    %4 = arith.sitofp %3 : i64 to f32
    kernel.yield %4 : f32
  } : tensor<24x64xf32>
  %z = kernel.contract batch [] m [5] n [24] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<24x64xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x24xf32>
  return %z : tensor<5x24xf32>
}

// -----

// Zero points that are zero, but may be replaced, are checked where the scales are read: the weights alone make their groups.
// CHECK-LABEL: func.func @checked
// CHECK: %[[WEIGHTS:.*]] = kernel.constant "w"
// CHECK: kernel.map {
// CHECK: kernel.map {
// CHECK: kernel.read %[[WEIGHTS]]
// CHECK-NOT: kernel.expect
// CHECK: } : tensor<24x16xi32>
// CHECK: %[[SCALES:.*]] = kernel.map {
// CHECK-NOT: kernel.read %[[WEIGHTS]]
// CHECK: %[[HOLDS:.*]] = arith.cmpi eq
// CHECK: kernel.expect %{{.*}} if %[[HOLDS]], "weights with zero points other than 0" : f32
// CHECK: } : tensor<24xf32>
// CHECK: kernel.contract batch [] m [5] n [24] k [16] bytes 4 lhs {
// CHECK: kernel.read %[[SCALES]] (d0, d1, d2) -> (d1)
func.func @checked(%q: tensor<5x64xui8>) -> tensor<5x24xf32> {
  %w = kernel.constant "w" dense<1> : tensor<24x64xi8> : tensor<24x64xi8>
  %scales = kernel.constant "s" dense<0.5> : tensor<24xf32> : tensor<24xf32>
  %zeros = kernel.constant "z" dense<0> : tensor<24xi64> : tensor<24xi64>
  %x = kernel.map {
    %0 = kernel.read %q (d0, d1) -> (d0, d1) : tensor<5x64xui8> -> i8
    %1 = arith.uitofp %0 : i8 to f32
    kernel.yield %1 : f32
  } : tensor<5x64xf32>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<24x64xi8> -> i8
    %1 = kernel.read %zeros (d0, d1) -> (d0) : tensor<24xi64> -> i64
    %2 = arith.extsi %0 : i8 to i64
    %3 = arith.subi %2, %1 : i64
    %4 = arith.sitofp %3 : i64 to f32
    %5 = kernel.read %scales (d0, d1) -> (d0) : tensor<24xf32> -> f32
    %6 = arith.mulf %4, %5 : f32
    kernel.yield %6 : f32
  } : tensor<24x64xf32>
  %z = kernel.contract batch [] m [5] n [24] k [64] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x64xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<24x64xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x24xf32>
  return %z : tensor<5x24xf32>
}

// -----

// Without scales, zero is subtracted.
// CHECK-LABEL: func.func @checked_integers
// CHECK: } : tensor<5x24xi32>
// CHECK: %[[ZEROS:.*]] = kernel.map {
// CHECK: kernel.expect %c0_i32 if %{{.*}}, "weights with zero points other than 0" : i32
// CHECK: } : tensor<24xi32>
// CHECK: kernel.contract batch [] m [5] n [24] k [5] bytes 4 lhs {
// CHECK: %[[NONE:.*]] = kernel.read %[[ZEROS]] (d0, d1, d2) -> (d1)
// CHECK: arith.subi %{{.*}}, %[[NONE]]
func.func @checked_integers(%q: tensor<5x18xui8>) -> tensor<5x24xi32> {
  %w = kernel.constant "w" dense<1> : tensor<18x24xi8> : tensor<18x24xi8>
  %zeros = kernel.constant "z" dense<0> : tensor<24xi32> : tensor<24xi32>
  %x = kernel.map {
    %0 = kernel.read %q (d0, d1) -> (d0, d1) : tensor<5x18xui8> -> i8
    %1 = arith.extui %0 : i8 to i32
    kernel.yield %1 : i32
  } : tensor<5x18xi32>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<18x24xi8> -> i8
    %1 = arith.extsi %0 : i8 to i32
    %2 = kernel.read %zeros (d0, d1) -> (d1) : tensor<24xi32> -> i32
    %3 = arith.subi %1, %2 : i32
    kernel.yield %3 : i32
  } : tensor<18x24xi32>
  %z = kernel.contract batch [] m [5] n [24] k [18] lhs {
    %0 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<5x18xi32> -> i32
    kernel.yield %0 : i32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d2, d1) : tensor<18x24xi32> -> i32
    kernel.yield %0 : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<5x24xi32>
  return %z : tensor<5x24xi32>
}

// -----

// What is clamped to 128 is narrow, also when it has been pooled and where padding is its zero point; so are four steps
// without VNNI.
// CHECK-LABEL: func.func @narrow
// CHECK: kernel.contract batch [] m [5] n [24] k [4] bytes 4 lhs {
// HALVES-LABEL: func.func @narrow
// HALVES: kernel.contract batch [] m [5] n [24] k [4] bytes 4 narrow lhs {
func.func @narrow(%x: tensor<5x32xf32>) -> tensor<5x24xf32> {
  %w = kernel.constant "w" dense<-128> : tensor<24x16xi8> : tensor<24x16xi8>
  %q = kernel.map {
    %low = arith.constant 0.0 : f32
    %high = arith.constant 128.0 : f32
    %0 = kernel.read %x (d0, d1) -> (d0, d1) : tensor<5x32xf32> -> f32
    %scale = arith.constant 1000.0 : f32
    %1 = arith.mulf %0, %scale : f32
    %2 = arith.maximumf %1, %low : f32
    %3 = arith.minimumf %2, %high : f32
    %4 = arith.fptosi %3 : f32 to i32
    %5 = arith.trunci %4 : i32 to i8
    kernel.yield %5 : i8
  } : tensor<5x32xui8>
  %pooled = kernel.map {
    %none = arith.constant 0 : i8
    %0 = kernel.reduce [2] init(%none : i8) {
      %1 = kernel.read %q (d0, d1, d2) -> (d0, 2*d1 + d2) : tensor<5x32xui8> -> i8
      kernel.yield %1 : i8
    } combine {
    ^bb0(%a: i8, %b: i8):
      %1 = arith.maxui %a, %b : i8
      kernel.yield %1 : i8
    } : i8
    kernel.yield %0 : i8
  } : tensor<5x16xui8>
  %a = kernel.map {
    %zero = arith.constant 128.0 : f32
    %0 = kernel.read %pooled (d0, d1) -> (d0, d1) : tensor<5x16xui8> -> i8
    %1 = arith.uitofp %0 : i8 to f32
    %2 = arith.subf %1, %zero : f32
    kernel.yield %2 : f32
  } : tensor<5x16xf32>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<24x16xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    kernel.yield %1 : f32
  } : tensor<24x16xf32>
  %z = kernel.contract batch [] m [5] n [24] k [16] lhs {
    %other = arith.constant 0.0 : f32
    %inside = kernel.inside (d0, d1, d2) -> (d0 - 1) bounds [5]
    %0 = kernel.read %a (d0, d1, d2) -> (d0 - 1, d2) if %inside else(%other : f32) : tensor<5x16xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<24x16xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x24xf32>
  return %z : tensor<5x24xf32>
}

// -----

// A bound of 129 is one too many, and an integer that may be negative has any byte.
// HALVES-LABEL: func.func @wide
// HALVES-COUNT-2: kernel.contract batch [] m [5] n [24] k [8] bytes 2 lhs {
func.func @wide(%x: tensor<5x16xf32>) -> (tensor<5x24xf32>, tensor<5x24xf32>) {
  %w = kernel.constant "w" dense<-128> : tensor<24x16xi8> : tensor<24x16xi8>
  %q, %r = kernel.map {
    %low = arith.constant 0.0 : f32
    %negative = arith.constant -1.0 : f32
    %high = arith.constant 129.0 : f32
    %least = arith.constant 128.0 : f32
    %0 = kernel.read %x (d0, d1) -> (d0, d1) : tensor<5x16xf32> -> f32
    %1 = arith.maximumf %0, %low : f32
    %2 = arith.minimumf %1, %high : f32
    %3 = arith.fptosi %2 : f32 to i32
    %4 = arith.trunci %3 : i32 to i8
    %5 = arith.maximumf %0, %negative : f32
    %6 = arith.minimumf %5, %least : f32
    %7 = arith.fptosi %6 : f32 to i32
    %8 = arith.trunci %7 : i32 to i8
    kernel.yield %4, %8 : i8, i8
  } : tensor<5x16xui8>, tensor<5x16xui8>
  %a = kernel.map {
    %0 = kernel.read %q (d0, d1) -> (d0, d1) : tensor<5x16xui8> -> i8
    %1 = arith.uitofp %0 : i8 to f32
    kernel.yield %1 : f32
  } : tensor<5x16xf32>
  %b = kernel.map {
    %0 = kernel.read %r (d0, d1) -> (d0, d1) : tensor<5x16xui8> -> i8
    %1 = arith.uitofp %0 : i8 to f32
    kernel.yield %1 : f32
  } : tensor<5x16xf32>
  %y = kernel.map {
    %0 = kernel.read %w (d0, d1) -> (d0, d1) : tensor<24x16xi8> -> i8
    %1 = arith.sitofp %0 : i8 to f32
    kernel.yield %1 : f32
  } : tensor<24x16xf32>
  %z = kernel.contract batch [] m [5] n [24] k [16] lhs {
    %0 = kernel.read %a (d0, d1, d2) -> (d0, d2) : tensor<5x16xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<24x16xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x24xf32>
  %v = kernel.contract batch [] m [5] n [24] k [16] lhs {
    %0 = kernel.read %b (d0, d1, d2) -> (d0, d2) : tensor<5x16xf32> -> f32
    kernel.yield %0 : f32
  } rhs {
    %0 = kernel.read %y (d0, d1, d2) -> (d1, d2) : tensor<24x16xf32> -> f32
    kernel.yield %0 : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<5x24xf32>
  return %z, %v : tensor<5x24xf32>, tensor<5x24xf32>
}
