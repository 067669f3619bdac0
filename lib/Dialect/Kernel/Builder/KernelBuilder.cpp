// Builds structured ops of the kernel dialect: maps, contracts, scans, views of tensors.
#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

//===-- Regions -------------------------------------------------------------------------------===//

void KernelBuilder::fail(const Twine &reason) {
  if (!failure)
    failure = reason.str();
}

Element KernelBuilder::fill(Region &region, ArrayRef<Expr> extents, Type type,
                            function_ref<Element(BodyBuilder &)> body) {
  OpBuilder::InsertionGuard guard(builder);
  if (region.empty())
    builder.createBlock(&region);
  else
    builder.setInsertionPointToEnd(&region.front());
  BodyBuilder inside(*this, extents, 0);
  Element result = body(inside);
  if (type)
    result = kernel::convert(result, type);
  kernel::YieldOp::create(builder, result.value());
  return result;
}

SmallVector<Value> KernelBuilder::map(ArrayRef<Expr> shape, ArrayRef<Type> types,
                                      function_ref<BodyBuilder::Elements(BodyBuilder &)> body) {
  SmallVector<Type> resultTypes;
  for (Type type : types)
    resultTypes.push_back(sym::getTensorType(shape, type));
  auto op = kernel::MapOp::create(builder, resultTypes);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&op.getBody());
  BodyBuilder inside(*this, shape, 0);
  SmallVector<Value> yielded;
  for (auto [element, type] : llvm::zip_equal(body(inside), types))
    yielded.push_back(kernel::convert(element, type).value());
  kernel::YieldOp::create(builder, yielded);
  return llvm::to_vector_of<Value>(op.getResults());
}

Value KernelBuilder::map(ArrayRef<Expr> shape, Type type,
                         function_ref<Element(BodyBuilder &)> body) {
  return map(shape, ArrayRef<Type>(type),
             [&](BodyBuilder &inside) { return BodyBuilder::Elements{body(inside)}; })
      .front();
}

static sym::ShapeAttr shapeAttr(OpBuilder &builder, ArrayRef<Expr> exprs) {
  return sym::ShapeAttr::get(builder.getContext(), exprs);
}

static bool isIdentity(ArrayRef<int64_t> perm) {
  return llvm::equal(perm, llvm::seq<int64_t>(0, perm.size()));
}

/// The sizes that a result has: extents[dims[perm[i]]].
static Exprs permuted(ArrayRef<Expr> sizes, ArrayRef<int64_t> perm) {
  if (perm.empty())
    return Exprs(sizes);
  return llvm::map_to_vector(perm, [&](int64_t i) { return sizes[i]; });
}

/// A contract as a map that sums: for types that no microkernel has.
static Value contractAsMap(KernelBuilder &kernels, const Contraction &c, ArrayRef<Expr> sizes,
                           Type type) {
  Type wide = opmath(type);
  Value result = kernels.map(sizes, type, [&](BodyBuilder &body) {
    auto product = [&](BodyBuilder &inner) {
      return convert(c.lhs(inner), wide) * convert(c.rhs(inner), wide);
    };
    Element sum = body.sum(c.k, wide, product);
    return c.epilogue ? c.epilogue(body, sum) : sum;
  });
  return c.perm.empty() ? result : kernels.permute(result, c.perm);
}

Value KernelBuilder::contract(const Contraction &c, Type type) {
  Exprs sizes = llvm::to_vector(llvm::concat<const Expr>(c.batch, c.m, c.n));
  if (isComplex(type))
    return contractAsMap(*this, c, sizes, type);
  if (llvm::any_of(sizes, [](Expr size) { return size.isConstant(0); }))
    return full(permuted(sizes, c.perm), type, 0); // no element, and so no schedule
  Exprs extents = llvm::to_vector(llvm::concat<const Expr>(sizes, c.k));
  auto perm = isIdentity(c.perm) ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(c.perm);
  auto op = kernel::ContractOp::create(builder, sym::getTensorType(permuted(sizes, c.perm), type),
                                       shapeAttr(builder, c.batch), shapeAttr(builder, c.m),
                                       shapeAttr(builder, c.n), shapeAttr(builder, c.k), perm,
                                       /*panel=*/IntegerAttr(), /*part=*/sym::ExprAttr(),
                                       /*bytes=*/IntegerAttr(), /*narrow=*/UnitAttr());
  Element lhs = fill(op.getLhs(), extents, {}, c.lhs);
  fill(op.getRhs(), extents, lhs.type(), c.rhs);
  Type sumType = opmath(lhs.type());
  Region &epilogue = op.getEpilogue();
  epilogue.emplaceBlock().addArgument(kernel::getScalarType(sumType), builder.getLoc());
  fill(epilogue, extents, type, [&](BodyBuilder &body) -> Element {
    Element sum(builder, epilogue.getArgument(0), sumType);
    return c.epilogue ? c.epilogue(body, sum) : sum;
  });
  return op.getResult();
}

Value KernelBuilder::attention(const AttentionSpec &s, Type type) {
  Exprs extents(s.batch), sizes(s.batch);
  extents.append({s.m, s.n, s.d, s.dv});
  sizes.append({s.m, s.dv});
  auto expr = [&](Expr e) { return sym::ExprAttr::get(builder.getContext(), e); };
  auto op = kernel::AttentionOp::create(
      builder, sym::getTensorType(permuted(sizes, s.perm), type), TypeRange(),
      shapeAttr(builder, s.batch), expr(s.m), expr(s.n), expr(s.d), expr(s.dv),
      builder.getF64FloatAttr(s.scale), s.causal ? builder.getUnitAttr() : UnitAttr(),
      /*nan=*/UnitAttr(),
      isIdentity(s.perm) ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(s.perm),
      /*part=*/sym::ExprAttr());
  fill(op.getQ(), extents, type, s.q);
  fill(op.getK(), extents, type, s.k);
  fill(op.getV(), extents, type, s.v);
  if (s.bias)
    fill(op.getBias(), extents, type, s.bias);
  return op.getResult();
}

/// Fills a region that takes values like `like` (twice, or once) and gives what `body` does.
static void fillFunction(ImplicitLocOpBuilder &builder, Region &region, ArrayRef<Element> like,
                         function_ref<BodyBuilder::Elements(ArrayRef<Element>)> body,
                         ArrayRef<Type> types) {
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&region);
  BodyBuilder::Elements arguments;
  for (const Element &element : like)
    arguments.push_back(
        element.make(block->addArgument(element.value().getType(), builder.getLoc())));
  SmallVector<Value> values;
  for (auto [element, type] : llvm::zip_equal(body(arguments), types))
    values.push_back(kernel::convert(element, type).value());
  kernel::YieldOp::create(builder, values);
}

SmallVector<Value> KernelBuilder::scan(const ScanSpec &s, ArrayRef<Type> types) {
  SmallVector<Type> resultTypes;
  for (Type type : types)
    resultTypes.push_back(sym::getTensorType(s.shape, type));
  auto op = kernel::ScanOp::create(builder, resultTypes, s.dim, /*associative=*/false,
                                   /*part=*/sym::ExprAttr());
  using Elements = BodyBuilder::Elements;
  Elements state;
  auto fillBody = [&](Region &region, function_ref<Elements(BodyBuilder &)> body) {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&region);
    BodyBuilder inside(*this, s.shape, 0);
    Elements elements = body(inside);
    SmallVector<Value> values;
    for (auto [i, element] : llvm::enumerate(elements))
      values.push_back(
          kernel::convert(element, state.empty() ? element.type() : state[i].type()).value());
    kernel::YieldOp::create(builder, values);
    if (state.empty())
      state = elements;
  };
  fillBody(op.getInit(), s.init);
  fillBody(op.getBody(), s.body);
  Elements twice(state);
  llvm::append_range(twice, state);
  SmallVector<Type> stateTypes;
  for (const Element &element : state)
    stateTypes.push_back(element.type());
  size_t count = state.size();
  fillFunction(
      builder, op.getCombine(), twice,
      [&](ArrayRef<Element> both) {
        return s.combine(both.take_front(count), both.drop_front(count));
      },
      stateTypes);
  fillFunction(
      builder, op.getFinish(), state,
      [&](ArrayRef<Element> last) { return s.finish ? s.finish(last) : Elements(last); }, types);
  return llvm::to_vector_of<Value>(op.getResults());
}

Value KernelBuilder::scatter(const ScatterSpec &s, Type type) {
  Exprs sizes = llvm::to_vector(llvm::concat<const Expr>(s.batch, s.targets));
  Exprs extents = llvm::to_vector(llvm::concat<const Expr>(sizes, s.places));
  auto perm = isIdentity(s.perm) ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(s.perm);
  auto op = kernel::ScatterOp::create(builder, sym::getTensorType(permuted(sizes, s.perm), type),
                                      shapeAttr(builder, s.batch), shapeAttr(builder, s.targets),
                                      shapeAttr(builder, s.places), perm);
  Element old = fill(op.getInit(), extents, type, s.init);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&op.getUpdate());
    BodyBuilder inside(*this, extents, 0);
    ScatterSpec::Write write = s.update(inside);
    SmallVector<Value> values;
    for (const Element &index : write.index)
      values.push_back(kernel::convert(index, builder.getI64Type()).value());
    Element enabled =
        write.enabled ? write.enabled : inside.constant(builder.getI1Type(), int64_t(1));
    values.append({enabled.value(), kernel::convert(write.value, type).value()});
    kernel::YieldOp::create(builder, values);
  }
  fillFunction(
      builder, op.getCombine(), {old, old},
      [&](ArrayRef<Element> both) {
        return BodyBuilder::Elements{s.combine ? s.combine(both[0], both[1]) : both[1]};
      },
      type);
  return op.getResult();
}

Value KernelBuilder::sort(ArrayRef<Expr> shape, function_ref<Element(BodyBuilder &)> key) {
  Type type = sym::getTensorType(shape, builder.getI64Type());
  auto op = kernel::SortOp::create(builder, type, type, type);
  fill(op.getBody(), shape, builder.getI64Type(), key);
  return op.getPositions();
}

Value KernelBuilder::repeat(Expr total, Expr chunk, Expr size,
                            function_ref<Element(BodyBuilder &, Expr)> count,
                            function_ref<Element(BodyBuilder &)> start) {
  auto expr = [&](Expr e) { return sym::ExprAttr::get(builder.getContext(), e); };
  auto op = kernel::RepeatOp::create(builder, sym::getTensorType({size}, builder.getI64Type()),
                                     expr(total), expr(chunk));
  Exprs extents(op.getExtents());
  fill(op.getCount(), extents, {},
       [&](BodyBuilder &body) { return count(body, chunk * body.dim(0) + body.dim(1)); });
  fill(op.getStart(), extents, builder.getI64Type(), start);
  return op.getResult();
}

//===-- Whole tensors -------------------------------------------------------------------------===//

bool KernelBuilder::isSame(Expr a, Expr b) const {
  return a == b || symbols.simplify(a - b).isConstant(0);
}

bool KernelBuilder::isSame(ArrayRef<Expr> a, ArrayRef<Expr> b) const {
  return a.size() == b.size() &&
         llvm::all_of_zip(a, b, [&](Expr x, Expr y) { return isSame(x, y); });
}

void KernelBuilder::assertSame(Expr a, Expr b) {
  if (isSame(a, b))
    return;
  if (!(a - b).isValid())
    return fail("sizes that are too large to compare");
  OpBuilder::InsertionGuard guard(builder);
  Operation *op = builder.getInsertionBlock()->getParentOp();
  while (op && !kernel::isStructured(op))
    op = op->getParentOp();
  if (op)
    builder.setInsertionPoint(op);
  auto message = builder.getStringAttr("expected size " + a.str() + " to be " + b.str() + " (" +
                                       sym::describe(builder.getLoc()) + ")");
  for (Expr difference : {a - b, b - a})
    kernel::AssertOp::create(builder, sym::ExprAttr::get(builder.getContext(), difference),
                             message);
}

Value KernelBuilder::view(Value tensor, ArrayRef<Expr> shape,
                          function_ref<Exprs(ArrayRef<Expr>)> index) {
  return map(shape, elementType(tensor),
             [&](BodyBuilder &body) { return body.read(tensor, index(body.ownDims())); });
}

Value KernelBuilder::withShape(Value tensor, ArrayRef<Expr> shape) {
  if (shapeOf(tensor) == shape)
    return tensor;
  return view(tensor, shape, [](ArrayRef<Expr> dims) { return Exprs(dims); });
}

/// Splits two shapes of equally many elements into the shortest runs of dims that hold equally
/// many: [2, 12, 5] and [24, 5] give 2·12 = 24 and 5 = 5. The last run takes what remains.
static SmallVector<std::pair<unsigned, unsigned>> matchRuns(ArrayRef<Expr> from, ArrayRef<Expr> to,
                                                            const sym::Assumptions &known) {
  SmallVector<std::pair<unsigned, unsigned>> ends;
  unsigned i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    Expr left = from[i++], right = to[j++];
    while (left != right && (i < from.size() || j < to.size())) {
      bool growLeft = j == to.size() || (i < from.size() && known.isLessOrEqual(left, right));
      if (growLeft)
        left = left * from[i++];
      else
        right = right * to[j++];
    }
    ends.push_back({i, j});
  }
  if (ends.empty())
    ends.push_back({0, 0});
  ends.back() = {static_cast<unsigned>(from.size()), static_cast<unsigned>(to.size())};
  return ends;
}

/// Eager mode has found the numbers of elements to be equal, but the sizes do not show it: nothing
/// is read outside of the tensor even so.
static Value reshapeUnproved(KernelBuilder &kernels, Value tensor, ArrayRef<Expr> shape) {
  Exprs from = shapeOf(tensor);
  return kernels.map(shape, elementType(tensor), [&](BodyBuilder &body) {
    Expr linear = sym::linearize(body.ownDims(), shape);
    return body.readPadded(tensor, sym::delinearize(linear, from),
                           body.constant(elementType(tensor), 0));
  });
}

Value KernelBuilder::reshape(Value tensor, ArrayRef<Expr> shape) {
  Exprs from = shapeOf(tensor);
  if (from == shape)
    return tensor;
  Expr have = symbols.simplify(sym::product(from)), want = symbols.simplify(sym::product(shape));
  bool isProved = isSame(have, want);
  if (!isProved && have.isConstant() && want.isConstant()) {
    fail("reshapes to another number of elements");
    return full(shape, elementType(tensor), 0);
  }
  if (!isProved)
    return reshapeUnproved(*this, tensor, shape);
  auto runs = matchRuns(from, shape, symbols);
  return view(tensor, shape, [&](ArrayRef<Expr> dims) {
    Exprs index;
    unsigned i = 0, j = 0;
    for (auto [iEnd, jEnd] : runs) {
      ArrayRef<Expr> source = ArrayRef(from).slice(i, iEnd - i);
      ArrayRef<Expr> target = ArrayRef(shape).slice(j, jEnd - j);
      // Dims of size 1 carry nothing; leaving them out keeps the expressions short.
      Exprs where, sizes;
      for (auto [dim, size] : llvm::zip_equal(dims.slice(j, jEnd - j), target))
        if (!size.isConstant(1)) {
          where.push_back(dim);
          sizes.push_back(size);
        }
      Exprs kept;
      llvm::copy_if(source, std::back_inserter(kept), [](Expr e) { return !e.isConstant(1); });
      Exprs split = sym::delinearize(sym::linearize(where, sizes), kept);
      unsigned next = 0;
      for (Expr size : source)
        index.push_back(size.isConstant(1) ? Expr(0) : split[next++]);
      i = iEnd, j = jEnd;
    }
    return index;
  });
}

Value KernelBuilder::permute(Value tensor, ArrayRef<int64_t> perm) {
  if (isIdentity(perm))
    return tensor;
  return view(tensor, permuted(shapeOf(tensor), perm), [&](ArrayRef<Expr> dims) {
    Exprs index(perm.size());
    for (auto [dim, source] : llvm::zip_equal(dims, perm))
      index[source] = dim;
    return index;
  });
}

Value KernelBuilder::expand(Value tensor, ArrayRef<Expr> shape) {
  if (shapeOf(tensor) == shape)
    return tensor;
  return map(shape, elementType(tensor), [&](BodyBuilder &body) { return body.broadcast(tensor); });
}

std::optional<Exprs> KernelBuilder::broadcastShapes(ArrayRef<Value> tensors) const {
  Exprs shape;
  for (Value tensor : tensors) {
    if (!tensor)
      continue;
    Exprs sizes = shapeOf(tensor);
    if (sizes.size() > shape.size())
      shape.insert(shape.begin(), sizes.size() - shape.size(), Expr(1));
    for (size_t i = 0; i < sizes.size(); ++i) {
      Expr &size = shape[shape.size() - sizes.size() + i];
      if (size.isConstant(1))
        size = sizes[i];
      else if (!sizes[i].isConstant(1) && !isSame(size, sizes[i]))
        return std::nullopt;
    }
  }
  return shape;
}

Value KernelBuilder::full(ArrayRef<Expr> shape, Type type, double value) {
  return map(shape, type, [&](BodyBuilder &body) { return body.constant(type, value); });
}

Value KernelBuilder::convert(Value tensor, Type type) {
  if (elementType(tensor) == type)
    return tensor;
  return map(shapeOf(tensor), type, [&](BodyBuilder &body) { return body.broadcast(tensor); });
}
