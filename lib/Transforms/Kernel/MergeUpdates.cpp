// kernel-merge-updates: what the program writes to parts of an input or a buffer that it mutates becomes
// scatters on the whole, which need not copy the rest.
#include "kiln/Dialect/Torch/Mutations.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Kernel/MapDims.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELMERGEUPDATES
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using sym::Expr;

/// A part that is not a row in vectors is written element by element: it has to be so many times smaller than all.
static constexpr int64_t minRest = 8;

namespace {

/// A map that takes an element from `source`, at `place`, where all of `index` lie in `bounds`, and from `base`,
/// at `part`, elsewhere. `place` and the others are of the map's dims.
///   read %source (d0 - 3, d1) if inside (d0 - 3) bounds [2] else (read %base (d0, d1))
struct Overwrite {
  MapOp map;
  Value source, base;
  SmallVector<Expr> place, part, index, bounds;
};

/// The places of a tensor's elements in another one: element (d0, …) at `index`.
struct Part {
  Value base;
  SmallVector<Expr> index;
};

/// A dim of the whole, as the part has it: dim `dim` of it plus `offset`, or `offset` alone.
struct Axis {
  std::optional<unsigned> dim;
  Expr offset;
};

SmallVector<Expr> substitute(ArrayRef<Expr> exprs, ArrayRef<Expr> dims) {
  return llvm::map_to_vector(exprs, [&](Expr expr) { return expr.substituteDims(dims); });
}

/// Facts of the dims of a tensor and of the module's symbols.
sym::Assumptions assumeIn(ArrayRef<Expr> shape, Operation *op) {
  sym::Assumptions known;
  kernel::addSymbolRanges(op->getParentOfType<ModuleOp>(), known);
  for (auto [i, size] : llvm::enumerate(shape))
    known.setExtent(i, size);
  return known;
}

bool isIdentity(ArrayRef<Expr> exprs, const sym::Assumptions &known) {
  return llvm::all_of(llvm::enumerate(exprs), [&](auto pair) {
    return known.simplify(pair.value() - Expr::dim(pair.index())).isConstant(0);
  });
}

/// A map of this form.
std::optional<Overwrite> getOverwrite(Value tensor) {
  auto map = tensor.getDefiningOp<MapOp>();
  if (!map || map->getNumResults() != 1)
    return std::nullopt;
  Value value = map.getBody().front().getTerminator()->getOperand(0);
  auto choice =
      value.getDefiningOp<arith::SelectOp>(); // of a masked read and another one, or such a read
  auto source = (choice ? choice.getTrueValue() : value).getDefiningOp<ReadOp>();
  if (!source || !source.getMask() || (choice && choice.getCondition() != source.getMask()))
    return std::nullopt;
  auto inside = source.getMask().getDefiningOp<InsideOp>();
  auto other = (choice ? choice.getFalseValue() : source.getOther()).getDefiningOp<ReadOp>();
  // The base cannot be written over while something else reads it.
  if (!inside || !other || !source.getValues().empty() || !inside.getValues().empty() ||
      other.getMask() || !other.getValues().empty() || source.getTensor() == other.getTensor())
    return std::nullopt;
  Overwrite found{map, source.getTensor(), other.getTensor(), {}, {}, {}, {}};
  llvm::append_range(found.place, source.getMap().getResults());
  llvm::append_range(found.part, other.getMap().getResults());
  llvm::append_range(found.index, inside.getMap().getResults());
  llvm::append_range(found.bounds, inside.getBounds().getSizes());
  return found;
}

/// The tensor that a scatter begins as, with each element's place in that; in the scatter's dims.
std::optional<Part> getBegin(ScatterOp scatter) {
  auto read = scatter.getInit().front().getTerminator()->getOperand(0).getDefiningOp<ReadOp>();
  if (!read || read.getMask() || !read.getValues().empty() ||
      cast<RankedTensorType>(read.getTensor().getType()).getElementType() !=
          cast<RankedTensorType>(scatter.getType()).getElementType())
    return std::nullopt;
  return Part{read.getTensor(), SmallVector<Expr>(read.getMap().getResults())};
}

/// Each of `index` as an axis; nullopt if one is anything else, or two are the same.
std::optional<SmallVector<Axis>> getAxes(ArrayRef<Expr> index, unsigned numDims) {
  SmallVector<Axis> axes;
  llvm::BitVector taken(numDims);
  for (Expr expr : index) {
    Axis axis{std::nullopt, expr};
    for (unsigned dim = 0; dim < numDims && expr.hasDims(); ++dim) {
      if (!expr.dependsOn(Expr::dim(dim)))
        continue;
      axis = {dim, expr - Expr::dim(dim)};
      break;
    }
    if (axis.offset.hasDims() || (axis.dim && taken.test(*axis.dim)))
      return std::nullopt;
    if (axis.dim)
      taken.set(*axis.dim);
    axes.push_back(axis);
  }
  return axes;
}

/// True if every element of a part of the base, which has `sizes` and begins as the base at `index`, is put back to
/// where it came from, and nothing else is written.
bool isSamePart(Overwrite overwrite, ArrayRef<Expr> index, ArrayRef<Expr> sizes) {
  sym::Assumptions inPart = assumeIn(sizes, overwrite.map);
  if (!isIdentity(substitute(overwrite.place, index), inPart))
    return false;
  for (auto [expr, bound] : llvm::zip_equal(overwrite.index, overwrite.bounds)) {
    Expr at = inPart.simplify(expr.substituteDims(index));
    if (!inPart.isNonNegative(at) || !inPart.isNonNegative(bound - 1 - at))
      return false;
  }
  // As many elements of the whole are inside as the part has.
  SmallVector<Expr> shape = sym::getShape(overwrite.base);
  std::optional<SmallVector<Axis>> axes = getAxes(overwrite.index, shape.size());
  if (!axes)
    return false;
  for (auto [axis, bound] : llvm::zip_equal(*axes, overwrite.bounds)) {
    if (!axis.dim)
      return false;
    shape[*axis.dim] = bound;
  }
  return inPart.simplify(sym::product(shape) - sym::product(sizes)).isConstant(0);
}

/// The elements of a scatter's result in what it begins as.
SmallVector<Expr> getPart(ScatterOp scatter, const Part &begin) {
  SmallVector<Expr> toResult(scatter.getExtents().size());
  for (auto [i, dim] : llvm::enumerate(scatter.getResultDims()))
    toResult[dim] = Expr::dim(i);
  return substitute(begin.index, toResult);
}

/// The part of a base that `tensor` is: a part of a part of it is a part, and a view of what another view
/// was made of undoes that.
std::optional<Overwrite> getOverwriteOfAll(Value tensor) {
  auto map = tensor.getDefiningOp<MapOp>();
  if (!map)
    return std::nullopt;
  sym::Assumptions known = assumeIn(sym::getShape(tensor), map);
  std::optional<Overwrite> found = getOverwrite(tensor);
  if (ReadOp view = map.getView()) {
    SmallVector<Expr> place(view.getMap().getResults());
    Value source = view.getTensor();
    auto scatter = source.getDefiningOp<ScatterOp>();
    if (std::optional<Part> begin = scatter ? getBegin(scatter) : std::nullopt) {
      found = Overwrite{map, source, begin->base, place, {}, {}, {}};
      found->part = substitute(getPart(scatter, *begin), place);
    } else if ((found = getOverwrite(source))) {
      found->map = map;
      for (auto *exprs : {&found->place, &found->part, &found->index})
        *exprs = substitute(*exprs, place);
    }
  }
  if (!found || found->base.getType() != tensor.getType() || !isIdentity(found->part, known))
    return std::nullopt;
  while (std::optional<Overwrite> inner = getOverwrite(found->source)) {
    if (inner->base != found->base ||
        !isSamePart(*found, inner->part, sym::getShape(found->source)))
      break;
    found->source = inner->source;
    llvm::append_range(found->index, substitute(inner->index, found->place));
    llvm::append_range(found->bounds, inner->bounds);
    found->place = substitute(inner->place, found->place);
  }
  for (auto *exprs : {&found->place, &found->index})
    for (Expr &expr : *exprs)
      expr = known.simplify(expr);
  return found;
}

/// A scatter on the whole, as it is put together.
class WholeScatter {
public:
  WholeScatter(Operation *at, Value base) : builder(at), loc(at->getLoc()), base(base) {
    known = assumeIn({}, at);
  }

  /// Dim `batch.size()` of the result becomes a dim whose elements are all written.
  void addBatch(unsigned axis) { batch.push_back(axis); }
  /// Returns the number of the place's dim.
  unsigned addPlace(Expr size) {
    places.push_back(size);
    return places.size() - 1;
  }
  void addTarget(unsigned axis) { targets.push_back(axis); }

  Expr batchDim(unsigned axis) const { return Expr::dim(llvm::find(batch, axis) - batch.begin()); }
  Expr placeDim(unsigned place) const { return Expr::dim(batch.size() + targets.size() + place); }
  unsigned numDims() const { return batch.size() + targets.size() + places.size(); }

  /// `update` yields what a scatter's does; `combine` is copied, null: the last value stays.
  ScatterOp create(Region *combine, function_ref<SmallVector<Value>(OpBuilder &)> update) {
    SmallVector<Expr> shape = sym::getShape(base), batchSizes, targetSizes;
    SmallVector<int64_t> perm(shape.size());
    for (auto [i, axis] : llvm::enumerate(batch)) {
      batchSizes.push_back(shape[axis]);
      perm[axis] = i;
    }
    for (auto [i, axis] : llvm::enumerate(targets)) {
      targetSizes.push_back(shape[axis]);
      perm[axis] = batch.size() + i;
    }
    auto attr = [&](ArrayRef<Expr> sizes) {
      return sym::ShapeAttr::get(builder.getContext(), sizes);
    };
    bool isIdentity = llvm::is_sorted(perm);
    auto scatter = ScatterOp::create(
        builder, loc, base.getType(), attr(batchSizes), attr(targetSizes), attr(places),
        isIdentity ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(perm));
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&scatter.getInit());
    sym::IndexMap self{numDims(), {}};
    for (int64_t dim : perm)
      self.results.push_back(Expr::dim(dim));
    Value old = ReadOp::create(builder, loc, base, self);
    YieldOp::create(builder, loc, old);
    builder.createBlock(&scatter.getUpdate());
    YieldOp::create(builder, loc, update(builder));
    if (combine) {
      IRMapping mapping;
      combine->cloneInto(&scatter.getCombine(), mapping);
      return scatter;
    }
    Block *block = builder.createBlock(&scatter.getCombine());
    block->addArguments({old.getType(), old.getType()}, {loc, loc});
    YieldOp::create(builder, loc, block->getArgument(1));
    return scatter;
  }

  Value createIndex(OpBuilder &b, Expr expr) const {
    return IndexOp::create(b, loc, b.getI64Type(), getMap(expr), ValueRange());
  }
  sym::MapAttr getMap(ArrayRef<Expr> exprs) const {
    return sym::MapAttr::get(builder.getContext(),
                             sym::IndexMap{numDims(), {exprs.begin(), exprs.end()}});
  }

  OpBuilder builder;
  Location loc;
  Value base;
  sym::Assumptions known;               // of symbols
  SmallVector<unsigned> batch, targets; // dims of the whole
  SmallVector<Expr> places;
};

/// `scatter`, which begins as a part of `base`, as a scatter on all of it.
ScatterOp createWhole(ScatterOp scatter, const Part &part) {
  unsigned numBatch = scatter.getNumBatch(), numKept = numBatch + scatter.getNumTargets();
  SmallVector<Expr> sizes = scatter.getExtents(), shape = sym::getShape(part.base);
  std::optional<SmallVector<Axis>> axes = getAxes(part.index, numKept);
  if (!axes)
    return {};
  WholeScatter whole(scatter, part.base);
  llvm::BitVector seen(numKept);
  SmallVector<std::optional<unsigned>> placeOf(numKept); // of a batch dim that is a part
  for (auto [i, axis] : llvm::enumerate(*axes)) {
    bool isWhole = axis.offset.isConstant(0) && (axis.dim ? sizes[*axis.dim] : Expr(1)) == shape[i];
    if (axis.dim)
      seen.set(*axis.dim);
    if (isWhole && (!axis.dim || *axis.dim < numBatch)) {
      whole.addBatch(i);
      continue;
    }
    whole.addTarget(i);
    // An index into a part of a dim would have to be checked against that.
    if (axis.dim && *axis.dim >= numBatch && !isWhole)
      return {};
    if (axis.dim && *axis.dim < numBatch)
      placeOf[*axis.dim] = whole.addPlace(sizes[*axis.dim]);
  }
  // A dim of size one may be missing.
  for (unsigned dim = 0; dim < numKept; ++dim)
    if (!seen.test(dim) && (dim >= numBatch || !sizes[dim].isConstant(1)))
      return {};
  size_t firstPlace = whole.places.size();
  llvm::append_range(whole.places, scatter.getPlaces().getSizes());

  DimSubstitution dims{static_cast<unsigned>(sizes.size()), whole.numDims(), {}, {}, {}};
  dims.dims.assign(sizes.size(), Expr(0));
  for (auto [i, axis] : llvm::enumerate(*axes))
    if (axis.dim && *axis.dim < numBatch)
      dims.dims[*axis.dim] =
          placeOf[*axis.dim] ? whole.placeDim(*placeOf[*axis.dim]) : whole.batchDim(i);
  for (size_t i = 0; i < scatter.getNumPlaces(); ++i)
    dims.dims[numKept + i] = whole.placeDim(firstPlace + i);
  return whole.create(&scatter.getCombine(), [&](OpBuilder &b) {
    IRMapping mapping;
    cloneBody(b, scatter.getUpdate().front(), dims, mapping);
    Operation *yield = scatter.getUpdate().front().getTerminator();
    auto operand = [&](unsigned i) { return mapping.lookupOrDefault(yield->getOperand(i)); };
    SmallVector<Value> values;
    for (unsigned i : whole.targets) {
      Axis axis = (*axes)[i];
      if (axis.dim && *axis.dim >= numBatch)
        values.push_back(operand(*axis.dim - numBatch));
      else
        values.push_back(whole.createIndex(
            b, axis.offset + (axis.dim ? whole.placeDim(*placeOf[*axis.dim]) : Expr(0))));
    }
    values.append({operand(scatter.getNumTargets()), operand(scatter.getNumTargets() + 1)});
    return values;
  });
}

/// The writes of `overwrite` as a scatter.
ScatterOp createWhole(Overwrite overwrite) {
  SmallVector<Expr> shape = sym::getShape(overwrite.base);
  std::optional<SmallVector<Axis>> axes = getAxes(overwrite.index, shape.size());
  if (!axes)
    return {};
  WholeScatter whole(overwrite.map, overwrite.base);
  SmallVector<Expr> dims(shape.size());
  SmallVector<Expr> start(shape.size()), count(shape.size());
  llvm::BitVector isTarget(shape.size());
  for (auto [axis, bound] : llvm::zip_equal(*axes, overwrite.bounds)) {
    if (!axis.dim)
      return {};
    isTarget.set(*axis.dim);
    start[*axis.dim] = -axis.offset;
    count[*axis.dim] = bound;
  }
  for (unsigned i = 0; i < shape.size(); ++i)
    if (isTarget.test(i))
      whole.addTarget(i);
    else
      whole.addBatch(i);
  SmallVector<std::optional<unsigned>> placeOf(shape.size());
  for (unsigned i : whole.targets)
    if (!count[i].isConstant(1))
      placeOf[i] = whole.addPlace(count[i]);
  SmallVector<Expr> maybeOutside, limits;
  for (unsigned i = 0; i < shape.size(); ++i) {
    if (!isTarget.test(i)) {
      dims[i] = whole.batchDim(i);
      continue;
    }
    dims[i] = start[i] + (placeOf[i] ? whole.placeDim(*placeOf[i]) : Expr(0));
    if (!whole.known.isNonNegative(start[i]) ||
        !whole.known.isNonNegative(shape[i] - start[i] - count[i])) {
      maybeOutside.push_back(dims[i]);
      limits.push_back(shape[i]);
    }
  }
  return whole.create(nullptr, [&](OpBuilder &b) {
    SmallVector<Value> values;
    for (unsigned i : whole.targets)
      values.push_back(whole.createIndex(b, dims[i]));
    if (maybeOutside.empty())
      values.push_back(arith::ConstantIntOp::create(b, whole.loc, 1, 1));
    else
      values.push_back(InsideOp::create(b, whole.loc, whole.getMap(maybeOutside),
                                        sym::ShapeAttr::get(b.getContext(), limits), ValueRange()));
    sym::IndexMap map{whole.numDims(), {}};
    llvm::append_range(map.results, substitute(overwrite.place, dims));
    values.push_back(ReadOp::create(b, whole.loc, overwrite.source, map));
    return values;
  });
}

struct MergeUpdates : kiln::impl::KernelMergeUpdatesBase<MergeUpdates> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isPrivate() || !function.getBody().hasOneBlock())
      return;
    Operation *terminator = function.getBody().front().getTerminator();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (function.getResultAttr(i, torch::mutatesAttrName))
        merge(terminator->getOperand(i), findState(i));
  }

private:
  /// The input or buffer that a result is the new value of.
  Value findState(unsigned result) {
    func::FuncOp function = getOperation();
    StringAttr input = torch::getMutated(function, result, torch::State::Input),
               buffer = torch::getMutated(function, result, torch::State::Buffer);
    for (BlockArgument argument : function.getArguments())
      if (input && function.getArgAttr(argument.getArgNumber(), torch::nameAttrName) == input)
        return argument;
    for (auto constant : function.getBody().getOps<ConstantOp>())
      if (buffer && constant.getNameAttr() == buffer && constant->hasAttr(mutatedAttrName))
        return constant;
    return {};
  }

  /// Rewrites the updates that lead from `state` to `value`, if nothing else does.
  void merge(Value value, Value state) {
    SmallVector<MapOp> maps;
    for (Value at = value; at != state;) {
      if (auto overwrite = getOverwriteOfAll(at)) {
        maps.push_back(overwrite->map);
        at = overwrite->base;
        continue;
      }
      auto scatter = at.getDefiningOp<ScatterOp>();
      std::optional<Part> begin = scatter ? getBegin(scatter) : std::nullopt;
      if (!begin || begin->base.getType() != at.getType())
        return;
      at = begin->base;
    }
    for (MapOp map : llvm::reverse(maps))
      if (auto overwrite = getOverwriteOfAll(map.getResult(0)))
        rewrite(*overwrite);
  }

  void rewrite(Overwrite overwrite) {
    auto scatter = overwrite.source.getDefiningOp<ScatterOp>();
    ScatterOp whole = scatter ? mergeInto(overwrite, scatter) : ScatterOp();
    if (!whole && !overwrite.index.empty() && isWorthIt(overwrite))
      whole = createWhole(overwrite);
    if (!whole)
      return;
    overwrite.map.getResult(0).replaceAllUsesWith(whole.getResult());
    eraseIfDead(overwrite.map);
  }

  static void eraseIfDead(Operation *op) {
    if (!isa_and_present<MapOp, ScatterOp>(op) || !op->use_empty())
      return;
    SmallVector<Value> tensors = getReadTensors(op);
    op->erase();
    for (Value tensor : tensors)
      eraseIfDead(tensor.getDefiningOp());
  }

  /// Rows in vectors, or little of much.
  static bool isWorthIt(const Overwrite &overwrite) {
    SmallVector<Expr> shape = sym::getShape(overwrite.base);
    std::optional<SmallVector<Axis>> axes = getAxes(overwrite.index, shape.size());
    if (!axes)
      return false;
    auto last = llvm::find_if(llvm::reverse(shape), [](Expr size) { return !size.isConstant(1); });
    if (last == shape.rend())
      return false;
    Expr row = Expr::dim(std::distance(last, shape.rend()) - 1);
    if (llvm::none_of(overwrite.index, [&](Expr expr) { return expr.dependsOn(row); }))
      return true;
    SmallVector<Expr> part = shape;
    for (auto [axis, bound] : llvm::zip_equal(*axes, overwrite.bounds))
      if (axis.dim)
        part[*axis.dim] = bound;
    return estimateElements(part) <= estimateElements(shape) / minRest;
  }

  /// `scatter` on the whole, if it begins as the part of the base that `overwrite` replaces by it.
  ScatterOp mergeInto(const Overwrite &overwrite, ScatterOp scatter) {
    std::optional<Part> begin = getBegin(scatter);
    if (!begin || begin->base != overwrite.base)
      return {};
    SmallVector<Expr> index = getPart(scatter, *begin);
    if (!isSamePart(overwrite, index, sym::getShape(scatter.getResult())))
      return {};
    ScatterOp whole = createWhole(scatter, *begin);
    if (!whole)
      return {};
    // Other readers of the part read it in the whole.
    for (Operation *user : llvm::to_vector(scatter->getUsers()))
      if (auto read = dyn_cast<ReadOp>(user)) {
        sym::IndexMap map{read.getMap().getNumDims(), {}};
        llvm::append_range(map.results, substitute(index, read.getMap().getResults()));
        read.setMapAttr(sym::MapAttr::get(&getContext(), map));
        read.getTensorMutable().assign(whole);
      }
    if (!scatter->use_empty()) {
      OpBuilder builder(scatter);
      MapOp part = createView(builder, scatter.getLoc(), whole.getResult(),
                              sym::getShape(scatter.getResult()), index);
      scatter.getResult().replaceAllUsesWith(part.getResult(0));
    }
    scatter.erase();
    return whole;
  }
};

} // namespace
