// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{a task of 0 rows}}
#scan_c1 = #codegen.scan<rows = 0>

// -----

// expected-error@+1 {{3 lanes, expected a power of two up to 256}}
#scan_c2 = #codegen.scan<lanes = 3>

// -----

// expected-error@+1 {{12 columns, expected a multiple of the 8 lanes}}
#scan_c3 = #codegen.scan<columns = 12, lanes = 8>

// -----

// expected-error@+1 {{a task of 2 rows with 8 columns each, expected one row or all columns}}
#scan_c4 = #codegen.scan<rows = 2, columns = 8>

// -----

// expected-error@+1 {{a task of -1 rows}}
#scatter_c1 = #codegen.scatter<rows = -1>

// -----

// expected-error@+1 {{a task of 2 rows with 8 columns each, expected one row or all columns}}
#scatter_c4 = #codegen.scatter<rows = 2, columns = 8>

// -----

// expected-error@+1 {{a task of 0 rows}}
#sort_c1 = #codegen.sort<rows = 0, digits_from = 64>

// -----

// expected-error@+1 {{0 lanes, expected a power of two up to 256}}
#sort_c2 = #codegen.sort<lanes = 0, digits_from = 64>

// -----

// expected-error@+1 {{digits_from is 0, expected a positive length}}
#sort_c3 = #codegen.sort<digits_from = 0>

// -----

// expected-error@+1 {{pick_from is -1, expected a length, or 0 for never}}
#sort_c4 = #codegen.sort<digits_from = 64, pick_from = -1>

// -----

// expected-error@+1 {{0 lanes, expected a power of two up to 256}}
#repeat_c1 = #codegen.repeat<lanes = 0>

// -----

// expected-error@+1 {{wide_from is 0, expected a positive length}}
#sort_c3_wide = #codegen.sort<digits_from = 64, wide_from = 0>

// -----

// expected-error@+1 {{digits of 3 bits, expected 1, 2, 4 or 8}}
#sort_c5 = #codegen.sort<digits_from = 64, digit_bits = 3>

// -----

// expected-error@+1 {{0 candidates, expected some, and less than the 0 elements to pick from}}
#sort_c6_none = #codegen.sort<digits_from = 64, candidates = 0>

// -----

// expected-error@+1 {{128 candidates, expected some, and less than the 128 elements to pick from}}
#sort_c6 = #codegen.sort<digits_from = 64, pick_from = 128>
