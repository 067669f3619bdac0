// Builds the body of a structured op: reads at index maps, reductions, checks.
#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

BodyBuilder::BodyBuilder(KernelBuilder &kernels, ArrayRef<Expr> extents, unsigned firstOwn)
    : kernels(kernels), dimExtents(extents), firstOwn(firstOwn), assumptions(kernels.known()) {
  for (auto [i, extent] : llvm::enumerate(extents))
    assumptions.setExtent(i, extent);
}

ImplicitLocOpBuilder &BodyBuilder::b() { return kernels.b(); }

Exprs BodyBuilder::dims(unsigned begin, unsigned end) const {
  return llvm::map_to_vector(llvm::seq(begin, end), [](unsigned i) { return Expr::dim(i); });
}

Element BodyBuilder::constant(Type type, double value) {
  return kernel::constant(b(), type, value);
}
Element BodyBuilder::constant(Type type, int64_t value) {
  return kernel::constant(b(), type, value);
}

//===-- Reads ---------------------------------------------------------------------------------===//

Element BodyBuilder::index(Expr expr) {
  expr = assumptions.simplify(expr);
  Type i64 = b().getI64Type();
  if (auto constant = expr.constant())
    return this->constant(i64, *constant);
  auto map = sym::MapAttr::get(b().getContext(), {numDims(), {expr}});
  return {b(), kernel::IndexOp::create(b(), map, ValueRange()), i64};
}

Element BodyBuilder::inside(ArrayRef<Expr> exprs, ArrayRef<Expr> bounds) {
  sym::IndexMap map{numDims(), {}};
  Exprs kept;
  for (auto [expr, bound] : llvm::zip_equal(exprs, bounds)) {
    Expr simple = assumptions.simplify(expr);
    if (assumptions.isNonNegative(simple) && assumptions.isLess(simple, bound))
      continue;
    map.results.push_back(simple);
    kept.push_back(bound);
  }
  Type i1 = b().getI1Type();
  if (kept.empty())
    return constant(i1, 1);
  MLIRContext *context = b().getContext();
  return {b(),
          kernel::InsideOp::create(b(), sym::MapAttr::get(context, map),
                                   sym::ShapeAttr::get(context, kept), ValueRange()),
          i1};
}

static bool isConstantTrue(Element mask) {
  auto constant = mask.value().getDefiningOp<arith::ConstantOp>();
  return constant && cast<IntegerAttr>(constant.getValue()).getValue().isOne();
}

Element BodyBuilder::readImpl(Value tensor, ArrayRef<Index> indices, Element mask, Element other) {
  if (mask && isConstantTrue(mask))
    mask = other = {};
  assert(static_cast<int64_t>(indices.size()) == rankOf(tensor) && "one index for each dim");
  SmallVector<Value> values;
  SmallVector<Expr, 4> results;
  for (const Index &index : indices) {
    if (const Expr *expr = index.expr()) {
      results.push_back(assumptions.simplify(*expr));
      continue;
    }
    results.push_back(Expr::dim(numDims() + values.size()));
    values.push_back(kernel::convert(index.data(), b().getI64Type()).value());
  }
  sym::IndexMap map{static_cast<unsigned>(numDims() + values.size()), results};
  auto read = kernel::ReadOp::create(b(), tensor, map, values, mask ? mask.value() : Value(),
                                     other ? other.value() : Value());
  return {b(), read, elementType(tensor)};
}

Element BodyBuilder::read(Value tensor, ArrayRef<Index> indices) {
  return readImpl(tensor, indices, {}, {});
}

Element BodyBuilder::read(Value tensor, ArrayRef<Expr> indices) {
  return readImpl(tensor, indicesOf(indices), {}, {});
}

Element BodyBuilder::read(Value tensor, ArrayRef<Index> indices, Element mask, Element other) {
  return readImpl(tensor, indices, mask, other);
}

Element BodyBuilder::read(Value tensor, ArrayRef<Expr> indices, Element mask, Element other) {
  return readImpl(tensor, indicesOf(indices), mask, other);
}

Element BodyBuilder::readPadded(Value tensor, ArrayRef<Expr> indices, Element other) {
  Exprs shape = shapeOf(tensor), exprs, bounds;
  for (auto [expr, size] : llvm::zip_equal(indices, shape)) {
    Expr simple = assumptions.simplify(expr);
    if (assumptions.isNonNegative(simple) && assumptions.isLess(simple, size))
      continue;
    exprs.push_back(simple);
    bounds.push_back(size);
  }
  if (exprs.empty())
    return read(tensor, indices);
  return readImpl(tensor, indicesOf(indices), inside(exprs, bounds), other);
}

Expr BodyBuilder::broadcastIndex(Expr index, Expr from, Expr to) {
  if (from.isConstant(1))
    return 0;
  if (from == to)
    return index;
  if (kernels.isSame(from, to))
    return index;
  // Sizes that are written differently are the same if the smaller one cannot be 1: eager mode
  // would have refused the program otherwise.
  bool constants = from.isConstant() && to.isConstant();
  if (!constants && assumptions.isLess(1, from))
    return index;
  if (constants)
    kernels.fail("size " + from.str() + " is not broadcast to " + to.str());
  else // export has taken them for equal as well
    kernels.assertSame(from, to);
  return index;
}

Element BodyBuilder::broadcast(Value tensor, ArrayRef<Expr> at, ArrayRef<Expr> shape) {
  Exprs sizes = shapeOf(tensor), index;
  if (sizes.size() > shape.size()) {
    kernels.fail("a tensor of rank " + Twine(sizes.size()) + " is broadcast to rank " +
                 Twine(shape.size()));
    return constant(elementType(tensor), 0);
  }
  size_t skip = shape.size() - sizes.size();
  for (auto [i, size] : llvm::enumerate(sizes))
    index.push_back(broadcastIndex(at[skip + i], size, shape[skip + i]));
  return read(tensor, index);
}

Element BodyBuilder::broadcast(Value tensor) {
  return broadcast(tensor, ownDims(), ArrayRef<Expr>(dimExtents).drop_front(firstOwn));
}

//===-- Reductions ----------------------------------------------------------------------------===//

BodyBuilder::Elements
BodyBuilder::reduce(ArrayRef<Expr> extents, ArrayRef<Element> init,
                    function_ref<Elements(BodyBuilder &)> body,
                    function_ref<Elements(ArrayRef<Element>, ArrayRef<Element>)> combine) {
  Exprs all(dimExtents);
  llvm::append_range(all, extents);
  BodyBuilder inner(kernels, all, numDims());
  if (extents.empty()) { // reduces one value
    Elements values = body(inner);
    for (auto [value, like] : llvm::zip_equal(values, init))
      value = kernel::convert(value, like.type());
    return values;
  }

  SmallVector<Type> types;
  SmallVector<Value> identity;
  for (const Element &element : init) {
    types.push_back(element.value().getType());
    identity.push_back(element.value());
  }
  auto op = kernel::ReduceOp::create(b(), types, sym::ShapeAttr::get(b().getContext(), extents),
                                     identity);
  auto yield = [&](ArrayRef<Element> elements) {
    SmallVector<Value> values;
    for (auto [element, like] : llvm::zip_equal(elements, init))
      values.push_back(kernel::convert(element, like.type()).value());
    kernel::YieldOp::create(b(), values);
  };

  OpBuilder::InsertionGuard guard(b());
  b().createBlock(&op.getBody());
  yield(body(inner));

  Block *block = b().createBlock(&op.getCombine());
  Elements arguments;
  for (unsigned i = 0; i < 2 * init.size(); ++i) {
    const Element &like = init[i % init.size()];
    arguments.push_back(like.make(block->addArgument(like.value().getType(), b().getLoc())));
  }
  ArrayRef<Element> both(arguments);
  yield(combine(both.take_front(init.size()), both.drop_front(init.size())));

  Elements results;
  for (auto [element, value] : llvm::zip_equal(init, op.getResults()))
    results.push_back(element.make(value));
  return results;
}

/// A reduction of one value by a binary operator.
template <typename Combine>
static Element reduceOne(BodyBuilder &self, ArrayRef<Expr> extents, Element init,
                         BodyBuilder::Body body, Combine combine) {
  return self
      .reduce(
          extents, init, [&](BodyBuilder &inner) { return BodyBuilder::Elements{body(inner)}; },
          [&](ArrayRef<Element> a, ArrayRef<Element> b) {
            return BodyBuilder::Elements{combine(a[0], b[0])};
          })
      .front();
}

Element BodyBuilder::sum(ArrayRef<Expr> extents, Type type, Body body) {
  return reduceOne(*this, extents, constant(type, 0), body, std::plus<Element>());
}

Element BodyBuilder::prod(ArrayRef<Expr> extents, Type type, Body body) {
  return reduceOne(*this, extents, constant(type, 1), body, std::multiplies<Element>());
}

Element BodyBuilder::max(ArrayRef<Expr> extents, Type type, Body body) {
  return reduceOne(*this, extents, lowest(b(), type), body, maximum);
}

Element BodyBuilder::min(ArrayRef<Expr> extents, Type type, Body body) {
  return reduceOne(*this, extents, highest(b(), type), body, minimum);
}

Element BodyBuilder::any(ArrayRef<Expr> extents, Body body) {
  return reduceOne(*this, extents, constant(b().getI1Type(), 0), body, std::bit_or<Element>());
}

Element BodyBuilder::all(ArrayRef<Expr> extents, Body body) {
  return reduceOne(*this, extents, constant(b().getI1Type(), 1), body, std::bit_and<Element>());
}

std::pair<Element, Element>
BodyBuilder::argExtreme(ArrayRef<Expr> extents, Type type, bool largest, bool lastNan,
                        function_ref<std::pair<Element, Element>(BodyBuilder &)> body) {
  Element value = largest ? lowest(b(), type) : highest(b(), type);
  Element position = highest(b(), b().getI64Type());
  Elements best = reduce(
      extents, {value, position},
      [&](BodyBuilder &inner) {
        auto [v, p] = body(inner);
        return Elements{v, p};
      },
      [&](ArrayRef<Element> a, ArrayRef<Element> b) {
        Element further = largest ? a[0] > b[0] : a[0] < b[0];
        Element tie = (a[0] == b[0]) & (a[1] < b[1]);
        if (isFloat(type)) {
          further = further | (isNan(a[0]) & ~isNan(b[0]));
          Element earlier = lastNan ? a[1] > b[1] : a[1] < b[1];
          tie = tie | (isNan(a[0]) & isNan(b[0]) & earlier);
        }
        Element first = further | tie;
        return Elements{select(first, a[0], b[0]), select(first, a[1], b[1])};
      });
  return {best[0], best[1]};
}
