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

/// Puts each dim where `broadcast_dimensions` says, and repeats the others and those of size one.
static LogicalResult lowerBroadcastInDim(Call &call) {
  Value tensor = call.tensor(0);
  Exprs shape = shapeOf(tensor), result = call.resultShape();
  SmallVector<int64_t> dims = call.args.intList(2);
  bool isInOrder =
      std::adjacent_find(dims.begin(), dims.end(), std::greater_equal<>()) == dims.end();
  if (dims.size() != shape.size() || !isInOrder)
    return call.refuse("dims that are not in order");
  Exprs placed(result.size(), 1);
  for (auto [dim, size] : llvm::zip_equal(dims, shape)) {
    if (dim < 0 || dim >= static_cast<int64_t>(result.size()))
      return call.refuse("a dim that the result does not have");
    placed[dim] = size;
  }
  return call.set(call.kernels.expand(call.kernels.reshape(tensor, placed), result));
}

void lowering::registerPrims(LoweringTable &table) {
  table.add("prims.div.default", lowerDiv);
  table.add("prims.broadcast_in_dim.default", lowerBroadcastInDim);
  // With the arguments of the ATen operator, as far as they go.
  auto alias = [&](StringRef name, const Twine &other) {
    if (const Lowering *same = table.find(("aten." + other).str()))
      table.add(("prims." + name + ".default").str(), *same);
  };
  for (StringRef name :
       {"abs",     "acos",    "acosh",    "asin",          "asinh",     "atan",       "atan2",
        "atanh",   "cat",     "ceil",     "clone",         "conj",      "cos",        "cosh",
        "digamma", "erf",     "erfc",     "exp",           "exp2",      "expm1",      "floor",
        "fmax",    "fmin",    "full",     "full_like",     "gcd",       "hypot",      "igamma",
        "igammac", "imag",    "isfinite", "lgamma",        "log",       "log10",      "log1p",
        "log2",    "maximum", "minimum",  "neg",           "nextafter", "real",       "reciprocal",
        "reshape", "round",   "rsqrt",    "scalar_tensor", "sign",      "signbit",    "sin",
        "sinh",    "sqrt",    "tan",      "tanh",          "trunc",     "bitwise_not"})
    alias(name, name + ".default");
  for (StringRef name : {"add", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "fmod", "frexp",
                         "ge", "gt", "le", "lt", "mul", "ne", "remainder", "sub"})
    alias(name, name + ".Tensor");
  for (auto [name, other] : {std::pair<StringRef, StringRef>{"amax", "amax.default"},
                             {"amin", "amin.default"},
                             {"bessel_i0", "i0.default"},
                             {"bessel_i0e", "special_i0e.default"},
                             {"bessel_i1", "special_i1.default"},
                             {"bessel_i1e", "special_i1e.default"},
                             {"bessel_j0", "special_bessel_j0.default"},
                             {"bessel_j1", "special_bessel_j1.default"},
                             {"collapse", "reshape.default"},
                             {"collapse_view", "reshape.default"},
                             {"device_put", "to.device"},
                             {"erf_inv", "erfinv.default"},
                             {"erfcx", "special_erfcx.default"},
                             {"ndtri", "special_ndtri.default"},
                             {"pow", "pow.Tensor_Tensor"},
                             {"prod", "prod.dim_int"},
                             {"rev", "flip.default"},
                             {"shift_left", "bitwise_left_shift.Tensor"},
                             {"shift_right_arithmetic", "bitwise_right_shift.Tensor"},
                             {"spherical_bessel_j0", "special_spherical_bessel_j0.default"},
                             {"split_dim", "reshape.default"},
                             {"squeeze", "reshape.default"},
                             {"sum", "sum.dim_IntList"},
                             {"transpose", "permute.default"},
                             {"var", "var.correction"},
                             {"view_of_dtype", "view.dtype"},
                             {"view_of", "alias.default"},
                             {"where", "where.self"},
                             {"zeta", "special_zeta.default"}})
    alias(name, other);
}
