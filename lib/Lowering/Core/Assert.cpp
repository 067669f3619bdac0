// Assertions: what the program checks when it runs, and what it says of its symbols.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The value of a 0-d map over nothing but symbols.
static std::optional<Expr> asExpr(Value scalar) {
  if (auto constant = scalar.getDefiningOp<arith::ConstantOp>())
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()))
      return Expr(integer.getInt());
  auto index = scalar.getDefiningOp<kernel::IndexOp>();
  if (!index || !index.getValues().empty())
    return std::nullopt;
  return index.getMap().getResults()[0];
}

/// The expressions that are at least zero just where `condition`, a comparison of symbols, holds;
/// none for a condition of another kind.
static Exprs asExprs(Value condition) {
  auto map = condition.getDefiningOp<kernel::MapOp>();
  if (!map)
    return {};
  Value yielded = map.getBody().front().getTerminator()->getOperand(0);
  auto compare = yielded.getDefiningOp<arith::CmpIOp>();
  std::optional<Expr> a = compare ? asExpr(compare.getLhs()) : std::nullopt;
  std::optional<Expr> b = compare ? asExpr(compare.getRhs()) : std::nullopt;
  if (!a || !b)
    return {};
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::eq:
    return {*a - *b, *b - *a};
  case arith::CmpIPredicate::sge:
    return {*a - *b};
  case arith::CmpIPredicate::sgt:
    return {*a - *b - 1};
  case arith::CmpIPredicate::sle:
    return {*b - *a};
  case arith::CmpIPredicate::slt:
    return {*b - *a - 1};
  default:
    return {};
  }
}

/// Fails the run with `message` unless the number or the 0-d tensor `condition` is true.
static LogicalResult assertTrue(Call &call, const Operand &condition, StringRef message) {
  KernelBuilder &kernels = call.kernels;
  if (condition.number && !std::holds_alternative<Value>(*condition.number)) {
    std::optional<Expr> value = torch::asExpr(*condition.number);
    if (torch::asDouble(*condition.number) == 0.0)
      return call.refuse("an assertion that never holds: " + message);
    if (!value || value->isConstant())
      return success();
    call.require(kernels.map({}, kernels.b().getI1Type(),
                             [&](BodyBuilder &body) { return isTrue(body.index(*value)); }),
                 message);
    return success();
  }
  Value data = condition.tensor ? condition.tensor : std::get<Value>(*condition.number);
  Exprs exprs = asExprs(data);
  for (Expr expr : exprs)
    call.assertNonNegative(expr, message);
  if (!exprs.empty())
    return success();
  call.requireSame(sym::product(shapeOf(data)), 1, "an assertion of more or less than one element");
  call.require(kernels.map({}, kernels.b().getI1Type(),
                           [&](BodyBuilder &body) {
                             return isTrue(body.read(data, Exprs(rankOf(data), Expr(0))));
                           }),
               message);
  return success();
}

static LogicalResult lowerAssert(Call &call) { // _assert_scalar, _assert_async
  std::string message = call.args.has("assert_msg") ? call.args.string("assert_msg").str()
                                                    : "an assertion does not hold";
  if (failed(assertTrue(call, call.operand(0), message)))
    return failure();
  // The functional forms hand on what orders them.
  return call.numResults() ? call.set(call.tensor("dep_token")) : success();
}

static LogicalResult lowerToken(Call &call) {
  return call.set(call.kernels.full(call.resultShape(), call.resultType(), 0));
}

/// Bounds of a number, either of which may be None.
static LogicalResult lowerConstrainRange(Call &call) {
  torch::Scalar number = call.args.scalar("size");
  std::string text = "a number outside of its range";
  for (bool isMin : {true, false}) {
    std::optional<int64_t> bound = call.args.optInteger(isMin ? "min" : "max");
    if (!bound)
      continue;
    std::string message =
        text + ": expected at " + (isMin ? "least " : "most ") + std::to_string(*bound);
    if (std::optional<Expr> value = torch::asExpr(number)) {
      call.assertNonNegative(isMin ? *value - *bound : *bound - *value, message);
      continue;
    }
    Type i64 = call.kernels.b().getI64Type();
    call.require(call.kernels.map({}, call.kernels.b().getI1Type(),
                                  [&](BodyBuilder &body) {
                                    Element x = call.number(body, number, i64);
                                    Element limit = body.constant(i64, *bound);
                                    return isMin ? x >= limit : x <= limit;
                                  }),
                 message);
  }
  return call.numResults() ? call.set(call.tensor("dep_token")) : success();
}

/// Sizes, strides, dtype, device and layout of a tensor, as far as they are given. Strides are not
/// those of memory here.
static LogicalResult lowerAssertMetadata(Call &call) {
  Value tensor = call.tensor(0);
  std::optional<Type> dtype = call.args.dtype("dtype");
  if (dtype && *dtype != elementType(tensor))
    return call.refuse("an assertion that never holds: the dtype is another");
  std::optional<StringRef> device = call.args.device("device");
  if (device && !device->starts_with("cpu"))
    return call.refuse("an assertion that never holds: the device is another");
  if (std::optional<SmallVector<Expr>> sizes = call.args.optSymIntList("size")) {
    if (static_cast<int64_t>(sizes->size()) != rankOf(tensor))
      return call.refuse("an assertion that never holds: the rank is another");
    for (auto [declared, size] : llvm::zip_equal(*sizes, shapeOf(tensor)))
      call.requireSame(size, declared, "Tensor sizes mismatch");
  }
  return success();
}

void lowering::registerAssert(LoweringTable &table) {
  table.add({"aten._assert_scalar.default", "aten._assert_async.default", "aten._assert_async.msg",
             "aten._functional_assert_scalar.default", "aten._functional_assert_async.msg"},
            lowerAssert);
  table.add({"aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
             "aten._functional_sym_constrain_range.default",
             "aten._functional_sym_constrain_range_for_size.default"},
            lowerConstrainRange);
  table.add("aten._make_dep_token.default", lowerToken);
  table.add("aten._assert_tensor_metadata.default", lowerAssertMetadata);
}
