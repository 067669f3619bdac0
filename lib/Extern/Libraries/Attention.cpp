// Scaled dot-product attention, with the transpositions of heads and rows around it.
#include "Calls.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

static torch::CallOp getAttention(Operation *op) {
  torch::CallOp call = getCall(op, {"aten.scaled_dot_product_attention.default",
                                    "aten._scaled_dot_product_flash_attention_for_cpu.default"});
  if (!call ||
      !llvm::all_of(call.getResults().drop_front(), [](Value other) { return other.use_empty(); }))
    return {};
  torch::CallArgs args(call);
  return args.number("dropout_p") == 0 ? call : torch::CallOp();
}

/// A size of features that engines have, from 8 to 128 in steps of 8.
static bool isFeatures(sym::Expr size) {
  std::optional<int64_t> known = size.constant();
  return known && *known > 0 && *known <= 128 && *known % 8 == 0;
}

/// Query, key and value are [batch, heads, rows, features] of one dtype; key and value may have fewer heads.
static bool isSupported(torch::CallOp call, const torch::CallArgs &args, const Settings &settings) {
  Type element = getElementTypeOrSelf(call.getResult(0));
  if (!element.isF16() && !element.isBF16())
    return false;
  for (unsigned i = 0; i < 3; ++i)
    if (!isFloat(args.tensor(i), 4, 4, settings) || getElementTypeOrSelf(args.tensor(i)) != element)
      return false;
  SmallVector<sym::Expr> q = sym::getShape(args.tensor(0)), k = sym::getShape(args.tensor(1)),
                         v = sym::getShape(args.tensor(2));
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] ||
      !isFeatures(q[3]) || !isFeatures(v[3]) || !isPositive(call, k[2], settings))
    return false;
  if (q[1] == k[1])
    return true;
  bool isGrouped = !args.has("enable_gqa") || args.boolean("enable_gqa");
  std::optional<int64_t> queries = q[1].constant(), keys = k[1].constant();
  return isGrouped && queries && keys && *keys > 0 && *queries % *keys == 0;
}

/// A bias for each query and key, of some or all heads. Where a row of it is -infinity, libraries differ.
static bool isBias(torch::CallOp call, const torch::CallArgs &args, const Settings &settings) {
  Value bias = args.optTensor("attn_mask");
  if (!settings.finite || args.boolean("is_causal") || !isFloat(bias, 2, 4, settings) ||
      getElementTypeOrSelf(bias) != getElementTypeOrSelf(call.getResult(0)))
    return false;
  SmallVector<sym::Expr> sizes = sym::getShape(bias), q = sym::getShape(args.tensor(0)),
                         k = sym::getShape(args.tensor(1));
  sym::Expr expected[] = {q[0], q[1], q[2], k[2]};
  for (auto [i, size] : llvm::enumerate(llvm::reverse(sizes)))
    if (size != expected[3 - i] && (i < 2 || size.constant() != 1))
      return false;
  return true;
}

FailureOr<Call> libraries::describeAttention(Operation *root, const Settings &settings) {
  constexpr int64_t swap[] = {0, 2, 1, 3};
  Call call = {"attention", {}, {root}, root->getResult(0)};
  Operation *inner = getBehindPermutation(root, swap);
  torch::CallOp attention = getAttention(inner ? inner : root);
  if (!attention)
    return failure();
  if (inner)
    call.ops.push_back(inner);
  torch::CallArgs args(attention);
  bool hasBias = !args.isNone("attn_mask");
  if (!isSupported(attention, args, settings) || (hasBias && !isBias(attention, args, settings)))
    return failure();
  Builder b(root->getContext());
  SmallVector<Attribute> swapped;
  for (unsigned i = 0; i < 3; ++i) {
    Value view = args.tensor(i), tensor = takePermutation(view, swap, call);
    swapped.push_back(b.getBoolAttr(tensor != nullptr));
    call.arguments.push_back(tensor ? tensor : view);
  }
  swapped.push_back(b.getBoolAttr(inner != nullptr));
  double features = *sym::getShape(args.tensor(0))[3].constant();
  double scale = args.optNumber("scale").value_or(1 / std::sqrt(features));
  call.arguments.push_back(args.optTensor("attn_mask"));
  call.arguments.push_back(Attribute(b.getF64FloatAttr(scale)));
  call.arguments.push_back(Attribute(b.getBoolAttr(args.boolean("is_causal"))));
  llvm::append_range(call.arguments, swapped);
  return call;
}
