// mark-extern: marks the subgraphs that external code generators have patterns for.
#include "Subgraph.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Extern/Passes.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace kiln::externs {
#define GEN_PASS_DEF_MARKEXTERN
#include "kiln/Extern/Passes.h.inc"
} // namespace kiln::externs

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

namespace {

struct MarkExtern : kiln::externs::impl::MarkExternBase<MarkExtern> {
  explicit MarkExtern(Session session) : session(std::move(session)) {}
  MarkExtern(const MarkExtern &other) : MarkExternBase(other), session(other.session) {}

  LogicalResult initialize(MLIRContext *context) override {
    return ExternSession::ensure(session, llvm::to_vector(generators), context);
  }

  void runOnOperation() override {
    numGroups = 0;
    getOperation().walk([&](Operation *op) {
      DictionaryAttr mark = getMark(op);
      if (auto group = mark ? mark.getAs<IntegerAttr>("group") : IntegerAttr())
        numGroups = std::max(numGroups, group.getInt() + 1);
    });
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !getMark(function))
        for (const auto &generator : session->generators)
          for (const ExternPattern &pattern : generator->getPatterns())
            mark(function, *generator, pattern);
  }

private:
  void mark(func::FuncOp function, const ExternGenerator &generator, const ExternPattern &pattern) {
    // From the end: what an op's result is made into belongs to a larger subgraph.
    for (Block &block : function.getBody())
      for (Operation &root : llvm::reverse(block)) {
        if (getMark(&root) || root.hasTrait<OpTrait::IsTerminator>())
          continue;
        FailureOr<ExternMatch> match = pattern.match(&root);
        if (failed(match))
          continue;
        StringRef reason = findObstacle(*match, &root);
        emitRemark(reason.empty() ? RemarkKind::Done : RemarkKind::NotDone, &root, "mark-extern",
                   "mark", [&]() -> RemarkText {
                     return {("left to " + generator.getName() + ", pattern " + pattern.name).str(),
                             reason.str()};
                   });
        if (reason.empty())
          mark(*match, &root, generator, pattern);
      }
  }

  void mark(const ExternMatch &match, Operation *root, const ExternGenerator &generator,
            const ExternPattern &pattern) {
    Builder b(&getContext());
    NamedAttrList attrs;
    attrs.set("generator", b.getStringAttr(generator.getName()));
    attrs.set("pattern", b.getStringAttr(pattern.name));
    attrs.set("group", b.getI64IntegerAttr(numGroups++));
    if (pattern.capturesConstants)
      attrs.set("capture", b.getUnitAttr());
    if (pattern.isInline)
      attrs.set("inline", b.getUnitAttr());
    for (Operation *op : match.ops)
      op->setAttr(markAttrName, attrs.getDictionary(&getContext()));
    if (ValueRange(match.results) == ValueRange(root->getResults()))
      return;
    // The op of each, as a number in the subgraph, and which of its results it is.
    SmallVector<Operation *> ordered(match.ops);
    llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    SmallVector<int64_t> results;
    for (Value value : match.results) {
      auto result = cast<OpResult>(value);
      results.push_back(llvm::find(ordered, result.getOwner()) - ordered.begin());
      results.push_back(result.getResultNumber());
    }
    attrs.set("results", b.getDenseI64ArrayAttr(results));
    root->setAttr(markAttrName, attrs.getDictionary(&getContext()));
  }

  /// Why the ops cannot be one call in the place of the last one, or empty.
  static StringRef findObstacle(const ExternMatch &match, Operation *root) {
    llvm::SmallPtrSet<Operation *, 8> inside(match.ops.begin(), match.ops.end());
    if (!inside.contains(root))
      return "its last op is not part of it";
    auto isTensor = [](Value value) { return isa<RankedTensorType>(value.getType()); };
    for (Value result : match.results)
      if (!inside.contains(result.getDefiningOp()) || !isTensor(result))
        return "a result is not one of its tensors";
    for (Operation *op : match.ops) {
      if (op->getBlock() != root->getBlock() || (op != root && !op->isBeforeInBlock(root)))
        return "its ops are not in one block";
      if (getMark(op))
        return "a part of it has been taken";
      if (op->hasAttr("defines") || op->hasAttr("updates") || isa<kernel::DefineOp>(op))
        return "it defines a symbol or writes an operand";
      if (op->hasAttr(torch::symbolAttrName))
        return "a part of it has a C function of its own";
      if (!llvm::all_of(op->getOperands(), isTensor))
        return "an operand is no tensor";
      for (Value result : op->getResults())
        for (Operation *user : result.getUsers()) {
          Operation *inBlock = root->getBlock()->findAncestorOpInBlock(*user);
          if (inside.contains(inBlock))
            continue;
          if (!llvm::is_contained(match.results, result))
            return "something else uses a value in it";
          if (!inBlock || inBlock->isBeforeInBlock(root))
            return "a result is used before its last op";
        }
    }
    return {};
  }

  Session session;
  int64_t numGroups = 0;
};

} // namespace

std::unique_ptr<Pass> externs::createMarkExtern(Session session) {
  return std::make_unique<MarkExtern>(std::move(session));
}
