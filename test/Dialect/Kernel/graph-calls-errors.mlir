// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// invoke_c1
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{'g' is not a function}}
  %0 = kernel.invoke @g(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// invoke_c1
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{calls @f as '(tensor<8xf32>) -> tensor<7xf32>', it is '(tensor<8xf32>) -> tensor<8xf32>'}}
  %0 = kernel.invoke @f(%x) : (tensor<8xf32>) -> tensor<7xf32>
  return
}

// -----

// cond_c1
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{calls @f as '() -> ()'}}
  kernel.cond when 1 then @f else @f () : () -> ()
  return
}

// -----

// cond_c2
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{needs either a predicate or an expression}}
  %0 = kernel.cond then @f else @f (%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// cond_c2
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{predicate is 'tensor<8xf32>', expected one bool}}
  %0 = kernel.cond %x : tensor<8xf32> then @f else @f (%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// while_c1
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func private @go(%x: tensor<8xf32>) -> tensor<i1> {
  %c = kernel.constant dense<false> : tensor<i1> : tensor<i1>
  return %c : tensor<i1>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{results differ in type from the carried values}}
  kernel.while @go do @f (%x) with() : (tensor<8xf32>) -> ()
  return
}

// -----

// while_c1
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func private @go(%x: tensor<8xf32>) -> tensor<i1> {
  %c = kernel.constant dense<false> : tensor<i1> : tensor<i1>
  return %c : tensor<i1>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{calls @f as '(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>'}}
  %0 = kernel.while @go do @f (%x) with(%x) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>)
  return
}

// -----

// while_c2
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{'f' is not a function that gives one bool}}
  %0 = kernel.while @f do @f (%x) with() : (tensor<8xf32>) -> (tensor<8xf32>)
  return
}

// -----

// for_c1
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{the first results differ in type from the carried values}}
  kernel.for @f length 8 (%x) over() with() : (tensor<8xf32>) -> ()
  return
}

// -----

// for_c1
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{calls @f as '(tensor<f32>) -> tensor<f32>'}}
  %0 = kernel.for @f length 8 () over(%x) with() : (tensor<8xf32>) -> (tensor<8xf32>)
  return
}

// -----

// for_c2
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>) {
  // expected-error@+1 {{slices 'tensor<8xf32>' into 7}}
  %0 = kernel.for @f length 7 () over(%x) with() : (tensor<8xf32>) -> (tensor<7xf32>)
  return
}
