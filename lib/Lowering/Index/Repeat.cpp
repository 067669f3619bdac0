// Lowerings whose results data gives the size of: nonzero, masks, repeat_interleave.
#include "Index/Repeat.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Up to this many elements are one chunk; more are at most so many chunks, so that what comes
/// before each can be found by adding up all of them.
static constexpr int64_t shortLength = 16384, maxChunks = 64;

static Type i64Type(Call &call) { return call.kernels.b().getI64Type(); }

Counts lowering::countElements(Call &call, Expr total, CountBody count) {
  KernelBuilder &kernels = call.kernels;
  const sym::Assumptions &known = kernels.known();
  Type i64 = i64Type(call);
  Counts counts;
  counts.total = total = known.simplify(total);
  bool isShort = known.isLessOrEqual(total, shortLength);
  counts.chunk = known.simplify(isShort ? Expr::max(total, 1)
                                        : Expr::max(total.ceilDiv(maxChunks), shortLength));
  counts.chunks = known.simplify(total.ceilDiv(counts.chunk));
  auto countChunk = [&](BodyBuilder &body, Expr first) {
    return body.sum({counts.chunk}, i64, [&](BodyBuilder &inner) {
      Expr element = first + inner.dim(inner.numDims() - 1);
      Element inside = inner.inside({element}, {total});
      Element times = count(inner, element, inside), none = inner.constant(i64, 0);
      times = isBool(times.type()) ? convert(times, i64) : maximum(times, none);
      return select(inside, times, none);
    });
  };
  if (counts.chunks.isConstant(1)) {
    counts.sum = kernels.map({}, i64, [&](BodyBuilder &body) { return countChunk(body, Expr(0)); });
    return counts;
  }
  counts.ofChunks = kernels.map({counts.chunks}, i64, [&](BodyBuilder &body) {
    return countChunk(body, counts.chunk * body.dim(0));
  });
  counts.sum = kernels.map({}, i64, [&](BodyBuilder &body) {
    return body.sum({counts.chunks}, i64, [&](BodyBuilder &inner) {
      return inner.read(counts.ofChunks, inner.ownDims());
    });
  });
  return counts;
}

Value lowering::repeatElements(Call &call, const Counts &counts, Expr size, CountBody count) {
  KernelBuilder &kernels = call.kernels;
  Type i64 = i64Type(call);
  Value starts;
  if (counts.ofChunks)
    starts = kernels.map({counts.chunks}, i64, [&](BodyBuilder &body) {
      return body.sum({counts.chunks}, i64, [&](BodyBuilder &inner) {
        Element isBefore = inner.index(inner.dim(1)) < inner.index(inner.dim(0));
        return select(isBefore, inner.read(counts.ofChunks, inner.ownDims()),
                      inner.constant(i64, 0));
      });
    });
  return kernels.repeat(
      counts.total, counts.chunk, size,
      [&](BodyBuilder &body, Expr element) {
        return count(body, element, body.constant(body.b().getI1Type(), 1));
      },
      [&](BodyBuilder &body) {
        return starts ? body.read(starts, Exprs{body.dim(0)}) : body.constant(i64, 0);
      });
}

Value lowering::repeatElements(Call &call, Expr total, Expr size, CountBody count) {
  Counts counts = countElements(call, total, count);
  call.defineSize(counts.sum, size);
  return repeatElements(call, counts, size, count);
}

//===-- Elements that are not zero ------------------------------------------------------------===//

static Element isNonzero(BodyBuilder &body, Value flat, Expr element, Element inside) {
  Element zero = body.constant(elementType(flat), 0);
  return isTrue(body.read(flat, Exprs{element}, inside, zero));
}

static Value flatten(Call &call, Value tensor) {
  return call.kernels.reshape(tensor, {sym::product(shapeOf(tensor))});
}

Value lowering::nonzeroPlaces(Call &call, Value tensor, Expr size) {
  Value flat = flatten(call, tensor);
  return repeatElements(call, shapeOf(flat)[0], size,
                        [&](BodyBuilder &body, Expr element, Element inside) {
                          return isNonzero(body, flat, element, inside);
                        });
}

/// Coordinate `dim` of a place, a number of an element of a tensor of these sizes.
static Element coordinate(BodyBuilder &body, Element place, ArrayRef<Expr> sizes, size_t dim) {
  Expr stride = sym::product(sizes.drop_front(dim + 1));
  if (!stride.isConstant(1))
    place = truncDiv(place, body.index(stride));
  // The outermost dim does not wrap around.
  if (dim == 0)
    return place;
  Element size = body.index(sizes[dim]);
  return place - truncDiv(place, size) * size;
}

SmallVector<Value> lowering::nonzeroCoordinates(Call &call, Value tensor, Expr size) {
  Value places = nonzeroPlaces(call, tensor, size);
  Exprs sizes = shapeOf(tensor);
  SmallVector<Value> vectors;
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    vectors.push_back(call.kernels.map({size}, i64Type(call), [&](BodyBuilder &body) {
      return coordinate(body, body.read(places, body.ownDims()), sizes, dim);
    }));
  return vectors;
}

//===-- Operators -----------------------------------------------------------------------------===//

/// A table of coordinates: row i those of place i, as far as `hasRow` says that there is one.
static Value coordinateTable(Call &call, Value places, ArrayRef<Expr> sizes,
                             function_ref<Element(BodyBuilder &, Element)> orElse) {
  Expr rows = shapeOf(places)[0], rank = static_cast<int64_t>(sizes.size());
  return call.kernels.map({rows, rank}, i64Type(call), [&](BodyBuilder &body) {
    Element place = body.read(places, Exprs{body.dim(0)});
    Element value = place;
    if (sizes.size() > 1)
      value = coordinate(body, place, sizes, sizes.size() - 1);
    for (size_t dim = sizes.size() - 1; dim-- > 0;) {
      Element isHere = body.index(body.dim(1)) == body.constant(i64Type(call), int64_t(dim));
      value = select(isHere, coordinate(body, place, sizes, dim), value);
    }
    return orElse(body, value);
  });
}

static LogicalResult lowerNonzero(Call &call) { // nonzero, argwhere
  Value self = call.tensor(0);
  Exprs shape = call.resultShape();
  if (shape.size() != 2)
    return call.refuse("computes another shape than the program declares");
  Value places = nonzeroPlaces(call, self, shape[0]);
  if (rankOf(self) == 0)
    return call.set(call.kernels.full(shape, call.resultType(), 0));
  return call.set(coordinateTable(call, places, shapeOf(self),
                                  [](BodyBuilder &, Element value) { return value; }));
}

/// The first `size` rows of nonzero, or as many as there are and then `fill_value`.
static LogicalResult lowerNonzeroStatic(Call &call) {
  Value self = call.tensor(0), flat = flatten(call, self);
  Expr size = call.args.symInt("size");
  int64_t fill = call.args.integer("fill_value");
  call.require(size, "a negative size");
  auto count = [&](BodyBuilder &body, Expr element, Element inside) {
    return isNonzero(body, flat, element, inside);
  };
  if (rankOf(self) == 0)
    return call.set(call.kernels.full(call.resultShape(), call.resultType(), 0));
  Counts counts = countElements(call, shapeOf(flat)[0], count);
  Value places = repeatElements(call, counts, size, count);
  return call.set(
      coordinateTable(call, places, shapeOf(self), [&](BodyBuilder &body, Element value) {
        Element hasRow = body.index(body.dim(0)) < body.read(counts.sum, ArrayRef<Expr>());
        return select(hasRow, value, body.constant(i64Type(call), fill));
      }));
}

static LogicalResult lowerNonzeroVectors(Call &call) { // nonzero_numpy, where(condition)
  Value self = call.tensor(0);
  if (rankOf(self) == 0)
    self = call.kernels.reshape(self, {1});
  if (static_cast<int64_t>(call.numResults()) != rankOf(self) || call.resultShape().size() != 1)
    return call.refuse("computes another shape than the program declares");
  return call.set(nonzeroCoordinates(call, self, call.resultShape()[0]));
}

static LogicalResult lowerMaskedSelect(Call &call) {
  Value self = call.tensor(0), mask = call.tensor(1);
  if (call.resultShape().size() != 1)
    return call.refuse("computes another shape than the program declares");
  Exprs shape = shapeOf(self), sizes = shapeOf(mask);
  if (shape.size() < sizes.size())
    std::swap(shape, sizes);
  for (auto [size, other] : llvm::zip(llvm::reverse(shape), llvm::reverse(sizes))) {
    if (size.isConstant(1))
      size = other;
    else if (!other.isConstant(1) && !call.fits(size, other, "a mask of another size"))
      return call.refuse("tensors that do not broadcast");
  }
  Value flat = flatten(call, call.kernels.expand(self, shape));
  Value places = nonzeroPlaces(call, call.kernels.expand(mask, shape), call.resultShape()[0]);
  return call.set(call.kernels.map(shapeOf(places), call.resultType(), [&](BodyBuilder &body) {
    return body.read(flat, Indices{body.read(places, body.ownDims())});
  }));
}

/// Numbers 0, 1, … each as often as `repeats`, a vector, says.
static Value repeatNumbers(Call &call, Value repeats, Expr total, Expr size) {
  Type i64 = i64Type(call);
  bool isOne = rankOf(repeats) == 0 || shapeOf(repeats)[0].isConstant(1);
  auto times = [&](BodyBuilder &body, Expr element, Element inside) {
    Exprs at;
    if (rankOf(repeats))
      at.push_back(isOne ? Expr(0) : element);
    Element none = convert(body.constant(i64, 0), elementType(repeats));
    return convert(body.read(repeats, at, inside, none), i64);
  };
  if (!isOne)
    call.requireSame(shapeOf(repeats)[0], total,
                     "repeats must have the same size as input along dim");
  call.require(call.kernels.map({}, call.kernels.b().getI1Type(),
                                [&](BodyBuilder &body) {
                                  return body.all(shapeOf(repeats), [&](BodyBuilder &inner) {
                                    Element count =
                                        convert(inner.read(repeats, inner.ownDims()), i64);
                                    return count >= inner.constant(i64, 0);
                                  });
                                }),
               "repeats can not be negative");
  return repeatElements(call, total, size, times);
}

static bool areRepeats(Value repeats) {
  Type type = elementType(repeats);
  return rankOf(repeats) <= 1 && (type.isInteger(64) || type.isInteger(32)) && !isUnsigned(type);
}

static LogicalResult lowerRepeatNumbers(Call &call) { // repeat_interleave.Tensor
  Value repeats = call.tensor("repeats");
  if (!areRepeats(repeats) || rankOf(repeats) != 1 || call.resultShape().size() != 1)
    return call.refuse("repeats of this dtype or rank");
  Value numbers = repeatNumbers(call, repeats, shapeOf(repeats)[0], call.resultShape()[0]);
  return call.set(call.kernels.convert(numbers, call.resultType()));
}

static LogicalResult lowerRepeatInterleaveTensor(Call &call) {
  Value self = call.tensor(0), repeats = call.tensor("repeats");
  if (!areRepeats(repeats))
    return call.refuse("repeats of this dtype or rank");
  int64_t dim = 0;
  if (call.args.isNone("dim"))
    self = flatten(call, self);
  else
    dim = call.dim("dim", rankOf(self));
  if (rankOf(self) == 0)
    self = call.kernels.reshape(self, {1});
  Exprs shape = shapeOf(self), declared = call.resultShape();
  if (declared.size() != shape.size())
    return call.refuse("computes another shape than the program declares");
  Value numbers = repeatNumbers(call, repeats, shape[dim], declared[dim]);
  shape[dim] = declared[dim];
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Indices at = indicesOf(body.ownDims());
    at[dim] = body.read(numbers, Exprs{body.dim(dim)});
    return body.read(self, at);
  }));
}

/// All ascending choices of `r` elements of a vector, with the same one again if asked for.
static LogicalResult lowerCombinations(Call &call) {
  Value self = call.tensor(0);
  int64_t r = call.args.integer("r");
  bool repeats = call.args.boolean("with_replacement");
  Exprs declared = call.resultShape();
  if (rankOf(self) != 1 || r < 1 || declared.size() != 2 || !declared[1].isConstant(r))
    return call.refuse("needs a vector and at least one place");
  Expr n = shapeOf(self)[0];
  call.require(n - 1, "combinations of no elements");
  SmallVector<Expr> powers(r, Expr(1)); // of n, for each place
  for (int64_t i = r - 1; i-- > 0;)
    powers[i] = powers[i + 1] * n;
  Expr all = powers.front() * n;
  Value places =
      repeatElements(call, all, declared[0], [&](BodyBuilder &body, Expr element, Element inside) {
        Element ascends = body.constant(body.b().getI1Type(), 1);
        for (int64_t i = 0; i + 1 < r; ++i) {
          Element a = body.index(element.floorDiv(powers[i]).mod(n));
          Element b = body.index(element.floorDiv(powers[i + 1]).mod(n));
          ascends = ascends & (repeats ? a <= b : a < b);
        }
        return ascends & inside;
      });
  return call.set(
      call.kernels.map({shapeOf(places)[0], Expr(r)}, elementType(self), [&](BodyBuilder &body) {
        Element place = body.read(places, Exprs{body.dim(0)}), own = place.constant(0);
        Element size = body.index(n);
        for (int64_t i = 0; i < r; ++i) {
          Element here = remainder(truncDiv(place, body.index(powers[i])), size);
          own = select(body.index(body.dim(1)) == own.constant(i), here, own);
        }
        return body.read(self, Indices{own});
      }));
}

void lowering::registerRepeat(LoweringTable &table) {
  table.add("aten.combinations.default", lowerCombinations);
  table.add({"aten.nonzero.default", "aten.argwhere.default"}, lowerNonzero);
  table.add("aten.nonzero_static.default", lowerNonzeroStatic);
  table.add({"aten.nonzero_numpy.default", "aten.where.default"}, lowerNonzeroVectors);
  table.add("aten.masked_select.default", lowerMaskedSelect);
  table.add("aten.repeat_interleave.Tensor", lowerRepeatNumbers);
  table.add("aten.repeat_interleave.self_Tensor", lowerRepeatInterleaveTensor);
}
