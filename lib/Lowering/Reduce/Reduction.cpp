// Reductions over dims.
#include "Core/ReducedDims.h"
#include "Linalg/Linalg.h"
#include "Pointwise/ComplexFunctions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The dims of argument `dim` (all without one), and whether they stay with size 1.
static std::pair<ReducedDims, bool> reducedDims(Call &call) {
  Value tensor = call.tensor(0);
  int64_t rank = rankOf(tensor);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  for (StringRef key : {"dim", "dims"})
    if (call.args.has(key))
      dims = call.dims(key, rank);
  bool keepdim = call.args.has("keepdim") && call.args.boolean("keepdim");
  return {ReducedDims(tensor, dims), keepdim};
}

using BodyFn = function_ref<Element(BodyBuilder &)>;

/// A map over the result; `compute` gets the way to read the tensor inside a reduction, converted
/// to `type`.
static Value
reduceTo(Call &call, const ReducedDims &reduced, bool keepdim, Type type, Type resultType,
         function_ref<Element(BodyBuilder &, function_ref<Element(BodyBuilder &)>)> compute) {
  Value tensor = call.tensor(0);
  return call.kernels.map(reduced.resultShape(keepdim), resultType, [&](BodyBuilder &body) {
    return compute(body, [&](BodyBuilder &inner) {
      return convert(inner.read(tensor, reduced.indexFromResult(inner, keepdim)), type);
    });
  });
}

//===-- Sums and products ---------------------------------------------------------------------===//

static LogicalResult lowerSum(Call &call) {
  auto [reduced, keepdim] = reducedDims(call);
  Type type = opmath(call.resultType());
  return call.set(reduceTo(call, reduced, keepdim, type, call.resultType(),
                           [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
                             if (isBool(type))
                               return body.any(reduced.extents, read);
                             return preciseSum(body, reduced.extents, call.resultType(), read);
                           }));
}

static LogicalResult lowerSumToSize(Call &call) { // over what was broadcast
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self), result = call.resultShape();
  Type type = opmath(call.resultType());
  if (isBool(type) || result.size() > shape.size())
    return call.refuse("this dtype, or a result of more dims");
  SmallVector<int64_t> dims;
  size_t added = shape.size() - result.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (i < added || (result[i - added].isConstant(1) && !shape[i].isConstant(1)))
      dims.push_back(i);
  ReducedDims reduced(self, dims);
  Value sums =
      reduceTo(call, reduced, false, type, call.resultType(), [&](BodyBuilder &body, BodyFn read) {
        return preciseSum(body, reduced.extents, call.resultType(), read);
      });
  return call.set(call.kernels.reshape(sums, result));
}

static LogicalResult lowerProd(Call &call) {
  auto [reduced, keepdim] = reducedDims(call);
  Type type = opmath(call.resultType());
  return call.set(reduceTo(call, reduced, keepdim, type, call.resultType(),
                           [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
                             return body.prod(reduced.extents, type, read);
                           }));
}

static LogicalResult lowerMean(Call &call) {
  auto [reduced, keepdim] = reducedDims(call);
  Type type = opmath(call.resultType());
  if (!isFloat(type) && !isComplex(type))
    return call.refuse("a mean in this dtype");
  return call.set(reduceTo(call, reduced, keepdim, type, call.resultType(),
                           [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
                             Element sum =
                                 preciseSum(body, reduced.extents, call.resultType(), read);
                             return sum / countAs(body, reduced.count(), sum.type());
                           }));
}

static LogicalResult lowerCountNonzero(Call &call) {
  Value tensor = call.tensor(0);
  int64_t rank = rankOf(tensor);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (call.args.has("dim") && !call.args.isNone("dim"))
    dims = call.dims("dim", rank);
  ReducedDims reduced(tensor, dims);
  Type i1 = IntegerType::get(call.args.op().getContext(), 1);
  return call.set(
      reduceTo(call, reduced, false, i1, call.resultType(), [&](BodyBuilder &body, BodyFn read) {
        return body.sum(reduced.extents, call.resultType(), [&](BodyBuilder &inner) {
          return convert(read(inner), call.resultType());
        });
      }));
}

/// The exclusive or of the bits of all elements, which are f64 or, if they are integers, i64.
static LogicalResult lowerHash(Call &call) {
  auto [reduced, keepdim] = reducedDims(call);
  Type type = elementType(call.tensor(0)), result = call.resultType();
  bool isNumber = isFloat(type) || isInt(type) || isBool(type);
  if (call.args.integer("mode") != 0 || !isNumber)
    return call.refuse("this dtype or mode");
  call.require(reduced.count() - 1, "a hash of no elements");
  MLIRContext *context = type.getContext();
  Type wide = isFloat(type) ? Type(Float64Type::get(context)) : IntegerType::get(context, 64);
  auto bits = [&](Element x) {
    Value value = x.value();
    if (isFloat(type))
      value = arith::BitcastOp::create(x.b(), IntegerType::get(context, 64), value);
    return x.make(value, result);
  };
  auto hash = [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
    using Elements = BodyBuilder::Elements;
    auto next = [&](BodyBuilder &inner) { return Elements{bits(read(inner))}; };
    auto combine = [](ArrayRef<Element> a, ArrayRef<Element> b) { return Elements{a[0] ^ b[0]}; };
    return body.reduce(reduced.extents, {body.constant(result, 0)}, next, combine).front();
  };
  return call.set(reduceTo(call, reduced, keepdim, wide, result, hash));
}

//===-- Extremes and truth --------------------------------------------------------------------===//

/// Eager mode refuses an extreme of nothing.
static void requireElements(Call &call, const ReducedDims &reduced) {
  call.require(reduced.count() - 1, "an extreme of no elements");
}

static Lowering extreme(bool largest) {
  return [largest](Call &call) -> LogicalResult {
    auto [reduced, keepdim] = reducedDims(call);
    Type type = elementType(call.tensor(0));
    if (isComplex(type))
      return call.refuse("an order of complex numbers");
    requireElements(call, reduced);
    return call.set(reduceTo(call, reduced, keepdim, type, call.resultType(),
                             [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
                               return largest ? body.max(reduced.extents, type, read)
                                              : body.min(reduced.extents, type, read);
                             }));
  };
}

static LogicalResult lowerAminmax(Call &call) {
  ReducedDims reduced(call.tensor(0), {});
  int64_t rank = rankOf(call.tensor(0));
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (!call.args.isNone("dim"))
    dims = call.dims("dim", rank);
  reduced = ReducedDims(call.tensor(0), dims);
  bool keepdim = call.args.boolean("keepdim");
  Type type = elementType(call.tensor(0));
  if (isComplex(type))
    return call.refuse("this dtype");
  requireElements(call, reduced);
  SmallVector<Value> results;
  for (bool largest : {false, true})
    results.push_back(
        reduceTo(call, reduced, keepdim, type, type, [&](BodyBuilder &body, BodyFn read) {
          return largest ? body.max(reduced.extents, type, read)
                         : body.min(reduced.extents, type, read);
        }));
  return call.set(results);
}

static Lowering truth(bool all) {
  return [all](Call &call) -> LogicalResult {
    auto [reduced, keepdim] = reducedDims(call);
    Type i1 = IntegerType::get(call.args.op().getContext(), 1);
    return call.set(reduceTo(call, reduced, keepdim, i1, call.resultType(),
                             [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
                               return all ? body.all(reduced.extents, read)
                                          : body.any(reduced.extents, read);
                             }));
  };
}

/// The extreme value and its first position along one dim, or in the flattened tensor. Without
/// `withPosition` the position is null.
static SmallVector<Value> argExtremes(Call &call, Value tensor, int64_t dim, bool keepdim,
                                      bool largest, bool withPosition = true) {
  Type type = elementType(tensor);
  SmallVector<int64_t> dims;
  if (rankOf(tensor) > 0)
    dims.push_back(dim);
  ReducedDims reduced(tensor, dims);
  requireElements(call, reduced);
  Type i64 = IntegerType::get(type.getContext(), 64);
  Exprs shape = reduced.resultShape(keepdim && rankOf(tensor) > 0);
  if (!withPosition) {
    Value values = call.kernels.map(shape, type, [&](BodyBuilder &body) {
      auto read = [&](BodyBuilder &inner) {
        return inner.read(tensor, reduced.indexFromResult(inner, keepdim));
      };
      return largest ? body.max(reduced.extents, type, read)
                     : body.min(reduced.extents, type, read);
    });
    return {values, Value()};
  }
  return call.kernels.map(shape, {type, i64}, [&](BodyBuilder &body) {
    auto [value, position] =
        body.argExtreme(reduced.extents, type, largest, /*lastNan=*/false, [&](BodyBuilder &inner) {
          Element x = inner.read(tensor, reduced.indexFromResult(inner, keepdim));
          Element at =
              dims.empty() ? inner.constant(i64, 0) : inner.index(inner.dim(inner.numDims() - 1));
          return std::make_pair(x, at);
        });
    return BodyBuilder::Elements{value, position};
  });
}

static Lowering extremeDim(bool largest) { // max.dim, min.dim: values and indices
  return [largest](Call &call) -> LogicalResult {
    Value tensor = call.tensor(0);
    if (isComplex(elementType(tensor)))
      return call.refuse("an order of complex numbers");
    return call.set(argExtremes(call, tensor, call.dim("dim", rankOf(tensor)),
                                call.args.boolean("keepdim"), largest, !call.isUnused(1)));
  };
}

static Lowering argExtreme(bool largest) {
  return [largest](Call &call) -> LogicalResult {
    Value tensor = call.tensor(0);
    if (isComplex(elementType(tensor)))
      return call.refuse("an order of complex numbers");
    bool keepdim = call.args.boolean("keepdim");
    if (!call.args.isNone("dim"))
      return call.set(
          argExtremes(call, tensor, call.dim("dim", rankOf(tensor)), keepdim, largest)[1]);
    Value flat = call.kernels.reshape(tensor, {sym::product(shapeOf(tensor))});
    Value position = argExtremes(call, flat, 0, false, largest)[1];
    return call.set(call.kernels.reshape(position, call.resultShape()));
  };
}

//===-- Moments and norms ---------------------------------------------------------------------===//

/// Sum of squared distances from the mean, over count - correction; with `withMean` also the mean.
/// As ATen does, in double precision.
static SmallVector<Value> variance(Call &call, const ReducedDims &reduced, bool keepdim, Type type,
                                   double correction, bool root, bool withMean) {
  Value tensor = call.tensor(0);
  Type wide = accumulatorType(type);
  // Distances of complex numbers are real.
  auto partOf = [](Type type) {
    return isComplex(type) ? cast<ComplexType>(type).getElementType() : type;
  };
  Type part = partOf(type), widePart = partOf(wide);
  SmallVector<Type> types = {part};
  if (withMean)
    types.push_back(type);
  return call.kernels.map(reduced.resultShape(keepdim), types, [&](BodyBuilder &body) {
    auto read = [&](BodyBuilder &inner) {
      return convert(inner.read(tensor, reduced.indexFromResult(inner, keepdim)), wide);
    };
    Element count = countAs(body, reduced.count(), widePart);
    Element mean = body.sum(reduced.extents, wide, read) / convert(count, wide);
    Element squares = body.sum(reduced.extents, widePart, [&](BodyBuilder &inner) {
      Element distance = read(inner) - mean;
      if (!isComplex(wide))
        return distance * distance;
      Element re = real(distance), im = imag(distance);
      return re * re + im * im;
    });
    // A negative number of degrees of freedom counts as none.
    Element freedom = maximum(count - correction, count.constant(0));
    Element result = squares / freedom;
    BodyBuilder::Elements results = {root ? sqrt(result) : result};
    if (withMean)
      results.push_back(mean);
    return results;
  });
}

/// `correction` (a number, 1 for None) or `unbiased`.
static LogicalResult lowerVariance(Call &call, bool root, bool withMean) {
  Value tensor = call.tensor(0);
  if (!isFloat(elementType(tensor)) && !isComplex(elementType(tensor)))
    return call.refuse("this dtype");
  double correction = 1;
  if (call.args.has("unbiased"))
    correction = call.args.boolean("unbiased") ? 1 : 0;
  else if (call.args.has("correction") && !call.args.isNone("correction"))
    correction = call.constantNumber("correction");
  auto [reduced, keepdim] = reducedDims(call);
  return call.set(
      variance(call, reduced, keepdim, elementType(tensor), correction, root, withMean));
}

/// (sum of |x|^p)^(1/p), with the limits for p = 0 and infinity.
static LogicalResult vectorNorm(Call &call, double order) {
  Value tensor = call.tensor(0);
  Type type = opmath(call.resultType());
  int64_t rank = rankOf(tensor);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (call.args.has("dim") && !call.args.isNone("dim"))
    dims = call.dims("dim", rank);
  ReducedDims reduced(tensor, dims);
  if (!isFloat(type))
    return call.refuse("this dtype");
  bool isInfinite = std::isinf(order);
  if (isInfinite || order < 0)
    requireElements(call, reduced);
  bool keepdim = call.args.has("keepdim") && call.args.boolean("keepdim");
  Type common = isComplex(elementType(tensor)) ? Type(ComplexType::get(type)) : type;
  // ATen's norm of one element is its magnitude, of any size: no square of it overflows.
  bool isOfOne = order != 0 && reduced.count().isConstant(1);
  return call.set(reduceTo(
      call, reduced, keepdim, common, call.resultType(), [&](BodyBuilder &body, BodyFn read) {
        auto magnitude = [&](BodyBuilder &inner) { return abs(read(inner)); };
        if (isInfinite || isOfOne)
          return order > 0 ? body.max(reduced.extents, type, magnitude)
                           : body.min(reduced.extents, type, magnitude);
        auto term = [&](BodyBuilder &inner) {
          Element x = read(inner);
          if (isComplex(common))
            x = abs(x);
          if (order == 0)
            return convert(x != x.constant(0), type);
          if (order == 2)
            return x * x;
          return order == 1 ? abs(x) : pow(abs(x), x.constant(order));
        };
        Element sum = preciseSum(body, reduced.extents, call.resultType(), term);
        if (order == 0 || order == 1)
          return sum;
        return order == 2 ? sqrt(sum) : pow(sum, sum.constant(1 / order));
      }));
}

static LogicalResult lowerVectorNorm(Call &call) {
  return vectorNorm(call, call.constantNumber("ord"));
}

/// norm.*: the vector norm with p (2 for None) of all elements or of `dim`.
static LogicalResult lowerNorm(Call &call) {
  if (!call.args.isNone("p") && !call.args.isNumber("p"))
    return call.refuse("a norm that is named");
  double order = call.args.isNone("p") ? 2 : call.constantNumber("p");
  return vectorNorm(call, order);
}

/// The largest (or with a negative order the smallest) sum of magnitudes along the first of two
/// dims, or along the second for an infinite order.
static LogicalResult matrixNorm(Call &call, double order, std::array<int64_t, 2> dims) {
  Value self = call.tensor(0);
  Type type = opmath(call.resultType());
  int64_t rank = rankOf(self);
  for (int64_t &dim : dims)
    dim += dim < 0 ? rank : 0;
  if (!isFloat(type) || dims[0] == dims[1] ||
      llvm::any_of(dims, [&](int64_t dim) { return dim < 0 || dim >= rank; }))
    return call.refuse("this dtype or these dims");
  if (std::abs(order) == 2)
    return singularNorm(call, order > 0 ? SingularNorm::Largest : SingularNorm::Smallest, dims);
  if (std::abs(order) != 1 && !std::isinf(order))
    return call.refuse("an order that matrices have no norm of");
  ReducedDims lines(self, {dims[std::isinf(order)]});
  Type common = isComplex(elementType(self)) ? Type(ComplexType::get(type)) : type;
  Value sums = reduceTo(call, lines, true, common, type, [&](BodyBuilder &body, BodyFn read) {
    return preciseSum(body, lines.extents, call.resultType(),
                      [&](BodyBuilder &inner) { return abs(read(inner)); });
  });
  llvm::sort(dims);
  ReducedDims all(sums, dims);
  if (order < 0)
    requireElements(call, all);
  bool keepdim = call.args.boolean("keepdim");
  return call.set(
      call.kernels.map(all.resultShape(keepdim), call.resultType(), [&](BodyBuilder &body) {
        auto read = [&](BodyBuilder &inner) {
          return inner.read(sums, all.indexFromResult(inner, keepdim));
        };
        return order < 0 ? body.min(all.extents, type, read) // of nothing, the largest is 0
                         : maximum(body.max(all.extents, type, read), body.constant(type, 0));
      }));
}

/// The dims of a matrix in `call`: two that are named, or those of a tensor of rank 2.
static std::optional<std::array<int64_t, 2>> matrixDims(Call &call) {
  auto given = call.args.optIntList("dim");
  if (given ? given->size() != 2 : rankOf(call.tensor(0)) != 2)
    return std::nullopt;
  return given ? std::array{(*given)[0], (*given)[1]} : std::array<int64_t, 2>{0, 1};
}

/// linalg.norm and linalg.matrix_norm: of a matrix where an order is given and two dims are there.
static LogicalResult lowerLinalgNorm(Call &call) {
  auto dims = matrixDims(call);
  if (!call.args.isNone("ord") && !call.args.isNumber("ord")) {
    if (dims && call.args.string("ord") == "fro")
      return vectorNorm(call, 2);
    if (!dims || call.args.string("ord") != "nuc")
      return call.refuse("a norm that is named otherwise, or of no matrix");
    for (int64_t &dim : *dims)
      dim += dim < 0 ? rankOf(call.tensor(0)) : 0;
    return singularNorm(call, SingularNorm::Sum, *dims);
  }
  if (call.args.isNone("ord"))
    return vectorNorm(call, 2);
  double order = call.constantNumber("ord");
  return dims ? matrixNorm(call, order, *dims) : vectorNorm(call, order);
}

/// NaN counts as 0 in the sum and not at all in the mean.
static LogicalResult nanSum(Call &call, bool mean) {
  auto [reduced, keepdim] = reducedDims(call);
  Type type = opmath(call.resultType());
  if (isBool(type) || (mean && !isFloat(type)))
    return call.refuse("this dtype");
  return call.set(reduceTo(call, reduced, keepdim, type, call.resultType(),
                           [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
                             auto sum = [&](BodyBuilder::Body term) {
                               return preciseSum(body, reduced.extents, call.resultType(), term);
                             };
                             Element total = sum([&](BodyBuilder &inner) {
                               Element x = read(inner);
                               return select(isNan(x), x.constant(0), x);
                             });
                             if (!mean)
                               return total;
                             return total / sum([&](BodyBuilder &inner) {
                                      return convert(~isNan(read(inner)), type);
                                    });
                           }));
}

static LogicalResult lowerTrace(Call &call) {
  Value self = call.tensor(0);
  Type type = opmath(call.resultType());
  if (rankOf(self) != 2 || isBool(type))
    return call.refuse("needs a matrix");
  Exprs sizes = shapeOf(self);
  Expr length = call.kernels.known().simplify(Expr::min(sizes[0], sizes[1]));
  return call.set(call.kernels.map({}, call.resultType(), [&](BodyBuilder &body) {
    return preciseSum(body, {length}, call.resultType(), [&](BodyBuilder &inner) {
      return convert(inner.read(self, Exprs{inner.dim(0), inner.dim(0)}), type);
    });
  }));
}

static LogicalResult lowerLogsumexp(Call &call) {
  auto [reduced, keepdim] = reducedDims(call);
  Type type = opmath(call.resultType());
  if (isComplex(type))
    return call.set(reduceTo(call, reduced, keepdim, type, call.resultType(),
                             [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
                               Type part = cast<ComplexType>(type).getElementType();
                               Element largest =
                                   body.max(reduced.extents, part,
                                            [&](BodyBuilder &inner) { return real(read(inner)); });
                               Element zero = largest.constant(0);
                               Element shift = convert(select(isInf(largest), zero, largest), type);
                               Element sum =
                                   body.sum(reduced.extents, type, [&](BodyBuilder &inner) {
                                     return complexes::exp(read(inner) - shift);
                                   });
                               return complexes::log(sum) + shift;
                             }));
  if (!isFloat(type))
    return call.refuse("this dtype");
  return call.set(reduceTo(call, reduced, keepdim, type, call.resultType(),
                           [&, &reduced = reduced](BodyBuilder &body, BodyFn read) {
                             Element largest = body.max(reduced.extents, type, read);
                             // An infinite maximum has no differences; without elements the result
                             // is log(0).
                             Element shift = select(isInf(largest), largest.constant(0), largest);
                             Element sum = body.sum(reduced.extents, type, [&](BodyBuilder &inner) {
                               return exp(read(inner) - shift);
                             });
                             return log(sum) + shift;
                           }));
}

void lowering::registerReduction(LoweringTable &table) {
  table.add({"aten.sum.default", "aten.sum.dim_IntList"}, lowerSum);
  table.add("aten.sum_to_size.default", lowerSumToSize);
  table.add({"aten.prod.default", "aten.prod.dim_int"}, lowerProd);
  table.add({"aten.mean.default", "aten.mean.dim"}, lowerMean);
  table.add("aten.hash_tensor.default", lowerHash);
  table.add({"aten.count_nonzero.default", "aten.count_nonzero.dim_IntList"}, lowerCountNonzero);
  table.add({"aten.amax.default", "aten.max.default"}, extreme(true));
  table.add({"aten.amin.default", "aten.min.default"}, extreme(false));
  table.add("aten.aminmax.default", lowerAminmax);
  table.add({"aten.any.default", "aten.any.dim", "aten.any.dims", "aten._is_any_true.default"},
            truth(false));
  table.add({"aten.all.default", "aten.all.dim", "aten.all.dims", "aten._is_all_true.default"},
            truth(true));
  table.add("aten.max.dim", extremeDim(true));
  table.add("aten.min.dim", extremeDim(false));
  table.add("aten.argmax.default", argExtreme(true));
  table.add("aten.argmin.default", argExtreme(false));
  for (StringRef overload : {".default", ".dim", ".correction"}) {
    table.add(("aten.var" + overload).str(),
              [](Call &call) { return lowerVariance(call, false, false); });
    table.add(("aten.std" + overload).str(),
              [](Call &call) { return lowerVariance(call, true, false); });
    table.add(("aten.var_mean" + overload).str(),
              [](Call &call) { return lowerVariance(call, false, true); });
    table.add(("aten.std_mean" + overload).str(),
              [](Call &call) { return lowerVariance(call, true, true); });
  }
  table.add("aten.linalg_vector_norm.default", lowerVectorNorm);
  table.add({"aten.linalg_norm.default", "aten.linalg_norm.ord_str",
             "aten.linalg_matrix_norm.default", "aten.linalg_matrix_norm.str_ord"},
            lowerLinalgNorm);
  table.add({"aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dtype",
             "aten.norm.ScalarOpt_dim_dtype"},
            lowerNorm);
  table.add("aten.nansum.default", [](Call &call) { return nanSum(call, false); });
  table.add("aten.nanmean.default", [](Call &call) { return nanSum(call, true); });
  table.add("aten.trace.default", lowerTrace);
  table.add({"aten.logsumexp.default", "aten.special_logsumexp.default"}, lowerLogsumexp);
}
