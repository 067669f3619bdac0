// RUN: kiln-opt %s --split-input-file --verify-diagnostics

func.func @collective_c1(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{is of the kind 'gather', which is not known}}
  %y = kernel.collective "gather"(%x) group "0" of 2 : tensor<4x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @collective_c2_missing(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{without reduction}}
  %y = kernel.collective "all_reduce"(%x) group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @collective_c2_there(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{is of a kind that combines nothing}}
  %y = kernel.collective "all_gather"(%x) reduction "sum" group "0" of 2 : tensor<4x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @collective_c2_name(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{combines 'f32' by 'xor': only sum, avg, min, max and product are known}}
  %y = kernel.collective "all_reduce"(%x) reduction "xor" group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @collective_c3_average(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{combines 'i32' by 'avg': an average is of floats}}
  %y = kernel.collective "all_reduce"(%i) reduction "avg" group "0" of 2 : tensor<4xi32> -> tensor<4xi32>
  return
}

// -----

func.func @collective_c3_complex(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{only floats of at least 16 bits, integers and bool are combined}}
  %y = kernel.collective "all_reduce"(%z) reduction "sum" group "0" of 2 : tensor<4xcomplex<f32>> -> tensor<4xcomplex<f32>>
  return
}

// -----

func.func @collective_c4(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{has root 2 among 2 ranks}}
  %y = kernel.collective "broadcast"(%x) root 2 group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @collective_c4_missing(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{has no root}}
  %y = kernel.collective "broadcast"(%x) group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @collective_c4_there(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{has a root that its kind does not have}}
  %y = kernel.collective "all_gather"(%x) root 0 group "0" of 2 : tensor<4x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @collective_c5(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{has 1 parts for 2 ranks}}
  %y = kernel.collective "all_to_all"(%x) send <[3, 1]> receive <[4]> group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @collective_c5_there(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{has 2 parts for 0 ranks}}
  %y = kernel.collective "all_gather"(%x) send <[3, 1]> group "0" of 2 : tensor<4x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @collective_c6_shape(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{of 'tensor<4x8xf32>' is a 'tensor<4x8xf32>'}}
  %y = kernel.collective "all_gather"(%x) group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @collective_c6_dtype(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{of 'tensor<4x8xf32>' is a 'tensor<4x8xf64>'}}
  %y = kernel.collective "all_reduce"(%x) reduction "sum" group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf64>
  return
}

// -----

func.func @collective_c6_rest(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{does not cut 4 rows into these parts}}
  %y = kernel.collective "reduce_scatter"(%x) reduction "sum" group "0" of 3 : tensor<4x8xf32> -> tensor<1x8xf32>
  return
}

// -----

func.func @collective_c6_parts(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{does not cut 4 rows into these parts}}
  %y = kernel.collective "all_to_all"(%x) send <[3, 2]> receive <[3, 2]> group "0" of 2 : tensor<4x8xf32> -> tensor<5x8xf32>
  return
}

// -----

func.func @collective_c6_scalar(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{cuts a tensor without dims}}
  %y = kernel.collective "all_gather"(%s) group "0" of 2 : tensor<f32> -> tensor<2xf32>
  return
}

// -----

func.func @collective_ranks(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %z: tensor<4xcomplex<f32>>, %s: tensor<f32>) {
  // expected-error @below {{attribute 'ranks' failed to satisfy constraint}}
  %y = kernel.collective "all_gather"(%x) group "0" of 0 : tensor<4x8xf32> -> tensor<0x8xf32>
  return
}
