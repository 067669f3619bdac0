// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{a block of 48 threads, which have to be whole warps of 32, up to 1024}}
module attributes {test.schedule = #cuda.map<threads = 48>} {}

// -----

// expected-error @below {{threads = 96, which has to be a power of two up to 1024}}
module attributes {test.schedule = #cuda.map<threads = 96>} {}

// -----

// expected-error @below {{a team of 64 of 256 threads, which has to be one, a warp, or all of them}}
module attributes {test.schedule = #cuda.map<threads = 256, team = 64>} {}

// -----

// expected-error @below {{across = 16 rows with a team of 16 each, of 256 threads: a block has all of them, of at least two for a row and a warp of rows}}
module attributes {test.schedule = #cuda.map<threads = 256, team = 16, across = 16>} {}

// -----

// expected-error @below {{vector = 4 of rows whose neighbours are neighbours in memory}}
module attributes {test.schedule = #cuda.map<threads = 256, team = 8, across = 32, vector = 4>} {}

// -----

// expected-error @below {{steps = 17, which has to be 1 to 16}}
module attributes {test.schedule = #cuda.map<threads = 256, steps = 17>} {}

// -----

// expected-error @below {{steps = 2 of a team: these are of threads by themselves}}
module attributes {test.schedule = #cuda.map<threads = 256, team = 32, steps = 2>} {}

// -----

// expected-error @below {{vector = 3, which has to be a power of two up to 16}}
module attributes {test.schedule = #cuda.map<threads = 256, vector = 3>} {}

// -----

// expected-error @below {{keep = 8 without a team: nobody shares a row}}
module attributes {test.schedule = #cuda.map<threads = 256, keep = 8>} {}

// -----

// expected-error @below {{keep = 256, which has to be 0 to 255}}
module attributes {test.schedule = #cuda.map<threads = 256, team = 32, keep = 256>} {}

// -----

// expected-error @below {{read = 0, which has to be 1 to 4096}}
module attributes {test.schedule = #cuda.transposed_map<threads = 256, read = 0, written = 64>} {}

// -----

// expected-error @below {{a tile of written = 6 elements, which is no multiple of vector = 4}}
module attributes {test.schedule = #cuda.transposed_map<threads = 256, read = 32, written = 6, vector = 4>} {}

// -----

// expected-error @below {{rows = 9, which has to be 1 to 8}}
module attributes {test.schedule = #cuda.dot<threads = 256, rows = 9, columns = 1>} {}

// -----

// expected-error @below {{columns = 0, which has to be 1 to 8}}
module attributes {test.schedule = #cuda.dot<threads = 256, rows = 1, columns = 0>} {}

// -----

// expected-error @below {{ahead = 0, which has to be 1 to 16}}
module attributes {test.schedule = #cuda.dot<threads = 256, rows = 1, columns = 1, ahead = 0>} {}

// -----

// expected-error @below {{a block of 64 x 64 is not made of tiles of 3 x 8}}
module attributes {test.schedule = #cuda.fma<m = 64, n = 64, k = 8, thread = [3, 8]>} {}

// -----

// expected-error @below {{a block of 2048 threads, which have to be whole warps of 32, up to 1024}}
module attributes {test.schedule = #cuda.fma<m = 128, n = 64, k = 8, thread = [2, 2]>} {}

// -----

// expected-error @below {{a block's 16 rows and 128 columns of 1 steps, which are not divided evenly among 32 threads}}
module attributes {test.schedule = #cuda.fma<m = 16, n = 128, k = 1, thread = [8, 8]>} {}

// -----

// expected-error @below {{k = 0, which has to be 1 to 4096}}
module attributes {test.schedule = #cuda.fma<m = 64, n = 64, k = 0, thread = [8, 8]>} {}

// -----

// expected-error @below {{step = 4, which has to be 16, 8 of f32, or 32 of bytes}}
module attributes {test.schedule = #cuda.mma<m = 64, n = 64, k = 32, warp = [32, 32], step = 4, stages = 4>} {}

// -----

// expected-error @below {{products = 3, which has to be 1, or 3 of f32}}
module attributes {test.schedule = #cuda.mma<m = 64, n = 64, k = 32, warp = [32, 32], step = 16, stages = 4, products = 3>} {}

// -----

// expected-error @below {{a warp's tile of 24 x 24 and 32 steps, which are not made of instructions of 16 x 8 x 16}}
module attributes {test.schedule = #cuda.mma<m = 48, n = 48, k = 32, warp = [24, 24], step = 16, stages = 4>} {}

// -----

// expected-error @below {{n = 48, which has to be a power of two of at least 8}}
module attributes {test.schedule = #cuda.mma<m = 16, n = 48, k = 32, warp = [16, 24], step = 16, stages = 4>} {}

// -----

// expected-error @below {{stages = 1, which has to be 2 to 8}}
module attributes {test.schedule = #cuda.mma<m = 64, n = 64, k = 32, warp = [32, 32], step = 16, stages = 1>} {}

// -----

// expected-error @below {{m = 256, which has to be 64, or 128 for two warpgroups together}}
module attributes {test.schedule = #cuda.wgmma<m = 256, n = 128, stages = 4, sharing = [4, 2]>} {}

// -----

// expected-error @below {{n = 260, which has to be a multiple of 8 up to 256}}
module attributes {test.schedule = #cuda.wgmma<m = 128, n = 260, stages = 4, sharing = [4, 2]>} {}

// -----

// expected-error @below {{cluster = [2, 2], which has to be of two blocks at most}}
module attributes {test.schedule = #cuda.wgmma<m = 128, n = 128, stages = 4, cluster = [2, 2], sharing = [4, 2]>} {}

// -----

// expected-error @below {{cluster = [0, 2], which has to be of two blocks at most}}
module attributes {test.schedule = #cuda.wgmma<m = 128, n = 128, stages = 4, cluster = [0, 2], sharing = [4, 2]>} {}

// -----

// expected-error @below {{registers = [57, 224], which have to be multiples of 8, from 24 to 256}}
module attributes {test.schedule = #cuda.wgmma<m = 128, n = 128, stages = 4, registers = [57, 224], sharing = [4, 2]>} {}

// -----

// expected-error @below {{registers = [64, 224] of a warpgroup that copies and of 2 that multiply: these start with 504 together}}
module attributes {test.schedule = #cuda.wgmma<m = 128, n = 128, stages = 4, registers = [64, 224], sharing = [4, 2]>} {}

// -----

// expected-error @below {{sharing = [-1, 2], which have to be numbers of steps}}
module attributes {test.schedule = #cuda.wgmma<m = 128, n = 128, stages = 4, sharing = [-1, 2]>} {}

// -----

// expected-error @below {{struct is missing required parameter: stages}}
module attributes {test.schedule = #cuda.wgmma<m = 128, n = 128, sharing = [4, 2]>} {}

// -----

// expected-error @below {{n = 72, which has to be a multiple of 16 up to 256}}
module attributes {test.schedule = #cuda.tcgen05<n = 72, stages = 4>} {}

// -----

// expected-error @below {{stages = 1, which has to be 2 to 8}}
module attributes {test.schedule = #cuda.tcgen05<n = 64, stages = 1>} {}

// -----

// expected-error @below {{warps = 0, which has to be 1 to 32}}
module attributes {test.schedule = #cuda.scalar_attention<warps = 0, rows = 8>} {}

// -----

// expected-error @below {{rows = 32, which has to be 1 to 16}}
module attributes {test.schedule = #cuda.scalar_attention<warps = 4, rows = 32>} {}

// -----

// expected-error @below {{warps = 3, which has to be a power of two up to 4}}
module attributes {test.schedule = #cuda.mma_attention<warps = 3, rows = 16, keys = 64>} {}

// -----

// expected-error @below {{rows = 48, which have to be 16 or 32}}
module attributes {test.schedule = #cuda.mma_attention<warps = 4, rows = 48, keys = 64>} {}

// -----

// expected-error @below {{keys = 128, which have to be 16, 32 or 64}}
module attributes {test.schedule = #cuda.mma_attention<warps = 4, rows = 16, keys = 128>} {}

// -----

// expected-error @below {{consumers = 3, which has to be 1 to 2}}
module attributes {test.schedule = #cuda.wgmma_attention<consumers = 3, keys = 64, stages = 4, cached = 1, ordered = false>} {}

// -----

// expected-error @below {{keys = 72, which have to be a multiple of 16 up to 256}}
module attributes {test.schedule = #cuda.wgmma_attention<consumers = 2, keys = 72, stages = 4, cached = 1, ordered = false>} {}

// -----

// expected-error @below {{ordered, with consumers = 1, which have to be 2}}
module attributes {test.schedule = #cuda.wgmma_attention<consumers = 1, keys = 64, stages = 4, cached = 1, ordered = true>} {}

// -----

// expected-error @below {{elements = 0, which has to be 1 to 16}}
module attributes {test.schedule = #cuda.scan<threads = 64, elements = 0, parts = false>} {}

// -----

// expected-error @below {{places = 8192, which has to be a power of two up to 4096}}
module attributes {test.schedule = #cuda.sort<threads = 64, places = 8192>} {}

// -----

// expected-error @below {{elements = 3, which has to be a power of two up to 32}}
module attributes {test.schedule = #cuda.merge<threads = 64, elements = 3>} {}

// -----

// expected-error @below {{batch = 2048, which has to be a power of two up to 1024}}
module attributes {test.schedule = #cuda.scatter<threads = 256, places = 1, batch = 2048>} {}

// -----

// expected-error @below {{places = 2 times batch = 64 have to be 1 to 16 elements for each of 256 threads}}
module attributes {test.schedule = #cuda.scatter<threads = 256, places = 2, batch = 64>} {}

// -----

// expected-error @below {{a block of 0 threads, which have to be whole warps of 32, up to 1024}}
module attributes {test.schedule = #cuda.tasks<threads = 0>} {}

// -----

// expected-error @below {{has a schedule #cuda.scan<threads = 64, elements = 4, parts = false> that is not for kernel.map}}
kernel.func @map(%x: tensor<8xf32>) -> tensor<8xf32> attributes {schedule = #cuda.scan<threads = 64, elements = 4, parts = false>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
