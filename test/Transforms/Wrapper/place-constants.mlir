// RUN: kiln-opt %s --wrapper-place-constants --split-input-file | FileCheck %s

// CHECK-LABEL: wrapper.program @main() attributes {weights_bytes = 512 : i64}
wrapper.program @main() {
  // CHECK: wrapper.constant "a" at 64 dense<1.0
  %0 = wrapper.constant "a" dense<1.0> : tensor<17xf32> to !wrapper.buffer<[17], [1], f32>
  // CHECK: wrapper.constant at 192 dense<2.0
  %1 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // The same value.
  // CHECK: wrapper.constant at 192 dense<2.0
  %2 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // The same value, but replacing one must not replace the other.
  // CHECK: wrapper.constant "b" at 256 dense<2.0
  %3 = wrapper.constant "b" dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant "c" at 320 dense<2.0
  %4 = wrapper.constant "c" dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // Written to: never shared, and in front.
  // CHECK: wrapper.constant at 0 mutated dense<2.0
  %5 = wrapper.constant mutated dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant at 192 dense<2.0
  %6 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant at 384 dense<true>
  %7 = wrapper.constant dense<true> : tensor<65xi1> to !wrapper.buffer<[65], [1], i1>
}

// -----

// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: weights_bytes = 448 : i64
module attributes {torch.constants = [
    {name = "packed", type = tensor<4xf32>}, {name = "both", type = tensor<4xf32>},
    {name = "scale", type = tensor<f32>}, {name = "scaled", type = tensor<4xf32>}]} {
  kernel.func @pack(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
      kernel.yield %a : f32
    } : tensor<4xf32>
    kernel.return %y : tensor<4xf32>
  }
  kernel.func @scale(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (d0) : tensor<4xf32> -> f32
      %b = kernel.read %s (d0) -> () : tensor<f32> -> f32
      %c = arith.mulf %a, %b : f32
      kernel.yield %c : f32
    } : tensor<4xf32>
    kernel.return %y : tensor<4xf32>
  }
  wrapper.program @main() -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"}) {
    // Whoever replaces it, replaces what is made of it.
    // CHECK: %[[PACKED:.*]] = wrapper.constant "packed" dense
    %0 = wrapper.constant "packed" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.constant at 0 dense<2.0
    %1 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // The program reads it as well.
    // CHECK: wrapper.constant "both" at 64 dense
    %2 = wrapper.constant "both" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.constant at 128 dense<2.0
    %3 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // Either may be replaced alone. What they make is made anew by both.
    // CHECK: wrapper.constant "scale" at 192 dense
    %4 = wrapper.constant "scale" dense<1.0> : tensor<f32> to !wrapper.buffer<[], [], f32>
    // CHECK: wrapper.constant "scaled" at 256 dense
    %5 = wrapper.constant "scaled" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.constant dense<3.0
    %6 = wrapper.constant dense<3.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.constant at 320 dense<3.0
    %7 = wrapper.constant dense<3.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // Nothing that is listed: it cannot be replaced, nor need it be carried.
    // CHECK-NOT: "lifted"
    %8 = wrapper.constant "lifted" dense<4.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.constant at 384 dense<5.0
    %9 = wrapper.constant dense<5.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
    wrapper.copy %1 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    wrapper.copy %2 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    wrapper.copy %3 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    wrapper.copy %7 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    wrapper.copy %9 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.fold @pack ins(%[[PACKED]]
    // CHECK-COUNT-3: wrapper.fold
    // CHECK-NOT: wrapper.fold
    wrapper.fold @pack ins(%0 : !wrapper.buffer<[4], [1], f32>) outs(%1 : !wrapper.buffer<[4], [1], f32>)
    wrapper.fold @pack ins(%2 : !wrapper.buffer<[4], [1], f32>) outs(%3 : !wrapper.buffer<[4], [1], f32>)
    wrapper.fold @scale ins(%5, %4 : !wrapper.buffer<[4], [1], f32>, !wrapper.buffer<[], [], f32>)
        outs(%6 : !wrapper.buffer<[4], [1], f32>)
    wrapper.fold @pack ins(%6 : !wrapper.buffer<[4], [1], f32>) outs(%7 : !wrapper.buffer<[4], [1], f32>)
    wrapper.fold @pack ins(%8 : !wrapper.buffer<[4], [1], f32>) outs(%9 : !wrapper.buffer<[4], [1], f32>)
  }
}

// -----

// A weight that two graphs use is one.
// CHECK: wrapper.func private @f
wrapper.func private @f() {
  // CHECK: wrapper.constant "a" at 0
  %0 = wrapper.constant "a" dense<1.0> : tensor<17xf32> to !wrapper.buffer<[17], [1], f32>
}
// CHECK: wrapper.program @main() attributes {weights_bytes = 192 : i64}
wrapper.program @main() {
  // CHECK: wrapper.constant "b" at 128
  %0 = wrapper.constant "b" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant "a" at 0
  %1 = wrapper.constant "a" dense<1.0> : tensor<17xf32> to !wrapper.buffer<[17], [1], f32>
}

// -----

// So is what two graphs make of it in the same way; of another parameter it is made elsewhere.
module attributes {torch.constants = [{name = "a", type = tensor<4xf32>}, {name = "b", type = tensor<4xf32>}]} {
  kernel.func @pack(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = kernel.map {
      %a = kernel.read %x (d0) -> (3 - d0) : tensor<4xf32> -> f32
      kernel.yield %a : f32
    } : tensor<4xf32>
    kernel.return %y : tensor<4xf32>
  }
  wrapper.func private @f(%y: !wrapper.buffer<[4], [1], f32>) {
    %0 = wrapper.constant "a" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.constant at 0 dense<2.0
    %1 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    wrapper.copy %1 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.fold
    wrapper.fold @pack ins(%0 : !wrapper.buffer<[4], [1], f32>) outs(%1 : !wrapper.buffer<[4], [1], f32>)
  }
  // CHECK: weights_bytes = 128 : i64
  wrapper.program @main() -> (!wrapper.buffer<[4], [1], f32> {wrapper.name = "y"}) {
    %0 = wrapper.constant "a" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.constant at 0 dense<2.0
    %1 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    %2 = wrapper.constant "b" dense<1.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    // CHECK: wrapper.constant at 64 dense<2.0
    %3 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
    %y = wrapper.output 0 : !wrapper.buffer<[4], [1], f32>
    wrapper.copy %1 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    wrapper.copy %3 to %y : !wrapper.buffer<[4], [1], f32> to !wrapper.buffer<[4], [1], f32>
    // CHECK-COUNT-2: wrapper.fold
    wrapper.fold @pack ins(%0 : !wrapper.buffer<[4], [1], f32>) outs(%1 : !wrapper.buffer<[4], [1], f32>)
    wrapper.fold @pack ins(%2 : !wrapper.buffer<[4], [1], f32>) outs(%3 : !wrapper.buffer<[4], [1], f32>)
  }
}

// -----

// Weights from the host come behind those that the library carries.
// CHECK-LABEL: wrapper.program @main() attributes {weights_bytes = 256 : i64}
wrapper.program @main() {
  // CHECK: wrapper.constant "a" at 64 dense_resource<given>
  %0 = wrapper.constant "a" dense_resource<given> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant at 0 dense<2.0
  %1 = wrapper.constant dense<2.0> : tensor<4xf32> to !wrapper.buffer<[4], [1], f32>
  // CHECK: wrapper.constant "b" at 128 dense_resource<other>
  %2 = wrapper.constant "b" dense_resource<other> : tensor<17xf32> to !wrapper.buffer<[17], [1], f32>
}
