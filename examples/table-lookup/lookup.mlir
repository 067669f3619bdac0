// The subgraph that my_lookup computes: table[codes] * scale. A model is compiled with
//
//   aot-compile decode.pt2 -o decode.so --extern='c{declarations=lookup.mlir}' --link=lookup.o
//
// `n` and `m` stand for any sizes. The function is given memory for a table of 256 numbers beside its result.
func.func private @lookup(%codes: tensor<?x?xui8, #sym.shape<[n, m]>>, %table: tensor<256xf32>, %scale: tensor<f32>)
    -> tensor<?x?xf32, #sym.shape<[n, m]>>
    attributes {kernel.extern = {symbol = "my_lookup", workspace = 1024}} {
  %0 = torch.call "aten.to.dtype"(%codes) args = [#sym.arg<0>, #sym.dtype<i64>, false, false, unit] {node = ""}
      : (tensor<?x?xui8, #sym.shape<[n, m]>>) -> tensor<?x?xi64, #sym.shape<[n, m]>>
  %1 = torch.call "aten.index.Tensor"(%table, %0) args = [#sym.arg<0>, [#sym.arg<1>]] {node = ""}
      : (tensor<256xf32>, tensor<?x?xi64, #sym.shape<[n, m]>>) -> tensor<?x?xf32, #sym.shape<[n, m]>>
  %2 = torch.call "aten.mul.Tensor"(%1, %scale) args = [#sym.arg<0>, #sym.arg<1>] {node = ""}
      : (tensor<?x?xf32, #sym.shape<[n, m]>>, tensor<f32>) -> tensor<?x?xf32, #sym.shape<[n, m]>>
  return %2 : tensor<?x?xf32, #sym.shape<[n, m]>>
}
