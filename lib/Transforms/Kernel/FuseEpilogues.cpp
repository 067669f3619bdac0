// Moves a map that reads a product, element by element, into the product's epilogue.
#include "Epilogue.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELFUSEEPILOGUES
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct FuseEpilogues : kiln::impl::KernelFuseEpiloguesBase<FuseEpilogues> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<ContractOp> contracts;
    getOperation()->walk([&](ContractOp contract) { contracts.push_back(contract); });
    for (ContractOp contract : contracts)
      while (contract && (contract = fuseUser(contract, rewriter)))
        ;
    SmallVector<AttentionOp> attentions;
    getOperation()->walk([&](AttentionOp attention) { attentions.push_back(attention); });
    for (AttentionOp attention : attentions)
      absorbOrder(attention, rewriter);
  }

  /// A result that would only be written once more, in another order with the features last, is
  /// written so at once.
  void absorbOrder(AttentionOp attention, IRRewriter &rewriter) {
    if (attention.getPart() || !attention.getResult().hasOneUse())
      return;
    auto read = dyn_cast<ReadOp>(*attention.getResult().user_begin());
    auto map = read ? dyn_cast<MapOp>(read->getParentOp()) : MapOp();
    if (!map || map.getView() != read)
      return;
    SmallVector<sym::Expr> domain = map.getExtents(), shape = sym::getShape(attention.getResult());
    // Counted as `perm` does.
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, attention.getNumBatch() + 2));
    if (auto old = attention.getPerm())
      dims.assign(old->begin(), old->end());
    SmallVector<int64_t> perm(domain.size(), -1), ofSizeOne;
    SmallVector<sym::Expr> index(read.getMap().getResults());
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i].isConstant(1)) {
        ofSizeOne.push_back(dims[i]);
        continue;
      }
      if (index[i].kind() != sym::Kind::Dim || index[i].dimIndex() >= domain.size() ||
          domain[index[i].dimIndex()] != shape[i] || perm[index[i].dimIndex()] >= 0)
        return;
      perm[index[i].dimIndex()] = dims[i];
    }
    for (size_t i = 0; i < domain.size() && !ofSizeOne.empty(); ++i)
      if (perm[i] < 0 && domain[i].isConstant(1)) {
        perm[i] = ofSizeOne.front();
        ofSizeOne.erase(ofSizeOne.begin());
      }
    int64_t features = attention.getNumBatch() + 1;
    if (!ofSizeOne.empty() || llvm::is_contained(perm, -1) || perm.back() != features)
      return;
    bool isSorted = llvm::is_sorted(perm);
    attention.setPermAttr(isSorted ? DenseI64ArrayAttr() : rewriter.getDenseI64ArrayAttr(perm));
    attention.getResult().setType(cast<RankedTensorType>(map.getResult(0).getType()));
    rewriter.replaceOp(map, attention.getResult());
  }

  /// Says why a contract that a map reads computes no more than before.
  void sayApart(ContractOp contract, const char *reason) {
    for (Operation *op : contract->getUsers()) {
      auto map = op->getParentOfType<MapOp>();
      if (isa<ReadOp>(op) && map && !map.getView()) {
        emitRemark(RemarkKind::NotDone, contract, getArgument(), "NotFused", [&] {
          return RemarkText{
              "does not compute " + torch::describe(map.getLoc()) + " in its epilogue", reason};
        });
        return;
      }
    }
  }

  /// Returns the contract that replaced `contract`, or null if nothing was fused.
  ContractOp fuseUser(ContractOp contract, IRRewriter &rewriter) {
    EpilogueUser user = findEpilogueUser(contract);
    if (!user.map) {
      sayApart(contract, user.reason);
      return {};
    }
    emitRemark(RemarkKind::Done, contract, getArgument(), "Fused", [&] {
      return RemarkText{"computes " + torch::describe(user.map.getLoc()) + " in its epilogue"};
    });
    return fuseEpilogue(rewriter, contract, user);
  }
};

} // namespace
