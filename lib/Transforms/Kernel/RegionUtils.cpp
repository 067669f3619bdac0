// Clones bodies into one another, and says what they read and cost.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "../../../runtime/ir_interface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

Value kernel::createZero(OpBuilder &builder, Location loc, Type type) {
  if (auto complexType = dyn_cast<ComplexType>(type)) {
    Attribute part = builder.getZeroAttr(complexType.getElementType());
    return complex::ConstantOp::create(builder, loc, type, builder.getArrayAttr({part, part}));
  }
  return arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
}

namespace {

class BodyCloner {
public:
  BodyCloner(OpBuilder &builder, const DimSubstitution &substitution, IRMapping &mapping)
      : builder(builder), substitution(substitution), mapping(mapping) {}

  void cloneOps(Block &block, unsigned nested) {
    for (Operation &op : block.without_terminator()) {
      bool known = op.getNumResults() != 0 &&
                   llvm::all_of(op.getResults(), [&](Value v) { return mapping.contains(v); });
      if (!known)
        cloneOp(op, nested);
    }
  }

private:
  void cloneOp(Operation &op, unsigned nested) {
    if (auto read = dyn_cast<ReadOp>(op))
      return cloneRead(read, nested);
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return cloneReduce(reduce, nested);
    Operation *clone = builder.clone(op, mapping);
    if (auto expect = dyn_cast<ExpectOp>(clone); expect && substitution.mask) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(expect);
      Location loc = expect.getLoc();
      Value yes = arith::ConstantIntOp::create(builder, loc, 1, 1);
      Value isOutside = arith::XOrIOp::create(builder, loc, substitution.mask, yes);
      expect.getConditionMutable().assign(
          arith::OrIOp::create(builder, loc, expect.getCondition(), isOutside));
    }
    auto map = kernel::getIndexMap(&op);
    if (!map)
      return;
    SmallVector<Value> values = mappedValues(op.getOperands());
    auto [newMap, newValues] = rewriteMap(map, values, nested);
    cast<kernel::IndexedOpInterface>(clone).setMap(sym::MapAttr::get(builder.getContext(), newMap));
    clone->setOperands(newValues);
    if (auto inside = dyn_cast<InsideOp>(clone))
      inside.setBoundsAttr(rewriteSizes(inside.getBounds()));
  }

  SmallVector<Value> mappedValues(ValueRange values) {
    SmallVector<Value> mapped;
    for (Value value : values)
      mapped.push_back(mapping.lookupOrDefault(value));
    return mapped;
  }

  void cloneRead(ReadOp read, unsigned nested) {
    SmallVector<Value> own = mappedValues(read.getValues());
    auto [map, values] = rewriteMap(read.getMap(), own, nested);
    Value mask = read.getMask() ? mapping.lookupOrDefault(read.getMask()) : Value();
    Value other = read.getOther() ? mapping.lookupOrDefault(read.getOther()) : Value();
    if (substitution.mask) {
      Type type = read.getResult().getType();
      if (!mask) {
        other = createZero(builder, read.getLoc(), type);
        mask = substitution.mask;
      } else {
        mask = arith::AndIOp::create(builder, read.getLoc(), mask, substitution.mask);
      }
    }
    Value tensor = mapping.lookupOrDefault(read.getTensor());
    auto clone = ReadOp::create(builder, read.getLoc(), tensor, map, values, mask, other);
    mapping.map(read.getResult(), clone.getResult());
  }

  void cloneReduce(ReduceOp reduce, unsigned nested) {
    SmallVector<Value> init = mappedValues(reduce.getInit());
    auto clone = ReduceOp::create(builder, reduce.getLoc(), reduce.getResultTypes(),
                                  rewriteSizes(reduce.getExtents()), init);
    OpBuilder::InsertionGuard guard(builder);
    Block &body = clone.getBody().emplaceBlock();
    builder.setInsertionPointToStart(&body);
    Block &source = reduce.getBody().front();
    cloneOps(source, nested + reduce.getExtents().getSizes().size());
    builder.clone(*source.getTerminator(), mapping);
    reduce.getCombine().cloneInto(&clone.getCombine(), mapping);
    mapping.map(reduce.getResults(), clone.getResults());
  }

  /// Sizes can depend on symbols, and on domain dims of the source.
  sym::ShapeAttr rewriteSizes(sym::ShapeAttr sizes) {
    SmallVector<sym::Expr> result;
    for (sym::Expr size : sizes.getSizes())
      result.push_back(size.substituteDims(substitution.dims));
    return sym::ShapeAttr::get(builder.getContext(), result);
  }

  std::pair<sym::IndexMap, SmallVector<Value>> rewriteMap(sym::MapAttr map, ValueRange own,
                                                          unsigned nested) {
    unsigned target = substitution.targetDims;
    unsigned ownBegin = target + nested, borrowedBegin = ownBegin + own.size();
    // The place's values follow the clone's own.
    auto borrow = [&](sym::Expr leaf) -> std::optional<sym::Expr> {
      if (leaf.kind() != sym::Kind::Dim || leaf.dimIndex() < target)
        return std::nullopt;
      return sym::Expr::dim(borrowedBegin + leaf.dimIndex() - target);
    };
    SmallVector<sym::Expr> dims;
    for (sym::Expr dim : substitution.dims)
      dims.push_back(dim.substitute(borrow));
    for (unsigned i = 0; i < nested + own.size(); ++i)
      dims.push_back(sym::Expr::dim(target + i));

    sym::IndexMap result;
    SmallVector<Value> values(own);
    bool borrows = false;
    for (sym::Expr expr : map.getResults()) {
      result.results.push_back(expr.substituteDims(dims));
      borrows |= result.results.back().numDimsUsed() > borrowedBegin;
    }
    if (borrows)
      llvm::append_range(values, substitution.values);
    result.numDims = ownBegin + values.size();
    return {result, values};
  }

  OpBuilder &builder;
  const DimSubstitution &substitution;
  IRMapping &mapping;
};

} // namespace

SmallVector<Value> kernel::cloneBody(OpBuilder &builder, Block &source,
                                     const DimSubstitution &substitution, IRMapping &mapping) {
  BodyCloner(builder, substitution, mapping).cloneOps(source, 0);
  SmallVector<Value> yielded;
  for (Value value : source.getTerminator()->getOperands())
    yielded.push_back(mapping.lookupOrDefault(value));
  return yielded;
}

bool kernel::canInline(ReadOp read, MapOp producer) {
  ArrayRef<sym::Expr> dims = read.getMap().getResults();
  WalkResult result = producer->walk([&](Operation *op) {
    auto map = kernel::getIndexMap(op);
    bool valid = !map || llvm::all_of(map.getResults(), [&](sym::Expr expr) {
      return expr.substituteDims(dims).isValid();
    });
    return valid ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted();
}

/// True if a check of dim `i` of `producer` by who reads it is made by a read of its own, too.
static bool isCheckedInside(MapOp producer, unsigned i) {
  sym::Expr size = producer.getExtents()[i];
  return llvm::any_of(producer.getBody().front().getOps<ReadOp>(), [&](ReadOp inner) {
    SmallVector<sym::Expr> shape =
        sym::getShape(cast<RankedTensorType>(inner.getTensor().getType()));
    return !inner.getMask() && inner.getValues().empty() &&
           llvm::any_of(llvm::zip(inner.getMap().getResults(), shape), [&](auto pair) {
             return std::get<0>(pair) == sym::Expr::dim(i) && std::get<1>(pair) == size;
           });
  });
}

/// `value`, read at indices that data gives, if those are inside of a tensor that goes away.
static Value expectIndices(RewriterBase &rewriter, ReadOp read, MapOp producer, Value value) {
  unsigned numDims = read.getMap().getNumDims() - read.getValues().size();
  sym::IndexMap map{read.getMap().getNumDims(), {}};
  SmallVector<sym::Expr> bounds;
  for (auto [i, expr] : llvm::enumerate(read.getMap().getResults()))
    if (expr.numDimsUsed() > numDims && !isCheckedInside(producer, i)) {
      map.results.push_back(expr);
      bounds.push_back(producer.getExtents()[i]);
    }
  if (bounds.empty())
    return value;
  Location loc = read.getLoc();
  MLIRContext *context = rewriter.getContext();
  Value inside = InsideOp::create(rewriter, loc, sym::MapAttr::get(context, map),
                                  sym::ShapeAttr::get(context, bounds), read.getValues());
  if (read.getMask()) {
    Value yes = arith::ConstantIntOp::create(rewriter, loc, 1, 1);
    Value isOut = arith::XOrIOp::create(rewriter, loc, read.getMask(), yes);
    inside = arith::OrIOp::create(rewriter, loc, inside, isOut);
  }
  return ExpectOp::create(rewriter, loc, value, inside,
                          rewriter.getStringAttr("index out of range"),
                          rewriter.getI32IntegerAttr(KILN_RT_ERROR_INDEX));
}

void kernel::inlineRead(RewriterBase &rewriter, ReadOp read, MapOp producer) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(read);
  DimSubstitution substitution;
  substitution.sourceDims = producer.getExtents().size();
  substitution.targetDims = read.getMap().getNumDims() - read.getValues().size();
  substitution.dims = SmallVector<sym::Expr>(read.getMap().getResults());
  substitution.values = SmallVector<Value>(read.getValues());
  substitution.mask = read.getMask();
  IRMapping mapping;
  SmallVector<Value> yielded =
      cloneBody(rewriter, producer.getBody().front(), substitution, mapping);
  Value value = yielded[cast<OpResult>(read.getTensor()).getResultNumber()];
  value = expectIndices(rewriter, read, producer, value);
  if (read.getMask())
    value =
        arith::SelectOp::create(rewriter, read.getLoc(), read.getMask(), value, read.getOther());
  rewriter.replaceOp(read, value);
}

ReadOp kernel::findComputedRead(Region &region) {
  for (ReadOp read : region.getOps<ReadOp>())
    if (auto map = read.getTensor().getDefiningOp<MapOp>(); map && isa<FloatType>(read.getType()) &&
                                                            map->getNumResults() == 1 &&
                                                            !read.getMask() && canInline(read, map))
      return read;
  return {};
}

llvm::SetVector<Operation *> kernel::inlineComputedReads(RewriterBase &rewriter, Region &region) {
  llvm::SetVector<Operation *> maps;
  while (ReadOp read = findComputedRead(region)) {
    auto map = read.getTensor().getDefiningOp<MapOp>();
    maps.insert(map);
    inlineRead(rewriter, read, map);
  }
  return maps;
}

void kernel::eraseUnused(RewriterBase &rewriter, llvm::SetVector<Operation *> ops) {
  auto erase = [&](Operation *op) {
    bool isUnused = op->use_empty();
    if (isUnused)
      rewriter.eraseOp(op);
    return isUnused;
  };
  while (ops.remove_if(erase)) {
  }
}

void kernel::eraseUnused(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

sym::IndexMap kernel::identityMap(unsigned rank, unsigned numDims) {
  sym::IndexMap map = sym::IndexMap::identity(rank);
  map.numDims = numDims;
  return map;
}

bool kernel::readsOwnPlaces(ReadOp read) {
  SmallVector<sym::Expr> shape = sym::getShape(read.getTensor());
  for (auto [i, expr] : llvm::enumerate(read.getMap().getResults()))
    if (expr != sym::Expr::dim(i) && !(shape[i].isConstant(1) && expr.isConstant(0)))
      return false;
  return true;
}

void kernel::foldReads(RewriterBase &rewriter, MapOp view) {
  for (Operation *user : llvm::make_early_inc_range(view->getUsers()))
    if (auto read = dyn_cast<ReadOp>(user))
      inlineRead(rewriter, read, view);
  if (view->use_empty())
    rewriter.eraseOp(view);
}

void kernel::renameBody(Region &source, Region &target, ArrayRef<sym::Expr> dims,
                        OpBuilder &builder, unsigned targetDims) {
  OpBuilder::InsertionGuard guard(builder);
  Block &block = target.emplaceBlock();
  IRMapping mapping;
  for (BlockArgument argument : source.getArguments())
    mapping.map(argument, block.addArgument(argument.getType(), argument.getLoc()));
  builder.setInsertionPointToStart(&block);
  DimSubstitution substitution;
  substitution.sourceDims = dims.size();
  substitution.targetDims = targetDims ? targetDims : dims.size();
  substitution.dims = SmallVector<sym::Expr>(dims);
  SmallVector<Value> values = cloneBody(builder, source.front(), substitution, mapping);
  YieldOp::create(builder, source.getLoc(), values);
}

void kernel::simplifyMap(IndexedOpInterface op, const sym::Assumptions &known) {
  sym::IndexMap map = op.getMap().getMap();
  for (sym::Expr &expr : map.results)
    expr = known.simplify(expr);
  op.setMap(sym::MapAttr::get(op->getContext(), map));
}

MapOp kernel::createView(OpBuilder &builder, Location loc, Value tensor, ArrayRef<sym::Expr> shape,
                         ArrayRef<sym::Expr> index) {
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  auto view = MapOp::create(builder, loc, TypeRange(sym::getTensorType(shape, element)));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&view.getBody().emplaceBlock());
  sym::IndexMap map{static_cast<unsigned>(shape.size()), SmallVector<sym::Expr, 4>(index)};
  Value read = ReadOp::create(builder, loc, tensor, map);
  YieldOp::create(builder, loc, read);
  return view;
}

/// Which dim of the tensor that `read` reads walks along `column`, if moving it last would make the
/// walk consecutive: every index is a dim of its own or constant.
static std::optional<unsigned> findColumn(kernel::ReadOp read, sym::Expr column) {
  if (!read.getValues().empty() || read.getMask())
    return std::nullopt;
  ArrayRef<sym::Expr> results = read.getMap().getResults();
  std::optional<unsigned> found;
  for (auto [i, result] : llvm::enumerate(results)) {
    if (result == column && !found)
      found = i;
    else if (result.dependsOn(column))
      return std::nullopt;
  }
  // Dims of extent 1 behind it do not separate its elements.
  SmallVector<sym::Expr> shape = sym::getShape(read.getTensor());
  if (!found || sym::product(ArrayRef(shape).drop_front(*found + 1)).isConstant(1))
    return std::nullopt;
  return found;
}

/// `tensor` with dim `dim` moved last, as a view in front of `before`.
static Value createMoved(Value tensor, unsigned dim, Operation *before) {
  SmallVector<sym::Expr> shape = sym::getShape(tensor), index;
  unsigned last = shape.size() - 1;
  // Element (d0, …) of the view is the tensor's with the last dim put back in its place.
  for (unsigned i = 0; i <= last; ++i)
    index.push_back(sym::Expr::dim(i < dim ? i : i == dim ? last : i - 1));
  std::rotate(shape.begin() + dim, shape.begin() + dim + 1, shape.end());
  OpBuilder builder(before);
  return createView(builder, before->getLoc(), tensor, shape, index).getResult(0);
}

void kernel::moveLast(Operation *op, Region &region, sym::Expr column) {
  DenseMap<std::pair<Value, unsigned>, Value> packed;
  region.walk([&](kernel::ReadOp read) {
    auto constant = read.getTensor().getDefiningOp<kernel::ConstantOp>();
    if (!constant || constant->hasAttr(kernel::mutatedAttrName))
      return;
    std::optional<unsigned> dim = findColumn(read, column);
    if (!dim)
      return;
    Value &view = packed[{constant, *dim}];
    if (!view)
      view = createMoved(constant, *dim, op);
    sym::IndexMap index = read.getMap().getMap();
    sym::Expr last = index.results[*dim];
    index.results.erase(index.results.begin() + *dim);
    index.results.push_back(last);
    read.getTensorMutable().assign(view);
    read.setMapAttr(sym::MapAttr::get(read.getContext(), index));
  });
}

BodyCost kernel::getCost(Region &body) {
  BodyCost cost;
  body.walk([&](Operation *op) {
    TypeSwitch<Operation *>(op)
        .Case<ReadOp>([&](ReadOp read) {
          (read.getValues().empty() ? cost.reads : cost.gathers)++;
          bool isUniform = llvm::all_of(read.getMap().getResults(),
                                        [](sym::Expr place) { return place.constant(); });
          cost.uniformReads += read.getValues().empty() && isUniform;
        })
        .Case<ReduceOp>([&](ReduceOp) { cost.reduces = true; })
        .Case<IterateOp>([&](IterateOp) { cost.transcendental++; })
        .Case<arith::ConstantOp, complex::ConstantOp, YieldOp, IndexOp>([](Operation *) {})
        .Case<arith::DivFOp, arith::RemFOp, arith::DivSIOp, arith::RemSIOp, arith::DivUIOp,
              arith::RemUIOp, arith::FloorDivSIOp>([&](Operation *) { cost.transcendental++; })
        .Default([&](Operation *inner) {
          bool heavy = isa_and_nonnull<math::MathDialect>(inner->getDialect()) &&
                       !isa<math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp, math::FmaOp,
                            math::RoundEvenOp, math::TruncOp, math::CopySignOp>(inner);
          (heavy ? cost.transcendental : cost.arithmetic)++;
        });
  });
  return cost;
}

bool kernel::computesComplex(Region &body) {
  return body
      .walk([](Operation *op) {
        return llvm::any_of(op->getResultTypes(), llvm::IsaPred<ComplexType>)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

bool kernel::takesComplex(Operation *op) {
  auto contract = dyn_cast<ContractOp>(op);
  return isa<MapOp>(op) ||
         (contract && isa<ComplexType>(contract.getEpilogue().getArgument(0).getType()));
}

SmallVector<Operation *> kernel::getStructuredOps(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (isStructured(&op))
      ops.push_back(&op);
  return ops;
}

SmallVector<Value> kernel::getReadTensors(Operation *op) {
  llvm::SetVector<Value> tensors;
  op->walk([&](ReadOp read) {
    if (!op->isAncestor(read.getTensor().getParentBlock()->getParentOp()))
      tensors.insert(read.getTensor());
  });
  return tensors.takeVector();
}

SmallVector<Value> kernel::readTensors(Region &region) {
  SmallVector<Value> tensors;
  region.walk([&](ReadOp read) { tensors.push_back(read.getTensor()); });
  return tensors;
}

bool kernel::isKnownConstant(Value tensor) {
  Operation *op = tensor.getDefiningOp();
  return (isa_and_nonnull<ConstantOp>(op) && !op->hasAttr(mutatedAttrName)) ||
         (isa_and_nonnull<MapOp>(op) && llvm::all_of(getReadTensors(op), isKnownConstant));
}

std::optional<ConstantBytes> kernel::getReadConstant(ReadOp read) {
  auto constant = read.getTensor().getDefiningOp<ConstantOp>();
  if (!constant || constant->hasAttr(mutatedAttrName) || !hasConstantBytes(constant.getValue()))
    return std::nullopt;
  return getConstantBytes(constant.getValue());
}

ReadOp kernel::findReadOfZeros(Value value) {
  while (isa_and_nonnull<arith::SIToFPOp, arith::UIToFPOp, arith::ExtFOp, arith::ExtSIOp,
                         arith::ExtUIOp, arith::TruncIOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto read = value.getDefiningOp<ReadOp>();
  std::optional<ConstantBytes> bytes = read ? getReadConstant(read) : std::nullopt;
  bool isZero = bytes && llvm::all_of(bytes->data(), [](char byte) { return byte == 0; });
  return isZero ? read : ReadOp();
}

FuncOp kernel::createKernel(OpBuilder &builder, Operation *root, ArrayRef<Value> operands,
                            size_t number) {
  auto type = builder.getFunctionType(ValueRange(operands).getTypes(), root->getResultTypes());
  std::string name = (root->getName().stripDialect() + "_" + Twine(number)).str();
  auto func = FuncOp::create(builder, root->getLoc(), name, type);
  Block &body = func.getBody().front();
  IRMapping mapping;
  mapping.map(operands, body.getArguments());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&body);
  Operation *clone = builder.clone(*root, mapping);
  ReturnOp::create(builder, root->getLoc(), clone->getResults());
  return func;
}

std::string kernel::getFingerprint(FuncOp func) {
  std::string text;
  llvm::raw_string_ostream os(text);
  StringAttr name = func.getSymNameAttr();
  func.setSymName("k");
  // Locations, which --mlir-print-debuginfo switches on, would keep equal kernels apart.
  func->print(os, OpPrintingFlags().useLocalScope().enableDebugInfo(false));
  func.setSymNameAttr(name);
  return text;
}

ReadOp kernel::findGatheredRows(Region &region, sym::Expr along) {
  auto row = region.front().getTerminator()->getOperand(0).getDefiningOp<ReadOp>();
  if (!row || row.getValues().empty() || row.getMask())
    return {};
  sym::Assumptions known = getAssumptions(&region);
  for (Operation &op : region.front()) {
    auto map = getIndexMap(&op);
    if (op.getNumRegions() != 0 || isa<ExpectOp>(op))
      return {};
    if (map && &op != row.getOperation() &&
        llvm::any_of(map.getResults(), [&](sym::Expr expr) { return expr.dependsOn(along); }))
      return {};
  }
  SmallVector<sym::Expr> shape = sym::getShape(row.getTensor());
  unsigned numDims = row.getMap().getNumDims() - row.getValues().size();
  for (auto [expr, size] : llvm::zip_equal(row.getMap().getResults(), shape))
    if (expr.numDimsUsed() > numDims && (expr.dependsOn(along) || !known.isPositive(size)))
      return {};
  auto linear =
      sym::splitLinear(known.simplify(sym::linearize(row.getMap().getResults(), shape)), along);
  return linear && linear->coefficient.isConstant(1) ? row : ReadOp();
}

void kernel::dropRounding(RewriterBase &rewriter, Region &region) {
  for (Operation &op : llvm::make_early_inc_range(region.front())) {
    auto extension = dyn_cast<arith::ExtFOp>(op);
    Operation *inner = extension ? extension.getIn().getDefiningOp() : nullptr;
    if (isa_and_nonnull<arith::TruncFOp>(inner) &&
        inner->getOperand(0).getType() == extension.getType()) {
      rewriter.replaceOp(extension, inner->getOperand(0));
    } else if (isa_and_nonnull<arith::SIToFPOp, arith::UIToFPOp>(inner) &&
               inner->getOperand(0).getType().isInteger(8)) {
      rewriter.setInsertionPoint(extension);
      Operation *whole = rewriter.clone(*inner);
      whole->getResult(0).setType(extension.getType());
      rewriter.replaceOp(extension, whole->getResult(0));
    }
  }
  eraseUnused(region.front());
}
