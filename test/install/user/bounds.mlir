// d0 stays below 8, so the check always holds.
func.func @bounds(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = kernel.map {
    %zero = arith.constant 0.0 : f32
    %inside = kernel.inside (d0) -> (d0) bounds [8]
    %u = kernel.read %x (d0) -> (d0) if %inside else(%zero : f32) : tensor<8xf32> -> f32
    kernel.yield %u : f32
  } : tensor<8xf32>
  return %y : tensor<8xf32>
}
