// Folders and canonicalizations of the kernel dialect's ops.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

OpFoldResult ExpectOp::fold(FoldAdaptor adaptor) {
  auto holds = dyn_cast_or_null<IntegerAttr>(adaptor.getCondition());
  return holds && holds.getValue().isOne() ? OpFoldResult(getValue()) : OpFoldResult();
}

LogicalResult AttentionOp::canonicalize(AttentionOp op, PatternRewriter &rewriter) {
  Region &bias = op.getBias();
  if (bias.empty() || !matchPattern(bias.front().getTerminator()->getOperand(0), m_AnyZeroFloat()))
    return rewriter.notifyMatchFailure(op, "the bias is empty, or not 0");
  rewriter.modifyOpInPlace(op, [&] {
    if (!op.getScore().empty()) {
      Block &score = op.getScore().front();
      BlockArgument added = score.getArgument(1);
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(&score);
      // Minus zero is what changes no number that it is added to.
      rewriter.replaceAllUsesWith(
          added, arith::ConstantOp::create(rewriter, op.getLoc(),
                                           rewriter.getFloatAttr(added.getType(), -0.0)));
      score.eraseArgument(1);
    }
    bias.dropAllReferences();
    while (!bias.empty())
      rewriter.eraseBlock(&bias.front());
  });
  return success();
}
