// Guards on several sizes that compute with floats, and sizes that are rounded from floats: calls of
// Python's operators, for guards at the start of the program and with an assertion.
#include "FloatExpr.h"
#include "Importer.h"
#include "SymParser.h"

using namespace mlir;
using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

namespace {

/// A number of the condition: a constant, an expression, or a value that a call gives.
struct Known {
  Attribute attribute;
  Value value;
  Type type; // i64, f64 or i1
};

class FloatBuilder {
public:
  using Op = FloatExpr::Op;

  /// The calls are at `loc`, whose name is that of the node that they are part of.
  FloatBuilder(OpBuilder &builder, NameLoc loc) : builder(builder), loc(loc) {}

  /// None for an operator that no call computes.
  std::optional<Known> build(const FloatExpr &expr) {
    SmallVector<Known> known;
    for (const FloatExpr::Node &node : expr.getNodes()) {
      SmallVector<Known, 3> operands;
      for (unsigned operand : node.operands)
        operands.push_back(known[operand]);
      std::optional<Known> result = build(expr, node, operands);
      if (!result)
        return std::nullopt;
      known.push_back(*result);
    }
    return known[expr.getRoot()];
  }

  void require(Known condition, StringRef text) {
    Known message{builder.getStringAttr(text), {}, {}};
    create("aten._assert_scalar.default", {}, {condition, message});
  }

private:
  Type i64() { return builder.getI64Type(); }
  Type f64() { return builder.getF64Type(); }

  Operation *create(StringRef target, Type type, ArrayRef<Known> args) {
    SmallVector<Attribute> attributes;
    SmallVector<Value> operands;
    for (const Known &arg : args) {
      Attribute attribute = arg.attribute;
      if (!attribute) {
        attribute = torch::ScalarAttr::get(builder.getContext(), operands.size());
        operands.push_back(arg.value);
      }
      attributes.push_back(attribute);
    }
    SmallVector<Type> types;
    if (type)
      types.push_back(RankedTensorType::get({}, type));
    return torch::CallOp::create(builder, loc, types, target, operands, attributes, loc.getName());
  }

  Known call(StringRef target, Type type, ArrayRef<Known> args) {
    return {{}, create(target, type, args)->getResult(0), type};
  }

  std::optional<Known> build(const FloatExpr &expr, const FloatExpr::Node &node,
                             ArrayRef<Known> x) {
    Type i1 = builder.getI1Type();
    auto common = [&](unsigned i, unsigned j) {
      return x[i].type == f64() || x[j].type == f64() ? f64() : i64();
    };
    bool isInteger = !x.empty() && x[0].type == i64();
    auto round = [&](StringRef target) { return isInteger ? x[0] : call(target, i64(), x); };
    switch (node.op) {
    case Op::Integer:
      return Known{builder.getI64IntegerAttr(node.constant.integer), {}, i64()};
    case Op::Float:
      return Known{builder.getF64FloatAttr(node.constant.real), {}, f64()};
    case Op::Input:
      return Known{sym::ExprAttr::get(builder.getContext(), expr.leaves()[node.input]), {}, i64()};
    case Op::Add:
      return call("_operator.add", common(0, 1), x);
    case Op::Sub:
      return call("_operator.sub", common(0, 1), x);
    case Op::Mul:
      return call("_operator.mul", common(0, 1), x);
    case Op::Div:
      return call("_operator.truediv", f64(), x);
    case Op::FloorDiv:
      return call("_operator.floordiv", common(0, 1), x);
    case Op::Mod:
      return call("_operator.mod", common(0, 1), x);
    case Op::Pow:
      if (common(0, 1) == i64())
        return std::nullopt; // the exponent's sign decides about the type
      return call("_operator.pow", f64(), x);
    case Op::Neg:
      return call("_operator.neg", x[0].type, x);
    case Op::Abs:
      return call("_operator.abs", x[0].type, x);
    case Op::Equal:
      return call("_operator.eq", i1, x);
    case Op::NotEqual:
      return call("_operator.ne", i1, x);
    case Op::Less:
      return call("_operator.lt", i1, x);
    case Op::LessOrEqual:
      return call("_operator.le", i1, x);
    case Op::And:
    case Op::Or:
      if (x[0].type != i1 || x[1].type != i1)
        return std::nullopt;
      return call(node.op == Op::And ? "_operator.and_" : "_operator.or_", i1, x);
    case Op::Not:
      return x[0].type == i1 ? std::optional(call("torch.sym_not", i1, x)) : std::nullopt;
    case Op::Select:
      return call("torch.sym_ite", common(0, 2), {x[1], x[0], x[2]});
    case Op::Trunc:
      return round("math.trunc");
    case Op::Floor:
      return round("math.floor");
    case Op::Ceil:
      return round("math.ceil");
    case Op::Round:
      return round("builtins.round");
    case Op::ToFloat:
      return isInteger ? call("torch.sym_float", f64(), x) : x[0];
    case Op::Min:
      return call("torch.sym_min", common(0, 1), x);
    case Op::Max:
      return call("torch.sym_max", common(0, 1), x);
    case Op::Sqrt:
      return call("torch.sym_sqrt", f64(), x);
    default:
      return std::nullopt;
    }
  }

  OpBuilder &builder;
  NameLoc loc;
};

} // namespace

bool Importer::assertFloats(const FloatExpr &condition, StringRef text) {
  auto main = module->lookupSymbol<func::FuncOp>("main");
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&main.getBody().front());
  FloatBuilder guards(builder, NameLoc::get(builder.getStringAttr("guards")));
  std::optional<Known> holds = guards.build(condition);
  if (!holds || !holds->value || !holds->type.isInteger(1))
    return false;
  guards.require(*holds, ("expected " + text).str());
  return true;
}

void Importer::defineFloatSizes(StringRef text) {
  auto readable = [&](StringRef part) -> std::optional<Expr> {
    Expected<Expr> expr = symbols.read(part);
    if (expr)
      return correct(*expr);
    consumeError(expr.takeError());
    return std::nullopt;
  };
  constexpr StringLiteral roundings[] = {"TruncToInt(", "FloorToInt(", "CeilToInt(", "RoundToInt("};
  // Inner ones first: they begin later. If one cannot be computed, nothing around it can.
  for (size_t at = text.size(); at-- > 0;) {
    StringRef rest = text.drop_front(at);
    if (none_of(roundings, [&](StringRef name) { return rest.starts_with(name); }))
      continue;
    StringRef part = firstCall(rest);
    if (readable(part))
      continue;
    Expected<FloatExpr> size = FloatExpr::parseSize(part, readable);
    if (!size)
      return consumeError(size.takeError());
    if (!all_of(size->leaves(), [&](Expr leaf) { return dependsOnlyOn(leaf, scope->known); }))
      return;
    std::optional<Known> known = FloatBuilder(builder, cast<NameLoc>(location)).build(*size);
    if (!known || !known->value)
      return;
    Expr symbol = opaqueSymbol(numOpaque++);
    auto call = known->value.getDefiningOp<torch::CallOp>();
    call.setDefinesAttr(builder.getStrArrayAttr(symbol.symbolName()));
    call.setValuesAttr(builder.getArrayAttr(sym::ExprAttr::get(&context, symbol)));
    learn(symbol);
    symbols.define(part, symbol);
  }
}
