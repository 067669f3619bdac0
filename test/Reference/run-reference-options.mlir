// RUN: kiln-opt %s --run-reference='inputs=count print=true symbols=s0=2,s1=5' -o /dev/null 2>&1 | FileCheck %s
// RUN: not kiln-opt %s --run-reference='symbols=s0' -o /dev/null 2>&1 | FileCheck %s --check-prefix=SYMBOL
// RUN: not kiln-opt %s --run-reference='inputs=zeros' -o /dev/null 2>&1 | FileCheck %s --check-prefix=INPUTS
// RUN: kiln-opt %s --run-reference='inputs=random seed=7' -o %t.mlir
// RUN: kiln-opt %t.mlir --canonicalize --run-reference='inputs=random seed=7' | FileCheck %s --check-prefix=SAME
// RUN: not kiln-opt %t.mlir --run-reference='inputs=random seed=8' -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER

// SYMBOL: error: symbols: expected NAME=VALUE instead of 's0'
// INPUTS: error: inputs: expected random or count instead of 'zeros'
// SAME-NOT: reference.results
// OTHER: error: result 0 is not what it was before

// Sizes are chosen: that of %x is one of them, that of %y more than twice another.
// CHECK: remark: result 0: tensor<2xf64> [0, 1]
// CHECK: remark: result 1: tensor<11xi64> [22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2]
func.func @main(%x: tensor<?xf64, #sym.shape<[s0]>>, %y: tensor<?xi64, #sym.shape<[2*s1 + 1]>>)
    -> (tensor<?xf64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[2*s1 + 1]>>) {
  %z = kernel.map {
    %a = kernel.read %y (d0) -> (-d0 + 2*s1) : tensor<?xi64, #sym.shape<[2*s1 + 1]>> -> i64
    %two = arith.constant 2 : i64
    %i = kernel.index (d0) -> (min(s1, 5) + max(s0, 2) - 5)
    %b = arith.muli %a, %two : i64
    %c = arith.addi %b, %i : i64
    kernel.yield %c : i64
  } : tensor<?xi64, #sym.shape<[2*s1 + 1]>>
  return %x, %z : tensor<?xf64, #sym.shape<[s0]>>, tensor<?xi64, #sym.shape<[2*s1 + 1]>>
}
