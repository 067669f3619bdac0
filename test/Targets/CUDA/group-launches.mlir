// RUN: kiln-opt %s --cuda-group-launches | FileCheck %s
// RUN: kiln-opt %s --cuda-group-launches --cuda-choose-schedule | FileCheck %s --check-prefix=SCHEDULE
// RUN: kiln-opt %s --cuda-group-launches --remarks-filter=cuda-group-launches --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: one launch of 4 kernels: @norm, @product, @product, @gated

// CHECK-LABEL: kernel.func @group_0(
// CHECK-SAME: [[SCALE:%[^:]+]]: tensor<64xf32>, [[X:%[^:]+]]: tensor<1x64xf32>, [[A:%[^:]+]]: tensor<512x64xf32>, [[B:%[^:]+]]: tensor<512x64xf32>, [[C:%[^:]+]]: tensor<512x64xf32>
// CHECK-NEXT: [[NORM:%.+]] = kernel.call @norm_part([[SCALE]], [[X]])
// CHECK-NEXT: [[P:%.+]] = kernel.call @product_part([[NORM]], [[A]])
// CHECK-NEXT: [[Q:%.+]] = kernel.call @product_part([[NORM]], [[B]])
// CHECK-NEXT: [[R:%.+]] = kernel.call @gated_part([[NORM]], [[C]], [[P]])
// CHECK-NEXT: kernel.return [[P]], [[Q]], [[R]]

// What nobody launches by itself any more is gone.
// CHECK-NOT: kernel.func @gated(
// SCHEDULE: kernel.func @group_0({{.*}} attributes {aligned, launch = #kernel.launch<grid = <128>, threads = 256>, schedule = #cuda.group<threads = 256>}
// SCHEDULE: kernel.func private @norm_part({{.*}} schedule = #cuda.map<threads = 256, team = 32
kernel.func @norm(%scale: tensor<64xf32>, %x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %0 = kernel.map {
    %zero = arith.constant 0.0 : f32
    %sum = kernel.reduce [64] init(%zero : f32) {
      %e = kernel.read %x (d0, d1, d2) -> (0, d2) : tensor<1x64xf32> -> f32
      %s = arith.mulf %e, %e : f32
      kernel.yield %s : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      kernel.yield %s : f32
    } : f32
    %e = kernel.read %x (d0, d1) -> (0, d1) : tensor<1x64xf32> -> f32
    %s = kernel.read %scale (d0, d1) -> (d1) : tensor<64xf32> -> f32
    %r = math.rsqrt %sum : f32
    %m = arith.mulf %e, %r : f32
    %v = arith.mulf %m, %s : f32
    kernel.yield %v : f32
  } : tensor<1x64xf32>
  kernel.return %0 : tensor<1x64xf32>
}
kernel.func @product(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>) -> tensor<1x512xf32> {
  %0 = kernel.contract batch [] m [1] n [512] k [64] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x64xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    kernel.yield %sum : f32
  } : tensor<1x512xf32>
  kernel.return %0 : tensor<1x512xf32>
}
// Reads of the first product what it writes itself.
kernel.func @gated(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %y: tensor<1x512xf32>) -> tensor<1x512xf32> {
  %0 = kernel.contract batch [] m [1] n [512] k [64] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x64xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    %e = kernel.read %y (d0, d1, d2) -> (d0, d1) : tensor<1x512xf32> -> f32
    %v = arith.mulf %sum, %e : f32
    kernel.yield %v : f32
  } : tensor<1x512xf32>
  kernel.return %0 : tensor<1x512xf32>
}
// Reads what other blocks of the product write.
kernel.func @reversed(%x: tensor<1x64xf32>, %w: tensor<512x64xf32>, %y: tensor<1x512xf32>) -> tensor<1x512xf32> {
  %0 = kernel.contract batch [] m [1] n [512] k [64] lhs {
    %e = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<1x64xf32> -> f32
    kernel.yield %e : f32
  } rhs {
    %e = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<512x64xf32> -> f32
    kernel.yield %e : f32
  } epilogue {
  ^bb0(%sum: f32):
    %e = kernel.read %y (d0, d1, d2) -> (d0, -d1 + 511) : tensor<1x512xf32> -> f32
    %v = arith.mulf %sum, %e : f32
    kernel.yield %v : f32
  } : tensor<1x512xf32>
  kernel.return %0 : tensor<1x512xf32>
}
kernel.func @put(%old: tensor<8x512xf32>, %at: tensor<1xi64>, %new: tensor<1x512xf32>) -> tensor<8x512xf32> attributes {updates = 0 : i64} {
  %0 = kernel.scatter batch [512] targets [8] places [1] perm [1, 0] init {
    %e = kernel.read %old (d0, d1, d2) -> (d1, d0) : tensor<8x512xf32> -> f32
    kernel.yield %e : f32
  } update {
    %true = arith.constant true
    %i = kernel.read %at (d0, d1, d2) -> (d2) : tensor<1xi64> -> i64
    %e = kernel.read %new (d0, d1, d2) -> (d2, d0) : tensor<1x512xf32> -> f32
    kernel.yield %i, %true, %e : i64, i1, f32
  } combine {
  ^bb0(%a: f32, %b: f32):
    kernel.yield %b : f32
  } : tensor<8x512xf32>
  kernel.return %0 : tensor<8x512xf32>
}

kernel.func @next(%x: tensor<8x512xf32>) -> tensor<8x512xf32> {
  %0 = kernel.map {
    %e = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x512xf32> -> f32
    %s = arith.addf %e, %e : f32
    kernel.yield %s : f32
  } : tensor<8x512xf32>
  kernel.return %0 : tensor<8x512xf32>
}

!w = !wrapper.buffer<[512, 64], [64, 1], f32>
!x = !wrapper.buffer<[1, 64], [64, 1], f32>
!y = !wrapper.buffer<[1, 512], [512, 1], f32>
!scale = !wrapper.buffer<[64], [1], f32>
!cache = !wrapper.buffer<[8, 512], [512, 1], f32>
!at = !wrapper.buffer<[1], [1], i64>

// CHECK-LABEL: wrapper.program @main
// CHECK: wrapper.launch @group_0 ins(%arg0, %arg1, %arg2, %arg3, %arg4 :
// CHECK-NOT: wrapper.launch
wrapper.program @main(%scale: !scale {wrapper.name = "s"}, %x: !x {wrapper.name = "x"}, %a: !w {wrapper.name = "a"}, %b: !w {wrapper.name = "b"}, %c: !w {wrapper.name = "c"})
    -> (!y {wrapper.name = "p"}, !y {wrapper.name = "q"}, !y {wrapper.name = "r"}) attributes {symbols = {u0 = {min = 0}}} {
  %n = wrapper.alloc : !x
  wrapper.launch @norm ins(%scale, %x : !scale, !x) outs(%n : !x)
  %p = wrapper.output 0 : !y
  wrapper.launch @product ins(%n, %a : !x, !w) outs(%p : !y)
  %q = wrapper.output 1 : !y
  wrapper.launch @product ins(%n, %b : !x, !w) outs(%q : !y)
  %r = wrapper.output 2 : !y
  wrapper.launch @gated ins(%n, %c, %p : !x, !w, !y) outs(%r : !y)
}

// What other blocks write is there when the launch has ended.
// CHECK-LABEL: wrapper.func private @order
// CHECK: wrapper.launch @product
// CHECK: wrapper.launch @reversed
wrapper.func private @order(%x: !x, %a: !w) -> (!y, !y) {
  %p = wrapper.output 0 : !y
  wrapper.launch @product ins(%x, %a : !x, !w) outs(%p : !y)
  %q = wrapper.output 1 : !y
  wrapper.launch @reversed ins(%x, %a, %p : !x, !w, !y) outs(%q : !y)
}

// Somebody else wants the norm, so that it is in memory.
// CHECK-LABEL: wrapper.func private @wanted
// CHECK: wrapper.launch @norm
// CHECK: wrapper.launch @group_1 ins(%{{.*}}, %{{.*}}, %{{.*}} : {{.*}}) outs(%{{.*}}, %{{.*}} :
wrapper.func private @wanted(%scale: !scale, %x: !x, %a: !w, %b: !w) -> (!y, !y, !x) {
  %n = wrapper.alloc : !x
  wrapper.launch @norm ins(%scale, %x : !scale, !x) outs(%n : !x)
  %p = wrapper.output 0 : !y
  wrapper.launch @product ins(%n, %a : !x, !w) outs(%p : !y)
  %q = wrapper.output 1 : !y
  wrapper.launch @product ins(%n, %b : !x, !w) outs(%q : !y)
  %m = wrapper.output 2 : !x
  wrapper.copy %n to %m : !x to !x
}

// What is updated in place is an operand and a result. The second update does not move past the copy of what the first one has
// written; the second product moves up to the first one.
// CHECK-LABEL: wrapper.func private @updates
// CHECK: wrapper.launch @group_2 ins(%arg0, %arg1, %[[C:[a-z0-9]+]], %arg3, %arg4, %arg2 : {{.*}}) outs(%{{.*}}, %[[C]], %{{.*}} :
// CHECK: wrapper.copy %[[C]] to
// CHECK: wrapper.launch @put ins(%[[C]], %arg3, %arg4 : {{.*}}) outs(%[[C]] :
wrapper.func private @updates(%x: !x, %a: !w, %b: !w, %at: !at, %new: !y) -> (!y, !cache, !y) {
  %cache = wrapper.alloc : !cache
  %p = wrapper.output 0 : !y
  wrapper.launch @product ins(%x, %a : !x, !w) outs(%p : !y)
  wrapper.launch @put ins(%cache, %at, %new : !cache, !at, !y) outs(%cache : !cache)
  %o = wrapper.output 1 : !cache
  wrapper.copy %cache to %o : !cache to !cache
  wrapper.launch @put ins(%cache, %at, %new : !cache, !at, !y) outs(%cache : !cache)
  %q = wrapper.output 2 : !y
  wrapper.launch @product ins(%x, %b : !x, !w) outs(%q : !y)
}

// Nothing moves past a size that is found out.
// CHECK-LABEL: wrapper.func private @sizes
// CHECK: wrapper.launch @product
// CHECK: wrapper.define "u0"
// CHECK: wrapper.launch @product
wrapper.func private @sizes(%x: !x, %a: !w, %b: !w, %n: !wrapper.buffer<[], [], i64>) -> (!y, !y) {
  %p = wrapper.output 0 : !y
  wrapper.launch @product ins(%x, %a : !x, !w) outs(%p : !y)
  wrapper.define "u0" from %n : !wrapper.buffer<[], [], i64>
  %q = wrapper.output 1 : !y
  wrapper.launch @product ins(%x, %b : !x, !w) outs(%q : !y)
}

// A map that writes over its operand stays by itself.
// CHECK-LABEL: wrapper.func private @over
// CHECK: wrapper.launch @product
// CHECK: wrapper.launch @next
wrapper.func private @over(%x: !x, %a: !w) -> (!y, !cache) {
  %cache = wrapper.alloc : !cache
  %p = wrapper.output 0 : !y
  wrapper.launch @product ins(%x, %a : !x, !w) outs(%p : !y)
  wrapper.launch @next ins(%cache : !cache) outs(%cache : !cache)
  %o = wrapper.output 1 : !cache
  wrapper.copy %cache to %o : !cache to !cache
}
