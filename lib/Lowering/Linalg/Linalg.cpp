// Pieces of linear algebra that several lowerings share: permutations, triangles, adjoints.
#include "Linalg/Linalg.h"
#include "Core/Loop.h"
#include "kiln/Dialect/Torch/CustomOp.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

//===-- Matrices ------------------------------------------------------------------------------===//

Type lowering::doublePrecision(Type type) {
  Type f64 = Float64Type::get(type.getContext());
  return isComplex(type) ? Type(ComplexType::get(f64)) : f64;
}

bool lowering::isMatrix(Value tensor) {
  Type type = elementType(tensor);
  return rankOf(tensor) >= 2 && (isFloat(type) || isComplex(type));
}

bool lowering::isSquare(Call &call, Value tensor) {
  Exprs shape = shapeOf(tensor);
  return isMatrix(tensor) &&
         call.fits(shape.back(), shape[shape.size() - 2], "a matrix that is not square");
}

ArrayRef<Expr> lowering::batchOf(ArrayRef<Expr> shape) { return shape.drop_back(2); }

Value lowering::flattenBatch(Call &call, Value tensor) {
  Exprs shape = shapeOf(tensor);
  Type type = elementType(tensor);
  Value flat = call.kernels.reshape(
      tensor, {sym::product(batchOf(shape)), shape[shape.size() - 2], shape.back()});
  return isInt(type) ? flat : call.kernels.convert(flat, doublePrecision(type));
}

Value lowering::restore(Call &call, Value tensor, unsigned result) {
  return call.kernels.convert(call.kernels.reshape(tensor, call.resultShape(result)),
                              call.resultType(result));
}

Value lowering::transposeMatrices(Call &call, Value tensor) {
  return call.kernels.permute(tensor, {0, 2, 1});
}

Element lowering::conjugate(Element x) {
  return isComplex(x.type()) ? makeComplex(real(x), -imag(x)) : x;
}

Value lowering::conjugate(Call &call, Value tensor) {
  if (!isComplex(elementType(tensor)))
    return tensor;
  return call.kernels.map(shapeOf(tensor), elementType(tensor), [&](BodyBuilder &body) {
    return conjugate(body.read(tensor, body.ownDims()));
  });
}

Value lowering::conjugateTranspose(Call &call, Value tensor) {
  Exprs shape = shapeOf(tensor);
  return call.kernels.map(
      {shape[0], shape[2], shape[1]}, elementType(tensor), [&](BodyBuilder &body) {
        return conjugate(body.read(tensor, Exprs{body.dim(0), body.dim(2), body.dim(1)}));
      });
}

Value lowering::identityMatrices(Call &call, Expr batch, Expr n, Type type) {
  return call.kernels.map({batch, n, n}, type, [&](BodyBuilder &body) {
    return convert(body.index(body.dim(1)) == body.index(body.dim(2)), type);
  });
}

SmallVector<Value> lowering::callRuntime(Call &call, StringRef name, ArrayRef<Value> operands,
                                         ArrayRef<Type> results, ArrayRef<Attribute> numbers) {
  ImplicitLocOpBuilder &b = call.kernels.b();
  SmallVector<Attribute> args;
  for (unsigned i = 0; i < operands.size(); ++i)
    args.push_back(torch::ArgAttr::get(b.getContext(), i));
  llvm::append_range(args, numbers);
  StringRef dtype = isComplex(elementType(operands[0])) ? "_c128" : "_f64";
  auto made = kernel::ExternOp::create(
      b, TypeRange(results), torch::runtimeLibrary, ("kiln_linalg_" + name + dtype).str(), operands,
      b.getArrayAttr(args), ArrayAttr(), llvm::to_vector(llvm::seq<int64_t>(0, results.size())),
      /*sizes=*/ArrayRef<int64_t>(), /*updates=*/ArrayRef<int64_t>(), /*impure=*/false);
  return llvm::to_vector(ValueRange(made.getResults()));
}

void lowering::requireSuccess(Call &call, Value info, StringRef message) {
  Exprs extents = shapeOf(info);
  call.require(call.kernels.map({}, call.kernels.b().getI1Type(),
                                [&](BodyBuilder &body) {
                                  return body.all(extents, [&](BodyBuilder &inner) {
                                    Element x = inner.read(info, inner.ownDims());
                                    return x == x.constant(0);
                                  });
                                }),
               message);
}

//===-- Triangular systems --------------------------------------------------------------------===//

Value lowering::solveTriangle(Call &call, const Triangle &triangle, Value rhs) {
  Exprs shape = shapeOf(rhs);
  Expr n = shape[1];
  return loop(call.kernels, n, rhs, triangle.matrix,
              [&](const LoopStep &step) {
                Value x = step.carried[0], matrix = step.invariants[0];
                Value next = step.kernels.map(shape, elementType(rhs), [&](BodyBuilder &body) {
                  Element k = body.read(step.number, Exprs());
                  if (triangle.upper) // from the last row
                    k = body.index(n - 1) - k;
                  Element row = body.index(body.dim(1));
                  Element known = body.read(x, Indices{body.dim(0), k, body.dim(2)});
                  if (!triangle.unit)
                    known = known / body.read(matrix, Indices{body.dim(0), k, k});
                  Element own = body.read(x, body.ownDims());
                  Element rest =
                      own - body.read(matrix, Indices{body.dim(0), body.dim(1), k}) * known;
                  Element isOpen = triangle.upper ? row < k : row > k;
                  return select(row == k, known, select(isOpen, rest, own));
                });
                return SmallVector<Value>{next};
              })
      .front();
}

//===-- Factors -------------------------------------------------------------------------------===//

/// The row that stands at `row` after rows `a` and `b` were swapped.
static Element swapped(Element row, Element a, Element b) {
  return select(row == a, b, select(row == b, a, row));
}

Factors lowering::factorize(Call &call, Value matrices) {
  Exprs shape = shapeOf(matrices);
  Type type = elementType(matrices), i64 = IntegerType::get(type.getContext(), 64);
  Type i32 = IntegerType::get(type.getContext(), 32), f64 = Float64Type::get(type.getContext());
  Expr batch = shape[0], m = shape[1];
  Expr length = call.kernels.known().simplify(Expr::min(m, shape[2]));
  Value pivots = call.kernels.full({batch, length}, i32, 0);
  Value rows =
      call.kernels.map({batch, m}, i64, [&](BodyBuilder &body) { return body.index(body.dim(1)); });
  auto results =
      loop(call.kernels, length, {matrices, pivots, rows}, {}, [&](const LoopStep &step) {
        KernelBuilder &kernels = step.kernels;
        Value a = step.carried[0], number = step.number;
        // The greatest element of the column at or below the diagonal.
        Value pivot = kernels.map({batch}, i64, [&](BodyBuilder &body) {
          Element k = body.read(number, Exprs());
          return body
              .argExtreme({m}, f64, /*largest=*/true, /*lastNan=*/false,
                          [&](BodyBuilder &inner) {
                            Element row = inner.index(inner.dim(1));
                            Element x = inner.read(a, Indices{inner.dim(0), inner.dim(1), k});
                            Element size = isComplex(type) ? abs(real(x)) + abs(imag(x)) : abs(x);
                            return std::pair(select(row >= k, size, size.constant(-1)), row);
                          })
              .second;
        });
        Value next = kernels.map(shape, type, [&](BodyBuilder &body) {
          Element k = body.read(number, Exprs()), p = body.read(pivot, Exprs{body.dim(0)});
          Element row = body.index(body.dim(1)), column = body.index(body.dim(2));
          Element source = swapped(row, k, p);
          Element own = body.read(a, Indices{body.dim(0), source, body.dim(2)});
          Element left = body.read(a, Indices{body.dim(0), source, k});
          Element above = body.read(a, Indices{body.dim(0), p, body.dim(2)});
          Element diagonal = body.read(a, Indices{body.dim(0), p, k});
          // A column of zeros stays as it is.
          Element isZero = diagonal == diagonal.constant(0);
          Element factor = select(isZero, left, left / diagonal);
          Element below =
              select(column == k, factor, select(column > k, own - factor * above, own));
          return select(row > k, below, own);
        });
        Value nextPivots = kernels.map({batch, length}, i32, [&](BodyBuilder &body) {
          Element k = body.read(number, Exprs()), p = body.read(pivot, Exprs{body.dim(0)});
          return select(body.index(body.dim(1)) == k, convert(p + p.constant(1), i32),
                        body.read(step.carried[1], body.ownDims()));
        });
        Value nextRows = kernels.map({batch, m}, i64, [&](BodyBuilder &body) {
          Element k = body.read(number, Exprs()), p = body.read(pivot, Exprs{body.dim(0)});
          Element source = swapped(body.index(body.dim(1)), k, p);
          return body.read(step.carried[2], Indices{body.dim(0), source});
        });
        return SmallVector<Value>{next, nextPivots, nextRows};
      });
  return {results[0], results[1], results[2]};
}

Value lowering::permutationOf(Call &call, Value pivots, Expr m) {
  Exprs shape = shapeOf(pivots);
  Type i64 = call.kernels.b().getI64Type();
  Value rows = call.kernels.map({shape[0], m}, i64,
                                [&](BodyBuilder &body) { return body.index(body.dim(1)); });
  return loop(call.kernels, shape[1], rows, pivots,
              [&](const LoopStep &step) {
                Value next = step.kernels.map({shape[0], m}, i64, [&](BodyBuilder &body) {
                  Element k = body.read(step.number, Exprs());
                  Element p = convert(body.read(step.invariants[0], Indices{body.dim(0), k}), i64);
                  Element source = swapped(body.index(body.dim(1)), k, p - p.constant(1));
                  return body.read(step.carried[0], Indices{body.dim(0), source});
                });
                return SmallVector<Value>{next};
              })
      .front();
}

Value lowering::firstZeroPivot(Call &call, Value lu) {
  Exprs shape = shapeOf(lu);
  Type i32 = call.kernels.b().getI32Type();
  Expr length = call.kernels.known().simplify(Expr::min(shape[1], shape[2]));
  return call.kernels.map({shape[0]}, i32, [&](BodyBuilder &body) {
    Element none = body.constant(i32, INT32_MAX);
    Element first = body.min({length}, i32, [&](BodyBuilder &inner) {
      Element x = inner.read(lu, Exprs{inner.dim(0), inner.dim(1), inner.dim(1)});
      Element number = convert(inner.index(inner.dim(1) + 1), i32);
      return select(x == x.constant(0), number, number.constant(INT32_MAX));
    });
    return select(first == none, none.constant(0), first);
  });
}

Value lowering::solveFactors(Call &call, const Factors &factors, Value rhs, bool adjoint) {
  Exprs shape = shapeOf(rhs);
  Type type = elementType(rhs), i64 = call.kernels.b().getI64Type();
  if (!adjoint) {
    Value permuted = call.kernels.map(shape, type, [&](BodyBuilder &body) {
      Element row = body.read(factors.permutation, Exprs{body.dim(0), body.dim(1)});
      return body.read(rhs, Indices{body.dim(0), row, body.dim(2)});
    });
    Value lower = solveTriangle(call, {factors.lu, /*upper=*/false, /*unit=*/true}, permuted);
    return solveTriangle(call, {factors.lu, /*upper=*/true}, lower);
  }
  Value transposed = conjugateTranspose(call, factors.lu);
  Value lower = solveTriangle(call, {transposed, /*upper=*/false}, rhs);
  Value solved = solveTriangle(call, {transposed, /*upper=*/true, /*unit=*/true}, lower);
  Value places = call.kernels.map({shape[0], shape[1]}, i64, [&](BodyBuilder &body) {
    Element row = body.index(body.dim(1));
    return body.sum({shape[1]}, i64, [&](BodyBuilder &inner) {
      Element isHere = inner.read(factors.permutation, Exprs{inner.dim(0), inner.dim(2)}) == row;
      return select(isHere, inner.index(inner.dim(2)), row.constant(0));
    });
  });
  return call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Element row = body.read(places, Exprs{body.dim(0), body.dim(1)});
    return body.read(solved, Indices{body.dim(0), row, body.dim(2)});
  });
}
