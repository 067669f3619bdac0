// Operators of PyTorch's smallest set that ATen has too.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// A quotient; of integers the whole one, toward zero.
static LogicalResult lowerDiv(Call &call) {
  return call.pointwise({call.operand(0), call.operand(1)}, [&](BodyBuilder &, Elements x) {
    return isInt(x[0].type()) || isBool(x[0].type()) ? truncDiv(x[0], call.expectDivisor(x[1]))
                                                     : x[0] / x[1];
  });
}

void lowering::registerPrims(LoweringTable &table) {
  table.add("prims.div.default", lowerDiv);
  // With the arguments of the ATen operator.
  auto alias = [&](StringRef name, StringRef overload) {
    if (const Lowering *same = table.find(("aten." + name + "." + overload).str()))
      table.add(("prims." + name + ".default").str(), *same);
  };
  for (StringRef name :
       {"abs",   "acos",  "acosh", "asin",  "asinh",   "atan",       "atanh", "ceil",    "cos",
        "cosh",  "erf",   "erfc",  "exp",   "exp2",    "expm1",      "floor", "imag",    "isfinite",
        "log",   "log10", "log1p", "log2",  "neg",     "reciprocal", "real",  "round",   "rsqrt",
        "sign",  "sin",   "sinh",  "sqrt",  "tan",     "tanh",       "trunc", "signbit", "fmax",
        "atan2", "fmin",  "hypot", "clone", "maximum", "minimum"})
    alias(name, "default");
  for (StringRef name : {"bitwise_and", "bitwise_or", "bitwise_xor", "eq", "fmod", "ge", "gt", "le",
                         "lt", "mul", "ne", "remainder"})
    alias(name, "Tensor");
  if (const Lowering *pow = table.find("aten.pow.Tensor_Tensor"))
    table.add("prims.pow.default", *pow);
}
