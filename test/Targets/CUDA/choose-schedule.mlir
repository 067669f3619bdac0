// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file | FileCheck %s

// A thread for each element.
// CHECK-LABEL: kernel.func @bias
// CHECK-SAME: launch = #kernel.launch<grid = <24>, threads = 256
// CHECK-SAME: schedule = #cuda.map<threads = 256>
kernel.func @bias(%x: tensor<8x768xf32>, %b: tensor<768xf32>) -> tensor<8x768xf32> {
  %y = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
    %c = kernel.read %b (d0, d1) -> (d1) : tensor<768xf32> -> f32
    %s = arith.addf %a, %c : f32
    kernel.yield %s : f32
  } : tensor<8x768xf32>
  kernel.return %y : tensor<8x768xf32>
}

// -----

// Few rows: a block for each.
// CHECK-LABEL: kernel.func @few_row_sums
// CHECK-SAME: launch = #kernel.launch<grid = <8>
// CHECK-SAME: schedule = #cuda.map<threads = 256, team = 256, keep = 64>
kernel.func @few_row_sums(%x: tensor<8x768xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// A warp for each row where there are many; as many blocks as the batch asks for.
// CHECK-LABEL: kernel.func @normalise
// CHECK-SAME: launch = #kernel.launch<grid = <128*s0>
// CHECK-SAME: schedule = #cuda.map<threads = 256, team = 32, keep = 64>
kernel.func @normalise(%x: tensor<?x768xf32, #sym.shape<[1024*s0, 768]>>) -> tensor<?x768xf32, #sym.shape<[1024*s0, 768]>> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [768] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<?x768xf32, #sym.shape<[1024*s0, 768]>> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<?x768xf32, #sym.shape<[1024*s0, 768]>> -> f32
    %q = arith.divf %v, %s : f32
    kernel.yield %q : f32
  } : tensor<?x768xf32, #sym.shape<[1024*s0, 768]>>
  kernel.return %y : tensor<?x768xf32, #sym.shape<[1024*s0, 768]>>
}

// -----

// Neighbouring threads read neighbouring columns' memory. Sixteen share a column: there are few.
// CHECK-LABEL: kernel.func @column_sums
// CHECK-SAME: launch = #kernel.launch<grid = <24>
// CHECK-SAME: schedule = #cuda.map<threads = 512, team = 16, across = 32, keep = 64>
kernel.func @column_sums(%x: tensor<512x768xf32>) -> tensor<768xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [512] init(%zero : f32) {
      %a = kernel.read %x (d0, d1) -> (d1, d0) : tensor<512x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<768xf32>
  kernel.return %y : tensor<768xf32>
}

// -----

// So are parts of columns, although the result has the parts of a column side by side.
// CHECK-LABEL: kernel.func @column_parts
// CHECK-SAME: launch = #kernel.launch<grid = <192>
// CHECK-SAME: schedule = #cuda.map<threads = 256, team = 8, across = 32, keep = 64>
kernel.func @column_parts(%x: tensor<512x768xf32>) -> tensor<768x8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [64] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (64*d1 + d2, d0) : tensor<512x768xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<768x8xf32>
  kernel.return %y : tensor<768x8xf32>
}

// -----

// Where the order matters a thread has a line of its own.
// CHECK-LABEL: kernel.func @running_sum
// CHECK-SAME: launch = #kernel.launch<grid = <2>, threads = 64>, schedule = #cuda.tasks<threads = 64>
kernel.func @running_sum(%x: tensor<8x100xf32>) -> tensor<8x100xf32> {
  %y = kernel.scan dim 0 init {
    %zero = arith.constant 0.0 : f32
    kernel.yield %zero : f32
  } body {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x100xf32> -> f32
    kernel.yield %a : f32
  } combine {
  ^bb0(%sum: f32, %next: f32):
    %s = arith.addf %sum, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8x100xf32>
  kernel.return %y : tensor<8x100xf32>
}

// -----

// Of a row that lies at multiples of 16 bytes a lane takes as many at once.
// CHECK-LABEL: kernel.func @aligned_rows
// CHECK-SAME: launch = #kernel.launch<grid = <128>
// CHECK-SAME: schedule = #cuda.map<threads = 256, team = 32, vector = 8, keep = 64>
kernel.func @aligned_rows(%x: tensor<1024x768xf16>) -> tensor<1024x768xf16> attributes {aligned} {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f16
    %s = kernel.reduce [768] init(%zero : f16) {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1024x768xf16> -> f16
      kernel.yield %a : f16
    } combine {
    ^bb0(%a: f16, %b: f16):
      %c = arith.addf %a, %b : f16
      kernel.yield %c : f16
    } : f16
    %v = kernel.read %x (d0, d1) -> (d0, d1) : tensor<1024x768xf16> -> f16
    %q = arith.divf %v, %s : f16
    kernel.yield %q : f16
  } : tensor<1024x768xf16>
  kernel.return %y : tensor<1024x768xf16>
}

// -----

// A warp has as many queries as fit beside keys and values into the shared memory of every GPU.
// CHECK-LABEL: kernel.func @many_features
// CHECK-SAME: launch = #kernel.launch<grid = <7>
// CHECK-SAME: schedule = #cuda.scalar_attention<warps = 4, rows = 4>
kernel.func @many_features(%x: tensor<100x256xf32>) -> tensor<100x256xf32> {
  %o = kernel.attention batch [] m <100> n <100> d <256> dv <256> scale 0.125 q {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d0, d2) : tensor<100x256xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d1, d2) : tensor<100x256xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %x (d0, d1, d2, d3) -> (d1, d3) : tensor<100x256xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<100x256xf32>
  kernel.return %o : tensor<100x256xf32>
}
