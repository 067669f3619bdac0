// Padding: reads outside the tensor give a constant, or are folded back into it.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// How many elements come before and after each dim; negative ones cut off.
struct Amounts {
  Exprs before, after;
};
} // namespace

/// The list is [before, after] of the last dim, then of the one before it, and so on.
static std::optional<Amounts> padAmounts(Call &call, int64_t rank, torch::CallArgs::Key key) {
  Exprs list = call.args.symIntList(key);
  if (list.size() % 2 || static_cast<int64_t>(list.size() / 2) > rank) {
    call.kernels.fail("a pad list of this length");
    return std::nullopt;
  }
  Amounts amounts{Exprs(rank, Expr(0)), Exprs(rank, Expr(0))};
  for (size_t i = 0; i < list.size() / 2; ++i) {
    amounts.before[rank - 1 - i] = list[2 * i];
    amounts.after[rank - 1 - i] = list[2 * i + 1];
  }
  return amounts;
}

static Exprs paddedShape(Call &call, Value tensor, const Amounts &amounts) {
  Exprs shape = shapeOf(tensor);
  for (auto [i, size] : llvm::enumerate(shape))
    size = call.kernels.known().simplify(size + amounts.before[i] + amounts.after[i]);
  return shape;
}

static LogicalResult padConstant(Call &call, const Amounts &amounts, const torch::Scalar &value) {
  Value self = call.tensor(0);
  Type type = elementType(self);
  bool none = llvm::all_of(llvm::concat<const Expr>(amounts.before, amounts.after),
                           [](Expr e) { return e.isConstant(0); });
  if (none)
    return call.set(self);
  return call.set(call.kernels.map(paddedShape(call, self, amounts), type, [&](BodyBuilder &body) {
    Exprs index = body.ownDims();
    for (auto [i, expr] : llvm::enumerate(index))
      expr = expr - amounts.before[i];
    return body.readPadded(self, index, call.number(body, value, type));
  }));
}

static Expr absolute(Expr e) { return Expr::max(e, -e); }

/// The index in [0, size) that is read in the place of one outside.
static Expr fold(StringRef mode, Expr index, Expr size) {
  if (mode == "replicate")
    return Expr::min(Expr::max(index, Expr(0)), size - 1);
  return size - 1 - absolute(size - 1 - absolute(index)); // reflect
}

static LogicalResult padFolded(Call &call, const Amounts &amounts, StringRef mode) {
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self);
  const sym::Assumptions &known = call.kernels.known();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (amounts.before[i].isConstant(0) && amounts.after[i].isConstant(0))
      continue;
    // One fold has to be enough.
    Expr limit = mode == "reflect" ? shape[i] - 1 : shape[i];
    if (mode == "replicate")
      call.require(shape[i] - 1, "padding by elements of an empty dim");
    else
      for (Expr amount : {amounts.before[i], amounts.after[i]})
        call.require(limit - amount, "padding that is larger than the dim");
  }
  return call.set(
      call.kernels.view(self, paddedShape(call, self, amounts), [&](ArrayRef<Expr> dims) {
        Exprs index;
        for (auto [i, dim] : llvm::enumerate(dims)) {
          Expr moved = dim - amounts.before[i];
          bool padded = !amounts.before[i].isConstant(0) || !amounts.after[i].isConstant(0);
          if (padded && mode == "circular") {
            // Elements that negative amounts cut off do not come around.
            Expr first = known.simplify(Expr::max(-amounts.before[i], Expr(0)));
            Expr rest = known.simplify(shape[i] - first - Expr::max(-amounts.after[i], Expr(0)));
            index.push_back(rest.isConstant(0) ? first : first + (moved - first).mod(rest));
            continue;
          }
          index.push_back(padded ? fold(mode, moved, shape[i]) : moved);
        }
        return index;
      }));
}

static LogicalResult lowerPad(Call &call) {
  auto amounts = padAmounts(call, rankOf(call.tensor(0)), "pad");
  if (!amounts)
    return failure();
  StringRef mode = call.args.string("mode");
  if (mode == "constant")
    return padConstant(call, *amounts, call.args.optNumber("value").value_or(0.0));
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    return call.refuse("mode = '" + mode + "'");
  return padFolded(call, *amounts, mode);
}

static LogicalResult lowerConstantPad(Call &call) {
  auto amounts = padAmounts(call, rankOf(call.tensor(0)), "pad");
  return amounts ? padConstant(call, *amounts, call.args.scalar("value")) : failure();
}

static Lowering folded(StringRef mode) {
  return [mode](Call &call) -> LogicalResult {
    auto amounts = padAmounts(call, rankOf(call.tensor(0)), "padding");
    return amounts ? padFolded(call, *amounts, mode) : failure();
  };
}

/// Each element of the padded gradient is added to where the element was read.
static LogicalResult padFoldedBackward(Call &call, StringRef mode) {
  Value gradient = call.tensor("grad_output"), self = call.tensor("self");
  auto amounts = padAmounts(call, rankOf(self), "padding");
  if (!amounts)
    return failure();
  Exprs shape = shapeOf(self), padded = shapeOf(gradient);
  if (elementType(gradient) != elementType(self) || !isFloat(elementType(self)) ||
      !call.fits(paddedShape(call, self, *amounts), padded, "a gradient of another shape"))
    return call.refuse("a gradient of another shape or dtype");
  Type type = elementType(self);
  ScatterSpec spec;
  SmallVector<size_t> targets;
  for (auto [i, size] : llvm::enumerate(shape)) {
    bool isPadded = !amounts->before[i].isConstant(0) || !amounts->after[i].isConstant(0);
    if (!isPadded && targets.empty()) {
      spec.batch.push_back(size);
      continue;
    }
    targets.push_back(i);
    spec.targets.push_back(size);
    spec.places.push_back(padded[i]);
  }
  size_t batch = spec.batch.size();
  auto init = [&](BodyBuilder &body) { return body.constant(type, 0); };
  auto update = [&](BodyBuilder &body) {
    Exprs at = body.dims(0, batch), place = body.dims(batch + targets.size(), body.numDims());
    ScatterSpec::Write write;
    for (auto [dim, expr] : llvm::zip_equal(targets, place)) {
      at.push_back(expr);
      write.index.push_back(body.index(fold(mode, expr - amounts->before[dim], shape[dim])));
    }
    write.value = body.read(gradient, at);
    return write;
  };
  spec.init = init;
  spec.update = update;
  spec.combine = addInOpmath;
  return call.set(call.kernels.scatter(spec, type));
}

void lowering::registerPad(LoweringTable &table) {
  table.add("aten.pad.default", lowerPad);
  table.add("aten.constant_pad_nd.default", lowerConstantPad);
  for (StringRef rank : {"1d", "2d", "3d"}) {
    table.add(("aten.reflection_pad" + rank + ".default").str(), folded("reflect"));
    table.add(("aten.replication_pad" + rank + ".default").str(), folded("replicate"));
    table.add(("aten.reflection_pad" + rank + "_backward.default").str(),
              [](Call &call) { return padFoldedBackward(call, "reflect"); });
    table.add(("aten.replication_pad" + rank + "_backward.default").str(),
              [](Call &call) { return padFoldedBackward(call, "replicate"); });
  }
}
