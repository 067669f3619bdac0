// RUN: kiln-opt %s --cuda-choose-schedule --split-input-file --verify-diagnostics

// expected-error @below {{a map without reductions has no rows for a team of 32}}
kernel.func @schedule(%x: tensor<8xf32>) -> tensor<8xf32> attributes {schedule = #cuda.map<threads = 64, team = 32>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-error @below {{a map whose rows have several elements has no teams across 32 of them}}
kernel.func @across(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {schedule = #cuda.map<threads = 64, team = 2, across = 32>} {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %s = kernel.reduce [64] init(%zero : f32) {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<64x64xf32> -> f32
      kernel.yield %a : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    kernel.yield %s : f32
  } : tensor<64x64xf32>
  kernel.return %y : tensor<64x64xf32>
}

// -----

// expected-error @below {{tensor cores do not multiply 'f32' by 16 steps, summed in 'f32'}}
kernel.func @product(%x: tensor<8x16xf32>, %w: tensor<40x16xf32>) -> tensor<8x40xf32> attributes {schedule = #cuda.mma<m = 32, n = 64, k = 64, warp = [16, 32], step = 16, stages = 4>} {
  %y = kernel.contract batch [] m [8] n [40] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<40x16xf32> -> f32
    kernel.yield %b : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8x40xf32>
  kernel.return %y : tensor<8x40xf32>
}

// -----

kernel.func @bits(%x: tensor<8x16xi1>, %w: tensor<40x16xi1>) -> tensor<8x40xi32> {
  // expected-error @below {{cannot be compiled for CUDA: a product of 'i1' summed in 'i32'}}
  %y = kernel.contract batch [] m [8] n [40] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xi1> -> i1
    kernel.yield %a : i1
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<40x16xi1> -> i1
    kernel.yield %b : i1
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<8x40xi32>
  kernel.return %y : tensor<8x40xi32>
}

// -----

// expected-error @below {{a schedule of 4 rows is for a contract of so few, whose steps lie side by side in the right operand}}
kernel.func @lines(%x: tensor<8x16xf16>, %w: tensor<40x16xf16>) -> tensor<8x40xf32> attributes {schedule = #cuda.dot<threads = 256, rows = 4, columns = 2>} {
  %y = kernel.contract batch [] m [8] n [40] k [16] lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<8x16xf16> -> f16
    kernel.yield %a : f16
  } rhs {
    %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<40x16xf16> -> f16
    kernel.yield %b : f16
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8x40xf32>
  kernel.return %y : tensor<8x40xf32>
}

// -----

// expected-error @below {{attention runs on tensor cores with operands of bf16 or f16 and 16 to 256 features}}
kernel.func @attention(%q: tensor<100x64xf32>) -> tensor<100x64xf32> attributes {schedule = #cuda.mma_attention<warps = 4, rows = 16, keys = 64>} {
  %o = kernel.attention batch [] m <100> n <100> d <64> dv <64> scale 0.125 q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d2) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<100x64xf32>
  kernel.return %o : tensor<100x64xf32>
}

// -----

// expected-error @below {{a contract's part has to be a multiple of 32 steps}}
kernel.func @part(%x: tensor<100x8xf32>) -> tensor<3x4x8xf32> attributes {schedule = #cuda.fma<m = 16, n = 32, k = 32, thread = [2, 2]>} {
  %y = kernel.contract batch [] m [4] n [8] k [100] part 40 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d0) : tensor<100x8xf32> -> f32
    kernel.yield %a : f32
  } rhs {
    %a = kernel.read %x (d0, d1, d2) -> (d2, d1) : tensor<100x8xf32> -> f32
    kernel.yield %a : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<3x4x8xf32>
  kernel.return %y : tensor<3x4x8xf32>
}

// -----

// expected-error @below {{an attention's part has to be a multiple of 32 keys}}
kernel.func @keys(%q: tensor<100x64xf32>) -> (tensor<3x100x64xf32>, tensor<3x100xf32>, tensor<3x100xf32>) {
  %o:3 = kernel.attention batch [] m <100> n <100> d <64> dv <64> scale 0.125 part 40 q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d2) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<100x64xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<3x100x64xf32>, tensor<3x100xf32>, tensor<3x100xf32>
  kernel.return %o#0, %o#1, %o#2 : tensor<3x100x64xf32>, tensor<3x100xf32>, tensor<3x100xf32>
}

// -----

kernel.func @features(%q: tensor<100x300xf32>) -> tensor<100x300xf32> {
  // expected-error @below {{attention with heads of 300 and 300 features, which cuda-expand-attention makes products of}}
  %o = kernel.attention batch [] m <100> n <100> d <300> dv <300> scale 0.125 q {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d0, d2) : tensor<100x300xf32> -> f32
    kernel.yield %a : f32
  } k {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d2) : tensor<100x300xf32> -> f32
    kernel.yield %a : f32
  } v {
    %a = kernel.read %q (d0, d1, d2, d3) -> (d1, d3) : tensor<100x300xf32> -> f32
    kernel.yield %a : f32
  } bias {
  } : tensor<100x300xf32>
  kernel.return %o : tensor<100x300xf32>
}

// -----

// expected-error @below {{places = 256, which is too few for the rows of this sort}}
kernel.func @sort_places(%x: tensor<?xi64, #sym.shape<[s0]>>) -> (tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>) attributes {schedule = #cuda.sort<threads = 64, places = 256>} {
  %p, %k, %s = kernel.sort attributes {first = 10 : i64} {
    %key = kernel.read %x (d0) -> (d0) : tensor<?xi64, #sym.shape<[s0]>> -> i64
    kernel.yield %key : i64
  } : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
  kernel.return %p, %k, %s : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
}

// -----

// expected-error @below {{places = 512, which is too few for the rows of this sort}}
kernel.func @sort_whole(%x: tensor<?xi64, #sym.shape<[s0]>>) -> (tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>) attributes {schedule = #cuda.sort<threads = 64, places = 512>} {
  %p, %k, %s = kernel.sort {
    %key = kernel.read %x (d0) -> (d0) : tensor<?xi64, #sym.shape<[s0]>> -> i64
    kernel.yield %key : i64
  } : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
  kernel.return %p, %k, %s : tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[s0]>>
}

// -----

// expected-error @below {{elements = 2 of each of 256 threads, which have to be 4 to 32, and 256 or more in a block}}
kernel.func @merge_elements(%x: tensor<1000xi64>) -> tensor<1000xi64> attributes {schedule = #cuda.merge<threads = 256, elements = 2>} {
  %y = kernel.merge 1024 of 512 {
    %a = kernel.read %x (d0) -> (d0) : tensor<1000xi64> -> i64
    kernel.yield %a : i64
  } : tensor<1000xi64>
  kernel.return %y : tensor<1000xi64>
}

// -----

// expected-error @below {{a block of 1024 elements cannot merge runs of 512 into runs of 1536}}
kernel.func @merge_runs(%x: tensor<1000xi64>) -> tensor<1000xi64> attributes {schedule = #cuda.merge<threads = 256, elements = 4>} {
  %y = kernel.merge 1536 of 512 {
    %a = kernel.read %x (d0) -> (d0) : tensor<1000xi64> -> i64
    kernel.yield %a : i64
  } : tensor<1000xi64>
  kernel.return %y : tensor<1000xi64>
}

// -----

kernel.func @parts(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{with a part cannot be compiled for CUDA}}
  %y = kernel.scan dim 0 associative part 4 init {
    %s = arith.constant 0.0 : f32
    kernel.yield %s : f32
  } body {
    %e = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %e : f32
  } combine {
  ^bb0(%sum: f32, %next: f32):
    %s = arith.addf %sum, %next : f32
    kernel.yield %s : f32
  } finish {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
