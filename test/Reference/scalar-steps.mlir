// RUN: kiln-opt %s --run-reference='print=true' --split-input-file -o /dev/null 2>&1 | FileCheck %s

// The numbers are -7, -2, 3, 8 and -3, -1, 1, 3, of 8 bits: what is beyond wraps around.
// CHECK: result 0: tensor<4xi8> [-10, -3, 4, 11]
// CHECK: result 1: tensor<4xi8> [-4, -1, 2, 5]
// CHECK: result 2: tensor<4xi8> [21, 2, 3, 24]
// CHECK: result 3: tensor<4xi8> [2, 2, 3, 2]
// CHECK: result 4: tensor<4xi8> [-1, 0, 0, 2]
// CHECK: result 5: tensor<4xi8> [2, 2, 3, 2]
// CHECK: result 6: tensor<4xi8> [3, 2, 3, 3]
// CHECK: result 7: tensor<4xi8> [0, 0, 3, 2]
// CHECK: result 8: tensor<4xi8> [-7, -2, 0, 2]
// CHECK: result 9: tensor<4xi8> [1, 1, 3, 3]
// CHECK: result 10: tensor<4xi8> [-3, -1, 3, 8]
// CHECK: result 11: tensor<4xi8> [-7, -2, 1, 3]
// CHECK: result 12: tensor<4xi8> [-3, -1, 3, 8]
// CHECK: result 13: tensor<4xi8> [-7, -2, 1, 3]
// CHECK: result 14: tensor<4xi8> [-7, -2, 1, 0]
// CHECK: result 15: tensor<4xi8> [-3, -1, 3, 11]
// CHECK: result 16: tensor<4xi8> [4, 1, 2, 11]
// CHECK: result 17: tensor<4xi8> [0, 0, 6, 64]
// CHECK: result 18: tensor<4xi8> [0, 0, 1, 1]
// CHECK: result 19: tensor<4xi8> [-1, -1, 1, 1]
// CHECK: result 20: tensor<4xi8> [0, 0, 3, 0]
// CHECK: result 21: tensor<4xi8> [7, 2, 3, 8]
// CHECK: result 22: tensor<4xi8> [6, 7, 2, 1]
// CHECK: result 23: tensor<4xi8> [0, 0, 6, 4]
// CHECK: result 24: tensor<4xi8> [0, 1, 0, 3]
// CHECK: result 25: tensor<4xi32> [-7, -2, 3, 8]
// CHECK: result 26: tensor<4xi32> [249, 254, 3, 8]
// CHECK: result 27: tensor<4xf32> [-7, -2, 3, 8]
// CHECK: result 28: tensor<4xf64> [249, 254, 3, 8]
func.func @integers() -> (tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf64>) {
  %r:29 = kernel.map {
    %x = kernel.index (d0) -> (5*d0 - 7)
    %y = kernel.index (d0) -> (2*d0 - 3)
    %a = arith.trunci %x : i64 to i8
    %b = arith.trunci %y : i64 to i8
    %r0 = arith.addi %a, %b : i8
    %r1 = arith.subi %a, %b : i8
    %r2 = arith.muli %a, %b : i8
    %r3 = arith.divsi %a, %b : i8
    %r4 = arith.remsi %a, %b : i8
    %r5 = arith.floordivsi %a, %b : i8
    %r6 = arith.ceildivsi %a, %b : i8
    %r7 = arith.divui %a, %b : i8
    %r8 = arith.remui %a, %b : i8
    %r9 = arith.ceildivui %a, %b : i8
    %r10 = arith.maxsi %a, %b : i8
    %r11 = arith.minsi %a, %b : i8
    %r12 = arith.maxui %a, %b : i8
    %r13 = arith.minui %a, %b : i8
    %r14 = arith.andi %a, %b : i8
    %r15 = arith.ori %a, %b : i8
    %r16 = arith.xori %a, %b : i8
    %r17 = arith.shli %a, %b : i8
    %r18 = arith.shrui %a, %b : i8
    %r19 = arith.shrsi %a, %b : i8
    %r20 = math.ipowi %a, %b : i8
    %r21 = math.absi %a : i8
    %r22 = math.ctpop %a : i8
    %r23 = math.ctlz %a : i8
    %r24 = math.cttz %a : i8
    %r25 = arith.extsi %a : i8 to i32
    %r26 = arith.extui %a : i8 to i32
    %r27 = arith.sitofp %a : i8 to f32
    %r28 = arith.uitofp %a : i8 to f64
    kernel.yield %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19, %r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28 : i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i8, i32, i32, f32, f64
  } : tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf64>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5, %r#6, %r#7, %r#8, %r#9, %r#10, %r#11, %r#12, %r#13, %r#14, %r#15, %r#16, %r#17, %r#18, %r#19, %r#20, %r#21, %r#22, %r#23, %r#24, %r#25, %r#26, %r#27, %r#28 : tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi8>, tensor<4xi32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf64>
}

// -----

// The same numbers.
// CHECK: result 0: tensor<4xi1> [0, 0, 0, 0]
// CHECK: result 1: tensor<4xi1> [1, 1, 1, 1]
// CHECK: result 2: tensor<4xi1> [1, 1, 0, 0]
// CHECK: result 3: tensor<4xi1> [1, 1, 0, 0]
// CHECK: result 4: tensor<4xi1> [0, 0, 1, 1]
// CHECK: result 5: tensor<4xi1> [0, 0, 1, 1]
// CHECK: result 6: tensor<4xi1> [1, 1, 0, 0]
// CHECK: result 7: tensor<4xi1> [1, 1, 0, 0]
// CHECK: result 8: tensor<4xi1> [0, 0, 1, 1]
// CHECK: result 9: tensor<4xi1> [0, 0, 1, 1]
// CHECK: result 10: tensor<4xi8> [-7, -2, 1, 3]
func.func @compared() -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi8>) {
  %r:11 = kernel.map {
    %x = kernel.index (d0) -> (5*d0 - 7)
    %y = kernel.index (d0) -> (2*d0 - 3)
    %a = arith.trunci %x : i64 to i8
    %b = arith.trunci %y : i64 to i8
    %r0 = arith.cmpi eq, %a, %b : i8
    %r1 = arith.cmpi ne, %a, %b : i8
    %r2 = arith.cmpi slt, %a, %b : i8
    %r3 = arith.cmpi sle, %a, %b : i8
    %r4 = arith.cmpi sgt, %a, %b : i8
    %r5 = arith.cmpi sge, %a, %b : i8
    %r6 = arith.cmpi ult, %a, %b : i8
    %r7 = arith.cmpi ule, %a, %b : i8
    %r8 = arith.cmpi ugt, %a, %b : i8
    %r9 = arith.cmpi uge, %a, %b : i8
    %c = arith.cmpi slt, %a, %b : i8
    %r10 = arith.select %c, %a, %b : i8
    kernel.yield %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10 : i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i8
  } : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi8>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5, %r#6, %r#7, %r#8, %r#9, %r#10 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi8>
}

// -----

// The numbers are -1.75, 0.5, 2.5, NaN and 2, -1.5, 0.75, 1.
// CHECK: result 0: tensor<4xf32> [0.25, -1, 3.25, {{-?nan}}]
// CHECK: result 1: tensor<4xf32> [-3.75, 2, 1.75, {{-?nan}}]
// CHECK: result 2: tensor<4xf32> [-3.5, -0.75, 1.875, {{-?nan}}]
// CHECK: result 3: tensor<4xf32> [-0.875, -0.333333343, 3.33333325, {{-?nan}}]
// CHECK: result 4: tensor<4xf32> [-1.75, 0.5, 0.25, {{-?nan}}]
// CHECK: result 5: tensor<4xf32> [2, 0.5, 2.5, {{-?nan}}]
// CHECK: result 6: tensor<4xf32> [-1.75, -1.5, 0.75, {{-?nan}}]
// CHECK: result 7: tensor<4xf32> [2, 0.5, 2.5, 1]
// CHECK: result 8: tensor<4xf32> [-1.75, -1.5, 0.75, 1]
// CHECK: result 9: tensor<4xf32> [-0.718829989, 2.8198421, 1.27933955, {{-?nan}}]
// CHECK: result 10: tensor<4xf32> [3.0625, 2.82842708, 1.98817682, {{-?nan}}]
// CHECK: result 11: tensor<4xf32> [1.75, -0.5, 2.5, {{-?nan}}]
// CHECK: result 12: tensor<4xf32> [-1.5, -2.25, 2.625, {{-?nan}}]
// CHECK: result 13: tensor<4xf32> [-1, 0.5, 1, -1]
// CHECK: result 14: tensor<4xf32> [-5.359375, 0.125, 15.625, {{-?nan}}]
// CHECK: result 15: tensor<4xf32> [-2, 1.5, -0.75, -1]
// CHECK: result 16: tensor<4xi1> [0, 0, 0, 1]
// CHECK: result 17: tensor<4xi1> [0, 0, 0, 0]
// CHECK: result 18: tensor<4xi1> [1, 1, 1, 0]
// CHECK: result 19: tensor<4xi8> [2, -1, 0, 1]
func.func @floats() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi8>) {
  %r:20 = kernel.map {
    %a0 = arith.constant -1.75 : f32
    %a1 = arith.constant 0.5 : f32
    %a2 = arith.constant 2.5 : f32
    %a3 = arith.constant 0x7FC00000 : f32
    %aat1 = kernel.inside (d0) -> (d0) bounds [1]
    %as1 = arith.select %aat1, %a0, %a1 : f32
    %aat2 = kernel.inside (d0) -> (d0) bounds [2]
    %as2 = arith.select %aat2, %as1, %a2 : f32
    %aat3 = kernel.inside (d0) -> (d0) bounds [3]
    %as3 = arith.select %aat3, %as2, %a3 : f32
    %b0 = arith.constant 2.0 : f32
    %b1 = arith.constant -1.5 : f32
    %b2 = arith.constant 0.75 : f32
    %b3 = arith.constant 1.0 : f32
    %bat1 = kernel.inside (d0) -> (d0) bounds [1]
    %bs1 = arith.select %bat1, %b0, %b1 : f32
    %bat2 = kernel.inside (d0) -> (d0) bounds [2]
    %bs2 = arith.select %bat2, %bs1, %b2 : f32
    %bat3 = kernel.inside (d0) -> (d0) bounds [3]
    %bs3 = arith.select %bat3, %bs2, %b3 : f32
    %r0 = arith.addf %as3, %bs3 : f32
    %r1 = arith.subf %as3, %bs3 : f32
    %r2 = arith.mulf %as3, %bs3 : f32
    %r3 = arith.divf %as3, %bs3 : f32
    %r4 = arith.remf %as3, %bs3 : f32
    %r5 = arith.maximumf %as3, %bs3 : f32
    %r6 = arith.minimumf %as3, %bs3 : f32
    %r7 = arith.maxnumf %as3, %bs3 : f32
    %r8 = arith.minnumf %as3, %bs3 : f32
    %r9 = math.atan2 %as3, %bs3 : f32
    %r10 = math.powf %as3, %bs3 : f32
    %r11 = math.copysign %as3, %bs3 : f32
    %r12 = math.fma %as3, %bs3, %bs3 : f32
    %low = arith.constant -1.0 : f32
    %high = arith.constant 1.0 : f32
    %r13 = math.clampf %as3 to [%low, %high] : f32
    %n = arith.constant 3 : i32
    %r14 = math.fpowi %as3, %n : f32, i32
    %r15 = arith.negf %bs3 : f32
    %r16 = math.isnan %as3 : f32
    %r17 = math.isinf %as3 : f32
    %r18 = math.isfinite %as3 : f32
    %r19 = arith.fptosi %bs3 : f32 to i8
    kernel.yield %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19 : f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i1, i1, i1, i8
  } : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi8>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5, %r#6, %r#7, %r#8, %r#9, %r#10, %r#11, %r#12, %r#13, %r#14, %r#15, %r#16, %r#17, %r#18, %r#19 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi8>
}

// -----

// The numbers are 0.25 and 2.5.
// CHECK: result 0: tensor<2xf32> [0.25, 2.5]
// CHECK: result 1: tensor<2xf32> [1, 3]
// CHECK: result 2: tensor<2xf32> [0, 2]
// CHECK: result 3: tensor<2xf32> [0, 2]
// CHECK: result 4: tensor<2xf32> [0, 3]
// CHECK: result 5: tensor<2xf32> [0, 2]
// CHECK: result 6: tensor<2xf32> [0.5, 1.58113885]
// CHECK: result 7: tensor<2xf32> [2, 0.632455528]
// CHECK: result 8: tensor<2xf32> [0.629960537, 1.35720885]
// CHECK: result 9: tensor<2xf32> [1.28402543, 12.1824942]
// CHECK: result 10: tensor<2xf32> [1.18920708, 5.65685415]
// CHECK: result 11: tensor<2xf32> [0.284025431, 11.1824942]
// CHECK: result 12: tensor<2xf32> [-1.38629436, 0.91629076]
// CHECK: result 13: tensor<2xf32> [-2, 1.32192814]
// CHECK: result 14: tensor<2xf32> [-0.60206002, 0.39794001]
// CHECK: result 15: tensor<2xf32> [0.223143548, 1.25276291]
// CHECK: result 16: tensor<2xf32> [0.276326388, 0.999593019]
// CHECK: result 17: tensor<2xf32> [0.723673582, 0.000406952022]
// CHECK: result 18: tensor<2xf32> [0.247403964, 0.598472118]
// CHECK: result 19: tensor<2xf32> [0.968912423, -0.801143587]
// CHECK: result 20: tensor<2xf32> [0.255341917, -0.747022271]
// CHECK: result 21: tensor<2xf32> [0.252680242, {{-?nan}}]
// CHECK: result 22: tensor<2xf32> [1.31811607, {{-?nan}}]
// CHECK: result 23: tensor<2xf32> [0.244978666, 1.19028997]
// CHECK: result 24: tensor<2xf32> [0.252612323, 6.05020428]
// CHECK: result 25: tensor<2xf32> [1.03141308, 6.13228941]
// CHECK: result 26: tensor<2xf32> [0.244918659, 0.986614287]
// CHECK: result 27: tensor<2xf32> [0.24746646, 1.6472311]
// CHECK: result 28: tensor<2xf32> [{{-?nan}}, 1.56679928]
// CHECK: result 29: tensor<2xf32> [0.255412817, {{-?nan}}]
func.func @functions() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %r:30 = kernel.map {
    %c0 = arith.constant 0.25 : f32
    %c1 = arith.constant 2.5 : f32
    %cat1 = kernel.inside (d0) -> (d0) bounds [1]
    %cs1 = arith.select %cat1, %c0, %c1 : f32
    %r0 = math.absf %cs1 : f32
    %r1 = math.ceil %cs1 : f32
    %r2 = math.floor %cs1 : f32
    %r3 = math.trunc %cs1 : f32
    %r4 = math.round %cs1 : f32
    %r5 = math.roundeven %cs1 : f32
    %r6 = math.sqrt %cs1 : f32
    %r7 = math.rsqrt %cs1 : f32
    %r8 = math.cbrt %cs1 : f32
    %r9 = math.exp %cs1 : f32
    %r10 = math.exp2 %cs1 : f32
    %r11 = math.expm1 %cs1 : f32
    %r12 = math.log %cs1 : f32
    %r13 = math.log2 %cs1 : f32
    %r14 = math.log10 %cs1 : f32
    %r15 = math.log1p %cs1 : f32
    %r16 = math.erf %cs1 : f32
    %r17 = math.erfc %cs1 : f32
    %r18 = math.sin %cs1 : f32
    %r19 = math.cos %cs1 : f32
    %r20 = math.tan %cs1 : f32
    %r21 = math.asin %cs1 : f32
    %r22 = math.acos %cs1 : f32
    %r23 = math.atan %cs1 : f32
    %r24 = math.sinh %cs1 : f32
    %r25 = math.cosh %cs1 : f32
    %r26 = math.tanh %cs1 : f32
    %r27 = math.asinh %cs1 : f32
    %r28 = math.acosh %cs1 : f32
    %r29 = math.atanh %cs1 : f32
    kernel.yield %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19, %r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28, %r29 : f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32
  } : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5, %r#6, %r#7, %r#8, %r#9, %r#10, %r#11, %r#12, %r#13, %r#14, %r#15, %r#16, %r#17, %r#18, %r#19, %r#20, %r#21, %r#22, %r#23, %r#24, %r#25, %r#26, %r#27, %r#28, %r#29 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// The first numbers of @floats; what is compared with NaN is not ordered.
// CHECK: result 0: tensor<4xi1> [0, 0, 0, 0]
// CHECK: result 1: tensor<4xi1> [0, 0, 0, 1]
// CHECK: result 2: tensor<4xi1> [0, 1, 1, 0]
// CHECK: result 3: tensor<4xi1> [0, 1, 1, 1]
// CHECK: result 4: tensor<4xi1> [0, 1, 1, 0]
// CHECK: result 5: tensor<4xi1> [0, 1, 1, 1]
// CHECK: result 6: tensor<4xi1> [1, 0, 0, 0]
// CHECK: result 7: tensor<4xi1> [1, 0, 0, 1]
// CHECK: result 8: tensor<4xi1> [1, 0, 0, 0]
// CHECK: result 9: tensor<4xi1> [1, 0, 0, 1]
// CHECK: result 10: tensor<4xi1> [1, 1, 1, 0]
// CHECK: result 11: tensor<4xi1> [1, 1, 1, 1]
// CHECK: result 12: tensor<4xi1> [1, 1, 1, 0]
// CHECK: result 13: tensor<4xi1> [0, 0, 0, 1]
// CHECK: result 14: tensor<4xi1> [0, 0, 0, 0]
// CHECK: result 15: tensor<4xi1> [1, 1, 1, 1]
func.func @ordered() -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %r:16 = kernel.map {
    %a0 = arith.constant -1.75 : f32
    %a1 = arith.constant 0.5 : f32
    %a2 = arith.constant 2.5 : f32
    %a3 = arith.constant 0x7FC00000 : f32
    %aat1 = kernel.inside (d0) -> (d0) bounds [1]
    %as1 = arith.select %aat1, %a0, %a1 : f32
    %aat2 = kernel.inside (d0) -> (d0) bounds [2]
    %as2 = arith.select %aat2, %as1, %a2 : f32
    %aat3 = kernel.inside (d0) -> (d0) bounds [3]
    %as3 = arith.select %aat3, %as2, %a3 : f32
    %b0 = arith.constant 2.0 : f32
    %b1 = arith.constant -1.5 : f32
    %b2 = arith.constant 0.75 : f32
    %b3 = arith.constant 1.0 : f32
    %bat1 = kernel.inside (d0) -> (d0) bounds [1]
    %bs1 = arith.select %bat1, %b0, %b1 : f32
    %bat2 = kernel.inside (d0) -> (d0) bounds [2]
    %bs2 = arith.select %bat2, %bs1, %b2 : f32
    %bat3 = kernel.inside (d0) -> (d0) bounds [3]
    %bs3 = arith.select %bat3, %bs2, %b3 : f32
    %r0 = arith.cmpf oeq, %as3, %bs3 : f32
    %r1 = arith.cmpf ueq, %as3, %bs3 : f32
    %r2 = arith.cmpf ogt, %as3, %bs3 : f32
    %r3 = arith.cmpf ugt, %as3, %bs3 : f32
    %r4 = arith.cmpf oge, %as3, %bs3 : f32
    %r5 = arith.cmpf uge, %as3, %bs3 : f32
    %r6 = arith.cmpf olt, %as3, %bs3 : f32
    %r7 = arith.cmpf ult, %as3, %bs3 : f32
    %r8 = arith.cmpf ole, %as3, %bs3 : f32
    %r9 = arith.cmpf ule, %as3, %bs3 : f32
    %r10 = arith.cmpf one, %as3, %bs3 : f32
    %r11 = arith.cmpf une, %as3, %bs3 : f32
    %r12 = arith.cmpf ord, %as3, %bs3 : f32
    %r13 = arith.cmpf uno, %as3, %bs3 : f32
    %r14 = arith.cmpf false, %as3, %bs3 : f32
    %r15 = arith.cmpf true, %as3, %bs3 : f32
    kernel.yield %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15 : i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1, i1
  } : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5, %r#6, %r#7, %r#8, %r#9, %r#10, %r#11, %r#12, %r#13, %r#14, %r#15 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// -----

// The second numbers of @floats.
// CHECK: result 0: tensor<4xi32> [1073741824, -1077936128, 1061158912, 1065353216]
// CHECK: result 1: tensor<4xf32> [2, -1.5, 0.75, 1]
// CHECK: result 2: tensor<4xf32> [2.0999999, -1.39999998, 0.850000024, 1.10000002]
func.func @bits() -> (tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) {
  %r:3 = kernel.map {
    %b0 = arith.constant 2.0 : f32
    %b1 = arith.constant -1.5 : f32
    %b2 = arith.constant 0.75 : f32
    %b3 = arith.constant 1.0 : f32
    %bat1 = kernel.inside (d0) -> (d0) bounds [1]
    %bs1 = arith.select %bat1, %b0, %b1 : f32
    %bat2 = kernel.inside (d0) -> (d0) bounds [2]
    %bs2 = arith.select %bat2, %bs1, %b2 : f32
    %bat3 = kernel.inside (d0) -> (d0) bounds [3]
    %bs3 = arith.select %bat3, %bs2, %b3 : f32
    %r0 = arith.bitcast %bs3 : f32 to i32
    %bits = arith.bitcast %bs3 : f32 to i32
    %r1 = arith.bitcast %bits : i32 to f32
    %wide = arith.extf %bs3 : f32 to f64
    %t = arith.constant 0.1 : f64
    %p = arith.addf %wide, %t : f64
    %r2 = arith.truncf %p : f64 to f32
    kernel.yield %r0, %r1, %r2 : i32, f32, f32
  } : tensor<4xi32>, tensor<4xf32>, tensor<4xf32>
  return %r#0, %r#1, %r#2 : tensor<4xi32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// The numbers are 0, 1 + i and 1.5 - 2i.
// CHECK: result 0: tensor<2xcomplex<f32>> [1.5 + -2i, 2.5 + -1i]
// CHECK: result 1: tensor<2xcomplex<f32>> [-1.5 + 2i, -0.5 + 3i]
// CHECK: result 2: tensor<2xcomplex<f32>> [0 + 0i, 3.5 + -0.5i]
// CHECK: result 3: tensor<2xcomplex<f32>> [-0 + 0i, -0.0799999982 + 0.560000002i]
// CHECK: result 4: tensor<2xf32> [0, 3.5]
// CHECK: result 5: tensor<2xf32> [0, -0.5]
func.func @complexes() -> (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xf32>, tensor<2xf32>) {
  %r:6 = kernel.map {
    %z = complex.constant [1.5 : f32, -2.0 : f32] : complex<f32>
    %i = kernel.index (d0) -> (d0)
    %re = arith.sitofp %i : i64 to f32
    %w = complex.create %re, %re : complex<f32>
    %r0 = complex.add %w, %z : complex<f32>
    %r1 = complex.sub %w, %z : complex<f32>
    %r2 = complex.mul %w, %z : complex<f32>
    %r3 = complex.div %w, %z : complex<f32>
    %m = complex.mul %w, %z : complex<f32>
    %r4 = complex.re %m : complex<f32>
    %r5 = complex.im %m : complex<f32>
    kernel.yield %r0, %r1, %r2, %r3, %r4, %r5 : complex<f32>, complex<f32>, complex<f32>, complex<f32>, f32, f32
  } : tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xf32>, tensor<2xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xf32>, tensor<2xf32>
}
