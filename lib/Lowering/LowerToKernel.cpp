// The pass torch-lower-to-kernel; see its documentation in Passes.td.
#include "Random.h"
#include "kiln/Lowering/Lowering.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace kiln;

namespace kiln {
#define GEN_PASS_DEF_TORCHLOWERTOKERNEL
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace kiln::lowering;

namespace {
/// Calls of one operator that fail for one reason.
struct Refusal {
  std::string target, reason;
  Location first;
  unsigned calls;
};

struct TorchLowerToKernel : kiln::impl::TorchLowerToKernelBase<TorchLowerToKernel> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPublic())
        lower(function);
    report();
  }

  void lower(func::FuncOp function) {
    sym::Assumptions symbols;
    kernel::addSymbolRanges(function, symbols);
    RandomSource random(function);
    for (Block &block : function.getBody())
      for (Operation &op : llvm::make_early_inc_range(block)) {
        ImplicitLocOpBuilder builder(op.getLoc(), &op);
        KernelBuilder kernels(builder, symbols);
        lower(op, kernels, random);
      }
    random.finish();
  }

  void lower(Operation &op, KernelBuilder &kernels, RandomSource &random) {
    ImplicitLocOpBuilder &b = kernels.b();
    if (auto call = dyn_cast<torch::CallOp>(op)) {
      const Lowering *lowering = loweringTable().find(call.getTarget());
      if (!lowering)
        return refuse(call.getTarget(), "it has no lowering", op.getLoc());
      Call state(call, kernels, &random);
      if (failed((*lowering)(state)) || kernels.failure)
        return refuse(call.getTarget(), kernels.failure.value_or("it was refused"), op.getLoc());
      if (!state.undefined().empty())
        return refuse(call.getTarget(),
                      "what gives " + state.undefined().front().str() + " its value is not known",
                      op.getLoc());
    } else if (auto constant = dyn_cast<torch::ConstantOp>(op)) {
      auto lowered = kernel::ConstantOp::create(b, constant.getType(), constant.getValue(),
                                                constant.getNameAttr());
      if (constant.getMutated())
        lowered->setAttr(kernel::mutatedAttrName, b.getUnitAttr());
      op.getResult(0).replaceAllUsesWith(lowered);
    } else if (auto number = dyn_cast<torch::NumberOp>(op)) {
      Type type = elementType(number.getResult());
      op.getResult(0).replaceAllUsesWith(kernels.map({}, type, [&](BodyBuilder &body) {
        if (auto expr = dyn_cast<sym::ExprAttr>(number.getValue()))
          return body.index(expr.getValue());
        if (auto floating = dyn_cast<FloatAttr>(number.getValue()))
          return body.constant(type, floating.getValueAsDouble());
        return body.constant(type, cast<IntegerAttr>(number.getValue()).getInt());
      }));
    } else if (auto higherOrder = dyn_cast<torch::HigherOrderOp>(op)) {
      return refuse(higherOrder.getTarget(), "it has no lowering", op.getLoc());
    } else {
      return;
    }
    op.erase();
  }

  void refuse(StringRef target, const std::string &reason, Location location) {
    for (Refusal &refusal : refusals)
      if (refusal.target == target && refusal.reason == reason) {
        ++refusal.calls;
        return;
      }
    refusals.push_back({target.str(), reason, location, 1});
  }

  /// One message for all, so that a user sees the whole distance at once.
  void report() {
    if (refusals.empty())
      return;
    InFlightDiagnostic error = emitError(refusals.front().first) << "cannot compile ";
    llvm::interleave(
        refusals, error,
        [&](const Refusal &refusal) {
          error << refusal.target << ": " << refusal.reason << " ("
                << torch::describe(refusal.first);
          if (refusal.calls > 1)
            error << " and " << refusal.calls - 1 << " more";
          error << ")";
        },
        "; ");
    signalPassFailure();
  }

  SmallVector<Refusal> refusals;
};
} // namespace
