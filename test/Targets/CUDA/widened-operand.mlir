// RUN: kiln-opt %s --cuda-choose-schedule --cuda-emit-kernels --canonicalize --cse --split-input-file | FileCheck %s

// Eight weights of four bits and their scale come as four bytes each, some parts ahead: of two neighbouring scales, one is used.
// Each thread makes four pairs of them, before it meets the others.
// CHECK-LABEL: llvm.func @fours(
// CHECK-COUNT-2: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 4, cache = ca
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 6
// CHECK: %[[WORD:.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> i32
// CHECK: %[[SCALE:.*]] = llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr -> bf16
// CHECK: %[[BITS:.*]] = arith.andi %[[WORD]], %c983055_i32 : i32
// CHECK: arith.ori %[[BITS]], %c1124090624_i32 : i32
// CHECK: %[[NUMBERS:.*]] = vector.bitcast %{{.*}} : vector<4xi32> to vector<8xbf16>
// CHECK: %[[WHOLE:.*]] = arith.subf %[[NUMBERS]], %{{.*}} : vector<8xbf16>
// CHECK: %[[SCALES:.*]] = vector.broadcast %[[SCALE]] : bf16 to vector<8xbf16>
// CHECK: %[[WEIGHTS:.*]] = arith.mulf %[[WHOLE]], %[[SCALES]] fastmath<contract> : vector<8xbf16>
// CHECK: llvm.store %[[WEIGHTS]], %{{.*}} {alignment = 16 : i64}
// CHECK: nvvm.barrier0
// CHECK: nvvm.mma.sync
kernel.func @fours(%x: tensor<16x256xbf16>, %w: tensor<64x32xi32>, %s: tensor<64x8xbf16>) -> tensor<16x64xbf16> attributes {aligned} {
  %0 = kernel.contract batch [] m [16] n [64] k [256] lhs {
    %1 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<16x256xbf16> -> bf16
    kernel.yield %1 : bf16
  } rhs {
    %offset = arith.constant 1.360000e+02 : bf16
    %base = arith.constant 17152 : i16
    %mask = arith.constant 15 : i32
    %1 = kernel.read %w (d0, d1, d2) -> (d1, d2 floordiv 8) : tensor<64x32xi32> -> i32
    %2 = kernel.index (d0, d1, d2) -> (16*d2 - 28*(d2 floordiv 2) - 16*(d2 floordiv 8))
    %3 = arith.trunci %2 : i64 to i32
    %4 = arith.shrui %1, %3 : i32
    %5 = arith.andi %4, %mask : i32
    %6 = arith.trunci %5 : i32 to i16
    %7 = arith.ori %6, %base : i16
    %8 = arith.bitcast %7 : i16 to bf16
    %9 = arith.subf %8, %offset : bf16
    %10 = kernel.read %s (d0, d1, d2) -> (d1, d2 floordiv 32) : tensor<64x8xbf16> -> bf16
    %11 = arith.mulf %9, %10 : bf16
    kernel.yield %11 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %1 = arith.truncf %sum : f32 to bf16
    kernel.yield %1 : bf16
  } : tensor<16x64xbf16>
  kernel.return %0 : tensor<16x64xbf16>
}

// -----

// Eight bytes come together; what a row has of its own is read once. Steps that do not fill a part are zeros, which copies without
// a mask do not make: threads read those of the next part while they multiply.
// CHECK-LABEL: llvm.func @bytes(
// CHECK: llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr -> i16
// CHECK-NOT: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 8
// CHECK: scf.for
// CHECK: %[[BYTES:.*]] = llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr -> vector<8xi8>
// CHECK: %[[NUMBERS:.*]] = arith.sitofp %[[BYTES]] : vector<8xi8> to vector<8xbf16>
// CHECK: %[[WEIGHTS:.*]] = arith.mulf %[[NUMBERS]], %{{.*}} : vector<8xbf16>
// CHECK: arith.select %{{.*}}, %[[WEIGHTS]], %{{.*}} : vector<8xbf16>
kernel.func @bytes(%x: tensor<16x200xbf16>, %w: tensor<64x200xi8>, %s: tensor<64xbf16>) -> tensor<16x64xbf16> attributes {aligned} {
  %0 = kernel.contract batch [] m [16] n [64] k [200] lhs {
    %1 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<16x200xbf16> -> bf16
    kernel.yield %1 : bf16
  } rhs {
    %1 = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<64x200xi8> -> i8
    %2 = arith.sitofp %1 : i8 to bf16
    %3 = kernel.read %s (d0, d1, d2) -> (d1) : tensor<64xbf16> -> bf16
    %4 = arith.mulf %2, %3 : bf16
    kernel.yield %4 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %1 = arith.truncf %sum : f32 to bf16
    kernel.yield %1 : bf16
  } : tensor<16x64xbf16>
  kernel.return %0 : tensor<16x64xbf16>
}

// -----

// Bits at places of the program's own are those; and scales of fewer steps than come together leave elements.
// CHECK-LABEL: llvm.func @others(
// CHECK-NOT: vector<4xi32> to vector<8xbf16>
// CHECK: nvvm.mma.sync
// CHECK: llvm.return
kernel.func @others(%x: tensor<16x256xbf16>, %w: tensor<64x32xi32>, %v: tensor<64x256xi8>, %s: tensor<64x64xbf16>) -> tensor<16x64xbf16> attributes {aligned} {
  %0 = kernel.contract batch [] m [16] n [64] k [256] lhs {
    %1 = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<16x256xbf16> -> bf16
    kernel.yield %1 : bf16
  } rhs {
    %offset = arith.constant 1.360000e+02 : bf16
    %base = arith.constant 17152 : i16
    %mask = arith.constant 15 : i32
    %1 = kernel.read %w (d0, d1, d2) -> (d1, d2 floordiv 8) : tensor<64x32xi32> -> i32
    %2 = kernel.index (d0, d1, d2) -> (4*(d2 mod 8))
    %3 = arith.trunci %2 : i64 to i32
    %4 = arith.shrui %1, %3 : i32
    %5 = arith.andi %4, %mask : i32
    %6 = arith.trunci %5 : i32 to i16
    %7 = arith.ori %6, %base : i16
    %8 = arith.bitcast %7 : i16 to bf16
    %9 = arith.subf %8, %offset : bf16
    %10 = kernel.read %s (d0, d1, d2) -> (d1, d2 floordiv 4) : tensor<64x64xbf16> -> bf16
    %11 = kernel.read %v (d0, d1, d2) -> (d1, d2) : tensor<64x256xi8> -> i8
    %12 = arith.sitofp %11 : i8 to bf16
    %13 = arith.mulf %12, %10 : bf16
    %14 = arith.addf %9, %13 : bf16
    kernel.yield %14 : bf16
  } epilogue {
  ^bb0(%sum: f32):
    %1 = arith.truncf %sum : f32 to bf16
    kernel.yield %1 : bf16
  } : tensor<16x64xbf16>
  kernel.return %0 : tensor<16x64xbf16>
}
