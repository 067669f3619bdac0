// cuda-expand-attention: makes products of attention that has too many features for a block, or scores of its own.
#include "CUDA/Attention/AttentionKernel.h"
#include "kiln/Dialect/Kernel/Builder/AttentionProducts.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDAEXPANDATTENTION
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using kernel::BodyBuilder, kernel::Element, kernel::Exprs;

/// The value that a region yields where its dims are `dims` of `body`, and its arguments these (the last may be null).
static Element cloneRegion(BodyBuilder &body, Region &region, ArrayRef<sym::Expr> dims,
                           ArrayRef<Element> arguments = {}) {
  DimSubstitution substitution{
      static_cast<unsigned>(dims.size()), body.numDims(), llvm::to_vector(dims), {}, {}};
  IRMapping mapping;
  for (auto [argument, element] : llvm::zip(region.getArguments(), arguments))
    mapping.map(argument, element.value());
  Value value = cloneBody(body.b(), region.front(), substitution, mapping).front();
  return Element(body.b(), value, value.getType());
}

static Value expand(AttentionOp op) {
  sym::Assumptions symbols;
  addSymbolRanges(op, symbols);
  ImplicitLocOpBuilder builder(op.getLoc(), op);
  kernel::KernelBuilder kernels(builder, symbols);

  unsigned rank = op.getNumBatch();
  auto inScores = [&](Region &region) {
    return [&, rank](BodyBuilder &body) {
      Exprs dims = body.dims(0, rank + 3); // of batch, m, n, d
      dims.push_back(0);
      return cloneRegion(body, region, dims);
    };
  };
  auto query = inScores(op.getQ()), key = inScores(op.getK()), bias = inScores(op.getBias());
  auto score = [&](BodyBuilder &body, Element product, Element added) {
    return cloneRegion(body, op.getScore(), {}, {product, added});
  };
  auto value = [&](BodyBuilder &body, sym::Expr n, sym::Expr dv) {
    Exprs dims = body.dims(0, rank);
    dims.append({0, n, 0, dv});
    return cloneRegion(body, op.getV(), dims);
  };
  kernel::AttentionSpec spec;
  spec.batch = Exprs(op.getBatch().getSizes());
  spec.m = op.getM().getValue();
  spec.n = op.getN().getValue();
  spec.d = op.getD().getValue();
  spec.dv = op.getDv().getValue();
  spec.causal = op.getCausal();
  spec.nan = op.getNan();
  if (op.getPerm())
    spec.perm = llvm::to_vector(*op.getPerm());
  spec.q = query;
  spec.k = key;
  if (!op.getBias().empty())
    spec.bias = bias;
  if (!op.getScore().empty())
    spec.score = score;
  Type type = cast<RankedTensorType>(op.getResult().getType()).getElementType();
  // Tensor cores multiply weights that are no wider than values, as they do in a block.
  return kernel::attentionOfProducts(kernels, spec, op.getScale().convertToDouble(), value, type,
                                     /*weightType=*/type);
}

namespace {
struct ExpandAttention : kiln::cuda::impl::CudaExpandAttentionBase<ExpandAttention> {
  void runOnOperation() override {
    SmallVector<AttentionOp> ops;
    getOperation().walk([&](AttentionOp op) {
      if (!op.getPart() && (!cuda::fitsInBlock(op) || !op.getScore().empty()))
        ops.push_back(op);
    });
    for (AttentionOp op : ops) {
      op.getResult().replaceAllUsesWith(expand(op));
      op.erase();
    }
  }
};
} // namespace
