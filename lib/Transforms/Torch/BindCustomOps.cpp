// The pass torch-bind-custom-ops; see its documentation in Passes.td.
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHBINDCUSTOMOPS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {

struct BindCustomOps : kiln::impl::TorchBindCustomOpsBase<BindCustomOps> {
  using TorchBindCustomOpsBase::TorchBindCustomOpsBase;

  void runOnOperation() override {
    llvm::StringMap<CustomOp> declared;
    for (const std::string &declaration : ops) {
      llvm::Expected<CustomOp> op = parseCustomOp(declaration);
      if (!op) {
        emitError(getOperation().getLoc()) << llvm::toString(op.takeError());
        return signalPassFailure();
      }
      std::string target = op->schema.name.str();
      declared[target] = std::move(*op);
    }
    llvm::StringSet<> pureOps;
    pureOps.insert(pure.begin(), pure.end());
    if (declared.empty() && pureOps.empty())
      return;
    WalkResult result = getOperation().walk([&](CallOp call) -> WalkResult {
      auto it = declared.find(call.getTarget());
      if (it == declared.end() && pureOps.contains(call.getTarget()))
        call->setAttr(writesAttrName, DenseI64ArrayAttr::get(&getContext(), {}));
      if (it == declared.end() || call->hasAttr(symbolAttrName))
        return WalkResult::advance();
      return bind(call, it->second);
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

private:
  static LogicalResult refuse(CallOp call, const Twine &reason) {
    return call.emitError() << call.getTarget() << ": " << reason << " (" << describe(call.getLoc())
                            << ")";
  }

  static LogicalResult bind(CallOp call, const CustomOp &op) {
    SmallVector<Attribute> values;
    if (failed(match(call, op.schema, values)))
      return failure();
    if (!hasResults(call, op.schema))
      return refuse(call, "its declared schema has another number of results");
    Builder b(call.getContext());
    SmallVector<Attribute> args;
    SmallVector<int64_t> writes;
    for (auto [value, argument] : llvm::zip_equal(values, op.schema.arguments)) {
      if (argument.mutated)
        value.walk([&](ArgAttr operand) { writes.push_back(operand.getIndex()); });
      auto list = dyn_cast<ArrayAttr>(value);
      if (!list || argument.type.base != BaseType::Tensor) {
        args.push_back(value);
        continue;
      }
      args.push_back(b.getI64IntegerAttr(list.size()));
      llvm::append_range(args, list);
    }
    call.setArgsAttr(b.getArrayAttr(args));
    call.removeNamesAttr();
    call->setAttr(symbolAttrName, b.getStringAttr(op.symbol));
    call->setAttr(writesAttrName, b.getDenseI64ArrayAttr(writes));
    return success();
  }

  /// The value of each argument of the schema: what was given, by name or else by position, or the
  /// default.
  static LogicalResult match(CallOp call, const OpSchema &schema, SmallVector<Attribute> &values) {
    values.assign(schema.arguments.size(), Attribute());
    for (auto [i, given] : llvm::enumerate(call.getArgs())) {
      StringRef name =
          call.getNamesAttr() ? cast<StringAttr>(call.getNamesAttr()[i]).getValue() : StringRef();
      int position = name.empty() ? static_cast<int>(i) : schema.indexOf(name);
      if (position < 0 || position >= static_cast<int>(values.size()))
        return refuse(call, "its declared schema has no argument " +
                                (name.empty() ? "number " + Twine(i) : "'" + name + "'"));
      if (values[position])
        return refuse(call, "argument '" + schema.arguments[position].name + "' is given twice");
      values[position] = coerce(given, schema.arguments[position].type);
    }
    for (auto [value, argument] : llvm::zip_equal(values, schema.arguments)) {
      if (!value)
        value = defaultAttr(argument, call.getContext());
      if (!value)
        return refuse(call, "argument '" + argument.name + "' is missing");
      if (!fits(value, argument.type) || !hasType(call, value, argument.type.base))
        return refuse(call, "argument '" + argument.name + "' does not fit its declared schema");
    }
    return success();
  }

  static bool hasResults(CallOp call, const OpSchema &schema) {
    size_t updates = call.getUpdates().value_or(ArrayRef<int64_t>()).size();
    size_t own = llvm::count_if(call->getResults().drop_back(updates),
                                [](Value result) { return !isa<NoneType>(result.getType()); });
    size_t lists = llvm::count_if(schema.results, [](auto &result) { return result.type.list; });
    return lists ? own >= schema.results.size() - lists : own == schema.results.size();
  }

  /// A number that is only known in a run has the type that the function expects.
  static bool hasType(CallOp call, Attribute value, BaseType base) {
    if (isa<sym::ExprAttr>(value))
      return base != BaseType::Float;
    auto scalar = dyn_cast<ScalarAttr>(value);
    if (!scalar || (base != BaseType::Float && base != BaseType::Bool))
      return true;
    Type type = getElementTypeOrSelf(call->getOperand(scalar.getIndex()).getType());
    return base == BaseType::Float ? type.isF64() : type.isInteger(1);
  }
};

} // namespace
