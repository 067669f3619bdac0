// torch-normalize-floor-div: brings divisions in sizes to their normal form.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHNORMALIZEFLOORDIV
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

struct NormalizeFloorDiv : kiln::impl::TorchNormalizeFloorDivBase<NormalizeFloorDiv> {
  void runOnOperation() override {
    sym::Assumptions assumptions;
    kernel::addSymbolRanges(getOperation(), assumptions);
    sym::rewriteExprs(getOperation(), [&](sym::Expr expr) {
      sym::Expr simple = assumptions.simplify(expr);
      if (simple == expr)
        return expr;
      if (assumptions.provesEqual(expr, simple)) {
        ++numRewritten;
        return simple;
      }
      ++numUnproved;
      return expr;
    });
  }
};

} // namespace
