// RUN: kiln-opt %s --wrapper-update-in-place | FileCheck %s

!cache = !wrapper.buffer<[8, 4], [4, 1], f32>
!at = !wrapper.buffer<[1], [1], i64>
!row = !wrapper.buffer<[4], [1], f32>
!flag = !wrapper.buffer<[], [], i1>

kernel.func @put(%x: tensor<8x4xf32>, %at: tensor<1xi64>, %new: tensor<4xf32>) -> tensor<8x4xf32> {
  %y = kernel.scatter batch [4] targets [8] places [1] perm [1, 0] init {
    %old = kernel.read %x (d0, d1, d2) -> (d1, d0) : tensor<8x4xf32> -> f32
    kernel.yield %old : f32
  } update {
    %i = kernel.read %at (d0, d1, d2) -> (d2) : tensor<1xi64> -> i64
    %v = kernel.read %new (d0, d1, d2) -> (d0) : tensor<4xf32> -> f32
    %always = arith.constant true
    kernel.yield %i, %always, %v : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8x4xf32>
  kernel.return %y : tensor<8x4xf32>
}
kernel.func @next(%at: tensor<1xi64>) -> tensor<1xi64> {
  %y = kernel.map {
    %i = kernel.read %at (d0) -> (d0) : tensor<1xi64> -> i64
    %j = arith.addi %i, %i : i64
    kernel.yield %j : i64
  } : tensor<1xi64>
  kernel.return %y : tensor<1xi64>
}
kernel.func @add(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %z = kernel.map {
    %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %b = kernel.read %y (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
    %c = arith.addf %a, %b : f32
    kernel.yield %c : f32
  } : tensor<8x4xf32>
  kernel.return %z : tensor<8x4xf32>
}
kernel.func @small(%at: tensor<1xi64>) -> tensor<i1> {
  %y = kernel.map {
    %i = kernel.read %at () -> (0) : tensor<1xi64> -> i64
    %c = arith.constant 64 : i64
    %j = arith.cmpi slt, %i, %c : i64
    kernel.yield %j : i1
  } : tensor<i1>
  kernel.return %y : tensor<i1>
}

// What was carried third is the last argument, which the body writes.
// CHECK-LABEL: wrapper.func private @go_0
// CHECK-SAME: (%[[AT:[a-z0-9]+]]: !wrapper.buffer<[1], [1], i64>, %{{.*}}: !wrapper.buffer<[4], [1], f32>, %{{.*}}: !wrapper.buffer<[8, 4], [4, 1], f32>)
// CHECK: wrapper.launch @small ins(%[[AT]]
wrapper.func private @go_0(%cache: !cache, %at: !at, %new: !row) -> !flag {
  %y = wrapper.output 0 : !flag
  wrapper.launch @small ins(%at : !at) outs(%y : !flag)
}
// CHECK-LABEL: wrapper.func private @body_0
// CHECK-SAME: (%[[AT:[a-z0-9]+]]: !wrapper.buffer<[1], [1], i64>, %[[NEW:[a-z0-9]+]]: !wrapper.buffer<[4], [1], f32>, %[[CACHE:[a-z0-9]+]]: !wrapper.buffer<[8, 4], [4, 1], f32> {wrapper.mutated}) -> !wrapper.buffer<[1], [1], i64>
// CHECK-NEXT: wrapper.launch @put_in_place ins(%[[CACHE]], %[[AT]], %[[NEW]] : {{.*}}) outs(%[[CACHE]] :
// CHECK-NEXT: %[[J:.*]] = wrapper.output 0
// CHECK-NEXT: wrapper.launch @next ins(%[[AT]] : {{.*}}) outs(%[[J]]
wrapper.func private @body_0(%cache: !cache, %at: !at, %new: !row) -> (!cache, !at) {
  %y = wrapper.output 0 : !cache
  wrapper.launch @put ins(%cache, %at, %new : !cache, !at, !row) outs(%y : !cache)
  %j = wrapper.output 1 : !at
  wrapper.launch @next ins(%at : !at) outs(%j : !at)
}

wrapper.func private @go_1(%cache: !cache, %at: !at, %new: !row) -> !flag {
  %y = wrapper.output 0 : !flag
  wrapper.launch @small ins(%at : !at) outs(%y : !flag)
}
wrapper.func private @body_1(%cache: !cache, %at: !at, %new: !row) -> (!cache, !at) {
  %y = wrapper.output 0 : !cache
  wrapper.launch @put ins(%cache, %at, %new : !cache, !at, !row) outs(%y : !cache)
  %j = wrapper.output 1 : !at
  wrapper.launch @next ins(%at : !at) outs(%j : !at)
}

wrapper.func private @go_2(%cache: !cache, %at: !at, %sum: !cache, %new: !row) -> !flag {
  %y = wrapper.output 0 : !flag
  wrapper.launch @small ins(%at : !at) outs(%y : !flag)
}
// The old value and the new one are wanted together: they take turns, as before.
// CHECK-LABEL: wrapper.func private @body_2
// CHECK-SAME: (%[[CACHE:[a-z0-9]+]]: !wrapper.buffer<[8, 4], [4, 1], f32>, %{{.*}}) -> (!wrapper.buffer<[8, 4], [4, 1], f32>, !wrapper.buffer<[1], [1], i64>, !wrapper.buffer<[8, 4], [4, 1], f32>)
// CHECK: %[[Y:.*]] = wrapper.output 0
// CHECK-NEXT: wrapper.launch @put ins(%[[CACHE]], {{.*}}) outs(%[[Y]] :
wrapper.func private @body_2(%cache: !cache, %at: !at, %sum: !cache, %new: !row) -> (!cache, !at, !cache) {
  %y = wrapper.output 0 : !cache
  wrapper.launch @put ins(%cache, %at, %new : !cache, !at, !row) outs(%y : !cache)
  %j = wrapper.output 1 : !at
  wrapper.launch @next ins(%at : !at) outs(%j : !at)
  %s = wrapper.output 2 : !cache
  wrapper.launch @add ins(%cache, %y : !cache, !cache) outs(%s : !cache)
}

// CHECK-LABEL: wrapper.program @main
// CHECK-SAME: (%[[X:.*]]: !wrapper.buffer<{{.*}}> {wrapper.name = "x"}, %[[AT:[a-z0-9]+]]: {{.*}}, %[[NEW:[a-z0-9]+]]: {{.*}} {wrapper.name = "new"})
wrapper.program @main(%x: !cache {wrapper.name = "x"}, %at: !at {wrapper.name = "at"}, %new: !row {wrapper.name = "new"})
    -> (!cache {wrapper.name = "y"}, !cache {wrapper.name = "z"}) {
  %b = wrapper.constant "b" mutated dense<0.0> : tensor<8x4xf32> to !cache
  // An input is not the program's to write: it is copied once.
  // CHECK: %[[B:.*]] = wrapper.constant "b"
  // CHECK: %[[Y:.*]] = wrapper.output 0
  // CHECK: wrapper.copy %[[X]] to %[[Y]]
  // CHECK-NEXT: wrapper.while @go_0 do @body_0 carried(%[[AT]] : {{.*}}) ins(%[[NEW]], %[[Y]] : {{.*}}) outs(%{{[0-9]+}} : {{.*}}) spare(%{{[0-9]+}} : !wrapper.buffer<[1], [1], i64>)
  %y = wrapper.output 0 : !cache
  %i0 = wrapper.alloc : !at
  %s0 = wrapper.alloc : !cache
  %t0 = wrapper.alloc : !at
  %f0 = wrapper.alloc : !flag
  wrapper.while @go_0 do @body_0 carried(%x, %at : !cache, !at) ins(%new : !row) outs(%y, %i0 : !cache, !at) spare(%s0, %t0 : !cache, !at) flag(%f0 : !flag)
  // A buffer of the program's gets the new value, without any copy.
  // CHECK-NOT: wrapper.copy
  // CHECK: wrapper.while @go_1 do @body_1 carried(%[[AT]] : {{.*}}) ins(%[[NEW]], %[[B]] : {{.*}}) outs(%{{[0-9]+}} :
  %1 = wrapper.alloc : !cache
  %i1 = wrapper.alloc : !at
  %s1 = wrapper.alloc : !cache
  %t1 = wrapper.alloc : !at
  %f1 = wrapper.alloc : !flag
  wrapper.while @go_1 do @body_1 carried(%b, %at : !cache, !at) ins(%new : !row) outs(%1, %i1 : !cache, !at) spare(%s1, %t1 : !cache, !at) flag(%f1 : !flag)
  // CHECK-NEXT: %[[Z:.*]] = wrapper.output 1
  // CHECK-NEXT: wrapper.copy %[[B]] to %[[Z]]
  %z = wrapper.output 1 : !cache
  wrapper.copy %1 to %z : !cache to !cache
  wrapper.copy %1 to %b : !cache to !cache
  // CHECK: wrapper.while @go_2 do @body_2 carried(%[[X]], %[[AT]], %[[X]] :
  %2 = wrapper.alloc : !cache
  %i2 = wrapper.alloc : !at
  %r2 = wrapper.alloc : !cache
  %s2 = wrapper.alloc : !cache
  %t2 = wrapper.alloc : !at
  %u2 = wrapper.alloc : !cache
  %f2 = wrapper.alloc : !flag
  wrapper.while @go_2 do @body_2 carried(%x, %at, %x : !cache, !at, !cache) ins(%new : !row) outs(%2, %i2, %r2 : !cache, !at, !cache) spare(%s2, %t2, %u2 : !cache, !at, !cache) flag(%f2 : !flag)
}
