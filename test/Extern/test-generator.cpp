// The external code generator `test`, as a plug-in: one pattern for each thing that a generator can
// ask for. docs/extern.md explains how one is written.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Pipeline/Plugin.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

namespace {

torch::CallOp getCall(Operation *op, StringRef target) {
  auto call = dyn_cast_or_null<torch::CallOp>(op);
  return call && call.getTarget() == target ? call : torch::CallOp();
}

/// One call of an operator.
ExternPattern onCall(StringRef name, StringRef target) {
  return {name.str(), [target](Operation *op) -> FailureOr<ExternMatch> {
            if (!getCall(op, target))
              return failure();
            return ExternMatch{{op}, llvm::to_vector(ValueRange(op->getResults()))};
          }};
}

/// relu(x + y) of f32, with at least two dims.
FailureOr<ExternMatch> matchAddRelu(Operation *op) {
  torch::CallOp relu = getCall(op, "aten.relu.default");
  torch::CallOp add = relu ? getCall(relu.getOperand(0).getDefiningOp(), "aten.add.Tensor") : relu;
  if (!add)
    return failure();
  auto type = dyn_cast<RankedTensorType>(add.getResult(0).getType());
  if (!type || !type.getElementType().isF32() || type.getRank() < 2)
    return failure();
  return ExternMatch{{add, relu}, {relu.getResult(0)}};
}

/// sin(x) and cos(sin(x)): two results, in this order.
FailureOr<ExternMatch> matchWave(Operation *op) {
  torch::CallOp cos = getCall(op, "aten.cos.default");
  torch::CallOp sin = cos ? getCall(cos.getOperand(0).getDefiningOp(), "aten.sin.default") : cos;
  if (!sin)
    return failure();
  return ExternMatch{{cos, sin}, {sin.getResult(0), cos.getResult(0)}};
}

/// A map of f64, of the kernel dialect.
FailureOr<ExternMatch> matchMap(Operation *op) {
  auto map = dyn_cast<kernel::MapOp>(op);
  if (!map || !getElementTypeOrSelf(map.getResult(0).getType()).isF64())
    return failure();
  return ExternMatch{{map}, {map.getResult(0)}};
}

/// kernel_test_neg(x, y): y = -x, of f32 that are next to each other.
constexpr StringLiteral negText = R"(
%tensor = type { ptr, i64, i32, i32, ptr, ptr, i64 }
define i32 @kernel_test_neg(ptr %inputs, i64 %n0, ptr %outputs, i64 %n1, ptr %context) {
entry:
  %input = load ptr, ptr %inputs
  %output = load ptr, ptr %outputs
  %x = load ptr, ptr %input
  %y = load ptr, ptr %output
  %shape.place = getelementptr %tensor, ptr %input, i32 0, i32 4
  %shape = load ptr, ptr %shape.place
  %n = load i64, ptr %shape
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %y, i64 %i
  %value = load float, ptr %from
  %negated = fneg float %value
  store float %negated, ptr %to
  %next = add i64 %i, 1
  br label %head
end:
  ret i32 0
}
)";

class TestGenerator : public ExternGenerator {
public:
  TestGenerator() {
    patterns.push_back({"add_relu", matchAddRelu});
    patterns.push_back(onCall("relu", "aten.relu.default"));
    patterns.push_back(onCall("scale", "aten.mul.Tensor"));
    patterns.back().capturesConstants = true;
    patterns.push_back(onCall("sigmoid", "aten.sigmoid.default"));
    patterns.back().isInline = true;
    patterns.push_back({"wave", matchWave});
    patterns.push_back(onCall("neg", "aten.neg.default"));
    patterns.push_back(onCall("tanh", "aten.tanh.default")); // which it does not compile
    patterns.push_back({"map", matchMap});
  }

  StringRef getName() const override { return "test"; }
  ArrayRef<ExternPattern> getPatterns() const override { return patterns; }

  LogicalResult generate(ModuleOp module, ArrayRef<func::FuncOp> functions) const override {
    Builder b(module.getContext());
    bool hasNeg = false;
    for (func::FuncOp function : functions) {
      StringRef pattern = function->getAttrOfType<DictionaryAttr>(markAttrName)
                              .getAs<StringAttr>("pattern")
                              .getValue();
      if (pattern == "tanh")
        continue;
      SmallVector<Attribute> args;
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        args.push_back(sym::ArgAttr::get(b.getContext(), i));
      // Four bytes for each element of the first operand.
      sym::ExprAttr workspace;
      if (pattern == "add_relu")
        workspace = sym::ExprAttr::get(
            b.getContext(), 4 * sym::product(sym::getShape(
                                    cast<RankedTensorType>(function.getArgumentTypes()[0]))));
      bool isNeg = pattern == "neg";
      hasNeg |= isNeg;
      function->setAttr(codeAttrName, kernel::ExternCodeAttr::get(
                                          b.getContext(), isNeg ? "c" : "test",
                                          isNeg ? std::string("kernel_test_neg") : pattern.str(),
                                          b.getArrayAttr(args), workspace, DenseI64ArrayAttr()));
    }
    if (hasNeg)
      addObject(module, "neg.ll", ObjectFormat::LLVM, negText);
    return success();
  }

private:
  std::vector<ExternPattern> patterns;
};

void addTo(PluginRegistry &registry) {
  registry.addExternGenerator(
      {"test", "for tests",
       [](StringRef options, MLIRContext *) -> llvm::Expected<std::unique_ptr<ExternGenerator>> {
         if (!options.empty())
           return llvm::createStringError("has no options");
         return std::make_unique<TestGenerator>();
       }});
}

} // namespace

KILN_PLUGIN("extern-test", addTo)
