// QR factors and products of Householder reflectors, which the runtime computes
// (runtime/linalg/reflect.c). Matrices are handed over by columns.
#include "Linalg/Linalg.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// The results of geqrf: by columns, R with the reflectors below it, and their factors.
struct Reflectors {
  Value packed; // [batch, n, m]
  Value tau;    // [batch, k]
};
} // namespace

static Reflectors makeReflectors(Call &call, Value matrices) {
  Value columns = transposeMatrices(call, matrices);
  Exprs shape = shapeOf(columns);
  Type type = elementType(columns);
  Expr count = call.kernels.known().simplify(Expr::min(shape[1], shape[2]));
  auto made =
      callRuntime(call, "geqrf", columns,
                  {sym::getTensorType(shape, type), sym::getTensorType({shape[0], count}, type)});
  return {made[0], made[1]};
}

/// The first `count` columns of the product of the reflectors, [batch, m, count].
static Value multiplyReflectors(Call &call, const Reflectors &reflectors, Expr count) {
  Exprs shape = shapeOf(reflectors.packed);
  Type type = sym::getTensorType({shape[0], count, shape[2]}, elementType(reflectors.packed));
  auto made = callRuntime(call, "orgqr", {reflectors.packed, reflectors.tau}, type);
  return transposeMatrices(call, made[0]);
}

static LogicalResult qr(Call &call, bool wantsQ) {
  Value self = call.tensor(0);
  if (!isMatrix(self))
    return call.refuse("this dtype");
  Reflectors reflectors = makeReflectors(call, flattenBatch(call, self));
  Exprs shape = shapeOf(reflectors.packed);
  Type type = elementType(reflectors.packed);
  Value r = call.kernels.map(
      {shape[0], call.resultShape(1)[rankOf(self) - 2], shape[1]}, type, [&](BodyBuilder &body) {
        Element isStored = body.index(body.dim(1)) <= body.index(body.dim(2));
        Element x = body.readPadded(reflectors.packed, Exprs{body.dim(0), body.dim(2), body.dim(1)},
                                    body.constant(type, 0));
        return select(isStored, x, x.constant(0));
      });
  Value q = wantsQ ? restore(call, multiplyReflectors(call, reflectors, call.resultShape(0).back()))
                   : call.kernels.full(call.resultShape(0), call.resultType(0), 0);
  return call.set({q, restore(call, r, 1)});
}

static LogicalResult lowerLinalgQr(Call &call) {
  return qr(call, !call.args.has("mode") || call.args.string("mode") != "r");
}

static LogicalResult lowerGeqrf(Call &call) {
  if (!isMatrix(call.tensor(0)))
    return call.refuse("this dtype");
  Reflectors made = makeReflectors(call, flattenBatch(call, call.tensor(0)));
  return call.set(
      {restore(call, transposeMatrices(call, made.packed)), restore(call, made.tau, 1)});
}

/// Reflectors and factors that are arguments.
static std::optional<Reflectors> given(Call &call) {
  Value matrices = call.tensor(0), tau = call.tensor(1);
  if (!isMatrix(matrices) || elementType(tau) != elementType(matrices) ||
      rankOf(tau) + 1 != rankOf(matrices))
    return std::nullopt;
  Value flat = transposeMatrices(call, flattenBatch(call, matrices));
  Value factors = call.kernels.reshape(tau, {shapeOf(flat)[0], shapeOf(tau).back()});
  return Reflectors{flat, call.kernels.convert(factors, elementType(flat))};
}

static LogicalResult lowerHouseholderProduct(Call &call) {
  auto reflectors = given(call);
  if (!reflectors)
    return call.refuse("these dtypes or ranks");
  Expr count = shapeOf(reflectors->tau).back(), columns = call.resultShape().back();
  call.require(columns - count, "more factors than columns");
  return call.set(restore(call, multiplyReflectors(call, *reflectors, columns)));
}

/// Q C, or C Q, which is the adjoint of Q^H C^H.
static LogicalResult lowerOrmqr(Call &call) {
  auto reflectors = given(call);
  Value other = call.tensor(2);
  if (!reflectors || elementType(other) != elementType(call.tensor(0)) ||
      rankOf(other) != rankOf(call.tensor(0)))
    return call.refuse("these dtypes or ranks");
  bool left = call.args.boolean("left"), adjoint = call.args.boolean("transpose") == left;
  Value c = flattenBatch(call, other);
  Value columns = left ? transposeMatrices(call, c) : conjugate(call, c);
  Exprs shape = shapeOf(reflectors->packed);
  call.require(shape[1] - shapeOf(reflectors->tau).back(), "more factors than columns");
  if (!call.fits(shapeOf(columns).back(), shape[2], "matrices that do not fit"))
    return call.refuse("matrices that do not fit");
  auto made = callRuntime(call, "ormqr", {reflectors->packed, reflectors->tau, columns},
                          columns.getType(), call.kernels.b().getBoolAttr(adjoint));
  return call.set(
      restore(call, left ? transposeMatrices(call, made[0]) : conjugate(call, made[0])));
}

void lowering::registerQr(LoweringTable &table) {
  table.add("aten.linalg_qr.default", lowerLinalgQr);
  table.add("aten.qr.default", [](Call &call) { return qr(call, true); });
  table.add("aten.geqrf.default", lowerGeqrf);
  table.add({"aten.linalg_householder_product.default", "aten.orgqr.default"},
            lowerHouseholderProduct);
  table.add("aten.ormqr.default", lowerOrmqr);
}
