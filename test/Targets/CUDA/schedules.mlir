// RUN: kiln-opt %s | kiln-opt | FileCheck %s

// Parameters are named, in any order; those that say nothing new are left out.
module attributes {
  // CHECK: test.across = #cuda.map<threads = 256, team = 8, across = 32, keep = 64>
  test.across = #cuda.map<threads = 256, team = 8, across = 32, vector = 1, keep = 64>,
  // CHECK-SAME: test.attention = #cuda.mma_attention<warps = 2, rows = 16, keys = 64>
  test.attention = #cuda.mma_attention<keys = 64, rows = 16, warps = 2>,
  // CHECK-SAME: test.dot = #cuda.dot<threads = 256, rows = 2, columns = 4, vector = 8>
  test.dot = #cuda.dot<threads = 256, rows = 2, columns = 4, vector = 8, ahead = 1>,
  // CHECK-SAME: test.fma = #cuda.fma<m = 64, n = 64, k = 16, thread = [4, 4]>
  test.fma = #cuda.fma<m = 64, n = 64, k = 16, thread = [4, 4]>,
  // CHECK-SAME: test.map = #cuda.map<threads = 256, steps = 4, vector = 4>
  test.map = #cuda.map<threads = 256, team = 1, steps = 4, vector = 4, keep = 0>,
  // CHECK-SAME: test.merge = #cuda.merge<threads = 256, elements = 16>
  test.merge = #cuda.merge<threads = 256, elements = 16>,
  // CHECK-SAME: test.mma = #cuda.mma<m = 128, n = 128, k = 32, warp = [64, 64], step = 16, stages = 4>
  test.mma = #cuda.mma<m = 128, n = 128, k = 32, warp = [64, 64], step = 16, stages = 4>,
  // CHECK-SAME: test.row = #cuda.map<threads = 256, team = 32, vector = 4, keep = 64>
  test.row = #cuda.map<threads = 256, team = 32, vector = 4, keep = 64>,
  // CHECK-SAME: test.scalar_attention = #cuda.scalar_attention<warps = 4, rows = 8>
  test.scalar_attention = #cuda.scalar_attention<warps = 4, rows = 8>,
  // CHECK-SAME: test.scan = #cuda.scan<threads = 64, elements = 4, parts = false>
  test.scan = #cuda.scan<threads = 64, elements = 4, parts = false>,
  // CHECK-SAME: test.scatter = #cuda.scatter<threads = 256, places = 4, batch = 256>
  test.scatter = #cuda.scatter<threads = 256, places = 4, batch = 256>,
  // CHECK-SAME: test.sort = #cuda.sort<threads = 512, places = 0>
  test.sort = #cuda.sort<threads = 512, places = 0>,
  // CHECK-SAME: test.tasks = #cuda.tasks<threads = 64>
  test.tasks = #cuda.tasks<threads = 64>,
  // CHECK-SAME: test.tcgen05 = #cuda.tcgen05<n = 256, stages = 4, registers = [56, 224]>
  test.tcgen05 = #cuda.tcgen05<n = 256, stages = 4, registers = [56, 224]>,
  // CHECK-SAME: test.transposed = #cuda.transposed_map<threads = 128, read = 32, written = 64, vector = 4>
  test.transposed = #cuda.transposed_map<threads = 128, read = 32, written = 64, vector = 4>,
  // CHECK-SAME: test.wgmma = #cuda.wgmma<m = 64, n = 192, stages = 5, sharing = [4, 2]>
  test.wgmma = #cuda.wgmma<m = 64, n = 192, stages = 5, sharing = [4, 2], cluster = [1, 1]>,
  // CHECK-SAME: test.wgmma_attention = #cuda.wgmma_attention<consumers = 2, keys = 80, stages = 4, registers = [40, 232], cached = 33554432, ordered = true>
  test.wgmma_attention = #cuda.wgmma_attention<consumers = 2, keys = 80, stages = 4, registers = [40, 232], cached = 33554432, ordered = true>,
  // CHECK-SAME: test.wgmma_cluster = #cuda.wgmma<m = 128, n = 256, stages = 4, registers = [56, 224], cluster = [2, 1], sharing = [4, 2]>
  test.wgmma_cluster = #cuda.wgmma<m = 128, n = 256, stages = 4, registers = [56, 224], cluster = [2, 1], sharing = [4, 2]>
} {}
