// kernel-fuse-attention: a softmax between two products is attention, whose scores are never in memory.
#include "AttentionScores.h"
#include "Epilogue.h"
#include "SplitBatch.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Kernel/ResultNodes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELFUSEATTENTION
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using sym::Expr;

namespace {

/// Features of queries and keys, and of values: beyond them a block of keys and a panel of queries leave the cache, and two
/// products with a softmax between them have tiles of their own.
constexpr int64_t maxFeatures = 256;

//===-- The softmax -------------------------------------------------------------------------===//

/// `value` before it was made wider or narrower.
Value skipCasts(Value value) {
  while (auto *op = value.getDefiningOp()) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

SmallVector<Expr> ownDims(unsigned rank) {
  SmallVector<Expr> dims;
  for (unsigned i = 0; i < rank; ++i)
    dims.push_back(Expr::dim(i));
  return dims;
}

/// The read of an element at `index`, behind casts to wider types alone.
ReadOp getRead(Value value, ArrayRef<Expr> index, ArrayRef<Expr> shape) {
  while (auto wider = value.getDefiningOp<arith::ExtFOp>())
    value = wider.getIn();
  auto read = value.getDefiningOp<ReadOp>();
  if (!read || read.getMask() || !read.getValues().empty() ||
      read.getMap().getResults().size() != index.size())
    return {};
  for (auto [is, expected, size] : llvm::zip(read.getMap().getResults(), index, shape))
    if (is != expected && !size.isConstant(1))
      return {};
  return read;
}

/// A reduction by one op of type `Combine` over all of `extent`.
template <typename Combine> ReduceOp getReduce(Value value, Expr extent) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  if (!reduce || reduce->getNumResults() != 1 || reduce.getExtents().getSizes().size() != 1 ||
      reduce.getExtents().getSizes().front() != extent)
    return {};
  Block &combine = reduce.getCombine().front();
  auto op = combine.getTerminator()->getOperand(0).getDefiningOp<Combine>();
  bool combinesBoth = op && op.getLhs() != op.getRhs() && isa<BlockArgument>(op.getLhs()) &&
                      isa<BlockArgument>(op.getRhs());
  return combinesBoth ? reduce : ReduceOp();
}

/// x - y of exp(x - y).
arith::SubFOp getExponent(Value value) {
  auto exp = value.getDefiningOp<math::ExpOp>();
  return exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
}

/// x and y of x / y, also as x * (1 / y).
std::optional<std::pair<Value, Value>> getQuotient(Value value) {
  if (auto quotient = value.getDefiningOp<arith::DivFOp>())
    return std::pair(quotient.getLhs(), quotient.getRhs());
  auto product = value.getDefiningOp<arith::MulFOp>();
  auto inverse = product ? product.getRhs().getDefiningOp<arith::DivFOp>() : arith::DivFOp();
  if (!inverse || !matchPattern(inverse.getLhs(), m_OneFloat()))
    return {};
  return std::pair(product.getLhs(), inverse.getRhs());
}

/// The softmax of the last dim of `input`; with `isSafe`, 0 where all of a row is -inf.
struct Softmax {
  Value input;
  bool isSafe;
};

/// Null if `map` is none. See kernel::softmax.
std::optional<Softmax> getSoftmax(MapOp map) {
  if (map->getNumResults() != 1)
    return {};
  SmallVector<Expr> shape = map.getExtents();
  if (shape.empty())
    return {};
  Value result = skipCasts(getYielded(map.getBody()));
  auto unlessNone = result.getDefiningOp<arith::SelectOp>();
  if (unlessNone && matchPattern(unlessNone.getTrueValue(), m_AnyZeroFloat()))
    result = unlessNone.getFalseValue();
  std::optional<std::pair<Value, Value>> quotient = getQuotient(result);
  ReduceOp sum = quotient ? getReduce<arith::AddFOp>(quotient->second, shape.back()) : ReduceOp();
  if (!sum || !matchPattern(sum.getInit().front(), m_AnyZeroFloat()))
    return {};
  SmallVector<Expr> own = ownDims(shape.size()), inner = own;
  inner.back() = Expr::dim(shape.size());
  arith::SubFOp distance = getExponent(quotient->first),
                inSum = getExponent(getYielded(sum.getBody()));
  ReduceOp maximum =
      distance ? getReduce<arith::MaximumFOp>(distance.getRhs(), shape.back()) : ReduceOp();
  if (!maximum || !matchPattern(maximum.getInit().front(), m_NegInfFloat()) || !inSum ||
      inSum.getRhs() != distance.getRhs())
    return {};
  if (unlessNone) {
    auto isNone = unlessNone.getCondition().getDefiningOp<arith::CmpFOp>();
    if (!isNone || isNone.getPredicate() != arith::CmpFPredicate::OEQ ||
        isNone.getLhs() != distance.getRhs() || !matchPattern(isNone.getRhs(), m_NegInfFloat()))
      return {};
  }
  ReadOp read = getRead(distance.getLhs(), own, shape);
  ReadOp ofMaximum = getRead(getYielded(maximum.getBody()), inner, shape);
  ReadOp ofSum = getRead(inSum.getLhs(), inner, shape);
  if (!read || !ofMaximum || !ofSum || ofMaximum.getTensor() != read.getTensor() ||
      ofSum.getTensor() != read.getTensor())
    return {};
  return Softmax{read.getTensor(), /*isSafe=*/unlessNone != nullptr};
}

Value getSoftmaxInput(MapOp map) {
  std::optional<Softmax> softmax = getSoftmax(map);
  return softmax ? softmax->input : Value();
}

//===-- Attention -----------------------------------------------------------------------------===//

/// Dims of a product as those of the attention.
DimSubstitution getSubstitution(ArrayRef<unsigned> dims, unsigned numBatch) {
  DimSubstitution substitution;
  substitution.sourceDims = numBatch + 3;
  substitution.targetDims = numBatch + 4;
  for (unsigned i = 0; i < numBatch; ++i)
    substitution.dims.push_back(Expr::dim(i));
  for (unsigned dim : dims)
    substitution.dims.push_back(Expr::dim(numBatch + dim));
  return substitution;
}

Type yieldedType(Region &region) { return getYielded(region).getType(); }

struct FuseAttention : kiln::impl::KernelFuseAttentionBase<FuseAttention> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<ContractOp> products;
    getOperation()->walk([&](ContractOp product) { products.push_back(product); });
    gone.clear();
    for (ContractOp scores : products) {
      MapOp weights = gone.contains(scores) ? MapOp() : findSoftmax(scores);
      if (!weights)
        continue;
      scores = split(scores, weights, rewriter);
      SmallVector<MapOp> maps{weights};
      ContractOp product = findProduct(maps, rewriter);
      if (product && fuse(scores, maps, product, rewriter))
        gone.insert(product);
    }
  }

  /// `product` with the batch dims of `weights`, where a decomposition has made one of them.
  ContractOp split(ContractOp product, MapOp weights, IRRewriter &rewriter) {
    SmallVector<Expr> extents = weights.getExtents();
    if (extents.size() < 2)
      return product;
    ContractOp result = splitBatch(rewriter, product, ArrayRef(extents).drop_back(2));
    if (result != product)
      gone.insert(product);
    return result;
  }

  /// The map that reads `value`, if nothing else does.
  static MapOp getOnlyReader(Value value) {
    MapOp reader;
    for (Operation *user : value.getUsers()) {
      auto map = isa<ReadOp>(user) ? user->getParentOfType<MapOp>() : MapOp();
      if (!map || (reader && map != reader))
        return {};
      reader = map;
    }
    return reader;
  }

  /// The softmax of what one map after the other makes of the scores; null if there is none.
  static MapOp findSoftmax(ContractOp scores) {
    constexpr int maxMaps = 8;
    Value value = scores.getResult();
    for (int i = 0; i <= maxMaps; ++i) {
      MapOp reader = getOnlyReader(value);
      if (!reader || reader->getNumResults() != 1)
        return {};
      if (getSoftmaxInput(reader) == value)
        return reader;
      value = reader.getResult(0);
    }
    return {};
  }

  /// The product that has the result of the last map for its left operand, if nothing else reads it. Maps between them that change
  /// the dtype alone are added.
  ContractOp findProduct(SmallVectorImpl<MapOp> &maps, IRRewriter &rewriter) {
    MapOp weights = maps.back();
    Value result = weights.getResult(0);
    if (!result.hasOneUse())
      return {};
    auto read = dyn_cast<ReadOp>(*result.user_begin());
    if (auto cast = read ? dyn_cast<MapOp>(read->getParentOp()) : MapOp();
        cast && cast->getNumResults() == 1 &&
        skipCasts(getYielded(cast.getBody())) == read.getResult() &&
        getRead(read.getResult(), ownDims(cast.getExtents().size()), cast.getExtents())) {
      maps.push_back(cast);
      return findProduct(maps, rewriter);
    }
    auto product = read ? dyn_cast<ContractOp>(read->getParentOp()) : ContractOp();
    if (!product || !isPlain(product) || getYielded(product.getLhs()) != read.getResult())
      return {};
    product = split(product, weights, rewriter);
    unsigned numBatch = product.getBatch().getSizes().size();
    SmallVector<Expr> index = ownDims(numBatch + 1);
    index.push_back(Expr::dim(numBatch + 2));
    return getRead(getYielded(product.getLhs()), index, weights.getExtents()) ? product
                                                                              : ContractOp();
  }

  static bool isPlain(ContractOp product) {
    return !product.getPerm() && product.getM().getSizes().size() == 1 &&
           product.getN().getSizes().size() == 1 && product.getK().getSizes().size() == 1;
  }

  /// Replaces the two products and the maps between them by attention, if they are that.
  bool fuse(ContractOp scores, ArrayRef<MapOp> maps, ContractOp product, IRRewriter &rewriter) {
    MapOp weights = maps.front();
    auto no = [&](const char *reason) {
      emitRemark(RemarkKind::NotDone, product, getArgument(), "NotFused",
                 [&] { return RemarkText{"does not compute the softmax of its scores", reason}; });
      return false;
    };
    if (!isPlain(scores) || scores.getBatch() != product.getBatch() ||
        scores.getM() != product.getM() || scores.getN() != product.getK())
      return no("the batches of both products differ");
    if (product->getBlock() != scores->getBlock() || product->getBlock() != weights->getBlock())
      return no("the scores are those of another graph");
    if (skipCasts(getYielded(product.getEpilogue())) != product.getEpilogue().getArgument(0))
      return no("the product has an epilogue");
    auto fits = [](Expr size) {
      std::optional<int64_t> features = size.constant();
      return features && *features > 0 && *features <= maxFeatures;
    };
    if (!fits(scores.getK().getSizes().front()) || !fits(product.getN().getSizes().front()))
      return no("the features are not known, or too many");
    Type type = yieldedType(scores.getLhs());
    auto result = cast<RankedTensorType>(product.getResult().getType());
    if (!isa<FloatType>(type) || yieldedType(scores.getRhs()) != type ||
        yieldedType(product.getRhs()) != type || result.getElementType() != type ||
        yieldedType(product.getLhs()) != type)
      return no("queries, keys, weights and values have different dtypes");
    Value input = getSoftmaxInput(weights);
    while (input != scores.getResult()) {
      EpilogueUser user = findEpilogueUser(scores);
      if (!user.map)
        return no(user.reason);
      scores = fuseEpilogue(rewriter, scores, user);
      input = getSoftmaxInput(weights);
    }
    foldConstants(rewriter, scores.getEpilogue());
    // In half precision, what is made of the scores is rounded on the way.
    bool isWide = type.getIntOrFloatBitWidth() >= 32;
    std::optional<AttentionScores> epilogue = AttentionScores::match(scores.getEpilogue(), isWide);
    if (!epilogue)
      return no(isWide ? "the scores are made of more than the product and one other number"
                       : "the scores are more than a multiple of the product and a mask");
    if (epilogue->hasBias && yieldedType(scores.getEpilogue()) != type)
      return no("the mask has another dtype");
    emitRemark(RemarkKind::Done, product, getArgument(), "Fused",
               [&] { return RemarkText{"computes its scores and their softmax with it"}; });
    replace(product, scores, *epilogue, getSoftmax(weights)->isSafe, rewriter);
    for (MapOp map : llvm::reverse(maps))
      rewriter.eraseOp(map);
    rewriter.eraseOp(scores);
    return true;
  }

  static void replace(ContractOp product, ContractOp scores, const AttentionScores &epilogue,
                      bool isSafe, IRRewriter &rewriter) {
    MLIRContext *context = rewriter.getContext();
    auto size = [&](sym::ShapeAttr sizes) {
      return sym::ExprAttr::get(context, sizes.getSizes().front());
    };
    rewriter.setInsertionPoint(product);
    // Heads next to the features, as what follows mostly reads them.
    auto type = cast<RankedTensorType>(product.getResult().getType());
    SmallVector<Expr> shape = sym::getShape(type), index;
    unsigned rank = shape.size();
    SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    if (rank > 3)
      std::swap(perm[rank - 3], perm[rank - 2]);
    SmallVector<Expr> ordered;
    for (int64_t dim : perm) { // a swap is its own inverse
      ordered.push_back(shape[dim]);
      index.push_back(Expr::dim(dim));
    }
    auto attention = AttentionOp::create(
        rewriter, fuseLocations(scores, product),
        sym::getTensorType(ordered, type.getElementType()), TypeRange(), product.getBatchAttr(),
        size(product.getM()), size(product.getK()), size(scores.getK()), size(product.getN()),
        rewriter.getF64FloatAttr(epilogue.scale), /*causal=*/UnitAttr(),
        /*nan=*/isSafe ? UnitAttr() : rewriter.getUnitAttr(),
        rank > 3 ? rewriter.getDenseI64ArrayAttr(perm) : DenseI64ArrayAttr(),
        /*part=*/sym::ExprAttr());
    unsigned numBatch = attention.getNumBatch();
    DimSubstitution ofScores = getSubstitution({0, 1, 2}, numBatch);
    DimSubstitution ofProduct = getSubstitution({0, 3, 1}, numBatch);
    renameBody(scores.getLhs(), attention.getQ(), ofScores.dims, rewriter, ofScores.targetDims);
    renameBody(scores.getRhs(), attention.getK(), ofScores.dims, rewriter, ofScores.targetDims);
    renameBody(product.getRhs(), attention.getV(), ofProduct.dims, rewriter, ofProduct.targetDims);
    if (epilogue.hasBias)
      epilogue.fillBias(rewriter, ofScores, attention.getBias());
    if (epilogue.function)
      epilogue.fillScore(rewriter, attention.getScore());
    if (rank > 3) {
      rewriter.replaceOp(
          product, createView(rewriter, product.getLoc(), attention.getResult(), shape, index));
    } else {
      rewriter.replaceOp(product, attention.getResult());
    }
  }

  llvm::DenseSet<Operation *> gone; // products that others have taken the place of
};

} // namespace
