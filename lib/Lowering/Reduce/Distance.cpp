// Norms of differences, and what is scaled by norms.
#include "Core/ReducedDims.h"
#include "Nn/Loss.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

Value lowering::absoluteDifference(Call &call, Value a, Value b, std::optional<double> eps) {
  auto shape = call.kernels.broadcastShapes({a, b});
  Type common = lowering::resultType(call.args.op().getContext(), {a, b});
  if (!shape || !common) {
    call.kernels.fail("these dtypes or shapes");
    return {};
  }
  Type wide = opmath(common), result = eps ? opmath(toFloat(common)) : wide;
  Type type = isComplex(result) ? cast<ComplexType>(result).getElementType() : result;
  return call.kernels.map(*shape, type, [&](BodyBuilder &body) {
    Element difference = convert(body.broadcast(a), wide) - convert(body.broadcast(b), wide);
    return abs(eps ? convert(difference, result) + *eps : difference);
  });
}

/// sum(x/|x| * y/|y|) along a dim, with norms at least eps.
static LogicalResult lowerCosineSimilarity(Call &call) {
  Value a = call.tensor(0), b = call.tensor(1);
  auto shape = call.kernels.broadcastShapes({a, b});
  Type type = promoteTypes(elementType(a), elementType(b));
  if (!shape || !type || !isFloat(type))
    return call.refuse("these dtypes or shapes");
  if (shape->empty()) { // counts as one element
    shape = Exprs{1};
    a = call.kernels.reshape(a, *shape);
    b = call.kernels.reshape(b, *shape);
  }
  Type wide = opmath(type);
  double eps = call.args.number("eps");
  int64_t dim = call.dim("dim", shape->size());
  Expr extent = (*shape)[dim];
  Exprs result = *shape;
  result.erase(result.begin() + dim);
  return call.set(call.kernels.map(result, call.resultType(), [&](BodyBuilder &body) {
    auto at = [&](BodyBuilder &inner) {
      Exprs index = body.ownDims();
      index.insert(index.begin() + dim, inner.dim(result.size()));
      return index;
    };
    auto read = [&](BodyBuilder &inner, Value x) {
      return convert(inner.broadcast(x, at(inner), *shape), wide);
    };
    auto norm = [&](Value x) {
      Element squares = body.sum({extent}, wide, [&](BodyBuilder &inner) {
        Element value = read(inner, x);
        return value * value;
      });
      return maximum(sqrt(squares), body.constant(wide, eps));
    };
    Element normA = norm(a), normB = norm(b);
    return body.sum({extent}, wide, [&](BodyBuilder &inner) {
      return (read(inner, a) / normA) * (read(inner, b) / normB);
    });
  }));
}

Element lowering::normOf(BodyBuilder &body, ArrayRef<Expr> extents, Type type, double p,
                         function_ref<Element(BodyBuilder &)> magnitude) {
  if (std::isinf(p))
    return p > 0 ? body.max(extents, type, magnitude) : body.min(extents, type, magnitude);
  Element sum = body.sum(extents, type, [&](BodyBuilder &inner) {
    Element x = magnitude(inner);
    if (p == 0)
      return convert(x != x.constant(0), type);
    return p == 1 ? x : p == 2 ? x * x : pow(x, x.constant(p));
  });
  if (p == 0 || p == 1)
    return sum;
  return p == 2 ? sqrt(sum) : pow(sum, sum.constant(1 / p));
}

static LogicalResult lowerDist(Call &call) { // the norm of a - b
  double p = call.constantNumber("p");
  Value difference = absoluteDifference(call, call.tensor(0), call.tensor(1));
  if (!difference)
    return failure();
  Exprs extents = shapeOf(difference);
  Type wide = accumulatorType(elementType(difference));
  return call.set(call.kernels.map({}, call.resultType(), [&](BodyBuilder &body) {
    return normOf(body, extents, wide, p, [&](BodyBuilder &inner) {
      return convert(inner.read(difference, inner.ownDims()), wide);
    });
  }));
}

static LogicalResult lowerPairwiseDistance(Call &call) { // of a - b + eps along the last dim
  double p = call.args.number("p"), eps = call.args.number("eps");
  Value difference = absoluteDifference(call, call.tensor(0), call.tensor(1), eps);
  if (!difference || rankOf(difference) == 0)
    return call.refuse("0-d tensors");
  ReducedDims last(difference, {rankOf(difference) - 1});
  bool keepdim = call.args.boolean("keepdim");
  Type wide = opmath(elementType(difference));
  return call.set(
      call.kernels.map(last.resultShape(keepdim), call.resultType(), [&](BodyBuilder &body) {
        return normOf(body, last.extents, wide, p, [&](BodyBuilder &inner) {
          return convert(inner.read(difference, last.indexFromResult(inner, keepdim)), wide);
        });
      }));
}

/// The norm of the differences of two rows, which is 0 for rows without elements. Different numbers
/// are counted as in ATen: one that is NaN makes the count NaN.
static Element distanceOf(BodyBuilder &body, Expr features, Type type, double p,
                          function_ref<Element(BodyBuilder &)> magnitude) {
  if (std::isinf(p))
    return maximum(normOf(body, {features}, type, p, magnitude), body.constant(type, 0));
  if (p != 0)
    return normOf(body, {features}, type, p, magnitude);
  return body.sum({features}, type, [&](BodyBuilder &inner) {
    Element x = magnitude(inner);
    return select(x > x.constant(0), x.constant(1), x);
  });
}

/// Between all rows: [B…, P, M] and [B…, R, M] give [B…, P, R].
static LogicalResult lowerCdist(Call &call) {
  Value a = call.tensor(0), b = call.tensor(1);
  double p = call.args.has("p") ? call.args.number("p") : 2;
  Exprs as = shapeOf(a), bs = shapeOf(b);
  Type type = elementType(a);
  if (as.size() < 2 || bs.size() < 2 || p < 0 || !isFloat(type) || elementType(b) != type ||
      !call.fits(as.back(), bs.back(), "points of different dimensions"))
    return call.refuse("these dtypes, shapes or order");
  Exprs shape = call.resultShape();
  if (shape.size() != std::max(as.size(), bs.size()) ||
      !call.fits(ArrayRef(shape).take_back(2), {as[as.size() - 2], bs[bs.size() - 2]},
                 "another number of points"))
    return call.refuse("computes another shape than the program declares");
  size_t batch = shape.size() - 2;
  Expr features = as.back();
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    auto read = [&](BodyBuilder &inner, Value x, Expr row, Expr rows) {
      Exprs at = inner.dims(0, batch), full(ArrayRef(shape).take_front(batch));
      at.append({row, inner.dim(inner.numDims() - 1)});
      full.append({rows, features});
      return convert(inner.broadcast(x, at, full), opmath(type));
    };
    return distanceOf(body, features, opmath(type), p, [&](BodyBuilder &inner) {
      Element difference = abs(read(inner, a, body.dim(batch), shape[batch]) -
                               read(inner, b, body.dim(batch + 1), shape[batch + 1]));
      if (!std::isinf(p)) // ATen's maximum passes over NaN
        return difference;
      return select(difference == difference, difference, difference.constant(0));
    });
  }));
}

/// Between all pairs of rows: [n, m] gives the upper triangle of the matrix of distances.
static LogicalResult lowerPdist(Call &call) {
  Value self = call.tensor(0);
  double p = call.args.number("p");
  Type type = elementType(self), wide = opmath(type);
  if (rankOf(self) != 2 || !isFloat(type) || p < 0)
    return call.refuse("this dtype, rank or order");
  Expr n = shapeOf(self)[0], features = shapeOf(self)[1];
  Expr pairs = call.kernels.known().simplify((n * (n - 1)).floorDiv(2));
  return call.set(call.kernels.map({pairs}, type, [&](BodyBuilder &body) {
    // The first row of pair k is the last one that has pairs at or before k.
    Element k = body.index(body.dim(0)), count = body.index(n), one = k.constant(1);
    auto begin = [&](Element row) {
      return truncDiv(row * (count + count - row - one), k.constant(2));
    };
    Element row = k.constant(0);
    for (int64_t step = int64_t(1) << 30; step > 0; step /= 2) {
      Element next = row + k.constant(step);
      row = select((next < count) & (begin(next) <= k), next, row);
    }
    Element other = k - begin(row) + row + one;
    return distanceOf(body, features, wide, p, [&](BodyBuilder &inner) {
      auto read = [&](Element at) {
        return convert(inner.read(self, Indices{at, inner.dim(1)}), wide);
      };
      return abs(read(row) - read(other));
    });
  }));
}

//===-- Scaled by norms -----------------------------------------------------------------------===//

/// The factor that scales a slice of norm above `most` to it.
static Element shrinking(Element norm, double most) {
  return select(norm > norm.constant(most), norm.constant(most) / (norm + 1e-7), norm.constant(1));
}

/// Slices along `dim` with norms of at most `maxnorm`.
static LogicalResult lowerRenorm(Call &call) {
  Value self = call.tensor(0);
  double p = call.constantNumber("p"), most = call.constantNumber("maxnorm");
  Type type = elementType(self), common = opmath(type);
  Type wide = isComplex(common) ? cast<ComplexType>(common).getElementType() : common;
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  if (!isFloat(wide) || rank < 2 || p <= 0)
    return call.refuse("this dtype, rank or order");
  SmallVector<int64_t> others = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  others.erase(others.begin() + dim);
  ReducedDims norm(self, others);
  Value factors = call.kernels.map({norm.shape[dim]}, wide, [&](BodyBuilder &body) {
    Element length = normOf(body, norm.extents, wide, p, [&](BodyBuilder &inner) {
      return abs(convert(inner.read(self, norm.indexFromResult(inner, false)), common));
    });
    return shrinking(length, most);
  });
  return call.set(call.kernels.map(norm.shape, type, [&](BodyBuilder &body) {
    Element factor = convert(body.read(factors, Exprs{body.dim(dim)}), common);
    return convert(body.broadcast(self), common) * factor;
  }));
}

/// Rows that are used, with norms of at most `max_norm`.
static LogicalResult lowerEmbeddingRenorm(Call &call) {
  Value self = call.tensor(0), indices = call.tensor(1);
  double most = call.args.number("max_norm"), p = call.args.number("norm_type");
  Type type = elementType(self), wide = opmath(type);
  if (rankOf(self) != 2 || !isFloat(type) || !isInt(elementType(indices)) || p <= 0)
    return call.refuse("these dtypes, this rank or order");
  Exprs shape = shapeOf(self);
  ScatterSpec spec;
  spec.targets = {shape[0]};
  spec.places = shapeOf(indices);
  auto init = [&](BodyBuilder &body) { return body.constant(body.b().getI1Type(), 0); };
  auto update = [&](BodyBuilder &body) {
    Element row = body.read(indices, body.dims(1, body.numDims()));
    return ScatterSpec::Write{{row}, {}, body.constant(body.b().getI1Type(), 1)};
  };
  spec.init = init;
  spec.update = update;
  Value isUsed = call.kernels.scatter(spec, call.kernels.b().getI1Type());
  Value factors = call.kernels.map({shape[0]}, wide, [&](BodyBuilder &body) {
    Element length = normOf(body, {shape[1]}, wide, p, [&](BodyBuilder &inner) {
      return abs(convert(inner.read(self, inner.dims(0, 2)), wide));
    });
    return select(body.read(isUsed, body.ownDims()), shrinking(length, most), length.constant(1));
  });
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    return convert(body.broadcast(self), wide) * body.read(factors, Exprs{body.dim(0)});
  }));
}

void lowering::registerDistance(LoweringTable &table) {
  table.add("aten.cosine_similarity.default", lowerCosineSimilarity);
  table.add("aten.dist.default", lowerDist);
  table.add("aten.pairwise_distance.default", lowerPairwiseDistance);
  table.add({"aten.cdist.default", "aten._cdist_forward.default", "aten._euclidean_dist.default"},
            lowerCdist);
  table.add({"aten.pdist.default", "aten._pdist_forward.default"}, lowerPdist);
  table.add("aten.renorm.default", lowerRenorm);
  table.add("aten.embedding_renorm.default", lowerEmbeddingRenorm);
}
