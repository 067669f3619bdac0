// RUN: kiln-opt %s --pass-pipeline='builtin.module(cpu-set-target{cpu=x86-64-v3},kernel.func(cpu-choose-schedule),cpu-emit-kernels)' | FileCheck %s

// Four steps in an iteration. A product and its addition to the sum are one piece of text: LLVM would put these in
// another order.
// CHECK-LABEL: llvm.func @product(
// CHECK: %{{.*}}:12 = scf.for %{{.*}} step %c4_i64{{.*}} iter_args(%[[SUM:[a-z0-9]+]] =
// CHECK: %[[BOTH:.*]] = llvm.inline_asm "vpmaddwd $4, $3, $1\0A\09vpaddd $1, $0, $0", "=v,=&v,0,v,v" %[[SUM]], %{{.*}}, %{{.*}} : (vector<8xi32>, vector<16xi16>, vector<16xi16>) -> !llvm.struct<(vector<8xi32>, vector<8xi32>)>
// CHECK: llvm.extractvalue %[[BOTH]][0]
// CHECK-COUNT-47: llvm.inline_asm
// CHECK-NOT: llvm.inline_asm
// CHECK: scf.yield
kernel.func @product(%x: tensor<12x64xi32>, %w: tensor<1x64x16xi16>) -> tensor<12x16xi32> {
  %y = kernel.contract batch [] m [12] n [16] k [64] panel 16 bytes 2 lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<12x64xi32> -> i32
    kernel.yield %a : i32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<1x64x16xi16> -> i16
    kernel.yield %c : i16
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<12x16xi32>
  kernel.return %y : tensor<12x16xi32>
}

// Sums of two products that fit in 16 bits.
// CHECK-LABEL: llvm.func @narrow(
// CHECK: llvm.store %{{.*}}, %[[ONES:.*]] : vector<16xi16>, !llvm.ptr
// CHECK: llvm.inline_asm operand_attrs = [{}, {}, {}, {elementtype = vector<16xi16>}] "vpmaddubsw $4, $3, $1\0A\09vpmaddwd $5, $1, $1\0A\09vpaddd $1, $0, $0", "=v,=&v,0,v,v,*m" %{{.*}}, %{{.*}}, %{{.*}}, %[[ONES]] :
kernel.func @narrow(%x: tensor<12x32xi32>, %w: tensor<1x32x16xi32>) -> tensor<12x16xi32> {
  %y = kernel.contract batch [] m [12] n [16] k [32] panel 16 bytes 4 narrow lhs {
    %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<12x32xi32> -> i32
    kernel.yield %a : i32
  } rhs {
    %c = kernel.read %w (d0, d1, d2) -> (d1 floordiv 16, d2, d1 mod 16) : tensor<1x32x16xi32> -> i32
    kernel.yield %c : i32
  } epilogue {
  ^bb0(%sum: i32):
    kernel.yield %sum : i32
  } : tensor<12x16xi32>
  kernel.return %y : tensor<12x16xi32>
}
