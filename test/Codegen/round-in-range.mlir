// RUN: kiln-opt %s --pass-pipeline='builtin.module(llvm.func(codegen-round-in-range))' | FileCheck %s

// Symmetric bytes: NaN goes through, as it did.
// CHECK-LABEL: llvm.func @symmetric
// CHECK: %[[LOW:.*]] = arith.cmpf olt, %[[X:.*]], %{{.*}}
// CHECK: %[[A:.*]] = arith.select %[[LOW]], %{{.*}}, %[[X]]
// CHECK: %[[HIGH:.*]] = arith.cmpf ogt, %[[A]], %[[MOST:.*]] :
// CHECK: %[[B:.*]] = arith.select %[[HIGH]], %[[MOST]], %[[A]]
// CHECK: llvm.intr.lrint(%[[B]]) : (vector<16xf32>) -> vector<16xi32>
// CHECK-NOT: arith.addi
// CHECK: llvm.return
llvm.func @symmetric(%x: vector<16xf32>) -> vector<16xi32> {
  %least = arith.constant dense<-128.0> : vector<16xf32>
  %most = arith.constant dense<127.0> : vector<16xf32>
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %r = math.roundeven %x : vector<16xf32>
  %s = arith.addf %r, %zero : vector<16xf32>
  %a = arith.maximumf %s, %least : vector<16xf32>
  %b = arith.minimumf %a, %most : vector<16xf32>
  %i = arith.fptosi %b : vector<16xf32> to vector<16xi32>
  llvm.return %i : vector<16xi32>
}

// A zero point: NaN becomes the least, of which 0 remains in the low byte.
// CHECK-LABEL: llvm.func @affine
// CHECK: %[[LEAST:.*]] = arith.constant -8.500000e+01
// CHECK: %[[MOST:.*]] = arith.constant 1.700000e+02
// CHECK: %[[LOW:.*]] = arith.cmpf ogt, %[[X:.*]], %[[LEAST]]
// CHECK: arith.select %[[LOW]], %[[X]], %[[LEAST]]
// CHECK: %[[I:.*]] = llvm.intr.lrint
// CHECK: arith.addi %[[I]], %{{.*}} : i32
llvm.func @affine(%x: f32) -> i32 {
  %most = arith.constant 255.0 : f32
  %least = arith.constant 0.0 : f32
  %zero = arith.constant 85.0 : f32
  %r = math.roundeven %x : f32
  %s = arith.addf %zero, %r : f32
  %a = arith.maximumf %least, %s : f32
  %b = arith.minimumf %a, %most : f32
  %i = arith.fptosi %b : f32 to i32
  llvm.return %i : i32
}

// Not: a zero point whose NaN would be another byte; bounds that are no whole numbers, or none; other widths.
// CHECK-LABEL: llvm.func @not
// CHECK-NOT: lrint
// CHECK-COUNT-4: arith.fptosi
llvm.func @not(%x: f32, %y: f32) -> i64 {
  %most = arith.constant 127.0 : f32
  %least = arith.constant -128.0 : f32
  %zero = arith.constant 3.0 : f32
  %half = arith.constant 0.5 : f32
  %r = math.roundeven %x : f32
  %s = arith.addf %r, %zero : f32
  %a = arith.maximumf %s, %least : f32
  %b = arith.minimumf %a, %most : f32
  %i = arith.fptosi %b : f32 to i32
  %c = arith.maximumf %r, %half : f32
  %d = arith.minimumf %c, %most : f32
  %j = arith.fptosi %d : f32 to i32
  %e = arith.maximumf %r, %y : f32
  %f = arith.minimumf %e, %most : f32
  %k = arith.fptosi %f : f32 to i32
  %g = arith.maximumf %r, %least : f32
  %h = arith.minimumf %g, %most : f32
  %l = arith.fptosi %h : f32 to i64
  %m = arith.extsi %i : i32 to i64
  %n = arith.extsi %j : i32 to i64
  %o = arith.extsi %k : i32 to i64
  %p = arith.addi %m, %n : i64
  %q = arith.addi %o, %l : i64
  %t = arith.addi %p, %q : i64
  llvm.return %t : i64
}

// What an activation has bounded, times a positive number, is not below 0: of relu6, and of relu.
// CHECK-LABEL: llvm.func @activated
// CHECK: arith.mulf
// CHECK-NOT: arith.cmpf olt
// CHECK: arith.cmpf ogt
// CHECK: llvm.intr.lrint
// CHECK: arith.mulf
// CHECK-NOT: arith.cmpf olt
// CHECK: arith.cmpf ogt
// CHECK: llvm.intr.lrint
llvm.func @activated(%x: vector<16xf32>) -> vector<16xi32> {
  %most = arith.constant dense<255.0> : vector<16xf32>
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %six = arith.constant dense<6.0> : vector<16xf32>
  %inverse = arith.constant dense<42.5> : vector<16xf32>
  %below = arith.cmpf olt, %x, %zero : vector<16xf32>
  %relu = arith.select %below, %zero, %x : vector<16xi1>, vector<16xf32>
  %above = arith.cmpf olt, %six, %relu : vector<16xf32>
  %relu6 = arith.select %above, %six, %relu : vector<16xi1>, vector<16xf32>
  %p = arith.mulf %relu6, %inverse : vector<16xf32>
  %r = math.roundeven %p : vector<16xf32>
  %s = arith.addf %r, %zero : vector<16xf32>
  %a = arith.maximumf %s, %zero : vector<16xf32>
  %b = arith.minimumf %a, %most : vector<16xf32>
  %i = arith.fptosi %b : vector<16xf32> to vector<16xi32>
  %q = arith.mulf %inverse, %relu : vector<16xf32>
  %t = math.roundeven %q : vector<16xf32>
  %c = arith.maximumf %t, %zero : vector<16xf32>
  %d = arith.minimumf %c, %most : vector<16xf32>
  %j = arith.fptosi %d : vector<16xf32> to vector<16xi32>
  %sum = arith.addi %i, %j : vector<16xi32>
  llvm.return %sum : vector<16xi32>
}

// Bounded the other way round, by another number, or turned over: below 0 all the same.
// CHECK-LABEL: llvm.func @not_activated
// CHECK: arith.cmpf olt, %arg0
// CHECK-COUNT-3: arith.cmpf olt
// CHECK-NOT: arith.cmpf olt
// CHECK: llvm.return
llvm.func @not_activated(%x: f32, %y: f32) -> i32 {
  %most = arith.constant 255.0 : f32
  %zero = arith.constant 0.0 : f32
  %minus = arith.constant -1.0 : f32
  %below = arith.cmpf olt, %x, %zero : f32
  %0 = arith.select %below, %x, %zero : f32
  %1 = math.roundeven %0 : f32
  %2 = arith.maximumf %1, %zero : f32
  %3 = arith.minimumf %2, %most : f32
  %4 = arith.fptosi %3 : f32 to i32
  %5 = arith.select %below, %zero, %y : f32
  %6 = math.roundeven %5 : f32
  %7 = arith.maximumf %6, %zero : f32
  %8 = arith.minimumf %7, %most : f32
  %9 = arith.fptosi %8 : f32 to i32
  %relu = arith.select %below, %zero, %x : f32
  %10 = arith.mulf %relu, %minus : f32
  %11 = math.roundeven %10 : f32
  %12 = arith.maximumf %11, %zero : f32
  %13 = arith.minimumf %12, %most : f32
  %14 = arith.fptosi %13 : f32 to i32
  %15 = arith.addi %4, %9 : i32
  %16 = arith.addi %15, %14 : i32
  llvm.return %16 : i32
}
