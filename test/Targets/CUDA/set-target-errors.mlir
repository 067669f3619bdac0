// RUN: kiln-opt %s --cuda-set-target=arch=sm_70 --split-input-file --verify-diagnostics

// expected-error @below {{kernels cannot be planned for 'sm_70': known GPUs are those of sm_80, sm_86, sm_89, sm_90, sm_100, sm_120}}
module {
}

// -----

// expected-error @below {{shared = 1024 bytes, of which every GPU has at least 101376}}
module attributes {cuda.target = #cuda.target<arch = "sm_90", multiprocessors = 132, shared = 1024, cache = 52428800, products = 2048, cache_rate = 40, copy_rate = 64, memory_rate = 1909, schedulers = 4, warps = 32, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>} {
}

// -----

// expected-error @below {{multiprocessors = 0, which has to be positive}}
module attributes {cuda.target = #cuda.target<arch = "sm_90", multiprocessors = 0, shared = 232448, cache = 52428800, products = 2048, cache_rate = 40, copy_rate = 64, memory_rate = 1909, schedulers = 4, warps = 32, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>} {
}

// -----

// expected-error @below {{warps = 0, which has to be positive}}
module attributes {cuda.target = #cuda.target<arch = "sm_90", multiprocessors = 132, shared = 232448, cache = 52428800, products = 2048, cache_rate = 40, copy_rate = 64, memory_rate = 1909, schedulers = 4, warps = 0, blocks = 4, load_latency = 600, share_latency = 1500, product_latency = 64, meeting = 16, copy_cost = 25, write_rate = 8>} {
}

// -----

// expected-error @below {{cuda.target is a #cuda.target of a module}}
module attributes {cuda.target = "sm_90"} {
}
