// kernel-simplify-indices: simplifies index maps and bounds checks with what is known of dims and
// symbols.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Matchers.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELSIMPLIFYINDICES
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct SimplifyIndices : kiln::impl::KernelSimplifyIndicesBase<SimplifyIndices> {
  void runOnOperation() override {
    // Assumptions are per region; a region's ops come together in a walk.
    Region *region = nullptr;
    sym::Assumptions assumptions;
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa<IndexedOpInterface, arith::AddIOp, arith::MulIOp, arith::CmpIOp>(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      if (op->getParentRegion() != region) {
        region = op->getParentRegion();
        assumptions = getAssumptions(region);
      }
      if (isa<arith::ArithDialect>(op->getDialect())) {
        foldIndexArithmetic(op, assumptions);
        continue;
      }
      auto indexed = cast<IndexedOpInterface>(op);
      absorbValues(indexed, assumptions);
      simplifyMap(indexed, assumptions);
      dropUnusedValues(indexed);
      if (auto inside = dyn_cast<InsideOp>(op))
        simplifyInside(inside, assumptions);
      else if (auto read = dyn_cast<ReadOp>(op))
        simplifyMask(read);
    }
  }

  /// The expression over the dims around that `value` is: an index op's, or a constant.
  static std::optional<sym::Expr> getExpr(Value value) {
    llvm::APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant)) && constant.getBitWidth() == 64)
      return sym::Expr(constant.getSExtValue());
    auto index = value.getDefiningOp<IndexOp>();
    if (!index || !index.getValues().empty())
      return std::nullopt;
    return index.getMap().getResults()[0];
  }

  /// Sums and products of index expressions are index expressions; comparisons may be decided.
  void foldIndexArithmetic(Operation *op, const sym::Assumptions &assumptions) {
    if (!isa_and_nonnull<IndexOp>(op->getOperand(0).getDefiningOp()) &&
        !isa_and_nonnull<IndexOp>(op->getOperand(1).getDefiningOp()))
      return;
    std::optional<sym::Expr> lhs = getExpr(op->getOperand(0)), rhs = getExpr(op->getOperand(1));
    if (!lhs || !rhs)
      return;
    OpBuilder builder(op);
    if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
      if (std::optional<bool> result = decide(compare.getPredicate(), *lhs, *rhs, assumptions)) {
        compare.getResult().replaceAllUsesWith(
            arith::ConstantOp::create(builder, op->getLoc(), builder.getBoolAttr(*result)));
        op->erase();
      }
      return;
    }
    sym::Expr expr = isa<arith::AddIOp>(op) ? *lhs + *rhs : *lhs * *rhs;
    if (!expr.isValid())
      return;
    sym::IndexMap map{static_cast<unsigned>(getDimExtents(op->getParentRegion()).size()), {expr}};
    op->getResult(0).replaceAllUsesWith(IndexOp::create(builder, op->getLoc(), builder.getI64Type(),
                                                        sym::MapAttr::get(&getContext(), map),
                                                        ValueRange()));
    op->erase();
  }

  static std::optional<bool> decide(arith::CmpIPredicate predicate, sym::Expr a, sym::Expr b,
                                    const sym::Assumptions &assumptions) {
    auto less = [&](sym::Expr x, sym::Expr y) -> std::optional<bool> {
      if (assumptions.isLess(x, y))
        return true;
      if (assumptions.isLessOrEqual(y, x))
        return false;
      return std::nullopt;
    };
    auto negate = [](std::optional<bool> value) -> std::optional<bool> {
      return value ? std::optional<bool>(!*value) : std::nullopt;
    };
    switch (predicate) {
    case arith::CmpIPredicate::slt:
      return less(a, b);
    case arith::CmpIPredicate::sgt:
      return less(b, a);
    case arith::CmpIPredicate::sge:
      return negate(less(a, b));
    case arith::CmpIPredicate::sle:
      return negate(less(b, a));
    default:
      return std::nullopt;
    }
  }

  /// An index that was taken for data and is an expression joins the map, where it is proved to lie
  /// inside the tensor (data is checked when it runs, expressions are not).
  void absorbValues(IndexedOpInterface op, const sym::Assumptions &assumptions) {
    sym::IndexMap map = op.getMap().getMap();
    auto read = dyn_cast<ReadOp>(op.getOperation());
    ValueRange values = op.getValues();
    unsigned dims = map.numDims - values.size();
    for (auto [i, value] : llvm::enumerate(values)) {
      std::optional<sym::Expr> expr = getExpr(value);
      if (!expr)
        continue;
      sym::Expr dim = sym::Expr::dim(dims + i);
      SmallVector<sym::Expr, 4> results;
      bool isInside = true;
      for (auto [j, result] : llvm::enumerate(map.results)) {
        results.push_back(result.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
          return leaf == dim ? expr : std::nullopt;
        }));
        if (read && result.dependsOn(dim))
          isInside &= assumptions.isNonNegative(results.back()) &&
                      assumptions.isLess(results.back(), sym::getShape(read.getTensor())[j]);
      }
      if (isInside)
        map.results = results;
    }
    op.setMap(sym::MapAttr::get(&getContext(), map));
  }

  /// Values that no result uses any more would keep their computation alive.
  void dropUnusedValues(IndexedOpInterface op) {
    sym::IndexMap map = op.getMap().getMap();
    MutableOperandRange values = op.getValuesMutable();
    unsigned dims = map.numDims - values.size();
    SmallVector<Value> kept;
    SmallVector<sym::Expr> renumbered;
    for (unsigned i = 0; i < map.numDims; ++i)
      renumbered.push_back(sym::Expr::dim(i));
    for (unsigned i = 0, e = values.size(); i < e; ++i) {
      sym::Expr dim = sym::Expr::dim(dims + i);
      if (llvm::none_of(map.results, [&](sym::Expr expr) { return expr.dependsOn(dim); }))
        continue;
      renumbered[dims + i] = sym::Expr::dim(dims + kept.size());
      kept.push_back(values[i].get());
    }
    if (kept.size() == values.size())
      return;
    for (sym::Expr &expr : map.results)
      expr = expr.substituteDims(renumbered);
    map.numDims = dims + kept.size();
    values.assign(kept);
    op.setMap(sym::MapAttr::get(op->getContext(), map));
  }

  void simplifyInside(InsideOp inside, const sym::Assumptions &assumptions) {
    SmallVector<sym::Expr> exprs, bounds;
    bool never = false;
    for (auto [expr, bound] :
         llvm::zip_equal(inside.getMap().getResults(), inside.getBounds().getSizes())) {
      never |= assumptions.isLess(expr, 0) || assumptions.isLessOrEqual(bound, expr);
      if (assumptions.isNonNegative(expr) && assumptions.isLess(expr, bound))
        continue;
      exprs.push_back(expr);
      bounds.push_back(bound);
    }
    if (!never && !exprs.empty()) {
      inside.setMapAttr(sym::MapAttr::get(&getContext(), inside.getMap().getNumDims(), exprs));
      inside.setBoundsAttr(sym::ShapeAttr::get(&getContext(), bounds));
      return;
    }
    OpBuilder builder(inside);
    Value constant =
        arith::ConstantOp::create(builder, inside.getLoc(), builder.getBoolAttr(!never));
    inside.getResult().replaceAllUsesWith(constant);
    inside.erase();
  }

  void simplifyMask(ReadOp read) {
    llvm::APInt mask;
    if (!read.getMask() || !matchPattern(read.getMask(), m_ConstantInt(&mask)))
      return;
    if (mask.isZero()) {
      read.getResult().replaceAllUsesWith(read.getOther());
      read.erase();
      return;
    }
    read.getMaskMutable().clear();
    read.getOtherMutable().clear();
  }
};

} // namespace
