// Operators that see a tensor's memory: its elements in the order in which they lie there, by the
// strides that the program recorded (`torch.strides` on the call).
#include "kiln/Lowering/Lowering.h"
#include "kiln/Sym/MemoryOrder.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The strides of argument 0; row-major unless recorded.
static Exprs stridesOf(Call &call) {
  if (auto recorded = call.args.op()->getAttrOfType<sym::ShapeAttr>(torch::stridesAttrName))
    return Exprs(recorded.getSizes());
  return sym::rowMajorStrides(shapeOf(call.tensor(0)));
}

/// The elements of argument 0 in memory order, [n]: all of it, without gaps or overlaps. Null for
/// other tensors.
static Value memoryOf(Call &call) {
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self);
  Exprs strides = stridesOf(call);
  if (sym::product(shape).isConstant(0)) // its strides say nothing
    return call.kernels.reshape(self, {Expr(0)});
  auto order = sym::getMemoryOrder(shape, strides, call.kernels.known());
  if (!order)
    return {};
  return call.kernels.reshape(call.kernels.permute(self, *order), {sym::product(shape)});
}

namespace {
/// The arguments of as_strided, with addresses counted from the first element of argument 0.
struct StridedView {
  Exprs size, stride;
  Expr offset;
  Expr address(ArrayRef<Expr> at) const {
    Expr result = offset;
    for (auto [index, step] : llvm::zip_equal(at, stride))
      result = result + index * step;
    return result;
  }
};
} // namespace

static bool isNegative(Expr expr) { return expr.isConstant() && *expr.constant() < 0; }

/// The arguments of the call; null, with a reason, for what they cannot be.
static std::optional<StridedView> stridedView(Call &call) {
  StridedView view{call.args.symIntList("size"), call.args.symIntList("stride"), 0};
  auto begin = call.args.op()->getAttrOfType<sym::ExprAttr>(torch::storageOffsetAttrName);
  Expr first = begin ? begin.getValue() : Expr(0);
  view.offset = call.args.optSymInt("storage_offset").value_or(first) - first;
  if (view.size.size() == view.stride.size())
    return view;
  call.kernels.fail("as many strides as sizes are needed");
  return std::nullopt;
}

/// Every element lies among the `count` ones. Where only a run can tell, it does.
static bool requireInside(Call &call, const StridedView &view, Expr count) {
  Expr last = view.offset, fewest = Expr(1);
  bool isValid = !isNegative(view.offset);
  for (auto [size, stride] : llvm::zip_equal(view.size, view.stride)) {
    isValid &= !isNegative(stride);
    last = last + (size - 1) * stride;
    fewest = Expr::min(fewest, size);
  }
  // A view of no elements lies inside anything.
  Expr left = Expr::max(count - 1 - last, -fewest);
  if (fewest.isConstant(0))
    return true;
  if (!isValid || isNegative(left)) {
    call.kernels.fail("elements that do not lie in the tensor");
    return false;
  }
  std::string message = "elements of as_strided lie outside of the tensor";
  for (Expr stride : view.stride)
    call.require(stride, message);
  call.require(view.offset, message);
  call.require(left, message);
  return true;
}

static LogicalResult lowerAsStrided(Call &call) {
  Value memory = memoryOf(call);
  if (!memory)
    return call.refuse("a tensor that is a part of its memory");
  auto view = stridedView(call);
  if (!view || !requireInside(call, *view, shapeOf(memory)[0]))
    return failure();
  return call.set(call.kernels.view(
      memory, view->size, [&](ArrayRef<Expr> dims) { return Exprs{view->address(dims)}; }));
}

/// The elements of argument 0 by their addresses, [n], with zeros in the gaps; null where sizes or
/// strides are not constants.
static Value spreadOut(Call &call) {
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self);
  StridedView own{shape, stridesOf(call), 0};
  Expr last = 0;
  for (auto [size, stride] : llvm::zip_equal(shape, own.stride))
    last = last + (size - 1) * stride;
  if (!last.isConstant() || !llvm::all_of(own.stride, [](Expr e) { return e.isConstant(); }))
    return {};
  ScatterSpec spec;
  spec.targets = {last + 1};
  spec.places = shape;
  auto init = [&](BodyBuilder &body) { return body.constant(elementType(self), 0); };
  auto update = [&](BodyBuilder &body) {
    Exprs at = body.dims(1, body.numDims());
    return ScatterSpec::Write{{body.index(own.address(at))}, {}, body.read(self, at)};
  };
  spec.init = init;
  spec.update = update;
  return call.kernels.scatter(spec, elementType(self));
}

/// The tensor with `src` written through such a view. Of elements that the view shows twice the
/// last one counts.
static LogicalResult lowerAsStridedScatter(Call &call) {
  Value self = call.tensor(0), source = call.tensor("src"), memory = memoryOf(call);
  Exprs shape = shapeOf(self), strides = stridesOf(call);
  auto view = stridedView(call);
  if (!view || strides.size() != shape.size())
    return call.refuse("strides that do not fit");
  if (sym::product(shape).isConstant(0))
    return call.set(self);
  bool isContiguous = memory && call.kernels.isSame(sym::rowMajorStrides(shape), strides);
  if (!memory)
    memory = spreadOut(call);
  if (!memory)
    return call.refuse("a tensor that is a part of its memory");
  Expr count = shapeOf(memory)[0];
  auto isConstant = [](Expr expr) { return expr.isConstant(); };
  // Elements written beside the tensor are not seen. There may be none if sizes are unknown.
  bool isKnown = count.isConstant() && view->offset.isConstant() &&
                 llvm::all_of(view->size, isConstant) && llvm::all_of(view->stride, isConstant);
  if (!isKnown && !requireInside(call, *view, count))
    return failure();
  source = call.kernels.expand(source, view->size);
  ScatterSpec spec;
  spec.targets = {count};
  spec.places = view->size;
  auto init = [&](BodyBuilder &body) { return body.read(memory, Exprs{body.dim(0)}); };
  auto update = [&](BodyBuilder &body) {
    Exprs at = body.dims(1, body.numDims());
    Expr address = view->address(at);
    Element isSeen = isKnown ? body.inside({address}, {count}) : Element();
    return ScatterSpec::Write{{body.index(address)}, isSeen, body.read(source, at)};
  };
  spec.init = init;
  spec.update = update;
  Value written = call.kernels.scatter(spec, elementType(self));
  if (isContiguous)
    return call.set(call.kernels.reshape(written, shape));
  StridedView own{shape, strides, 0};
  return call.set(call.kernels.view(written, shape,
                                    [&](ArrayRef<Expr> dims) { return Exprs{own.address(dims)}; }));
}

/// An input that lies in memory row by row, as it was recorded; runs check that.
static bool isRowMajorInput(Call &call, Value tensor) {
  auto argument = dyn_cast_or_null<BlockArgument>(tensor);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  if (!function || function.isPrivate())
    return false;
  auto strides =
      function.getArgAttrOfType<sym::ShapeAttr>(argument.getArgNumber(), torch::stridesAttrName);
  return strides &&
         call.kernels.isSame(sym::rowMajorStrides(shapeOf(tensor)), Exprs(strides.getSizes()));
}

/// The same memory with another shape: cut off at its end, or followed by zeros.
static LogicalResult lowerResize(Call &call) {
  Value memory = memoryOf(call);
  if (!memory)
    return call.refuse("a tensor that is a part of its memory");
  Exprs shape = call.resultShape();
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  auto format = call.args.memoryFormat("memory_format");
  // The order is that of the other tensor, which may be channels last if it has as many dims.
  if (format == torch::MemoryFormat::Preserve && (shape.size() == 4 || shape.size() == 5) &&
      !isRowMajorInput(call, call.args.tensor(1)))
    return call.refuse("preserve_format of a tensor whose order of dims is not known");
  if (format == torch::MemoryFormat::ChannelsLast ||
      format == torch::MemoryFormat::ChannelsLast3d) {
    if (shape.size() < 3)
      return call.refuse("channels last of fewer than three dims");
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  Exprs sizes;
  for (int64_t dim : order)
    sizes.push_back(shape[dim]);
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Exprs at;
    for (int64_t dim : order)
      at.push_back(body.dim(dim));
    return body.readPadded(memory, Exprs{sym::linearize(at, sizes)},
                           body.constant(call.resultType(), 0));
  }));
}

void lowering::registerStrided(LoweringTable &table) {
  table.add({"aten.as_strided.default", "aten.as_strided_copy.default"}, lowerAsStrided);
  table.add("aten.as_strided_scatter.default", lowerAsStridedScatter);
  table.add({"aten.resize.default", "aten.resize_as.default"}, lowerResize);
}
