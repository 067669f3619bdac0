module attributes {torch.program = "model"} {
  func.func @main(%arg0: tensor<32x128xf32> {torch.name = "args_0", torch.strides = #sym.shape<[128, 1]>}) -> (tensor<32x128xf32> {torch.name = "_dyn_quant_matmul_4bit", torch.strides = #sym.shape<[128, 1]>}) {
    %0 = torch.constant "lifted_tensor_0" = dense_resource<lifted_tensor_0> : tensor<128x128xf32> {kind = "constant"}
    %1 = torch.call "aten.transpose.int"(%0) args = [#torch.arg<0>, 0, 1] {node = "transpose"} : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %2 = torch.call "aten.contiguous.default"(%1) args = [#torch.arg<0>, #torch.memory_format<contiguous>] {node = "contiguous", torch.storage_offset = #sym.expr<0>, torch.strides = #sym.shape<[1, 128]>} : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %3 = torch.call "aten.reshape.default"(%2) args = [#torch.arg<0>, [-1, 32]] {node = "reshape", torch.storage_offset = #sym.expr<0>, torch.strides = #sym.shape<[128, 1]>} : (tensor<128x128xf32>) -> tensor<512x32xf32>
    %4 = torch.call "aten.abs.default"(%3) args = [#torch.arg<0>] {node = "abs_1"} : (tensor<512x32xf32>) -> tensor<512x32xf32>
    %5 = torch.call "aten.amax.default"(%4) args = [#torch.arg<0>, [1], true] {node = "amax"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
    %6 = torch.call "aten.clamp.default"(%5) args = [#torch.arg<0>, 1.1920928955078125E-7, unit] {node = "clamp"} : (tensor<512x1xf32>) -> tensor<512x1xf32>
    %7 = torch.call "aten.div.Tensor"(%6) args = [#torch.arg<0>, 7] {node = "div"} : (tensor<512x1xf32>) -> tensor<512x1xf32>
    %8 = torch.call "aten.zeros_like.default"(%7) args = [#torch.arg<0>, unit, unit, unit, false, unit] {node = "zeros_like"} : (tensor<512x1xf32>) -> tensor<512x1xf32>
    torch.call "aten._assert_tensor_metadata.default"(%7) args = [#torch.arg<0>, unit, unit, #torch.dtype<f32>, #torch.device<"cpu">, #torch.layout<strided>] {node = "_assert_tensor_metadata_default"} : (tensor<512x1xf32>) -> ()
    %9 = torch.call "aten.to.dtype"(%7) args = [#torch.arg<0>, #torch.dtype<f32>, false, false, unit] {node = "to"} : (tensor<512x1xf32>) -> tensor<512x1xf32>
    %10 = torch.call "aten.reshape.default"(%9) args = [#torch.arg<0>, [128, -1]] {node = "reshape_1", torch.storage_offset = #sym.expr<0>, torch.strides = #sym.shape<[1, 1]>} : (tensor<512x1xf32>) -> tensor<128x4xf32>
    torch.call "aten._assert_tensor_metadata.default"(%8) args = [#torch.arg<0>, unit, unit, #torch.dtype<f32>, #torch.device<"cpu">, #torch.layout<strided>] {node = "_assert_tensor_metadata_default_1"} : (tensor<512x1xf32>) -> ()
    %11 = torch.call "aten.to.dtype"(%8) args = [#torch.arg<0>, #torch.dtype<f32>, false, false, unit] {node = "to_1"} : (tensor<512x1xf32>) -> tensor<512x1xf32>
    %12 = torch.call "aten.reshape.default"(%11) args = [#torch.arg<0>, [128, -1]] {node = "reshape_2", torch.storage_offset = #sym.expr<0>, torch.strides = #sym.shape<[1, 1]>} : (tensor<512x1xf32>) -> tensor<128x4xf32>
    %13 = torch.call "aten.reshape.default"(%10) args = [#torch.arg<0>, [-1, 1]] {node = "reshape_3", torch.storage_offset = #sym.expr<0>, torch.strides = #sym.shape<[4, 1]>} : (tensor<128x4xf32>) -> tensor<512x1xf32>
    %14 = torch.call "aten.reshape.default"(%12) args = [#torch.arg<0>, [-1, 1]] {node = "reshape_4", torch.storage_offset = #sym.expr<0>, torch.strides = #sym.shape<[4, 1]>} : (tensor<128x4xf32>) -> tensor<512x1xf32>
    %15 = torch.call "aten.div.Tensor"(%3, %13) args = [#torch.arg<0>, #torch.arg<1>] {node = "div_1"} : (tensor<512x32xf32>, tensor<512x1xf32>) -> tensor<512x32xf32>
    %16 = torch.call "aten.add.Tensor"(%15) args = [#torch.arg<0>, 8.500000e+00, 1] {node = "add"} : (tensor<512x32xf32>) -> tensor<512x32xf32>
    torch.call "aten._assert_tensor_metadata.default"(%16) args = [#torch.arg<0>, unit, unit, #torch.dtype<f32>, #torch.device<"cpu">, #torch.layout<strided>] {node = "_assert_tensor_metadata_default_2"} : (tensor<512x32xf32>) -> ()
    %17 = torch.call "aten.to.dtype"(%16) args = [#torch.arg<0>, #torch.dtype<i8>, false, false, unit] {node = "to_2"} : (tensor<512x32xf32>) -> tensor<512x32xi8>
    %18 = torch.call "aten.clamp.default"(%17) args = [#torch.arg<0>, unit, 15] {node = "clamp_1"} : (tensor<512x32xi8>) -> tensor<512x32xi8>
    %19 = torch.call "aten.slice.Tensor"(%18) args = [#torch.arg<0>, 1, 1, 9223372036854775807, 2] {node = "slice_1"} : (tensor<512x32xi8>) -> tensor<512x16xi8>
    %20 = torch.call "aten.__lshift__.Scalar"(%19) args = [#torch.arg<0>, 4] {node = "lshift"} : (tensor<512x16xi8>) -> tensor<512x16xi8>
    %21 = torch.call "aten.slice.Tensor"(%18) args = [#torch.arg<0>, 1, 0, 9223372036854775807, 2] {node = "slice_2"} : (tensor<512x32xi8>) -> tensor<512x16xi8>
    %22 = torch.call "aten.__or__.Tensor"(%20, %21) args = [#torch.arg<0>, #torch.arg<1>] {node = "or_1"} : (tensor<512x16xi8>, tensor<512x16xi8>) -> tensor<512x16xi8>
    torch.call "aten._assert_tensor_metadata.default"(%22) args = [#torch.arg<0>, unit, unit, #torch.dtype<i8>, #torch.device<"cpu">, #torch.layout<strided>] {node = "_assert_tensor_metadata_default_3"} : (tensor<512x16xi8>) -> ()
    %23 = torch.call "aten.to.dtype"(%22) args = [#torch.arg<0>, #torch.dtype<ui8>, false, false, unit] {node = "to_3"} : (tensor<512x16xi8>) -> tensor<512x16xui8>
    %24 = torch.call "aten.squeeze.default"(%13) args = [#torch.arg<0>] {node = "squeeze"} : (tensor<512x1xf32>) -> tensor<512xf32>
    torch.call "aten._assert_tensor_metadata.default"(%24) args = [#torch.arg<0>, unit, unit, #torch.dtype<f32>, #torch.device<"cpu">, #torch.layout<strided>] {node = "_assert_tensor_metadata_default_4"} : (tensor<512xf32>) -> ()
    %25 = torch.call "aten.to.dtype"(%24) args = [#torch.arg<0>, #torch.dtype<bf16>, false, false, unit] {node = "to_4"} : (tensor<512xf32>) -> tensor<512xbf16>
    %26 = torch.call "aten._dyn_quant_pack_4bit_weight.default"(%23, %25) args = [#torch.arg<0>, #torch.arg<1>, unit, 32, 128, 128] {node = "_dyn_quant_pack_4bit_weight"} : (tensor<512x16xui8>, tensor<512xbf16>) -> tensor<8704xf32>
    %27 = torch.call "aten._dyn_quant_matmul_4bit.default"(%arg0, %26) args = [#torch.arg<0>, #torch.arg<1>, 32, 128, 128] {node = "_dyn_quant_matmul_4bit"} : (tensor<32x128xf32>, tensor<8704xf32>) -> tensor<32x128xf32>
    return %27 : tensor<32x128xf32>
  }
}

{-#

#-}
