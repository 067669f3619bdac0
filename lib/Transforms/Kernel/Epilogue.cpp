// Moving a map that reads a product, element by element, into the product's epilogue.
#include "Epilogue.h"
#include "kiln/Dialect/Kernel/ResultNodes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// An epilogue finds out where to gather for each row of a tile: for one interpolation that costs
/// less than a way through memory.
constexpr int64_t maxGathers = 4;

/// For a map over `domain` that reads a tensor of `shape` at `index`: the domain dims as
/// expressions over the tensor's dims (numbered from 0), if the map visits each element exactly
/// once and the relation is a permutation or a reshape.
std::optional<SmallVector<sym::Expr>> invert(ArrayRef<sym::Expr> index, ArrayRef<sym::Expr> shape,
                                             ArrayRef<sym::Expr> domain,
                                             const sym::Assumptions &inDomain) {
  SmallVector<sym::Expr> dims, tensorDims;
  for (size_t i = 0; i < domain.size(); ++i)
    dims.push_back(sym::Expr::dim(i));
  for (size_t i = 0; i < shape.size(); ++i)
    tensorDims.push_back(sym::Expr::dim(i));

  if (sym::product(shape) == sym::product(domain) &&
      inDomain.simplify(sym::linearize(index, shape)) ==
          inDomain.simplify(sym::linearize(dims, domain))) {
    sym::Assumptions inShape = inDomain;
    for (auto [i, size] : llvm::enumerate(shape))
      inShape.setExtent(i, size);
    SmallVector<sym::Expr> inverse = sym::delinearize(sym::linearize(tensorDims, shape), domain);
    for (sym::Expr &expr : inverse)
      expr = inShape.simplify(expr);
    return inverse;
  }

  SmallVector<sym::Expr> inverse(domain.size(), sym::Expr(0));
  SmallVector<bool> seen(domain.size(), false);
  for (auto [i, expr] : llvm::enumerate(index)) {
    if (shape[i].isConstant(1))
      continue;
    if (expr.kind() != sym::Kind::Dim || expr.dimIndex() >= domain.size() ||
        seen[expr.dimIndex()] || domain[expr.dimIndex()] != shape[i])
      return std::nullopt;
    seen[expr.dimIndex()] = true;
    inverse[expr.dimIndex()] = sym::Expr::dim(i);
  }
  for (auto [i, size] : llvm::enumerate(domain))
    if (!seen[i] && !size.isConstant(1))
      return std::nullopt;
  return inverse;
}

/// True if `index` reads each element of a tensor of this shape at its own place.
bool isIdentity(ArrayRef<sym::Expr> index, ArrayRef<sym::Expr> shape) {
  for (auto [i, expr, size] : llvm::enumerate(index, shape))
    if (expr != sym::Expr::dim(i) && !size.isConstant(1))
      return false;
  return true;
}

/// The only map that reads `contract`, and one of its reads, which are all alike. Null, with a
/// reason, if that cannot be its epilogue.
std::pair<MapOp, ReadOp> findUser(ContractOp contract, const char *&reason) {
  MapOp user;
  ReadOp read;
  auto no = [&](const char *why) -> std::pair<MapOp, ReadOp> {
    reason = why;
    return {};
  };
  for (Operation *op : contract->getUsers()) {
    auto other = dyn_cast<ReadOp>(op);
    if (!other)
      return no("its result is used as a whole, too");
    if (!other.getValues().empty() || other.getMask())
      return no("data or a mask decides where it is read");
    auto map = dyn_cast<MapOp>(other->getParentOp());
    if (!map)
      return no("a kernel that is no element-wise map reads it, or a reduction does");
    if (user && map != user)
      return no("several kernels read it");
    if (read && read.getMap() != other.getMap())
      return no("it is read at more than one place");
    user = map;
    read = other;
  }
  if (!user)
    return no("no map reads it");
  if (user->getNumResults() != 1)
    return no("its reader has several results");
  if (user.getView())
    return no("its reader is a view");
  BodyCost cost = getCost(user.getBody());
  if (cost.reduces)
    return no("its reader reduces, and an epilogue has one element at a time");
  if (cost.gathers > maxGathers)
    return no("its reader gathers at many places, which each tile would find anew");
  if (!takesComplex(contract) && computesComplex(user.getBody()))
    return no("it is computed in vectors, and there are none of complex numbers");
  if (user->getBlock() != contract->getBlock())
    return no("its reader is in another graph");
  return {user, read};
}

} // namespace

EpilogueUser kernel::findEpilogueUser(ContractOp contract) {
  EpilogueUser user;
  std::tie(user.map, user.read) = findUser(contract, user.reason);
  if (!user.map)
    return user;
  SmallVector<sym::Expr> index(user.read.getMap().getResults());
  auto dims = invert(index, sym::getShape(contract.getResult()), user.map.getExtents(),
                     getAssumptions(&user.map.getBody()));
  if (!dims)
    return {{}, {}, {}, "its reader does not visit each element once"};
  user.dims = std::move(*dims);
  return user;
}

ContractOp kernel::fuseEpilogue(RewriterBase &rewriter, ContractOp contract,
                                const EpilogueUser &user) {
  MapOp map = user.map;
  SmallVector<sym::Expr> domain = map.getExtents(), index(ReadOp(user.read).getMap().getResults());
  // The other tensors that the epilogue will read are known at the user.
  rewriter.setInsertionPoint(map);
  auto resultType = cast<RankedTensorType>(map.getResult(0).getType());
  auto fused = cast<ContractOp>(rewriter.clone(*contract));
  fused.getResult().setType(
      sym::getTensorType(sym::getShape(contract.getResult()), resultType.getElementType()));
  fused->setLoc(fuseLocations(contract, map));

  DimSubstitution substitution;
  substitution.sourceDims = domain.size();
  substitution.targetDims = contract.getExtents().size();
  SmallVector<sym::Expr> loopDims;
  for (int64_t dim : contract.getResultDims())
    loopDims.push_back(sym::Expr::dim(dim));
  for (sym::Expr expr : user.dims)
    substitution.dims.push_back(expr.substituteDims(loopDims));

  Operation *yield = fused.getEpilogue().front().getTerminator();
  rewriter.setInsertionPoint(yield);
  IRMapping mapping;
  for (Operation *op : contract->getUsers())
    mapping.map(op->getResult(0), yield->getOperand(0));
  SmallVector<Value> values = cloneBody(rewriter, map.getBody().front(), substitution, mapping);
  yield->setOperands(values);

  rewriter.setInsertionPoint(map);
  Value result = fused.getResult();
  if (resultType != result.getType() || !isIdentity(index, domain))
    result = createView(rewriter, map.getLoc(), result, domain, index).getResult(0);
  rewriter.replaceOp(map, result);
  rewriter.eraseOp(contract);
  if (auto view = result.getDefiningOp<MapOp>())
    foldReads(rewriter, view); // so that the next user is recognised
  return fused;
}
