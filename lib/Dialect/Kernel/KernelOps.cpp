// Verifiers, printers and folders of the kernel dialect's ops.
#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

#define GET_OP_CLASSES
#include "kiln/Dialect/Kernel/KernelOps.cpp.inc"

static std::string text(ArrayRef<sym::Expr> exprs) {
  std::string result;
  llvm::raw_string_ostream os(result);
  llvm::interleaveComma(exprs, os << '[');
  os << ']';
  return result;
}

//===-- Inside regions -----------------------------------------------------------------------===//

/// The dims and values that an index map inside a region takes.
static LogicalResult verifyMapInputs(Operation *op, sym::MapAttr map, size_t numValues) {
  size_t dims = getDimExtents(op->getParentRegion()).size();
  if (map.getNumDims() != dims + numValues)
    return op->emitOpError("index map takes ")
           << map.getNumDims() << " dims where " << dims << " enclose it and " << numValues
           << " values are given";
  for (sym::Expr result : map.getResults())
    if (result.numDimsUsed() > map.getNumDims())
      return op->emitOpError("index map uses a dim that it does not take");
  return success();
}

void ReadOp::build(OpBuilder &builder, OperationState &state, Value tensor,
                   const sym::IndexMap &map, ValueRange values, Value mask, Value other) {
  Type type = getScalarType(cast<RankedTensorType>(tensor.getType()).getElementType());
  build(builder, state, type, tensor, sym::MapAttr::get(builder.getContext(), map), values, mask,
        other);
}

LogicalResult ReadOp::verify() {
  auto type = cast<RankedTensorType>(getTensor().getType());
  if (failed(verifyMapInputs(*this, getMap(), getValues().size()))) // C1
    return failure();
  if (static_cast<int64_t>(getMap().getResults().size()) != type.getRank()) // C2
    return emitOpError("index map has ")
           << getMap().getResults().size() << " results for a tensor of rank " << type.getRank();
  if (!getMask() != !getOther()) // C3
    return emitOpError("a mask needs the value to give where it is false");
  if (getOther() && getOther().getType() != getResult().getType())
    return emitOpError("the value where the mask is false has type ")
           << getOther().getType() << ", the result " << getResult().getType();
  if (getResult().getType() != getScalarType(type.getElementType())) // C4
    return emitOpError("reads ") << getResult().getType() << " from a tensor of "
                                 << type.getElementType();
  return success();
}

LogicalResult IndexOp::verify() {
  if (getMap().getResults().size() != 1) // C1
    return emitOpError("needs an index map with one result");
  return verifyMapInputs(*this, getMap(), getValues().size());
}

LogicalResult InsideOp::verify() {
  if (getMap().getResults().size() != getBounds().getSizes().size()) // C1
    return emitOpError("has ") << getBounds().getSizes().size() << " bounds for "
                               << getMap().getResults().size() << " expressions";
  return verifyMapInputs(*this, getMap(), getValues().size());
}

/// `region` yields `types`; `what` names it in messages.
static LogicalResult verifyYield(Operation *op, Region &region, TypeRange types, StringRef what) {
  auto yield = dyn_cast<YieldOp>(region.front().back());
  if (!yield)
    return op->emitOpError() << what << " does not end in kernel.yield";
  if (yield.getOperandTypes() != types)
    return op->emitOpError() << what << " yields (" << yield.getOperandTypes() << "), expected ("
                             << types << ")";
  return success();
}

LogicalResult ReduceOp::verify() {
  TypeRange types = getResultTypes();
  if (failed(verifyYield(*this, getBody(), types, "the body"))) // C1
    return failure();
  SmallVector<Type> twice(types);
  llvm::append_range(twice, types);
  if (getCombine().getArgumentTypes() != TypeRange(twice)) // C2
    return emitOpError("combine takes (")
           << getCombine().getArgumentTypes() << "), expected (" << twice << ")";
  if (failed(verifyYield(*this, getCombine(), types, "combine")))
    return failure();
  if (getInit().getTypes() != types) // C3
    return emitOpError("init has types (")
           << getInit().getTypes() << "), expected (" << types << ")";
  return success();
}

/// `region` takes arguments of `arguments` and yields `results`.
static LogicalResult verifyFunction(Operation *op, Region &region, TypeRange arguments,
                                    TypeRange results, StringRef what) {
  if (region.getArgumentTypes() != arguments)
    return op->emitOpError() << what << " takes (" << region.getArgumentTypes() << "), expected ("
                             << arguments << ")";
  return verifyYield(op, region, results, what);
}

static LogicalResult verifyScalarOps(Operation *op, Region &region) {
  for (Operation &inner : region.front())
    if (inner.getNumRegions() || isa<IndexedOpInterface>(inner))
      return op->emitOpError("holds ") << inner.getName() << ", which is no scalar op";
  return success();
}

LogicalResult IterateOp::verify() {
  SmallVector<Type> yielded{IntegerType::get(getContext(), 1)};
  llvm::append_range(yielded, getResultTypes());
  if (getBody().getArgumentTypes() != getResultTypes()) // C1
    return emitOpError("the body takes (")
           << getBody().getArgumentTypes() << "), expected (" << getResultTypes() << ")";
  if (failed(verifyYield(*this, getBody(), yielded, "the body")))
    return failure();
  if (getInit().getTypes() != getResultTypes()) // C2
    return emitOpError("init has types (")
           << getInit().getTypes() << "), expected (" << getResultTypes() << ")";
  if (failed(verifyScalarOps(*this, getBody()))) // C3
    return failure();
  if (static_cast<int64_t>(getLimit()) < 1) // C4
    return emitOpError("makes no step");
  return success();
}

//===-- Structured ops -----------------------------------------------------------------------===//

SmallVector<sym::Expr> MapOp::getExtents() { return sym::getShape(getResult(0)); }

ReadOp MapOp::getView() {
  Block &block = getBody().front();
  if (getNumResults() != 1 || !llvm::hasNItems(block, 2))
    return {};
  auto read = dyn_cast<ReadOp>(block.front());
  if (!read || !read.getValues().empty() || read.getMask() ||
      block.getTerminator()->getOperand(0) != read.getResult())
    return {};
  return read;
}

/// All results have the shape of the first.
static LogicalResult verifyOneShape(Operation *op) {
  if (op->getNumResults() == 0)
    return op->emitOpError("has no result");
  SmallVector<sym::Expr> domain = sym::getShape(op->getResult(0));
  for (Value result : op->getResults())
    if (sym::getShape(result) != domain)
      return op->emitOpError("results differ in shape: ")
             << text(sym::getShape(result)) << " and " << text(domain);
  return success();
}

static SmallVector<Type> scalarTypes(ResultRange results) {
  return llvm::map_to_vector(results, [](Value result) {
    return getScalarType(cast<RankedTensorType>(result.getType()).getElementType());
  });
}

LogicalResult MapOp::verify() {
  if (failed(verifyOneShape(*this))) // C1
    return failure();
  return verifyYield(*this, getBody(), scalarTypes(getResults()), "the body"); // C2
}

SmallVector<sym::Expr> ContractOp::getExtents() {
  SmallVector<sym::Expr> extents;
  for (sym::ShapeAttr group : {getBatch(), getM(), getN(), getK()})
    llvm::append_range(extents, group.getSizes());
  return extents;
}

static SmallVector<int64_t> resultDims(std::optional<ArrayRef<int64_t>> perm,
                                       ArrayRef<int64_t> dims) {
  if (!perm)
    return SmallVector<int64_t>(dims);
  SmallVector<int64_t> permuted;
  for (int64_t i : *perm)
    permuted.push_back(dims[i]);
  return permuted;
}

LogicalResult ConstantOp::verify() {
  bool computed = getKernel().has_value();
  if (computed != getOutput().has_value() || computed == getSources().empty() ||
      (computed && getName())) // C1
    return emitOpError("needs a kernel, its result and sources together, and without a name");
  return success();
}

LogicalResult ConstantOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getKernel())
    return success();
  auto func = symbols.lookupNearestSymbolFrom<FuncOp>(*this, getKernelAttr()); // C2
  if (!func)
    return emitOpError("'") << *getKernel() << "' is not a kernel.func";
  ArrayRef<Type> results = func.getResultTypes();
  if (TypeRange(func.getArgumentTypes()) != getSources().getTypes() ||
      *getOutput() >= results.size() || results[*getOutput()] != getType())
    return emitOpError("is not result ")
           << *getOutput() << " of @" << *getKernel() << ", which is " << func.getFunctionType();
  return success();
}

SmallVector<int64_t> ContractOp::getResultDims() {
  return resultDims(getPerm(),
                    llvm::to_vector(llvm::seq<int64_t>(0, getNumBatch() + getNumM() + getNumN())));
}

/// All of `count` dims but [begin, end).
static llvm::SmallBitVector allBut(unsigned count, unsigned begin, unsigned end) {
  llvm::SmallBitVector dims(count, true);
  dims.reset(begin, end);
  return dims;
}

llvm::SmallBitVector ContractOp::getRegionDims(Region &region) {
  unsigned m = getNumBatch(), n = m + getNumM(), k = n + getNumN(), end = k + getNumK();
  if (&region == &getEpilogue())
    return allBut(end, k, end);
  return &region == &getLhs() ? allBut(end, n, k) : allBut(end, m, n);
}

bool ContractOp::isOperand(Region &region) { return &region != &getEpilogue(); }

static bool isPermutation(std::optional<ArrayRef<int64_t>> perm, size_t size) {
  if (!perm)
    return true;
  if (perm->size() != size)
    return false;
  llvm::SmallBitVector seen(size);
  for (int64_t i : *perm) {
    if (i < 0 || i >= static_cast<int64_t>(size) || seen[i])
      return false;
    seen.set(i);
  }
  return true;
}

/// No index map in `region` (nested ones included) depends on dims of `op` that it may not use.
static LogicalResult verifyRegionDims(StructuredOpInterface op, Region &region, StringRef what) {
  llvm::SmallBitVector allowed = op.getRegionDims(region);
  WalkResult result = region.walk([&](IndexedOpInterface inner) {
    for (sym::Expr expr : inner.getMap().getResults())
      for (unsigned dim = 0; dim < allowed.size(); ++dim)
        if (!allowed[dim] && expr.dependsOn(sym::Expr::dim(dim))) {
          op->emitOpError() << what << " depends on d" << dim << ", which is not one of its dims";
          return WalkResult::interrupt();
        }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult verifyResultShape(Operation *op, Value result,
                                       std::optional<sym::Expr> numParts, ArrayRef<int64_t> dims,
                                       ArrayRef<sym::Expr> extents) {
  SmallVector<sym::Expr> expected;
  if (numParts)
    expected.push_back(*numParts);
  for (int64_t dim : dims)
    expected.push_back(extents[dim]);
  if (sym::getShape(result) != expected)
    return op->emitOpError("result has shape ")
           << text(sym::getShape(result)) << ", expected " << text(expected);
  return success();
}

/// A size is known to be positive, or not known.
static LogicalResult verifyPart(Operation *op, sym::ExprAttr part) {
  if (part && part.getValue().constant().value_or(1) < 1)
    return op->emitOpError("part is ") << part.getValue().str() << ", expected a positive number";
  return success();
}

std::optional<sym::Expr> ContractOp::getNumParts() {
  if (!getPart())
    return std::nullopt;
  return sym::product(getK().getSizes()).ceilDiv(getPartAttr().getValue());
}

LogicalResult ContractOp::verify() {
  unsigned m = getNumBatch(), n = m + getNumM(), k = n + getNumN();
  if (!isPermutation(getPerm(), k)) // C5
    return emitOpError("perm is not a permutation of the ") << k << " batch, m and n dims";
  if (failed(verifyPart(*this, getPartAttr()))) // C7
    return failure();
  if (getPart() && getPanel())
    return emitOpError("has both a part and a panel");
  if (failed(verifyResultShape(*this, getResult(), getNumParts(), getResultDims(),
                               getExtents()))) // C1
    return failure();
  if (getNarrow() && getBytes() != 4) // C9
    return emitOpError("is narrow, but does not multiply 4 bytes at a time");
  Operation *lhsYield = getLhs().front().getTerminator();
  if (lhsYield->getNumOperands() != 1) // C2
    return emitOpError("lhs yields ") << lhsYield->getNumOperands() << " values, expected one";
  SmallVector<Type> rhsTypes(lhsYield->getOperandTypes());
  if (std::optional<uint64_t> bytes = getBytes()) { // C9
    Type i32 = IntegerType::get(getContext(), 32);
    if (*bytes != 2 && *bytes != 4)
      return emitOpError("multiplies ") << *bytes << " bytes at a time, expected 2 or 4";
    if (rhsTypes.front() != i32 || getEpilogue().getArgumentTypes() != TypeRange(i32))
      return emitOpError("multiplies bytes, but its left operand or its sum is not i32");
    rhsTypes.front() = IntegerType::get(getContext(), static_cast<unsigned>(8 * *bytes));
  }
  if (failed(verifyYield(*this, getRhs(), rhsTypes, "rhs")))
    return failure();
  if (getEpilogue().getNumArguments() != 1) // C3
    return emitOpError("epilogue takes one argument, the sum");
  Type element = getScalarType(cast<RankedTensorType>(getResult().getType()).getElementType());
  if (failed(verifyYield(*this, getEpilogue(), element, "epilogue")) ||
      failed(verifyRegionDims(*this, getLhs(), "lhs")) || // C4
      failed(verifyRegionDims(*this, getRhs(), "rhs")) ||
      failed(verifyRegionDims(*this, getEpilogue(), "epilogue")))
    return failure();
  if (std::optional<uint64_t> panel = getPanel()) { // C6
    auto read = dyn_cast<ReadOp>(getRhs().front().front());
    if (!read || read.getMask() || !read.getValues().empty())
      return emitOpError("rhs does not begin with the read of a packed operand");
    SmallVector<sym::Expr> shape = sym::getShape(read.getTensor());
    if (static_cast<int64_t>(*panel) <= 0 || shape.size() != getNumBatch() + 3 ||
        !shape.back().isConstant(*panel))
      return emitOpError("the packed operand has shape ") << text(shape) << ", panel is " << *panel;
  }
  return success();
}

SmallVector<sym::Expr> WinogradOp::getExtents() {
  SmallVector<sym::Expr> extents(getBatch().getSizes());
  ArrayRef<sym::Expr> pixels = getPixels().getSizes();
  llvm::append_range(extents, pixels);
  extents.push_back(getN().getValue());
  for (sym::Expr size : pixels)
    extents.push_back(size + 2);
  extents.push_back(getC().getValue());
  extents.append(2, getPoints());
  return extents;
}

SmallVector<int64_t> WinogradOp::getResultDims() {
  return llvm::to_vector(llvm::seq<int64_t>(0, imageDim()));
}

llvm::SmallBitVector WinogradOp::getRegionDims(Region &region) {
  llvm::SmallBitVector dims(pointDim() + 2);
  if (&region != &getRhs())
    dims.set(0, getNumBatch());
  if (&region == &getLhs())
    return dims.set(imageDim(), cDim() + 1);
  if (&region == &getEpilogue())
    return dims.set(yDim(), nDim() + 1);
  return dims.set(nDim()).set(cDim(), pointDim() + 2);
}

bool WinogradOp::isOperand(Region &region) { return &region != &getEpilogue(); }

LogicalResult WinogradOp::verify() {
  auto tile = static_cast<int64_t>(getTile()), panel = static_cast<int64_t>(getPanel());
  if (getPixels().getSizes().size() != 2 || (tile != 2 && tile != 4) || panel <= 0) // C2
    return emitOpError("has ") << getPixels().getSizes().size() << " pixels extents, tiles of "
                               << tile << " and panels of " << panel;
  if (failed(
          verifyResultShape(*this, getResult(), std::nullopt, getResultDims(), getExtents()))) // C1
    return failure();
  Type sum = Float32Type::get(getContext());
  Type element = getScalarType(cast<RankedTensorType>(getResult().getType()).getElementType());
  if (getEpilogue().getArgumentTypes() != TypeRange(sum)) // C3
    return emitOpError("epilogue takes (")
           << getEpilogue().getArgumentTypes() << "), expected the sum, of f32";
  if (failed(verifyYield(*this, getLhs(), sum, "lhs")) ||
      failed(verifyYield(*this, getRhs(), sum, "rhs")) ||
      failed(verifyYield(*this, getEpilogue(), element, "epilogue")) ||
      failed(verifyRegionDims(*this, getLhs(), "lhs")) || // C4
      failed(verifyRegionDims(*this, getRhs(), "rhs")) ||
      failed(verifyRegionDims(*this, getEpilogue(), "epilogue")))
    return failure();
  auto read = dyn_cast<ReadOp>(getRhs().front().front()); // C5
  if (!read || read.getMask() || !read.getValues().empty())
    return emitOpError("rhs does not begin with the read of a packed operand");
  sym::Expr n = getN().getValue(), c = getC().getValue();
  SmallVector<sym::Expr> expected{n.ceilDiv(panel), c * (getPoints() * getPoints()), panel};
  if (sym::getShape(read.getTensor()) != expected)
    return emitOpError("the packed operand has shape ")
           << text(sym::getShape(read.getTensor())) << ", expected " << text(expected);
  return success();
}

SmallVector<sym::Expr> AttentionOp::getExtents() {
  SmallVector<sym::Expr> extents(getBatch().getSizes());
  for (sym::ExprAttr extent : {getM(), getN(), getD(), getDv()})
    extents.push_back(extent.getValue());
  return extents;
}

SmallVector<int64_t> AttentionOp::getResultDims() {
  int64_t batch = getNumBatch();
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, batch + 1));
  dims.push_back(batch + 3);
  return resultDims(getPerm(), dims);
}

llvm::SmallBitVector AttentionOp::getRegionDims(Region &region) {
  unsigned m = getNumBatch(), n = m + 1, d = m + 2, dv = m + 3;
  llvm::SmallBitVector dims(dv + 1, true);
  if (&region == &getScore())
    return llvm::SmallBitVector(dv + 1);
  if (&region == &getBias())
    return allBut(dv + 1, d, dv + 1);
  dims.reset(&region == &getQ() ? n : m);
  dims.reset(&region == &getV() ? d : dv);
  return dims;
}

bool AttentionOp::isOperand(Region &region) {
  return &region != &getBias() && &region != &getScore();
}

std::optional<sym::Expr> AttentionOp::getNumParts() {
  if (!getPart())
    return std::nullopt;
  return getN().getValue().ceilDiv(getPartAttr().getValue());
}

LogicalResult AttentionOp::verify() {
  unsigned m = getNumBatch();
  if (!isPermutation(getPerm(), m + 2))
    return emitOpError("perm is not a permutation of the ") << m + 2 << " batch, m and dv dims";
  if (failed(verifyPart(*this, getPartAttr())) || // C7
      failed(verifyResultShape(*this, getResult(), getNumParts(), getResultDims(), getExtents())))
    return failure();
  Type sum = getScalarType(cast<RankedTensorType>(getResult().getType()).getElementType());
  Type element = sum;
  if (getState().size() != (getPart() ? 2 : 0)) // C8
    return emitOpError("has ") << getState().size() + 1 << " results, expected "
                               << (getPart() ? 3 : 1);
  if (getPart()) {
    Operation *yield = getQ().front().getTerminator();
    if (yield->getNumOperands() == 1)
      element = yield->getOperand(0).getType();
    if (!isa<FloatType>(sum) || !isa<FloatType>(element) ||
        element.getIntOrFloatBitWidth() > sum.getIntOrFloatBitWidth())
      return emitOpError("sums ") << element << " in " << sum;
    auto rows = llvm::to_vector(llvm::seq<int64_t>(0, m + 1));
    for (Value state : getState()) {
      if (cast<RankedTensorType>(state.getType()).getElementType() != sum)
        return emitOpError("has a maximum or sum of type ")
               << cast<RankedTensorType>(state.getType()).getElementType() << ", expected " << sum;
      if (failed(verifyResultShape(*this, state, getNumParts(), rows, getExtents())))
        return failure();
    }
  }
  if (failed(verifyYield(*this, getQ(), element, "q")) ||
      failed(verifyYield(*this, getK(), element, "k")) ||
      failed(verifyYield(*this, getV(), element, "v")) ||
      failed(verifyRegionDims(*this, getQ(), "q")) ||
      failed(verifyRegionDims(*this, getK(), "k")) || failed(verifyRegionDims(*this, getV(), "v")))
    return failure();
  bool hasBias = !getBias().empty();
  if (hasBias && (failed(verifyYield(*this, getBias(), element, "bias")) ||
                  failed(verifyRegionDims(*this, getBias(), "bias"))))
    return failure();
  if (getScore().empty())
    return success();
  Type wide = element.getIntOrFloatBitWidth() < 32 ? Float32Type::get(getContext()) : element;
  if (failed(verifyFunction(*this, getScore(), SmallVector<Type>(hasBias ? 2 : 1, wide), wide,
                            "score"))) // C9
    return failure();
  return verifyScalarOps(*this, getScore());
}

SmallVector<sym::Expr> ScanOp::getExtents() { return sym::getShape(getResult(0)); }

llvm::SmallBitVector ScanOp::getRegionDims(Region &region) {
  unsigned rank = getExtents().size(), dim = getDim();
  bool isEveryStart = &region == &getInit() && !getPart();
  return allBut(rank, dim, isEveryStart ? dim + 1 : dim);
}

LogicalResult ScanOp::verify() {
  if (failed(verifyOneShape(*this))) // C1
    return failure();
  int64_t dim = getDim(), rank = getExtents().size();
  if (dim < 0 || dim >= rank)
    return emitOpError("dim ") << dim << " is not one of " << rank;
  TypeRange state = getInit().front().getTerminator()->getOperandTypes();
  if (failed(verifyYield(*this, getInit(), state, "init")) || // C2
      failed(verifyRegionDims(*this, getInit(), "init")) ||
      failed(verifyYield(*this, getBody(), state, "body")))
    return failure();
  SmallVector<Type> twice(state);
  llvm::append_range(twice, state);
  if (failed(verifyFunction(*this, getCombine(), twice, state, "combine"))) // C3
    return failure();
  if (failed(verifyFunction(*this, getFinish(), state, scalarTypes(getResults()), "finish"))) // C4
    return failure();
  return verifyPart(*this, getPartAttr()); // C5
}

SmallVector<sym::Expr> ScatterOp::getExtents() {
  SmallVector<sym::Expr> extents;
  for (sym::ShapeAttr group : {getBatch(), getTargets(), getPlaces()})
    llvm::append_range(extents, group.getSizes());
  return extents;
}

SmallVector<int64_t> ScatterOp::getResultDims() {
  return resultDims(getPerm(),
                    llvm::to_vector(llvm::seq<int64_t>(0, getNumBatch() + getNumTargets())));
}

llvm::SmallBitVector ScatterOp::getRegionDims(Region &region) {
  unsigned targets = getNumBatch(), places = targets + getNumTargets();
  unsigned end = places + getNumPlaces();
  return &region == &getInit() ? allBut(end, places, end) : allBut(end, targets, places);
}

LogicalResult ScatterOp::verify() {
  unsigned targets = getNumBatch(), places = targets + getNumTargets();
  if (!isPermutation(getPerm(), places)) // C6
    return emitOpError("perm is not a permutation of the ") << places << " batch and target dims";
  if (failed(
          verifyResultShape(*this, getResult(), std::nullopt, getResultDims(), getExtents()))) // C1
    return failure();
  Type element = scalarTypes(getOperation()->getResults()).front();
  if (failed(verifyYield(*this, getInit(), element, "init"))) // C2
    return failure();
  SmallVector<Type> written(getNumTargets(), IntegerType::get(getContext(), 64)); // C3
  written.append({IntegerType::get(getContext(), 1), element});
  if (failed(verifyYield(*this, getUpdate(), written, "update")))
    return failure();
  if (failed(verifyFunction(*this, getCombine(), {element, element}, element, "combine")) || // C4
      failed(verifyRegionDims(*this, getInit(), "init")) ||                                  // C5
      failed(verifyRegionDims(*this, getUpdate(), "update")))
    return failure();
  return success();
}

SmallVector<sym::Expr> SortOp::getExtents() { return sym::getShape(getPositions()); }

LogicalResult SortOp::verify() {
  if (failed(verifyOneShape(*this))) // C1
    return failure();
  Type i64 = IntegerType::get(getContext(), 64);
  for (Value result : getOperation()->getResults())
    if (cast<RankedTensorType>(result.getType()).getElementType() != i64)
      return emitOpError("has a result of other than i64");
  if (getExtents().empty())
    return emitOpError("needs a dim to sort along");
  return verifyYield(*this, getBody(), i64, "the body"); // C2
}

SmallVector<sym::Expr> MergeOp::getExtents() { return sym::getShape(getResult(0)); }

LogicalResult MergeOp::verify() {
  if (failed(verifyOneShape(*this))) // C1
    return failure();
  if (getExtents().empty())
    return emitOpError("needs a dim to merge along");
  SmallVector<Type> types = scalarTypes(getResults());
  for (Type type : types) // C2
    if (!type.isInteger())
      return emitOpError("has elements of ") << type << ", expected integers";
  if (failed(verifyYield(*this, getBody(), types, "the body")))
    return failure();
  int64_t of = getOf(), into = getInto();
  if (of < 1 || into <= of || into % of) // C3
    return emitOpError("cannot merge runs of ") << of << " elements into runs of " << into;
  return success();
}

SmallVector<sym::Expr> RepeatOp::getExtents() {
  sym::Expr chunk = getChunk().getValue();
  return {getTotal().getValue().ceilDiv(chunk), chunk};
}

llvm::SmallBitVector RepeatOp::getRegionDims(Region &region) {
  return allBut(2, 1, &region == &getStart() ? 2 : 1);
}

LogicalResult RepeatOp::verify() {
  Type i1 = IntegerType::get(getContext(), 1), i64 = IntegerType::get(getContext(), 64);
  auto yield = dyn_cast<YieldOp>(getCount().front().back());
  bool isMask = yield && yield->getOperandTypes() == TypeRange(i1);
  if (failed(verifyYield(*this, getCount(), isMask ? i1 : i64, "count")) || // C1
      failed(verifyYield(*this, getStart(), i64, "start")))
    return failure();
  auto type = cast<RankedTensorType>(getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(64)) // C2
    return emitOpError("result is ") << type << ", not a vector of i64";
  return verifyRegionDims(*this, getStart(), "start"); // C3
}

//===-- What the host knows ------------------------------------------------------------------===//

static bool isScalarOf(Value value, unsigned width) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getRank() == 0 && type.getElementType().isInteger(width);
}

LogicalResult DefineOp::verify() {
  if (!getValue() == !getExpr()) // C1
    return emitOpError("needs either data or an expression");
  if (getValue() && !isScalarOf(getValue(), 64))
    return emitOpError("loads from ") << getValue().getType() << ", not from a tensor<i64>";
  return success();
}

LogicalResult CheckOp::verify() {
  if (!isScalarOf(getCondition(), 1)) // C1
    return emitOpError("condition is ") << getCondition().getType() << ", not a tensor<i1>";
  return success();
}

//===-- Kernels ------------------------------------------------------------------------------===//

void FuncOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Block &block = state.addRegion()->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, state.location);
}

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(arguments, results); };
  SMLoc loc = parser.getCurrentLocation();
  if (failed(function_interface_impl::parseFunctionOp(
          parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), buildType,
          getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name))))
    return failure();
  // An attribute of the wrong kind would be dropped without a word.
  return verifyInherentAttrs(result.name, result.attributes, [&] { return parser.emitError(loc); });
}

void FuncOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult FuncOp::verify() {
  Block &body = getBody().front();
  auto terminator = dyn_cast<ReturnOp>(body.back());
  if (!terminator)
    return emitOpError("does not end in kernel.return");
  if (terminator.getOperandTypes() != TypeRange(getResultTypes()))
    return emitOpError("returns (")
           << terminator.getOperandTypes() << "), declared (" << getResultTypes() << ")";
  bool group = isGroup(*this);
  if (!group && (!llvm::hasNItems(body, 2) || !isStructured(&body.front())))
    return emitOpError("holds one structured op and kernel.return");
  if (group && failed(verifyGroup(*this)))
    return failure();
  if (ScheduleAttrInterface schedule = getScheduleAttr();
      schedule && !schedule.appliesTo(getRoot())) // C1
    return emitOpError("has a schedule ")
           << schedule << " that is not for " << getRoot()->getName();
  if (std::optional<uint64_t> updated = getUpdates()) { // C2
    if (*updated >= getArgumentTypes().size())
      return emitOpError("updates operand ")
             << *updated << ", has " << getArgumentTypes().size() << " operands";
    if (!isUpdateOf(*this, getArgument(*updated)))
      return emitOpError("cannot be written over operand ") << *updated;
  }
  return success();
}

bool kernel::isUpdateOf(FuncOp func, BlockArgument argument) {
  auto scatter = dyn_cast<ScatterOp>(func.getRoot());
  if (!scatter || !argument.hasOneUse())
    return false;
  auto type = cast<RankedTensorType>(argument.getType());
  auto result = cast<RankedTensorType>(scatter.getType());
  auto read =
      scatter.getInit().front().getTerminator()->getOperand(0).getDefiningOp<kernel::ReadOp>();
  if (!read || read.getTensor() != argument || read.getMask() || !read.getValues().empty() ||
      type.getElementType() != result.getElementType())
    return false;
  sym::Assumptions known = getAssumptions(&scatter.getInit());
  SmallVector<sym::Expr> written, shape = sym::getShape(result), from = sym::getShape(type);
  for (int64_t dim : scatter.getResultDims())
    written.push_back(sym::Expr::dim(dim));
  sym::Expr distance =
      sym::linearize(read.getMap().getResults(), from) - sym::linearize(written, shape);
  return known.simplify(distance).isConstant(0) &&
         known.simplify(sym::product(from) - sym::product(shape)).isConstant(0);
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto func = symbols.lookupNearestSymbolFrom<FuncOp>(*this, getKernelAttr());
  if (!func) // C1
    return emitOpError("'") << getKernel() << "' is not a kernel.func";
  auto type = FunctionType::get(getContext(), getOperandTypes(), getResultTypes());
  if (func.getFunctionType() != type)
    return emitOpError("calls @") << getKernel() << " as " << type << ", it is "
                                  << func.getFunctionType();
  return success();
}

LogicalResult SpanOp::verify() {
  auto from = cast<RankedTensorType>(getTensor().getType());
  auto to = cast<RankedTensorType>(getType());
  if (to.getRank() != 1 || to.getElementType() != from.getElementType()) // C1
    return emitOpError("of ") << from << " is a " << to;
  sym::Expr first = getFirst().getValue(), size = sym::getShape(to).front();
  sym::Expr rest = sym::product(sym::getShape(from)) - first - size;
  if (first.constant().value_or(0) < 0 || rest.constant().value_or(0) < 0) // C2
    return emitOpError("lies outside of the tensor");
  return success();
}

LogicalResult BitcastOp::verify() {
  auto from = cast<RankedTensorType>(getTensor().getType());
  auto to = cast<RankedTensorType>(getType());
  auto narrow = dyn_cast<IntegerType>(from.getElementType());
  auto wide = dyn_cast<IntegerType>(to.getElementType());
  if (!narrow || !wide || narrow.getWidth() % 8 != 0 || wide.getWidth() <= narrow.getWidth() ||
      wide.getWidth() % narrow.getWidth() != 0) // C1
    return emitOpError("of ") << from << " is a " << to;
  SmallVector<sym::Expr> sizes = sym::getShape(to);
  if (!sizes.empty())
    sizes.back() = sizes.back() * (wide.getWidth() / narrow.getWidth());
  if (sizes.empty() || sizes != sym::getShape(from)) // C2
    return emitOpError("of ") << from << " has other elements than " << to;
  return success();
}
