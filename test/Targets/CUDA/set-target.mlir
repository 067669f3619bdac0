// RUN: kiln-opt %s --cuda-set-target --split-input-file | FileCheck %s
// RUN: kiln-opt %s --cuda-set-target=arch=sm_80 --split-input-file | FileCheck %s --check-prefix=A100
// RUN: kiln-opt %s --cuda-set-target=arch=sm_100 --split-input-file | FileCheck %s --check-prefix=B200

// CHECK: module attributes {cuda.target = #cuda.target<arch = "sm_90", multiprocessors = 132, shared = 232448, cache = 52428800, products = 2048, cache_rate = 40, copy_rate = 56, memory_rate = 1909, schedulers = 4, warps = 32, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>}
// A100: module attributes {cuda.target = #cuda.target<arch = "sm_80", multiprocessors = 108, shared = 166912,
// B200: module attributes {cuda.target = #cuda.target<arch = "sm_100", multiprocessors = 148, shared = 232448, cache = 132644864, products = 4096,
module {
}

// -----

// A module's own is kept.
// CHECK: module attributes {cuda.target = #cuda.target<arch = "sm_87", multiprocessors = 16,
// A100: module attributes {cuda.target = #cuda.target<arch = "sm_87", multiprocessors = 16,
module attributes {cuda.target = #cuda.target<arch = "sm_87", multiprocessors = 16, shared = 166912, cache = 4194304, products = 1024, cache_rate = 40, copy_rate = 64, memory_rate = 150, schedulers = 4, warps = 32, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>} {
}
