// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v4},kernel.func(cpu-choose-schedule))' --split-input-file --verify-diagnostics | FileCheck %s

// The exponentials of a row are those that have been summed.
// CHECK-LABEL: kernel.func @softmax
// CHECK-SAME: launch = #kernel.launch<grid = <{{.*}}>, scratch = 448>
// CHECK-SAME: keep = true
kernel.func @softmax(%x: tensor<30x100xf32>) -> tensor<30x100xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<30x100xf32> -> f32
    %sum = kernel.reduce [100] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x100xf32> -> f32
      %e = math.exp %b : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %e = math.exp %a : f32
    %z = arith.divf %e, %sum : f32
    kernel.yield %z : f32
  } : tensor<30x100xf32>
  kernel.return %y : tensor<30x100xf32>
}

// -----

// So are those of rows of which only the longest is known.
// CHECK-LABEL: kernel.func @bounded
// CHECK-SAME: scratch = 4032>
// CHECK-SAME: keep = true
module attributes {sym.symbols = {s0 = {min = 1, max = 1000}}} {
kernel.func @bounded(%x: tensor<30x?xf32, #sym.shape<[30, s0]>>) -> tensor<30x?xf32, #sym.shape<[30, s0]>> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<30x?xf32, #sym.shape<[30, s0]>> -> f32
    %sum = kernel.reduce [s0] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x?xf32, #sym.shape<[30, s0]>> -> f32
      %e = math.exp %b : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %e = math.exp %a : f32
    %z = arith.divf %e, %sum : f32
    kernel.yield %z : f32
  } : tensor<30x?xf32, #sym.shape<[30, s0]>>
  kernel.return %y : tensor<30x?xf32, #sym.shape<[30, s0]>>
}
}

// -----

// What is made with a function of the whole row is not.
// CHECK-LABEL: kernel.func @function_of_row
// CHECK-NOT: keep
kernel.func @function_of_row(%x: tensor<30x100xf32>) -> tensor<30x100xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<30x100xf32> -> f32
    %squares = kernel.reduce [100] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x100xf32> -> f32
      %s = arith.mulf %b, %b : f32
      kernel.yield %s : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %r = math.rsqrt %squares : f32
    %sum = kernel.reduce [100] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x100xf32> -> f32
      %e = arith.mulf %b, %r : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %e = arith.mulf %a, %r : f32
    %z = arith.subf %e, %sum : f32
    kernel.yield %z : f32
  } : tensor<30x100xf32>
  kernel.return %y : tensor<30x100xf32>
}

// -----

// Rows of any length have no place, a subtraction is as fast as memory, other elements' exponentials are others, and nothing is kept of what
// is not asked for.
// CHECK-LABEL: kernel.func @any_length
// CHECK-NOT: keep
// CHECK-LABEL: kernel.func @subtraction
// CHECK-NOT: keep
// CHECK-LABEL: kernel.func @others
// CHECK-NOT: keep
// CHECK-LABEL: kernel.func @given
// CHECK-NOT: keep
module attributes {sym.symbols = {s0 = {min = 1}}} {
kernel.func @any_length(%x: tensor<30x?xf32, #sym.shape<[30, s0]>>) -> tensor<30x?xf32, #sym.shape<[30, s0]>> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<30x?xf32, #sym.shape<[30, s0]>> -> f32
    %sum = kernel.reduce [s0] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x?xf32, #sym.shape<[30, s0]>> -> f32
      %e = math.exp %b : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %e = math.exp %a : f32
    %z = arith.divf %e, %sum : f32
    kernel.yield %z : f32
  } : tensor<30x?xf32, #sym.shape<[30, s0]>>
  kernel.return %y : tensor<30x?xf32, #sym.shape<[30, s0]>>
}

kernel.func @subtraction(%x: tensor<30x100xf32>, %m: tensor<30xf32>) -> tensor<30x100xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<30x100xf32> -> f32
    %mean = kernel.read %m (d0, d1) -> (d0) : tensor<30xf32> -> f32
    %sum = kernel.reduce [100] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x100xf32> -> f32
      %e = arith.subf %b, %mean : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %e = arith.subf %a, %mean : f32
    %z = arith.divf %e, %sum : f32
    kernel.yield %z : f32
  } : tensor<30x100xf32>
  kernel.return %y : tensor<30x100xf32>
}

kernel.func @others(%x: tensor<30x100xf32>, %w: tensor<30x100xf32>) -> tensor<30x100xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %w (d0, d1) -> (d0, d1) : tensor<30x100xf32> -> f32
    %sum = kernel.reduce [100] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x100xf32> -> f32
      %e = math.exp %b : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %turned = kernel.read %x (d0, d1) -> (d0, 99 - d1) : tensor<30x100xf32> -> f32
    %e = math.exp %a : f32
    %f = math.exp %turned : f32
    %g = arith.addf %e, %f : f32
    %z = arith.divf %g, %sum : f32
    kernel.yield %z : f32
  } : tensor<30x100xf32>
  kernel.return %y : tensor<30x100xf32>
}

kernel.func @given(%x: tensor<30x100xf32>) -> tensor<30x100xf32> attributes {schedule = #cpu.map<vector = [1], lanes = 16, reduce_lanes = [16], reduce_copies = [1]>} {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<30x100xf32> -> f32
    %sum = kernel.reduce [100] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x100xf32> -> f32
      %e = math.exp %b : f32
      kernel.yield %e : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %e = math.exp %a : f32
    %z = arith.divf %e, %sum : f32
    kernel.yield %z : f32
  } : tensor<30x100xf32>
  kernel.return %y : tensor<30x100xf32>
}
}

// -----

// expected-error @below {{keep = true>: there is nothing that a reduction could keep of a row}}
kernel.func @nothing(%x: tensor<30x100xf32>) -> tensor<30x100xf32> attributes {schedule = #cpu.map<vector = [1], lanes = 16, reduce_lanes = [16], reduce_copies = [1], keep = true>} {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<30x100xf32> -> f32
    %sum = kernel.reduce [100] init(%zero : f32) {
      %b = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<30x100xf32> -> f32
      kernel.yield %b : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      kernel.yield %s : f32
    } : f32
    %z = arith.divf %a, %sum : f32
    kernel.yield %z : f32
  } : tensor<30x100xf32>
  kernel.return %y : tensor<30x100xf32>
}
