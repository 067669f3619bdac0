// Writes at places that data names along one dim.
#include "Core/Combine.h"
#include "Index/Indexing.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static std::optional<Combine> combineNamed(StringRef name) {
  return llvm::StringSwitch<std::optional<Combine>>(name)
      .Cases({"add", "sum"}, Combine::Sum)
      .Cases({"multiply", "prod"}, Combine::Product)
      .Case("mean", Combine::Mean)
      .Case("amax", Combine::Max)
      .Case("amin", Combine::Min)
      .Default(std::nullopt);
}

Element lowering::combined(Combine combine, Element old, Element x) {
  Type type = old.type(), wide = opmath(type);
  Element a = convert(old, wide), b = convert(x, wide);
  switch (combine) {
  case Combine::Last:
    return x;
  case Combine::Sum:
  case Combine::Mean:
    return convert(a + b, type);
  case Combine::Product:
    return convert(a * b, type);
  case Combine::Max:
    return convert(maximum(a, b), type);
  case Combine::Min:
    return convert(minimum(a, b), type);
  }
  llvm_unreachable("all are handled");
}

Element lowering::identityOf(BodyBuilder &body, Combine combine, Type type) {
  switch (combine) {
  case Combine::Last:
  case Combine::Sum:
  case Combine::Mean:
    return body.constant(type, 0);
  case Combine::Product:
    return body.constant(type, 1);
  case Combine::Max:
    return lowest(body.b(), type);
  case Combine::Min:
    return highest(body.b(), type);
  }
  llvm_unreachable("all are handled");
}

namespace {
/// Writes along one dim of a tensor with at least one: the other dims are the batch.
struct DimScatter {
  Call &call;
  Value self;
  int64_t dim;
  Expr places; // writes along the dim
  /// The index along the dim of a write, and whether it is one. The dims of `body` are the batch
  /// and, last, the place; `at` has the place where the dim is.
  function_ref<std::pair<Element, Element>(BodyBuilder &body, ArrayRef<Expr> at)> index;
  function_ref<Element(BodyBuilder &body, ArrayRef<Expr> at)> value;

  Value write(Value into, Combine combine,
              function_ref<Element(BodyBuilder &, ArrayRef<Expr>)> value) {
    ScatterSpec spec;
    Exprs shape = shapeOf(into);
    int64_t rank = shape.size();
    for (int64_t i = 0; i < rank; ++i) {
      spec.perm.push_back(i < dim ? i : i == dim ? rank - 1 : i - 1);
      if (i != dim)
        spec.batch.push_back(shape[i]);
    }
    spec.targets = {shape[dim]};
    spec.places = {places};
    auto around = [&](BodyBuilder &body, Expr middle) {
      Exprs at = body.dims(0, rank - 1);
      at.insert(at.begin() + dim, middle);
      return at;
    };
    auto init = [&](BodyBuilder &body) {
      return body.read(into, around(body, body.dim(rank - 1)));
    };
    auto update = [&](BodyBuilder &body) {
      Exprs at = around(body, body.dim(rank));
      auto [target, enabled] = index(body, at);
      return ScatterSpec::Write{{target}, enabled, value(body, at)};
    };
    auto merge = [&](Element old, Element x) { return combined(combine, old, x); };
    spec.init = init;
    spec.update = update;
    spec.combine = merge;
    return call.kernels.scatter(spec, elementType(into));
  }

  /// Without `includeSelf`, what is written to begins as if nothing had been there.
  LogicalResult lower(Combine combine, bool includeSelf) {
    Type type = elementType(self);
    Value into = self;
    if (!includeSelf && combine != Combine::Last)
      into = write(into, Combine::Last, [&](BodyBuilder &body, ArrayRef<Expr>) {
        return identityOf(body, combine, type);
      });
    Value result = write(into, combine, value);
    if (combine == Combine::Mean)
      result = divideByCount(result, includeSelf);
    result = call.kernels.convert(result, call.resultType());
    if (shapeOf(result).size() != call.resultShape().size())
      result = call.kernels.reshape(result, call.resultShape());
    return call.set(result);
  }

  Value divideByCount(Value sum, bool includeSelf) {
    Type type = elementType(sum), i64 = IntegerType::get(type.getContext(), 64);
    Value counts = write(call.kernels.full(shapeOf(sum), i64, includeSelf ? 1 : 0), Combine::Sum,
                         [&](BodyBuilder &body, ArrayRef<Expr>) { return body.constant(i64, 1); });
    return call.kernels.map(shapeOf(sum), type, [&](BodyBuilder &body) {
      Element count = body.broadcast(counts), one = count.constant(1);
      Type wide = opmath(type);
      Element by = convert(select(count < one, one, count), wide);
      Element x = convert(body.broadcast(sum), wide);
      return isFloat(wide) || isComplex(wide) ? x / by : floorDiv(x, by);
    });
  }
};
} // namespace

/// self[…, index[…], …] = source[…] along `dim`, where index and source are looked at within
/// index's shape. A source that is a number stands for a tensor of it.
static LogicalResult scatter(Call &call, Operand source, Combine combine, bool includeSelf) {
  Value self = call.tensor(0), index = call.tensor("index");
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  Type type = elementType(self);
  // A 0-d tensor counts as one element.
  if (rankOf(index) == 0)
    index = call.kernels.reshape(index, {1});
  if (source.tensor && rankOf(source.tensor) == 0)
    source.tensor = call.kernels.reshape(source.tensor, {1});
  if (rank == 0)
    self = call.kernels.reshape(self, {1});
  rank = std::max<int64_t>(rank, 1);
  bool ordered = combine == Combine::Max || combine == Combine::Min;
  if ((isComplex(type) && ordered) || !isIndexType(elementType(index)) || rank != rankOf(index))
    return call.refuse("these dtypes or ranks");
  if (source.tensor && (rankOf(source.tensor) != rank || elementType(source.tensor) != type))
    return call.refuse("a source of another dtype or rank");
  Exprs sizes = shapeOf(self), places = shapeOf(index);
  for (int64_t i = 0; i < rank; ++i) {
    Expr most = i == dim ? places[i] : sizes[i];
    if (source.tensor)
      most = Expr::min(most, shapeOf(source.tensor)[i]);
    if (most != places[i]) // if there are any indices
      call.require(Expr::max(most - places[i], -sym::product(places)),
                   "more indices than elements in another dim");
  }
  // ATen has a buffer of the wider type to add up in.
  if (combine != Combine::Last)
    self = call.kernels.convert(self, opmath(type));
  auto inside = [&](BodyBuilder &body, ArrayRef<Expr> at) {
    Exprs exprs(at), bounds(places);
    exprs.erase(exprs.begin() + dim);
    bounds.erase(bounds.begin() + dim);
    return body.inside(exprs, bounds);
  };
  auto target = [&](BodyBuilder &body, ArrayRef<Expr> at) {
    Element within = inside(body, at);
    return std::pair(body.read(index, at, within, body.constant(elementType(index), 0)), within);
  };
  auto value = [&](BodyBuilder &body, ArrayRef<Expr> at) {
    if (!source.tensor)
      return call.number(body, *source.number, type);
    return body.read(source.tensor, at, inside(body, at), body.constant(type, 0));
  };
  return DimScatter{call, self, dim, places[dim], target, value}.lower(combine, includeSelf);
}

static LogicalResult lowerScatter(Call &call) { // scatter.src, .value, .reduce, .value_reduce
  Operand source = call.operand(3);
  if (!call.args.has("reduce"))
    return scatter(call, source, Combine::Last, true);
  auto combine = combineNamed(call.args.string("reduce"));
  return combine ? scatter(call, source, *combine, true) : call.refuse("this reduction");
}

static LogicalResult lowerScatterAdd(Call &call) {
  return scatter(call, call.operand(3), Combine::Sum, true);
}

static LogicalResult lowerScatterReduce(Call &call) { // scatter_reduce.two
  auto combine = combineNamed(call.args.string("reduce"));
  return combine ? scatter(call, call.operand(3), *combine, call.args.boolean("include_self"))
                 : call.refuse("this reduction");
}

/// self[…, index[i], …] combined with source[…, i, …]: a vector of indices along `dim`, of which
/// negative ones count from the end if it `wraps`.
static LogicalResult indexInto(Call &call, Operand source, Combine combine,
                               const torch::Scalar &alpha, bool includeSelf = true,
                               bool wraps = false) {
  Value self = call.tensor(0), index = call.tensor("index");
  int64_t dim = call.dim("dim", rankOf(self));
  Type type = elementType(self);
  // A 0-d tensor counts as one element; a 0-d source of index_fill stands for all.
  bool whole = source.tensor && (rankOf(source.tensor) > 0 || rankOf(self) == 0);
  if (whole && rankOf(source.tensor) == 0)
    source.tensor = call.kernels.reshape(source.tensor, {1});
  if (rankOf(self) == 0)
    self = call.kernels.reshape(self, {1});
  if (rankOf(index) == 0)
    index = call.kernels.reshape(index, {1});
  bool ordered = combine == Combine::Max || combine == Combine::Min;
  if (rankOf(index) > 1 || !isIndexType(elementType(index)) || (isComplex(type) && ordered))
    return call.refuse("these dtypes or ranks");
  Exprs sizes = shapeOf(self), sourceShape = sizes;
  Expr places = shapeOf(index)[0];
  sourceShape[dim] = places;
  if (whole &&
      (elementType(source.tensor) != type ||
       !call.fits(shapeOf(source.tensor), sourceShape, "a source of another shape than the index")))
    return call.refuse("a source of another dtype or shape");
  auto target = [&](BodyBuilder &body, ArrayRef<Expr> at) {
    Element i = convert(body.read(index, Exprs{at[dim]}), body.b().getI64Type());
    if (wraps)
      i = select(i < i.constant(0), i + body.index(sizes[dim]), i);
    return std::pair(i, Element());
  };
  auto value = [&](BodyBuilder &body, ArrayRef<Expr> at) {
    if (!whole)
      return call.read(body, source, type);
    Element x = body.read(source.tensor, at);
    if (torch::asDouble(alpha) == 1.0)
      return x;
    Type wide = opmath(type);
    return convert(convert(x, wide) * call.number(body, alpha, wide), type);
  };
  return DimScatter{call, self, dim, places, target, value}.lower(combine, includeSelf);
}

static LogicalResult lowerIndexAdd(Call &call) {
  return indexInto(call, call.operand("source"), Combine::Sum, call.args.scalar("alpha"));
}
static LogicalResult lowerIndexCopy(Call &call) {
  return indexInto(call, call.operand("source"), Combine::Last, int64_t(1));
}
static LogicalResult lowerIndexFill(Call &call) {
  return indexInto(call, call.operand("value"), Combine::Last, int64_t(1), /*includeSelf=*/true,
                   /*wraps=*/true);
}
static LogicalResult lowerIndexReduce(Call &call) {
  auto combine = combineNamed(call.args.string("reduce"));
  return combine ? indexInto(call, call.operand("source"), *combine, int64_t(1),
                             call.args.boolean("include_self"))
                 : call.refuse("this reduction");
}

void lowering::registerScatter(LoweringTable &table) {
  table.add({"aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce",
             "aten.scatter.value_reduce"},
            lowerScatter);
  table.add("aten.scatter_add.default", lowerScatterAdd);
  table.add("aten.scatter_reduce.two", lowerScatterReduce);
  table.add("aten.index_add.default", lowerIndexAdd);
  table.add("aten.index_copy.default", lowerIndexCopy);
  table.add({"aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor"}, lowerIndexFill);
  table.add("aten.index_reduce.default", lowerIndexReduce);
}
