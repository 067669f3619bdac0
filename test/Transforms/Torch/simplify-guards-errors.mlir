// RUN: kiln-opt %s --torch-simplify-guards --split-input-file --verify-diagnostics

// expected-error @below {{guard 'x.size()[0] > 64' never holds}}
module attributes {
    sym.symbols = {s0 = {min = 2 : i64, max = 64 : i64}},
    torch.guards = [{expr = #sym.expr<s0 - 65>, text = "x.size()[0] > 64"}]} {
}

// -----

// Two guards that each may hold, but not both.
// expected-error @below {{guard 'x.size()[0] <= 9' never holds}}
module attributes {
    sym.symbols = {s0 = {min = 2 : i64}},
    torch.guards = [{expr = #sym.expr<s0 - 10>, text = "x.size()[0] >= 10"},
                    {expr = #sym.expr<9 - s0>, text = "x.size()[0] <= 9"}]} {
}
