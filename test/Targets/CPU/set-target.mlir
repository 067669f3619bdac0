// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v3 --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cpu-set-target=cpu=x86-64-v4 --split-input-file | FileCheck %s --check-prefix=V4
// RUN: kiln-opt %s --cpu-set-target=cpu=sapphirerapids --split-input-file | FileCheck %s --check-prefix=SPR
// RUN: kiln-opt %s --cpu-set-target='cpu=x86-64-v4 tune=vector_bytes=32,l2=262144' --split-input-file | FileCheck %s --check-prefix=TUNED

// CHECK: module attributes {cpu.target = #cpu.target<cpu = "x86-64-v3", vector_bytes = 32, vector_registers = 16,
// CHECK-SAME: l1 = 32768, l2 = 1048576, cache_line = 64, set_period = 512, clock = 3000, memory_rate = 20000, fma_units = 2, fma_latency = 4, tile_cycles = 16,
// CHECK-SAME: op_rate = 2, access_cost = 2, element_cost = 1, function_cost = 12, step_cost = 8, cores = 8,
// CHECK-SAME: max_tasks = 128, task_time = 100, least_task = 10, task_cycles = 16384, tile_sums = 24, open_tile = 14, unroll = 12, short_body = 24, short_sum = 64,
// CHECK-SAME: long_sum = 256, open_sum = 512, fewest_rows = 144, many_rows = 256, long_axis = 256, epilogue_ops = 400, fetch_streams = 0>} {
// V4: module attributes {cpu.target = #cpu.target<cpu = "x86-64-v4", vector_bytes = 64, vector_registers = 32, l1 = 32768, l2 = 1048576,
// SPR: module attributes {cpu.target = #cpu.target<cpu = "sapphirerapids", vector_bytes = 64, vector_registers = 32, l1 = 49152, l2 = 2097152,
// SPR-SAME: fetch_streams = 1>} {
// TUNED: module attributes {cpu.target = #cpu.target<cpu = "x86-64-v4", vector_bytes = 32, vector_registers = 32, l1 = 32768, l2 = 262144, cache_line = 64,
module {
}

// -----

// One that is there is kept. Numbers that it leaves out are the CPU's.
// CHECK: module attributes {cpu.target = #cpu.target<cpu = "znver4", vector_bytes = 64, vector_registers = 32, l1 = 49152, l2 = 1048576, cache_line = 64, set_period = 512, clock = 4000,
// V4: module attributes {cpu.target = #cpu.target<cpu = "znver4", vector_bytes = 64,
// SPR: module attributes {cpu.target = #cpu.target<cpu = "znver4", vector_bytes = 64,
// TUNED: module attributes {cpu.target = #cpu.target<cpu = "znver4", vector_bytes = 64,
module attributes {cpu.target = #cpu.target<cpu = "znver4", clock = 4000, l1 = 49152>} {
}
