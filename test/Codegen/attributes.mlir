// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// CHECK: repeat = #codegen.repeat<lanes = 8>, scan = #codegen.scan<columns = 64, lanes = 16>, scatter = #codegen.scatter<rows = 4>, sort = #codegen.sort<rows = 2, lanes = 8, digits_from = 64, pick_from = 256, wide_from = 32, digit_bits = 4, candidates = 255>
func.func private @all() attributes {
  repeat = #codegen.repeat<lanes = 8>,
  scan = #codegen.scan<rows = 1, columns = 64, lanes = 16>,
  scatter = #codegen.scatter<rows = 4, columns = 0, lanes = 1>,
  sort = #codegen.sort<rows = 2, lanes = 8, digits_from = 64, wide_from = 32, digit_bits = 4, pick_from = 256, candidates = 255>}
