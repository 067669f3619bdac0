// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// Defaults of parameters are not printed.
// CHECK: map = [#cpu.map<>, #cpu.map<vector = [1, 2], lanes = 32, columns = 64>, #cpu.map<vector = [0], lanes = 8, rows = 4, steps = 6>, #cpu.map<rows = 2, reduce_lanes = [16, 1], reduce_copies = [4, 16]>, #cpu.map<vector = [2], lanes = 16, turn = [0, 1]>, #cpu.map<vector = [1], lanes = 8, reduce_lanes = [8], reduce_copies = [1], keep = true>, #cpu.map<vector = [1], lanes = 8, columns = 64, streams = true>]
func.func private @map() attributes {map = [#cpu.map<>, #cpu.map<vector = [1, 2], lanes = 32, rows = 1, columns = 64>, #cpu.map<steps = 6, rows = 4, vector = [0], lanes = 8>, #cpu.map<reduce_copies = [4, 16], reduce_lanes = [16, 1], rows = 2>, #cpu.map<turn = [0, 1], lanes = 16, vector = [2]>, #cpu.map<keep = true, vector = [1], lanes = 8, reduce_lanes = [8], reduce_copies = [1]>, #cpu.map<streams = true, vector = [1], lanes = 8, columns = 64>]}

// CHECK: plain = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 132, block_columns = 128, block_sums = 768>
// CHECK-SAME: whole = #cpu.contract<tile_rows = 14, vectors = 1, lanes = 8, block_rows = 14, block_columns = 8, block_sums = 9, lhs = window, epilogue = memory, share_tiles = true, prefetch = l1, tile_axes = 2, block_axes = 3, unroll = 1, epilogue_prefetch = l2>
func.func private @contract() attributes {
  plain = #cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 132, block_columns = 128, block_sums = 768, lhs = direct, epilogue = registers, share_tiles = false, prefetch = none, tile_axes = 1, block_axes = 1, lhs_padding = 0, turn = none, tile_sums = 0, unroll = 12, epilogue_prefetch = none>,
  whole = #cpu.contract<tile_rows = 14, vectors = 1, lanes = 8, block_rows = 14, block_columns = 8, block_sums = 9, lhs = window, epilogue = memory, share_tiles = true, prefetch = l1, tile_axes = 2, block_axes = 3, unroll = 1, epilogue_prefetch = l2>}

// CHECK: by_query = #cpu.attention_by_query<lanes = 16, block_keys = 512>
// CHECK-SAME: panels = #cpu.attention<tile_keys = 10, vectors = 2, lanes = 16, block_panels = 1, block_keys = 70>
func.func private @attention() attributes {
  by_query = #cpu.attention_by_query<lanes = 16, block_keys = 512, sums = 8, keys = 4>,
  panels = #cpu.attention<tile_keys = 10, vectors = 2, lanes = 16, block_panels = 1, block_keys = 70, tile_values = 12>}

// CHECK: layouts = [#cpu.layout<>, #cpu.layout<lhs = copied, order = kept, rhs = copied, panel = 48>, #cpu.layout<lhs = kept, order = swapped>]
func.func private @layout() attributes {layouts = [#cpu.layout<>, #cpu.layout<panel = 48, rhs = copied, order = kept, lhs = copied>, #cpu.layout<lhs = kept, order = swapped>]}

// CHECK: winograd = #cpu.winograd<tile_rows = 14, tiles = 28, lanes = 16>
func.func private @winograd() attributes {winograd = #cpu.winograd<lanes = 16, tiles = 28, tile_rows = 14>}
