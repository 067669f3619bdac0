// RUN: kiln-opt %s --torch-lower-to-kernel --split-input-file --verify-diagnostics

func.func @columns(%x: tensor<2x32xf32>, %w: tensor<24x16xui8>, %s: tensor<1x24x2xf32>) -> tensor<2x24xf32> {
  // expected-error@+1 {{columns that are not a known multiple of 16}}
  %0 = torch.call "aten._weight_int4pack_mm_for_cpu.default"(%x, %w, %s) args = [#sym.arg<0>, #sym.arg<1>, 32, #sym.arg<2>] {node = "mm"} : (tensor<2x32xf32>, tensor<24x16xui8>, tensor<1x24x2xf32>) -> tensor<2x24xf32>
  return %0 : tensor<2x24xf32>
}

// -----

func.func @groups(%x: tensor<2x32xf32>, %w: tensor<32x16xui8>, %s: tensor<2x32x2xf32>) -> tensor<2x32xf32> {
  // expected-error@+1 {{shapes that have no product}}
  %0 = torch.call "aten._weight_int4pack_mm_for_cpu.default"(%x, %w, %s) args = [#sym.arg<0>, #sym.arg<1>, 32, #sym.arg<2>] {node = "mm"} : (tensor<2x32xf32>, tensor<32x16xui8>, tensor<2x32x2xf32>) -> tensor<2x32xf32>
  return %0 : tensor<2x32xf32>
}

// -----

func.func @packed(%x: tensor<3x64xf32>, %w: tensor<500xf32>) -> tensor<3x16xf32> {
  // expected-error@+1 {{a packed weight of this size}}
  %0 = torch.call "aten._dyn_quant_matmul_4bit.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, 64, 64, 16] {node = "mm"} : (tensor<3x64xf32>, tensor<500xf32>) -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}

// -----

func.func @size(%x: tensor<3x64xf32>, %w: tensor<528xf32>) -> tensor<3x16xf32> {
  // expected-error@+1 {{a weight of this size}}
  %0 = torch.call "aten._dyn_quant_matmul_4bit.default"(%x, %w) args = [#sym.arg<0>, #sym.arg<1>, 0, 64, 16] {node = "mm"} : (tensor<3x64xf32>, tensor<528xf32>) -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}
