// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{a launch with -1 threads and 0 bytes of scratch memory}}
#c2 = #kernel.launch<grid = <1>, threads = -1>

// -----

// expected-error@+1 {{a launch with 0 threads and -64 bytes of scratch memory}}
#c2 = #kernel.launch<grid = <1>, scratch = -64>

// -----

// expected-error@+1 {{a cluster of [2, 0] blocks}}
#c3 = #kernel.launch<grid = <1>, threads = 128, cluster = [2, 0]>

// -----

// expected-error@+1 {{grid}}
#grid = #kernel.launch<threads = 128>
