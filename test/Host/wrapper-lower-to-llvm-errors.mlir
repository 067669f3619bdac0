// RUN: kiln-opt %s --wrapper-lower-to-llvm --split-input-file --verify-diagnostics

// expected-error@+1 {{expected one wrapper.program, found 0}}
module {
}

// -----

kernel.func @k() -> tensor<4xf32> {
  %y = kernel.map {
    %a = arith.constant 1.0 : f32
    kernel.yield %a : f32
  } : tensor<4xf32>
  kernel.return %y : tensor<4xf32>
}
wrapper.program @main() -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"})
    attributes {arena_bytes = #sym.expr<0>, weights_bytes = 0 : i64} {
  %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
  // expected-error@+1 {{kernel @k has no schedule yet}}
  wrapper.launch @k ins() outs(%y : !wrapper.buffer<[4], [1], f32>)
}
