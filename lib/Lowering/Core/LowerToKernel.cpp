// The pass torch-lower-to-kernel; see its documentation in Passes.td.
#include "Core/OutDtype.h"
#include "Core/Print.h"
#include "Core/Random.h"
#include "Core/Triton.h"
#include "kiln/Dialect/Kernel/ResultNodes.h"
#include "kiln/Dialect/Kernel/Triton.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Lowering/GraphCalls.h"
#include "kiln/Lowering/Lowering.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/AttrTypeSubElements.h"
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

/// The numbers that `expr` divides by.
void collectDivisors(Expr expr, llvm::SetVector<Expr> &divisors) {
  if (expr.isConstant() || expr.kind() == sym::Kind::Symbol)
    return;
  for (Expr operand : expr.operands())
    collectDivisors(operand, divisors);
  if (expr.kind() == sym::Kind::FloorDiv && !expr.operands()[1].isConstant())
    divisors.insert(expr.operands()[1]);
}

/// The program's own arithmetic is in the arguments of its calls: Python raises where it divides by
/// zero.
void assertDivisors(Operation *op, Attribute numbers, KernelBuilder &kernels) {
  llvm::SetVector<Expr> divisors;
  AttrTypeWalker walker;
  walker.addWalk([&](sym::ExprAttr attr) { collectDivisors(attr.getValue(), divisors); });
  walker.walk(numbers);
  for (Expr divisor : divisors) {
    if (kernels.known().isPositive(divisor))
      continue;
    // A number of either sign differs from zero if its square does.
    Expr expr = (kernels.known().isNonNegative(divisor) ? divisor : divisor * divisor) - 1;
    std::string message = "integer division by zero: " + divisor.str() + " is 0 (" +
                          torch::describe(op->getLoc()) + ")";
    kernel::AssertOp::create(kernels.b(), sym::ExprAttr::get(op->getContext(), expr),
                             kernels.b().getStringAttr(message));
  }
}

struct TorchLowerToKernel : kiln::impl::TorchLowerToKernelBase<TorchLowerToKernel> {
  using TorchLowerToKernelBase::TorchLowerToKernelBase;

  void runOnOperation() override {
    GraphCalls graphs(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        lower(function, graphs);
    report();
    graphs.eraseNumbers();
  }

  void lower(func::FuncOp function, GraphCalls &graphs) {
    sym::Assumptions symbols;
    kernel::addSymbolRanges(function, symbols);
    Block &entry = function.getBody().front();
    auto start = ImplicitLocOpBuilder::atBlockBegin(function.getLoc(), &entry);
    KernelBuilder inside(start, symbols);
    graphs.replaceNumbers(function, inside);
    // While what decides between branches can still be read.
    for (auto call : llvm::make_early_inc_range(function.getOps<torch::HigherOrderOp>())) {
      ImplicitLocOpBuilder builder(call.getLoc(), call);
      KernelBuilder kernels(builder, symbols);
      if (failed(lower(call, graphs, kernels)))
        refuse(call.getTarget(), kernels.failure.value_or("it was refused"), call.getLoc());
      else
        call.erase();
    }
    countCalls(function); // with those that higher-order operators have become
    RandomSource random(function);
    for (Block &block : function.getBody())
      for (Operation &op : llvm::make_early_inc_range(block)) {
        ImplicitLocOpBuilder builder(op.getLoc(), &op);
        KernelBuilder kernels(builder, symbols);
        lower(op, kernels, random);
      }
    random.finish();
  }

  LogicalResult lower(torch::HigherOrderOp call, GraphCalls &graphs, KernelBuilder &kernels) {
    bool isTriton = call.getTarget() == kernel::tritonOperator;
    if (call.getTarget() == "out_dtype")
      return lowerOutDtype(call, kernels);
    if (!isTriton && call.getTarget() != "print")
      return graphs.lower(call, kernels);
    if (isTriton && !triton) {
      kernels.fail("Triton kernels run on GPUs alone: compile for one with --target=cuda");
      return failure();
    }
    assertDivisors(call, call.getArgsAttr(), kernels);
    return isTriton ? lowerTriton(call, kernels) : lowerPrint(call, kernels);
  }

  void lower(Operation &op, KernelBuilder &kernels, RandomSource &random) {
    ImplicitLocOpBuilder &b = kernels.b();
    if (auto call = dyn_cast<torch::CallOp>(op)) {
      bool drewBefore = random.isUsed();
      SmallVector<OpOperand *> uses = llvm::map_to_vector(call->getResults(), [](Value result) {
        return result.use_empty() ? nullptr : &*result.use_begin();
      });
      if (failed(lowerCall(call, kernels, random)))
        return;
      markValues(call, uses);
      // A graph has no buffers of its own, and may be left out or repeated.
      if (!drewBefore && random.isUsed() && !random.isGiven() &&
          op.getParentOfType<func::FuncOp>().isPrivate())
        return refuse(call.getTarget(), "random numbers in a nested graph", op.getLoc());
    } else if (auto constant = dyn_cast<torch::ConstantOp>(op)) {
      auto lowered = kernel::ConstantOp::create(b, constant.getType(), constant.getValue(),
                                                constant.getNameAttr());
      if (constant.getMutated())
        lowered->setAttr(kernel::mutatedAttrName, b.getUnitAttr());
      op.getResult(0).replaceAllUsesWith(lowered);
    } else if (auto number = dyn_cast<torch::NumberOp>(op)) {
      assertDivisors(number, number->getAttrDictionary(), kernels);
      op.getResult(0).replaceAllUsesWith(
          createNumber(kernels, number.getValue(), elementType(number.getResult())));
    } else {
      return;
    }
    op.erase();
  }

  /// No call is known to have the value of a node that passes have made several calls of.
  void countCalls(func::FuncOp function) {
    numCalls.clear();
    if (!function.isPrivate())
      function.walk([&](Operation *op) {
        if (auto node = op->getAttrOfType<StringAttr>("node"))
          ++numCalls[node];
      });
  }

  /// The values used in place of the call's results are those of its node, unless one is an
  /// operand's, and so is the source of a view that reads it in another order.
  void markValues(torch::CallOp call, ArrayRef<OpOperand *> uses) {
    if (numCalls.lookup(call.getNodeAttr()) != 1)
      return;
    std::string where = torch::describe(call.getLoc());
    for (auto [i, use] : llvm::enumerate(uses)) {
      auto value = use ? dyn_cast<OpResult>(use->get()) : OpResult();
      while (value && value.getOwner() != call && torch::describe(value.getLoc()) == where) {
        auto map = dyn_cast<kernel::MapOp>(value.getOwner());
        kernel::ReadOp view = map ? map.getView() : nullptr;
        kernel::markResult(value, {call.getNode(), static_cast<int64_t>(i)});
        value = view && isReordered(map, view) ? dyn_cast<OpResult>(view.getTensor()) : OpResult();
      }
    }
  }

  /// The view is a reshape or has its dims in another order.
  static bool isReordered(kernel::MapOp map, kernel::ReadOp view) {
    SmallVector<Expr> domain = map.getExtents(), dims, source = shapeOf(view.getTensor());
    for (unsigned i = 0; i < domain.size(); ++i)
      dims.push_back(Expr::dim(i));
    auto index = view.getMap().getResults();
    if (sym::product(source) != sym::product(domain))
      return false;
    llvm::DenseSet<Expr> read(index.begin(), index.end());
    bool isPermuted = index.size() == dims.size() && read.size() == dims.size() &&
                      llvm::all_of(dims, [&](Expr dim) { return read.contains(dim); });
    return isPermuted ||
           sym::linearize(llvm::to_vector(index), source) == sym::linearize(dims, domain);
  }

  /// Export records no values of numbers that it has put into what uses them.
  static bool isNumberOfNoUse(torch::CallOp op) {
    const torch::OpSchema *schema = torch::lookupSchema(op.getTarget());
    auto isNone = [](Type type) { return isa<NoneType>(type); };
    return schema && !schema->results.empty() && !schema->mutates() && !op.getUpdates() &&
           op->getNumResults() > 0 && llvm::all_of(op->getResultTypes(), isNone);
  }

  /// By its own C function, natively, else by a call of the fallback's library.
  LogicalResult lowerCall(torch::CallOp op, KernelBuilder &kernels, RandomSource &random) {
    if (op->hasAttr(torch::symbolAttrName)) {
      if (succeeded(Call(op, kernels).toExtern(torch::cLibrary)))
        return success();
      refuse(op.getTarget(), *kernels.failure, op.getLoc());
      return failure();
    }
    if (isNumberOfNoUse(op))
      return success();
    if (op.getUpdates() && succeeded(lowerOutForm(op, kernels, random)))
      return success();
    if (op.getUpdates() && !torch::lookupSchema(op.getTarget()) &&
        loweringTable().find(op.getTarget()))
      return lowerWithoutUpdates(op, kernels, random);
    const Lowering *lowering =
        loweringTable().find(op.getTarget(), /*updating=*/op.getUpdates().has_value());
    Call call(op, kernels, &random);
    assertDivisors(op, op.getArgsAttr(), kernels);
    if (lowering && succeeded(attempt(*lowering, call, op, kernels)))
      return success();
    std::string reason =
        !lowering ? describeMissing(op.getTarget())
                  : kernels.failure.value_or("it was refused") + describeTensors(op.getOperands());
    if (fallback != "none") {
      kernels.failure.reset();
      if (succeeded(call.toExtern(fallback)))
        return success();
      reason = (lowering ? reason + ", and as a call of a library: " : "") + *kernels.failure;
    }
    refuse(op.getTarget(), reason, op.getLoc());
    return failure();
  }

  /// ": f32[2, n], i64[4]": the dtypes and sizes that a lowering has refused, or others beside
  /// them.
  static std::string describeTensors(ValueRange tensors) {
    constexpr size_t most = 6;
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (Value tensor : tensors.take_front(most)) {
      stream << (text.empty() ? ": " : ", ") << elementType(tensor) << '[';
      llvm::interleaveComma(shapeOf(tensor), stream, [&](sym::Expr size) { stream << size.str(); });
      stream << ']';
    }
    if (tensors.size() > most)
      stream << ", …";
    return text;
  }

  static std::string describeMissing(StringRef target) {
    bool isCustom = !torch::lookupSchema(target) && getSupport(target) == Support::Fallback;
    return isCustom ? "it has no lowering, and no C function (--custom-op)" : "it has no lowering";
  }

  /// Lowers `call` in front of `place`. Leaves nothing behind when the lowering refuses.
  LogicalResult attempt(const Lowering &lowering, Call &call, Operation *place,
                        KernelBuilder &kernels) {
    Operation *before = place->getPrevNode();
    SmallVector<std::pair<OpOperand *, Value>> uses;
    for (Value result : call.args.op()->getResults())
      for (OpOperand &use : result.getUses())
        uses.emplace_back(&use, result);
    if (succeeded(lowering(call)) && !kernels.failure) {
      call.defineFixedSizes();
      if (call.undefined().empty())
        return success();
      kernels.fail("what gives " + call.undefined().front().str() + " its value is not known");
    }
    for (auto [use, result] : uses) // calls behind this one are still looked at
      use->set(result);
    for (Operation *op = place->getPrevNode(); op != before;) {
      Operation *begun = std::exchange(op, op->getPrevNode());
      if (!begun->hasAttr(kernel::mutatedAttrName)) // the random numbers' state is the function's
        begun->erase();
    }
    return failure();
  }

  /// `add.out` with `updates` is what `add.Tensor` returns, if that has the dtype and shape of
  /// `out`.
  LogicalResult lowerOutForm(torch::CallOp op, KernelBuilder &kernels, RandomSource &random) {
    StringRef target = torch::lookupFunctional(op.getTarget());
    const torch::OpSchema *schema = torch::lookupSchema(target);
    const Lowering *lowering = loweringTable().find(target);
    ArrayRef<int64_t> updates = *op.getUpdates();
    // A written argument that is a number is no operand, and nothing is left to write.
    if (!schema || !lowering || updates.empty() ||
        schema->arguments.size() + updates.size() != op.getArgs().size())
      return failure();
    // The written operands are the last ones.
    for (auto [i, operand] : llvm::enumerate(updates))
      if (operand != static_cast<int64_t>(op.getNumOperands() - updates.size() + i) ||
          op.getArgs()[schema->arguments.size() + i] !=
              torch::ArgAttr::get(op.getContext(), operand))
        return failure();
    ImplicitLocOpBuilder &b = kernels.b();
    ResultRange written = op->getResults().take_back(updates.size());
    auto functional = torch::CallOp::create(
        b, written.getTypes(), target, op->getOperands().drop_back(updates.size()),
        op.getArgs().getValue().take_front(schema->arguments.size()), op.getNodeAttr());
    for (auto [i, result] : llvm::enumerate(written)) {
      result.replaceAllUsesWith(functional.getResult(i));
      if (op->getNumResults() > updates.size()) // the operator returns what it has written
        op.getResult(i).replaceAllUsesWith(functional.getResult(i));
    }
    Call call(functional, kernels, &random);
    LogicalResult lowered = attempt(*lowering, call, op, kernels);
    if (failed(lowered)) {
      for (auto [i, result] : llvm::enumerate(written))
        functional.getResult(i).replaceAllUsesWith(result);
      kernels.failure.reset();
    }
    functional->erase();
    return lowered;
  }

  /// An operator without a schema is only assumed to write; one that has a lowering does not.
  LogicalResult lowerWithoutUpdates(torch::CallOp op, KernelBuilder &kernels,
                                    RandomSource &random) {
    ArrayRef<int64_t> updates = *op.getUpdates();
    unsigned returned = op->getNumResults() - updates.size();
    for (auto [i, operand] : llvm::enumerate(updates))
      op->getResult(returned + i).replaceAllUsesWith(op->getOperand(operand));
    OperationState state(op.getLoc(), torch::CallOp::getOperationName());
    state.addOperands(op->getOperands());
    state.addTypes(TypeRange(op->getResultTypes()).take_front(returned));
    state.addAttributes(op->getAttrs());
    state.attributes.erase("updates");
    if (ArrayAttr values = op.getValuesAttr())
      state.attributes.set("values",
                           kernels.b().getArrayAttr(values.getValue().take_front(returned)));
    auto plain = cast<torch::CallOp>(kernels.b().create(state));
    ImplicitLocOpBuilder builder(op.getLoc(), plain);
    KernelBuilder before(builder, kernels.known());
    for (unsigned i = 0; i < returned; ++i)
      op->getResult(i).replaceAllUsesWith(plain->getResult(i));
    LogicalResult lowered = lowerCall(plain, before, random);
    for (unsigned i = 0; i < returned; ++i) // what was refused is still used
      plain->getResult(i).replaceAllUsesWith(op->getResult(i));
    plain->erase();
    return lowered;
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
  /// By node of the program; empty in nested graphs.
  llvm::DenseMap<StringAttr, unsigned> numCalls;
};
} // namespace
