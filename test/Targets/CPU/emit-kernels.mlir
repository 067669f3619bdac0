// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule),cpu-emit-kernels)' --split-input-file | FileCheck %s

// Whole vectors in a loop, then a masked tail.
// CHECK-LABEL: llvm.func @tail(
// CHECK: scf.for
// CHECK: llvm.load {{.*}} -> vector<32xf32>
// CHECK: llvm.store {{.*}} : vector<32xf32>
// CHECK: llvm.intr.masked.load
// CHECK: llvm.intr.masked.store
kernel.func @tail(%x: tensor<1001xf32>) -> tensor<1001xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<1001xf32> -> f32
    %n = arith.negf %a : f32
    kernel.yield %n : f32
  } : tensor<1001xf32>
  kernel.return %y : tensor<1001xf32>
}

// -----

// An index from data is checked and clamped before it is used.
// CHECK-LABEL: llvm.func @lookup(
// CHECK: arith.cmpi uge
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr
// CHECK: arith.minsi
// CHECK: arith.maxsi
kernel.func @lookup(%w: tensor<100x64xf32>, %i: tensor<4xi64>) -> tensor<4x64xf32> {
  %y = kernel.map {
    %k = kernel.read %i (d0, d1) -> (d0) : tensor<4xi64> -> i64
    %a = kernel.read %w (d0, d1, d2) -> (d2, d1) values(%k) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } : tensor<4x64xf32>
  kernel.return %y : tensor<4x64xf32>
}

// -----

// A row's sum is computed once, before the loop over its elements.
// CHECK-LABEL: llvm.func @center(
// CHECK: scf.for {{.*}} iter_args
// CHECK: vector.shuffle
// CHECK: scf.for
// CHECK: arith.subf
// CHECK-NOT: iter_args
kernel.func @center(%x: tensor<1x768xf32>) -> tensor<1x768xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<1x768xf32> -> f32
    %d = arith.subf %a, %s : f32
    kernel.yield %d : f32
  } : tensor<1x768xf32>
  kernel.return %y : tensor<1x768xf32>
}

// -----

// Panels, tiles of 12 rows (and of 11), then the sum with 24 accumulators, each fed by one row of the
// panel and one broadcast, four steps in an iteration; the bias is added on registers.
// CHECK-LABEL: llvm.func @linear(
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %{{.*}}:24 = scf.for %{{.*}} step %c4_i64{{.*}} iter_args
// CHECK: llvm.load {{.*}} -> vector<16xf32>
// CHECK: llvm.load {{.*}} -> vector<16xf32>
// CHECK: llvm.intr.prefetch
// CHECK-COUNT-96: vector.fma {{.*}} : vector<16xf32>
// CHECK-NOT: vector.fma
// CHECK: scf.yield
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: llvm.store {{.*}} : vector<16xf32>
// CHECK: %{{.*}}:22 = scf.for %{{.*}} iter_args
// CHECK-NOT: llvm.intr.masked
kernel.func @linear(%x: tensor<128x768xf32>, %w: tensor<96x768x32xf32>, %b: tensor<3072xf32>) -> tensor<128x3072xf32> {
  %y = kernel.contract batch [] m [128] n [3072] k [768] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x768xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<96x768x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    %d = kernel.read %b (d0, d1, d2) -> (d1) : tensor<3072xf32> -> f32
    %e = arith.addf %sum, %d : f32
    kernel.yield %e : f32
  } : tensor<128x3072xf32>
  kernel.return %y : tensor<128x3072xf32>
}

// -----

// Before the sum, the lines of 12 rows of what is added to it, two of each.
// CHECK-LABEL: llvm.func @residual(
// CHECK-COUNT-24: llvm.intr.prefetch
// CHECK-NOT: llvm.intr.prefetch
// CHECK: %{{.*}}:24 = scf.for %{{.*}} iter_args
// CHECK: llvm.load {{.*}} -> vector<16xf32>
kernel.func @residual(%x: tensor<36x768xf32>, %w: tensor<2x768x32xf32>, %r: tensor<36x64xf32>) -> tensor<36x64xf32>
    attributes {schedule = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 36, block_columns = 64, block_sums = 768, epilogue_prefetch = l1>} {
  %y = kernel.contract batch [] m [36] n [64] k [768] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<36x768xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<2x768x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    %d = kernel.read %r (d0, d1, d2) -> (d0, d1) : tensor<36x64xf32> -> f32
    %e = arith.addf %sum, %d : f32
    kernel.yield %e : f32
  } : tensor<36x64xf32>
  kernel.return %y : tensor<36x64xf32>
}

// -----

// Squares of 16 channels and 16 pixels: a vector of channels for each pixel, shuffles, a vector of pixels for
// each channel. There is a masked tail for the 4 channels that are left, of which 4 vectors are stored.
// CHECK-LABEL: llvm.func @turned(
// CHECK: scf.for
// CHECK: scf.for
// CHECK-COUNT-16: llvm.load {{.*}} -> vector<16xf32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: llvm.store {{.*}} : vector<16xf32>
// CHECK-NOT: llvm.store
// CHECK: scf.for
// CHECK-COUNT-16: llvm.intr.masked.load
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-4: llvm.store {{.*}} : vector<16xf32>
// CHECK-NOT: llvm.store
kernel.func @turned(%x: tensor<160x36xf32>) -> tensor<36x160xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<160x36xf32> -> f32
    kernel.yield %a : f32
  } : tensor<36x160xf32>
  kernel.return %y : tensor<36x160xf32>
}

// -----

// The windows of neighbouring pixels overlap: the window's columns stay a loop of one step, since what two steps
// share would be kept in registers that sums need. Its only panel is read where it lies.
// CHECK-LABEL: llvm.func @windows(
// CHECK: %{{.*}}:28 = scf.for %{{.*}} iter_args
// CHECK: %{{.*}}:28 = scf.for %{{.*}} iter_args
// CHECK: %{{.*}}:28 = scf.for %{{.*}} iter_args
// CHECK-COUNT-28: vector.fma {{.*}} : vector<16xf32>
// CHECK-NOT: vector.fma
// CHECK: scf.yield
kernel.func @windows(%x: tensor<32x30x30xf32>, %w: tensor<1x288x32xf32>) -> tensor<28x28x32xf32> {
  %y = kernel.contract batch [] m [28, 28] n [32] k [32, 3, 3] panel 32 lhs {
    %a = kernel.read %x (d0, d1, d2, d3, d4, d5) -> (d3, d0 + d4, d1 + d5) : tensor<32x30x30xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %c = kernel.read %w (d0, d1, d2, d3, d4, d5) -> (d2 floordiv 32, 9*d3 + 3*d4 + d5, d2 mod 32) : tensor<1x288x32xf32> -> f32
    kernel.yield %c : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<28x28x32xf32>
  kernel.return %y : tensor<28x28x32xf32>
}

// -----

// Scores with their maxima, exponentials of three keys at once with their sums, the weighted values, then the
// division. The 100 queries end in a panel of one vector, which has code of its own: taller tiles, and six
// keys at once.
// CHECK-LABEL: llvm.func @attention(
// CHECK: %{{.*}}:20 = scf.for
// CHECK: arith.cmpf ogt
// CHECK: math.exp {{.*}} : vector<96xf32>
// CHECK: math.exp {{.*}} : vector<32xf32>
// CHECK-NOT: math.exp
// CHECK: %{{.*}}:22 = scf.for
// CHECK: %{{.*}}:20 = scf.for
// CHECK: %{{.*}}:20 = scf.for
// CHECK: %{{.*}}:10 = scf.for
// CHECK: math.exp {{.*}} : vector<96xf32>
// CHECK: math.exp {{.*}} : vector<16xf32>
// CHECK-NOT: math.exp
// CHECK: %{{.*}}:22 = scf.for
// CHECK: %{{.*}}:21 = scf.for
// CHECK: arith.divf
kernel.func @attention(%q: tensor<2x100x64xf32>, %k: tensor<2x70x64xf32>, %v: tensor<2x70x64xf32>) -> tensor<2x100x64xf32> {
  %o = kernel.attention batch [2] m <100> n <70> d <64> dv <64> scale 1.250000e-01 q {
    %a = kernel.read %q (d0, d1, d2, d3, d4) -> (d0, d1, d3) : tensor<2x100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %k (d0, d1, d2, d3, d4) -> (d0, d2, d3) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %v (d0, d1, d2, d3, d4) -> (d0, d2, d4) : tensor<2x70x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<2x100x64xf32>
  kernel.return %o : tensor<2x100x64xf32>
}

// -----

// Lanes step together while any of them goes on; a lane that has finished keeps its values.
// CHECK-LABEL: llvm.func @steps(
// CHECK: scf.while
// CHECK: arith.cmpi slt
// CHECK: vector.reduction <or>, {{.*}} : vector<8xi1> into i1
// CHECK: scf.condition
// CHECK: arith.andi {{.*}} : vector<8xi1>
// CHECK: arith.select {{.*}} : vector<8xi1>, vector<8xf64>
// CHECK: scf.yield
kernel.func @steps(%x: tensor<8xf64>) -> tensor<8xf64> {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf64> -> f64
    %half = arith.constant 0.5 : f64
    %r = kernel.iterate at_most 100 init(%a : f64) {
    ^bb0(%v: f64):
      %next = arith.mulf %v, %half : f64
      %again = arith.cmpf ogt, %next, %half : f64
      kernel.yield %again, %next : i1, f64
    } : f64
    kernel.yield %r : f64
  } : tensor<8xf64>
  kernel.return %y : tensor<8xf64>
}

// -----

// Rows of a number that is not known: both kernels call one function for their tiles, which has code for seven heights.
// CHECK: llvm.func weak_odr hidden @[[TILE:tile_12x2x16_f32_f32_f32_[a-z0-9_]*_by4steps]](%[[STEPS:[a-z0-9]+]]: i64, %{{.*}}: !llvm.ptr
// CHECK: arith.cmpi sle, %[[STEPS]]
// CHECK: vector.fma {{.*}} : vector<16xf32>
// CHECK-LABEL: llvm.func @first(
// CHECK-NOT: vector.fma
// CHECK: llvm.call @[[TILE]](
// CHECK-NOT: llvm.call
// CHECK-LABEL: llvm.func @second(
// CHECK-NOT: vector.fma
// CHECK: llvm.call @[[TILE]](
module attributes {sym.symbols = {s0 = {min = 1 : i64, max = 4096 : i64}}} {
  kernel.func @first(%x: tensor<?x768xf32, #sym.shape<[s0, 768]>>, %w: tensor<96x768x32xf32>) -> tensor<?x3072xf32, #sym.shape<[s0, 3072]>> {
    %y = kernel.contract batch [] m [s0] n [3072] k [768] panel 32 lhs {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x768xf32, #sym.shape<[s0, 768]>> -> f32
      kernel.yield %a : f32
    } rhs {
      %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<96x768x32xf32> -> f32
      kernel.yield %c : f32
    } epilogue {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    } : tensor<?x3072xf32, #sym.shape<[s0, 3072]>>
    kernel.return %y : tensor<?x3072xf32, #sym.shape<[s0, 3072]>>
  }
  kernel.func @second(%x: tensor<?x3072xf32, #sym.shape<[s0, 3072]>>, %w: tensor<24x3072x32xf32>) -> tensor<?x768xf32, #sym.shape<[s0, 768]>> {
    %y = kernel.contract batch [] m [s0] n [768] k [3072] panel 32 lhs {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x3072xf32, #sym.shape<[s0, 3072]>> -> f32
      kernel.yield %a : f32
    } rhs {
      %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 32, d2, d1 mod 32) : tensor<24x3072x32xf32> -> f32
      kernel.yield %c : f32
    } epilogue {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    } : tensor<?x768xf32, #sym.shape<[s0, 768]>>
    kernel.return %y : tensor<?x768xf32, #sym.shape<[s0, 768]>>
  }
}

// -----

// What is wrong is collected on the stack, which LLVM turns into registers, and looked at once. Lanes past the end are never wrong.
// CHECK-LABEL: llvm.func @quotient(
// CHECK: %[[SLOT:.*]] = llvm.alloca %{{.*}} x vector<16xi64>
// CHECK: scf.for
// CHECK: arith.extsi %{{.*}} : vector<16xi1> to vector<16xi64>
// CHECK-NOT: scf.if
// CHECK: llvm.store %{{.*}}, %[[SLOT]]
// CHECK: llvm.intr.masked.load
// CHECK: arith.andi
// CHECK: llvm.store %{{.*}}, %[[SLOT]]
// CHECK: %[[BAD:.*]] = llvm.load %[[SLOT]]
// CHECK: vector.reduction <or>, %[[BAD]]
// CHECK: scf.if
// CHECK: llvm.store %{{.*}} : i32, !llvm.ptr
kernel.func @quotient(%x: tensor<1001xi64>, %y: tensor<1001xi64>) -> tensor<1001xi64> {
  %z = kernel.map {
    %zero = arith.constant 0 : i64
    %a = kernel.read %x (d0) -> (d0) : tensor<1001xi64> -> i64
    %b = kernel.read %y (d0) -> (d0) : tensor<1001xi64> -> i64
    %ok = arith.cmpi ne, %b, %zero : i64
    %d = kernel.expect %b if %ok, "zero" code 2 : i64
    %q = arith.divsi %a, %d : i64
    kernel.yield %q : i64
  } : tensor<1001xi64>
  kernel.return %z : tensor<1001xi64>
}

// -----

// A condition that differs from lane to lane, of a read that does not: lanes past the end do not ask for it.
// CHECK-LABEL: llvm.func @diagonal(
// CHECK: %[[LANES:.*]] = arith.constant dense<[true, true, true, true, true, true, false, false]>
// CHECK: %[[EQUAL:.*]] = arith.cmpi eq, {{.*}} : vector<8xi64>
// CHECK: %[[INSIDE:.*]] = arith.andi %[[LANES]], %[[EQUAL]]
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %[[INSIDE]]
// CHECK: scf.if %[[ANY]]
kernel.func @diagonal(%x: tensor<5xf32>) -> tensor<6x6xf32> {
  %0 = kernel.map {
    %zero = arith.constant 0.0 : f32
    %i = kernel.index (d0, d1) -> (d0 + 1)
    %j = kernel.index (d0, d1) -> (d1)
    %c = arith.cmpi eq, %i, %j : i64
    %a = kernel.read %x (d0, d1) -> (d0) if %c else(%zero : f32) : tensor<5xf32> -> f32
    kernel.yield %a : f32
  } : tensor<6x6xf32>
  kernel.return %0 : tensor<6x6xf32>
}
