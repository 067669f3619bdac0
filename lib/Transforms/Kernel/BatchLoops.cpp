// kernel-batch-loops: computes all rounds of a loop at once where none needs another.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELBATCHLOOPS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// A round that computes tensors larger than this keeps all cores busy by itself, and all rounds'
/// together would not stay in the cache.
constexpr int64_t maxElements = 1 << 14;

int64_t guessElements(Value tensor) {
  constexpr int64_t unknown = 64;
  return sym::product(sym::getShape(tensor))
      .evaluate([](sym::Expr) { return unknown; })
      .value_or(INT64_MAX);
}

/// Whether some read in `region` is of one of `tensors`.
bool readsAny(Region &region, const llvm::DenseSet<Value> &tensors) {
  return region
      .walk([&](ReadOp read) {
        return tensors.contains(read.getTensor()) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Computes all rounds of a graph at once: every op gets one more dim, unless it is the same in all
/// rounds.
class Batcher {
public:
  Batcher(OpBuilder &builder, sym::Expr length) : builder(builder), length(length) {}

  IRMapping mapping;               // from the graph's tensors
  llvm::DenseSet<Value> isBatched; // of the graph's tensors, those that differ from round to round

  void batch(Operation &op) {
    bool differs =
        llvm::any_of(op.getRegions(), [&](Region &region) { return readsAny(region, isBatched); });
    if (!differs) {
      builder.clone(op, mapping);
      return;
    }
    if (auto map = dyn_cast<MapOp>(op))
      batch(map);
    else if (auto contract = dyn_cast<ContractOp>(op))
      batch(contract);
    else
      batch(cast<AttentionOp>(op));
    isBatched.insert(op.result_begin(), op.result_end());
  }

  /// `value` of the graph as a tensor over all rounds.
  Value getStacked(Value value) {
    Value tensor = mapping.lookupOrDefault(value);
    if (isBatched.contains(value))
      return tensor;
    SmallVector<sym::Expr> shape = sym::getShape(tensor), index;
    for (unsigned i = 0; i < shape.size(); ++i)
      index.push_back(sym::Expr::dim(i + 1));
    shape.insert(shape.begin(), length);
    return createView(builder, tensor.getLoc(), tensor, shape, index).getResult(0);
  }

private:
  /// Clones `source` to `target`, where `round` is the new dim.
  void cloneRegion(Region &source, Region &target, unsigned numDims, unsigned round) {
    if (source.empty())
      return;
    OpBuilder::InsertionGuard guard(builder);
    Block &block = target.emplaceBlock();
    IRMapping inner = mapping;
    for (BlockArgument argument : source.getArguments())
      inner.map(argument, block.addArgument(argument.getType(), argument.getLoc()));
    builder.setInsertionPointToStart(&block);
    DimSubstitution substitution;
    substitution.sourceDims = numDims;
    substitution.targetDims = numDims + 1;
    for (unsigned i = 0; i < numDims; ++i)
      substitution.dims.push_back(sym::Expr::dim(i < round ? i : i + 1));
    SmallVector<Value> yielded = cloneBody(builder, source.front(), substitution, inner);
    YieldOp::create(builder, source.getLoc(), yielded);
    // Values that differ from round to round are read at the round.
    llvm::DenseSet<Value> stacked;
    for (Value tensor : isBatched)
      stacked.insert(mapping.lookup(tensor));
    block.walk([&](ReadOp read) {
      sym::IndexMap map = read.getMap().getMap();
      int64_t rank = cast<RankedTensorType>(read.getTensor().getType()).getRank();
      if (!stacked.contains(read.getTensor()) || static_cast<int64_t>(map.results.size()) == rank)
        return;
      map.results.insert(map.results.begin(), sym::Expr::dim(round));
      read.setMapAttr(sym::MapAttr::get(builder.getContext(), map));
    });
  }

  Type stack(Type type) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<sym::Expr> shape = sym::getShape(tensor);
    shape.insert(shape.begin(), length);
    return sym::getTensorType(shape, tensor.getElementType());
  }

  sym::ShapeAttr prepend(sym::ShapeAttr sizes) {
    SmallVector<sym::Expr> result(sizes.getSizes());
    result.insert(result.begin(), length);
    return sym::ShapeAttr::get(builder.getContext(), result);
  }

  void batch(MapOp map) {
    SmallVector<Type> types =
        llvm::map_to_vector(map->getResultTypes(), [&](Type type) { return stack(type); });
    auto result = MapOp::create(builder, map.getLoc(), types);
    cloneRegion(map.getBody(), result.getBody(), map.getExtents().size(), 0);
    mapping.map(map.getResults(), result.getResults());
  }

  /// The new dim is a row or a column where one operand is the same in all rounds: one large
  /// product instead of many small ones.
  void batch(ContractOp contract) {
    bool left = readsAny(contract.getLhs(), isBatched),
         right = readsAny(contract.getRhs(), isBatched);
    sym::ShapeAttr batch = contract.getBatchAttr(), m = contract.getMAttr(),
                   n = contract.getNAttr();
    unsigned round = 0;
    if (left && right) {
      batch = prepend(batch);
    } else if (right) {
      n = prepend(n);
      round = contract.getNumBatch() + contract.getNumM();
    } else {
      m = prepend(m);
      round = contract.getNumBatch();
    }
    SmallVector<int64_t> perm = {round};
    for (int64_t dim : contract.getResultDims())
      perm.push_back(dim < round ? dim : dim + 1);
    auto permAttr =
        llvm::is_sorted(perm) ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(perm);
    auto result =
        ContractOp::create(builder, contract.getLoc(), stack(contract.getType()), batch, m, n,
                           contract.getKAttr(), permAttr, IntegerAttr(), sym::ExprAttr(),
                           contract.getBytesAttr(), contract.getNarrowAttr());
    unsigned numDims = contract.getExtents().size();
    cloneRegion(contract.getLhs(), result.getLhs(), numDims, round);
    cloneRegion(contract.getRhs(), result.getRhs(), numDims, round);
    cloneRegion(contract.getEpilogue(), result.getEpilogue(), numDims, round);
    mapping.map(contract.getResult(), result.getResult());
  }

  void batch(AttentionOp attention) {
    // In (batch…, m, dv), where the new dim is the first.
    DenseI64ArrayAttr perm = attention.getPermAttr();
    if (perm) {
      SmallVector<int64_t> dims = {0};
      for (int64_t dim : perm.asArrayRef())
        dims.push_back(dim + 1);
      perm = builder.getDenseI64ArrayAttr(dims);
    }
    auto result = AttentionOp::create(
        builder, attention.getLoc(), stack(attention.getResult().getType()), TypeRange(),
        prepend(attention.getBatchAttr()), attention.getMAttr(), attention.getNAttr(),
        attention.getDAttr(), attention.getDvAttr(), attention.getScaleAttr(),
        attention.getCausalAttr(), attention.getNanAttr(), perm, sym::ExprAttr());
    unsigned numDims = attention.getExtents().size();
    for (auto [from, to] : llvm::zip_equal(attention->getRegions(), result->getRegions()))
      cloneRegion(from, to, numDims, 0);
    mapping.map(attention.getResult(), result.getResult());
  }

  OpBuilder &builder;
  sym::Expr length;
};

struct BatchLoops : kiln::impl::KernelBatchLoopsBase<BatchLoops> {
  void runOnOperation() override {
    symbols.emplace(getOperation());
    IRRewriter rewriter(&getContext());
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      if (function.isPublic())
        visit(function, rewriter);
    // A function that has been put into its callers is not needed any more.
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (batched.contains(function) && SymbolTable::symbolKnownUseEmpty(function, getOperation()))
        function.erase();
    batched.clear();
    done.clear();
  }

  /// A graph's own loops first: a graph without any can be batched in turn.
  void visit(func::FuncOp function, IRRewriter &rewriter) {
    if (!done.insert(function).second)
      return;
    for (auto call :
         llvm::make_early_inc_range(function.getBody().getOps<GraphCallOpInterface>())) {
      for (FlatSymbolRefAttr graph : call.getGraphs())
        visit(symbols->lookup<func::FuncOp>(graph.getValue()), rewriter);
      if (auto loop = dyn_cast<ForOp>(*call))
        if (loop.getCarried().empty())
          batch(loop, rewriter);
    }
  }

  static bool canBatch(Operation &op) {
    if (auto contract = dyn_cast<ContractOp>(op))
      if (contract.getPanel())
        return false;
    if (!isa<MapOp, ContractOp, AttentionOp, ConstantOp, func::ReturnOp>(op))
      return false;
    return isa<ConstantOp>(op) || llvm::all_of(op.getResults(), [](Value value) {
             return guessElements(value) <= maxElements;
           });
  }

  void batch(ForOp loop, IRRewriter &rewriter) {
    auto graph = symbols->lookup<func::FuncOp>(loop.getBody());
    Block &body = graph.getBody().front();
    if (!llvm::all_of(body, canBatch))
      return;
    rewriter.setInsertionPoint(loop);
    Batcher batcher(rewriter, loop.getLength().getValue());
    SmallVector<Value> operands(loop.getSliced());
    llvm::append_range(operands, loop.getInvariants());
    batcher.mapping.map(graph.getArguments(), operands);
    for (BlockArgument slice : graph.getArguments().take_front(loop.getSliced().size()))
      batcher.isBatched.insert(slice);
    for (Operation &op : body.without_terminator())
      batcher.batch(op);
    SmallVector<Value> results;
    for (Value value : body.getTerminator()->getOperands())
      results.push_back(batcher.getStacked(value));
    rewriter.replaceOp(loop, results);
    batched.insert(graph);
  }

  std::optional<SymbolTable> symbols;
  llvm::DenseSet<Operation *> batched, done;
};

} // namespace
