// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{the loop in vectors has dims [2, 1], expected adjacent ones in order}}
#map_c1 = #cpu.map<vector = [2, 1], lanes = 8>

// -----

// expected-error@+1 {{rows is 0, expected a positive number}}
#map_c2 = #cpu.map<rows = 0>

// -----

// expected-error@+1 {{12 lanes, expected a power of two up to 256}}
#map_c3 = #cpu.map<vector = [0], lanes = 12>

// -----

// expected-error@+1 {{12 columns, expected a multiple of the 8 lanes}}
#map_c4 = #cpu.map<vector = [0], lanes = 8, columns = 12>

// -----

// expected-error@+1 {{steps is 0, expected a positive number}}
#map_c5 = #cpu.map<vector = [0], lanes = 8, steps = 0>

// -----

// expected-error@+1 {{are those of a loop in vectors, of which there is none}}
#map_c6 = #cpu.map<lanes = 8>

// -----

// expected-error@+1 {{lanes of 2 reductions and copies of 1}}
#map_c7_number = #cpu.map<reduce_lanes = [8, 8], reduce_copies = [1]>

// -----

// expected-error@+1 {{3 copies, expected a power of two up to 16}}
#map_c7_copies = #cpu.map<reduce_lanes = [8], reduce_copies = [3]>

// -----

// expected-error@+1 {{0 lanes, expected a power of two up to 256}}
#map_c7_lanes = #cpu.map<reduce_lanes = [0], reduce_copies = [1]>

// -----

// expected-error@+1 {{rows are kept of a loop in vectors whose reductions are of all columns}}
#map_c9 = #cpu.map<vector = [1], lanes = 8, keep = true>

// -----

// expected-error@+1 {{what is turned has 2 to 64 lanes, one step and no reduction}}
#map_c8_lanes = #cpu.map<vector = [1], lanes = 128, turn = [0]>

// -----

// expected-error@+1 {{what is turned has 2 to 64 lanes, one step and no reduction}}
#map_c8_steps = #cpu.map<vector = [1], lanes = 8, steps = 2, turn = [0]>

// -----

// expected-error@+1 {{what is streamed is a block of columns of one row, without a reduction of all columns}}
#map_c10 = #cpu.map<vector = [1], lanes = 8, rows = 2, columns = 64, streams = true>

// -----

// expected-error@+1 {{block_sums is 0, expected a positive number}}
#contract_c1 = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 0>

// -----

// expected-error@+1 {{512 lanes, expected a power of two up to 256}}
#contract_c2 = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 512, block_rows = 12, block_columns = 32, block_sums = 1>

// -----

// expected-error@+1 {{a tile of 300 times 2 vectors, expected up to 512}}
#contract_c3 = #cpu.contract<tile_rows = 300, vectors = 2, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1>

// -----

// expected-error@+1 {{a tile on 3 axes, expected 1 or 2}}
#contract_c4 = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1, tile_axes = 3, block_axes = 3>

// -----

// expected-error@+1 {{a block on 1 axes, expected the 2 of a tile or one more}}
#contract_c4_block = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1, tile_axes = 2>

// -----

// expected-error@+1 {{lhs_padding is 16, expected up to 4096 for lhs = matrix, otherwise 0}}
#contract_c5 = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1, lhs_padding = 16>

// -----

// expected-error@+1 {{turn = rhs with one lane, which leaves nothing to turn}}
#contract_c6 = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 1, block_rows = 12, block_columns = 32, block_sums = 1, turn = rhs>

// -----

// expected-error@+1 {{turn = sums with 2 vectors of columns, expected one}}
#contract_c6_columns = #cpu.contract<tile_rows = 4, vectors = 2, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1, turn = sums, tile_sums = 16>

// -----

// expected-error@+1 {{unroll is 65, expected up to 64}}
#contract_c7 = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1, unroll = 65>

// -----

// expected-error@+1 {{tile_sums is 3, expected at least the 4 rows of a tile and up to 512 for turn = sums, otherwise 0}}
#contract_c8 = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1, turn = sums, tile_sums = 3>

// -----

// expected-error@+1 {{tile_sums is 16, expected at least the 4 rows of a tile and up to 512 for turn = sums, otherwise 0}}
#contract_c8_unturned = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1, tile_sums = 16>

// -----

// expected-error @below {{turn = rhs with rhs = direct, which is read as it is}}
#contract_c9 = #cpu.contract<tile_rows = 4, vectors = 1, lanes = 16, block_rows = 12, block_columns = 32, block_sums = 1, turn = rhs, rhs = direct>

// -----

// expected-error @below {{unit = tiles with tile_rows = 33, expected up to 32}}
#contract_c10_rows = #cpu.contract<tile_rows = 33, vectors = 2, lanes = 16, block_rows = 33, block_columns = 32, block_sums = 1, epilogue = memory, unit = tiles>

// -----

// expected-error @below {{unit = tiles reads panels of a multiple of 16 columns}}
#contract_c10_columns = #cpu.contract<tile_rows = 32, vectors = 3, lanes = 8, block_rows = 32, block_columns = 24, block_sums = 1, epilogue = memory, unit = tiles>

// -----

// expected-error @below {{unit = tiles has the epilogue in memory, and turns nothing}}
#contract_c10_epilogue = #cpu.contract<tile_rows = 32, vectors = 2, lanes = 16, block_rows = 32, block_columns = 32, block_sums = 1, unit = tiles>

// -----

// expected-error@+1 {{block_panels is -1, expected a positive number}}
#attention_c1 = #cpu.attention<tile_keys = 10, vectors = 2, lanes = 16, block_panels = -1, block_keys = 70>

// -----

// expected-error@+1 {{0 lanes, expected a power of two up to 256}}
#attention_c2 = #cpu.attention<tile_keys = 10, vectors = 2, lanes = 0, block_panels = 1, block_keys = 70>

// -----

// expected-error@+1 {{a tile of 257 times 2 vectors, expected up to 512}}
#attention_c3 = #cpu.attention<tile_keys = 10, vectors = 2, lanes = 16, block_panels = 1, block_keys = 70, tile_values = 257>

// -----

// expected-error@+1 {{parts is 0, expected a positive number}}
#contract_c11 = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 132, block_columns = 128, block_sums = 768, parts = 0>

// -----

// expected-error@+1 {{vector_rows is 8, expected a power of two that divides the 12 rows of a tile}}
#contract_c12 = #cpu.contract<tile_rows = 12, vectors = 1, lanes = 4, block_rows = 12, block_columns = 4, block_sums = 4, vector_rows = 8>

// -----

// expected-error@+1 {{vector_rows is 4, expected 1 but for one vector of columns whose epilogue is on registers}}
#contract_c12 = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 4, block_rows = 12, block_columns = 8, block_sums = 4, vector_rows = 4>

// -----

// expected-error@+1 {{widen_rows is 16, expected 0 or, for vectors of panels, a number of rows}}
#contract_c13 = #cpu.contract<tile_rows = 12, vectors = 1, lanes = 4, block_rows = 12, block_columns = 4, block_sums = 4, rhs = direct, widen_rows = 16>

// -----

// expected-error@+1 {{blocks of 75 keys, expected a multiple of the 10 of a tile}}
#attention_c4 = #cpu.attention<tile_keys = 10, vectors = 2, lanes = 16, block_panels = 1, block_keys = 75>

// -----

// expected-error@+1 {{block_keys is 0, expected a positive number}}
#by_query_c1 = #cpu.attention_by_query<lanes = 16, block_keys = 0>

// -----

// expected-error@+1 {{features lie along the lanes, of which there is one}}
#by_query_c2 = #cpu.attention_by_query<lanes = 1, block_keys = 16>

// -----

// expected-error@+1 {{blocks of 24 keys, expected a multiple of the 16 lanes}}
#by_query_c3 = #cpu.attention_by_query<lanes = 16, block_keys = 24>

// -----

// expected-error@+1 {{8 sums and 65 keys at a time, expected up to 64}}
#by_query_c4 = #cpu.attention_by_query<lanes = 16, block_keys = 32, keys = 65>

// -----

// expected-error@+1 {{panels of 4097 columns, expected up to 4096}}
#layout_c1 = #cpu.layout<panel = 4097>

// -----

// expected-error@+1 {{panels of 32 columns, expected none of an operand that is kept}}
#layout_c1 = #cpu.layout<rhs = kept, panel = 32>

// -----

// expected-error@+1 {{cpu.layout is a #cpu.layout of a contract}}
func.func private @layout() attributes {cpu.layout = #cpu.layout<>}

// -----

// expected-error@+1 {{tiles is 0, expected a positive number}}
#winograd_c1 = #cpu.winograd<tile_rows = 14, tiles = 0, lanes = 16>

// -----

// expected-error@+1 {{channels lie along the lanes, of which there is one}}
#winograd_c2 = #cpu.winograd<tile_rows = 14, tiles = 28, lanes = 1>

// -----

// expected-error@+1 {{27 tiles, expected a multiple of the 14 tile_rows}}
#winograd_c3 = #cpu.winograd<tile_rows = 14, tiles = 27, lanes = 16>

// -----

// expected-error@+1 {{cpu.folded is a unit attribute of a map}}
func.func @folded() attributes {cpu.folded} {
  return
}
