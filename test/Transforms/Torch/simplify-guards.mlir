// RUN: kiln-opt %s --torch-simplify-guards --split-input-file | FileCheck %s

// What the ranges say is not checked again.
// CHECK: module attributes {sym.symbols = {s0 = {max = 64 : i64, min = 2 : i64}}}
module attributes {
    sym.symbols = {s0 = {min = 2 : i64, max = 64 : i64}},
    torch.ranges = [{expr = #sym.expr<2*s0 + 1>, min = 5 : i64, max = 129 : i64}],
    torch.guards = [{expr = #sym.expr<s0 - 1>, text = "x.size()[0] >= 1"},
                    {expr = #sym.expr<max(s0 - 1, 1 - s0) - 1>, text = "x.size()[0] != 1"}]} {
  func.func private @main(tensor<?xf32, #sym.shape<[s0]>>)
}

// -----

// A condition on one symbol is its range: 3*s0 <= 47, s0 != 2.
// CHECK: module attributes {sym.symbols = {s0 = {max = 15 : i64, min = 3 : i64}}}
module attributes {
    sym.symbols = {s0 = {min = 2 : i64}},
    torch.ranges = [{expr = #sym.expr<3*s0>, max = 47 : i64}],
    torch.guards = [{expr = #sym.expr<max(s0 - 2, 2 - s0) - 1>, text = "x.size()[0] != 2"}]} {
  func.func private @main(tensor<?xf32, #sym.shape<[s0]>>)
}

// -----

// So is one on a quotient: s0 ceildiv 8 <= 1, 3*(s0 floordiv 4) >= 2.
// CHECK: module attributes {sym.symbols = {s0 = {max = 8 : i64, min = 4 : i64}}}
module attributes {
    sym.symbols = {s0 = {min = 2 : i64}},
    torch.guards = [{expr = #sym.expr<8 - 8*(s0 ceildiv 8)>, text = "8 + 8*((x.size()[0] - 1)//8) <= 8"},
                    {expr = #sym.expr<3*(s0 floordiv 4) - 2>, text = "3*(x.size()[0]//4) >= 2"}]} {
  func.func private @main(tensor<?xf32, #sym.shape<[s0]>>)
}

// -----

// An equality, here in two halves, says what a size is. The range of the symbol that goes is kept.
// CHECK: module attributes {sym.symbols = {s0 = {max = 126 : i64, min = 2 : i64}}}
// CHECK: func.func @main(%arg0: tensor<?xf32, #sym.shape<[s0]>>, %arg1: tensor<?xf32, #sym.shape<[s0 + 1]>>
// CHECK-SAME: torch.strides = #sym.shape<[s0 + 1]>
module attributes {
    sym.symbols = {s0 = {min = 2 : i64}, s1 = {min = 2 : i64, max = 127 : i64}},
    torch.guards = [{expr = #sym.expr<s1 - s0 - 1>, text = "1 + x.size()[0] <= y.size()[0]"},
                    {expr = #sym.expr<s0 + 1 - s1>, text = "y.size()[0] <= 1 + x.size()[0]"}]} {
  func.func @main(%arg0: tensor<?xf32, #sym.shape<[s0]>>,
                  %arg1: tensor<?xf32, #sym.shape<[s1]>> {torch.strides = #sym.shape<[s1]>})
      -> tensor<?xf32, #sym.shape<[s1]>> {
    // CHECK: return %arg1 : tensor<?xf32, #sym.shape<[s0 + 1]>>
    return %arg1 : tensor<?xf32, #sym.shape<[s1]>>
  }
}

// -----

// Left to be checked: what joins two symbols, and divisibility, which also says that s0 is at least 8.
// An `and` comes apart.
// CHECK: s0 = {min = 8 : i64}
// CHECK-SAME: torch.guards = [
// CHECK-SAME: {expr = #sym.expr<-(s0 mod 8)>, text = "x.size()[0] % 8 == 0"}
// CHECK-SAME: {expr = #sym.expr<2*s1 - s0>, text = "x.size()[0] <= 2*y.size()[0] and x.size()[0] >= 2"}]
module attributes {
    sym.symbols = {s0 = {min = 1 : i64}, s1 = {min = 1 : i64}},
    torch.guards = [{expr = #sym.expr<min(s0 mod 8, -(s0 mod 8))>, text = "x.size()[0] % 8 == 0"},
                    {expr = #sym.expr<min(2*s1 - s0, s0 - 2)>,
                     text = "x.size()[0] <= 2*y.size()[0] and x.size()[0] >= 2"}]} {
  func.func private @main(tensor<?xf32, #sym.shape<[s0]>>, tensor<?xf32, #sym.shape<[s1]>>)
}

// -----

// A symbol that the program defines is not replaced, nor put in the place of an input's.
// CHECK: torch.guards = [{expr = #sym.expr<u0 - s0>, text = "x.size()[0] == u0"}, {expr = #sym.expr<s0 - u0>, text = "x.size()[0] == u0"}]
module attributes {
    sym.symbols = {s0 = {min = 1 : i64}, u0 = {min = 1 : i64}},
    torch.guards = [{expr = #sym.expr<min(s0 - u0, u0 - s0)>, text = "x.size()[0] == u0"}]} {
  func.func private @main(tensor<?xf32, #sym.shape<[s0]>>)
}

// -----

// A product that must have one value has it everywhere but in inputs, from which its symbols are read. One
// that divides 64 is at most 64.
// CHECK: module attributes {{.*}}torch.guards = [
// CHECK-SAME: expr = #sym.expr<s0*s1 - 12>
// CHECK-SAME: expr = #sym.expr<s0*(64 floordiv s0) - 64>
// CHECK: func.func @main(%arg0: tensor<?x?xf32, #sym.shape<[s0, s1]>>) -> tensor<64x24xf32>
module attributes {
    sym.symbols = {s0 = {min = 1 : i64}, s1 = {min = 1 : i64}},
    torch.guards = [{expr = #sym.expr<min(s0*s1 - 12, 12 - s0*s1)>, text = "x.numel() == 12"},
                    {expr = #sym.expr<s0*(64 floordiv s0) - 64>, text = "64 % x.size()[0] == 0"}]} {
  func.func @main(%arg0: tensor<?x?xf32, #sym.shape<[s0, s1]>>)
      -> tensor<?x?xf32, #sym.shape<[s0*(64 floordiv s0), 2*s0*s1]>> {
    %0 = torch.call "aten.empty.memory_format"() args = [[#sym.expr<s0*(64 floordiv s0)>, #sym.expr<2*s0*s1>], unit, unit, unit, unit, unit] {node = "empty"} : ()
        -> tensor<?x?xf32, #sym.shape<[s0*(64 floordiv s0), 2*s0*s1]>>
    return %0 : tensor<?x?xf32, #sym.shape<[s0*(64 floordiv s0), 2*s0*s1]>>
  }
}

// -----

// A difference of a size and a rounded part of it bounds the size: s0 - s0 ceildiv 3 == 2 leaves 3 and 4,
// and 3*s1 floordiv 2 - s1 <= 10 leaves at most 21.
// CHECK: module attributes {sym.symbols = {s0 = {max = 4 : i64, min = 3 : i64}, s1 = {max = 21 : i64, min = 2 : i64}}}
module attributes {
    sym.symbols = {s0 = {min = 2 : i64}, s1 = {min = 2 : i64}},
    torch.guards = [{expr = #sym.expr<s0 - s0 ceildiv 3 - 2>, text = "x.size()[0] - (x.size()[0] + 2)//3 >= 2"},
                    {expr = #sym.expr<s0 ceildiv 3 - s0 + 2>, text = "x.size()[0] - (x.size()[0] + 2)//3 <= 2"},
                    {expr = #sym.expr<10 + s1 - (3*s1) floordiv 2>, text = "3*y.size()[0]//2 - y.size()[0] - 3 <= 7"}]} {
  func.func private @main(tensor<?xf32, #sym.shape<[s0]>>, tensor<?xf32, #sym.shape<[s1]>>)
}

// -----

// A range of one value is that value, also in the input's own size.
// CHECK: module attributes {sym.symbols = {s1 = {min = 2 : i64}}}
// CHECK: func.func private @main(tensor<?x4xf32, #sym.shape<[s1, 4]>>) -> tensor<?xf32, #sym.shape<[min(s1, 4)]>>
module attributes {
    sym.symbols = {s0 = {min = 2 : i64}, s1 = {min = 2 : i64}},
    torch.guards = [{expr = #sym.expr<min(s0 ceildiv 2 - 2, 2 - s0 ceildiv 2)>, text = "(1 + x.size()[1]) // 2 == 2"},
                    {expr = #sym.expr<max(s0 - 3, 3 - s0) - 1>, text = "x.size()[1] != 3"}]} {
  func.func private @main(tensor<?x?xf32, #sym.shape<[s1, s0]>>) -> tensor<?xf32, #sym.shape<[min(s0, s1)]>>
}
