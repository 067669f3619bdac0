// RUN: kiln-opt %s --split-input-file --verify-diagnostics
// RUN: not kiln-opt %s --split-input-file --cpu-set-target=cpu=pentium4 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: not kiln-opt %s --split-input-file --cpu-set-target='cpu=x86-64-v3 tune=l4=1' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not kiln-opt %s --split-input-file --cpu-set-target='cpu=x86-64-v3 tune=l2=1M' 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not kiln-opt %s --split-input-file --cpu-set-target='cpu=x86-64-v3 tune=l1=65536,l2=32768' 2>&1 | FileCheck %s --check-prefix=CACHES

// OLD: error: CPU 'pentium4' is below x86-64-v3
// NAME: error: 'l4' is no number of a CPU: expected vector_bytes, vector_registers, l1, l2,
// VALUE: error: 'l2=1M': expected l2=NUMBER
// CACHES: error: l1 = 65536, which has to be at most l2 = 32768
module {
}

// -----

// expected-error @below {{unknown CPU 'x86-64-v9'}}
module attributes {cpu.target = #cpu.target<cpu = "x86-64-v9">} {
}

// -----

// expected-error @below {{cores = 0, which has to be 1 to 4096}}
module attributes {cpu.target = #cpu.target<cpu = "x86-64-v3", cores = 0>} {
}

// -----

// expected-error @below {{l1 = 1024, which has to be 4096 to 1048576}}
module attributes {cpu.target = #cpu.target<cpu = "x86-64-v3", l1 = 1024>} {
}

// -----

// expected-error @below {{vector_bytes = 48, which has to be a power of two}}
module attributes {cpu.target = #cpu.target<cpu = "x86-64-v4", vector_bytes = 48>} {
}

// -----

// expected-error @below {{16 vectors of 64 bytes, of which x86-64-v3 has no more than 16 of 32}}
module attributes {cpu.target = #cpu.target<cpu = "x86-64-v3", vector_bytes = 64>} {
}

// -----

// expected-error @below {{l1 = 65536, which has to be at most l2 = 32768}}
module attributes {cpu.target = #cpu.target<cpu = "x86-64-v3", l1 = 65536, l2 = 32768>} {
}

// -----

// expected-error @below {{'l4' is no number of a CPU}}
module attributes {cpu.target = #cpu.target<cpu = "x86-64-v3", l4 = 1>} {
}

// -----

// expected-error @below {{clock is given twice}}
module attributes {cpu.target = #cpu.target<cpu = "x86-64-v3", clock = 4000, clock = 3000>} {
}

// -----

// expected-error @below {{cpu.target is a #cpu.target of a module}}
module attributes {cpu.target = "x86-64-v3"} {
}
