// Gradients of pooling, and pooling over random windows.
#include "Core/ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Zeros like `like`, [N, C, spatial…] or [C, spatial…], to which every place of `places` adds a
/// value. `update` gets the leading index and the place; the targets are the flattened spatial dims
/// if `flat`, otherwise each of them.
static LogicalResult
addBack(Call &call, Value like, size_t spatial, ArrayRef<Expr> places, bool flat,
        function_ref<ScatterSpec::Write(BodyBuilder &, ArrayRef<Expr>, ArrayRef<Expr>)> update) {
  Exprs shape = shapeOf(like);
  size_t leading = shape.size() - spatial;
  Type type = elementType(like);
  ScatterSpec spec;
  spec.batch = Exprs(ArrayRef(shape).take_front(leading));
  spec.targets = Exprs(ArrayRef(shape).drop_front(leading));
  if (flat)
    spec.targets = {sym::product(spec.targets)};
  spec.places = Exprs(places);
  auto init = [&](BodyBuilder &body) { return body.constant(type, 0); };
  auto write = [&](BodyBuilder &body) {
    size_t first = leading + spec.targets.size();
    return update(body, body.dims(0, leading), body.dims(first, body.numDims()));
  };
  spec.init = init;
  spec.update = write;
  spec.combine = addInOpmath;
  return call.set(call.kernels.reshape(call.kernels.scatter(spec, type), shape));
}

static bool isPooled(Call &call, Value gradient, Value input, size_t spatial) {
  int64_t rank = rankOf(input);
  bool fits = isFloat(elementType(input)) && elementType(gradient) == elementType(input) &&
              rankOf(gradient) == rank &&
              (rank == int64_t(spatial) + 1 || rank == int64_t(spatial) + 2);
  if (!fits)
    call.kernels.fail("tensors of these ranks or dtypes");
  return fits;
}

/// The gradient of each window goes to where its maximum was.
static LogicalResult lowerMaxPoolBackward(Call &call, size_t spatial) {
  Value gradient = call.tensor("grad_output"), input = call.tensor("self");
  Value indices = call.tensor("indices");
  if (!isPooled(call, gradient, input, spatial))
    return failure();
  if (!call.fits(shapeOf(indices), shapeOf(gradient), "indices of another shape"))
    return call.refuse("indices of another shape");
  Exprs shape = shapeOf(gradient), places(ArrayRef(shape).take_back(spatial));
  return addBack(call, input, spatial, places, /*flat=*/true,
                 [&](BodyBuilder &body, ArrayRef<Expr> leading, ArrayRef<Expr> place) {
                   Exprs at(leading);
                   llvm::append_range(at, place);
                   return ScatterSpec::Write{{body.read(indices, at)}, {}, body.read(gradient, at)};
                 });
}

/// The gradient of each window, divided by its size, goes to all that is in it.
static LogicalResult lowerAvgPoolBackward(Call &call, size_t spatial) {
  Value gradient = call.tensor("grad_output"), input = call.tensor("self");
  if (!isPooled(call, gradient, input, spatial))
    return failure();
  SmallVector<int64_t> kernel = call.ints("kernel_size", spatial);
  bool hasStride = !call.args.optIntList("stride").value_or(SmallVector<int64_t>()).empty();
  SmallVector<int64_t> stride = hasStride ? call.ints("stride", spatial) : kernel;
  SmallVector<int64_t> padding = call.ints("padding", spatial);
  bool withPadding = call.args.boolean("count_include_pad");
  auto divisor = call.args.optInteger("divisor_override");
  if (divisor == 0)
    return call.refuse("divisor_override = 0");
  Exprs inputShape = shapeOf(input), shape = shapeOf(gradient);
  ArrayRef<Expr> sizes = ArrayRef(inputShape).take_back(spatial);
  Exprs places(ArrayRef(shape).take_back(spatial));
  places.append(kernel.begin(), kernel.end());
  Type type = elementType(input), wide = opmath(type);
  return addBack(call, input, spatial, places, /*flat=*/false,
                 [&](BodyBuilder &body, ArrayRef<Expr> leading, ArrayRef<Expr> place) {
                   Exprs from(leading), to;
                   Expr count = 1;
                   for (size_t i = 0; i < spatial; ++i) {
                     Expr first = place[i] * stride[i] - padding[i];
                     from.push_back(place[i]);
                     to.push_back(first + place[spatial + i]);
                     Expr end =
                         Expr::min(first + kernel[i], sizes[i] + (withPadding ? padding[i] : 0));
                     count = count * (end - (withPadding ? first : Expr::max(first, Expr(0))));
                   }
                   Expr by = divisor ? Expr(*divisor) : body.known().simplify(count);
                   Element x = convert(body.read(gradient, from), wide) / countAs(body, by, wide);
                   ScatterSpec::Write write{{}, body.inside(to, sizes), convert(x, type)};
                   for (Expr expr : to)
                     write.index.push_back(body.index(expr));
                   return write;
                 });
}

static LogicalResult lowerAdaptiveAvgPoolBackward(Call &call, size_t spatial) {
  Value gradient = call.tensor("grad_output"), input = call.tensor("self");
  if (!isPooled(call, gradient, input, spatial))
    return failure();
  Exprs inputShape = shapeOf(input), shape = shapeOf(gradient);
  ArrayRef<Expr> sizes = ArrayRef(inputShape).take_back(spatial);
  ArrayRef<Expr> outputs = ArrayRef(shape).take_back(spatial);
  Exprs places(outputs), counts, extents;
  const sym::Assumptions &known = call.kernels.known();
  for (auto [size, output] : llvm::zip_equal(sizes, outputs)) {
    Expr count =
        counts.emplace_back(known.simplify(Expr::max(output, 1))); // also where there is none
    extents.push_back(known.simplify((size - 1).ceilDiv(count) + 1));
  }
  llvm::append_range(places, extents);
  Type type = elementType(input), wide = opmath(type);
  return addBack(call, input, spatial, places, /*flat=*/false,
                 [&](BodyBuilder &body, ArrayRef<Expr> leading, ArrayRef<Expr> place) {
                   Exprs from(leading), to, rest;
                   Expr count = 1;
                   for (size_t i = 0; i < spatial; ++i) {
                     Expr first = (place[i] * sizes[i]).floorDiv(counts[i]);
                     Expr length = ((place[i] + 1) * sizes[i]).ceilDiv(counts[i]) - first;
                     from.push_back(place[i]);
                     to.push_back(first + place[spatial + i]);
                     rest.push_back(length - 1 - place[spatial + i]);
                     count = count * length;
                   }
                   Element x = convert(body.read(gradient, from), wide) /
                               countAs(body, body.known().simplify(count), wide);
                   ScatterSpec::Write write{{}, body.inside(rest, extents), convert(x, type)};
                   for (Expr expr : to)
                     write.index.push_back(body.index(expr));
                   return write;
                 });
}

/// Windows of the kernel's size at steps that a random number in [0, 1) shifts; the last ends at
/// the input's end.
static LogicalResult lowerFractionalMaxPool(Call &call, size_t spatial) {
  Value self = call.tensor("self"), samples = call.tensor("random_samples");
  Type type = elementType(self), i64 = IntegerType::get(type.getContext(), 64);
  int64_t rank = rankOf(self);
  SmallVector<int64_t> kernel = call.ints("kernel_size", spatial);
  SmallVector<int64_t> output = call.ints("output_size", spatial);
  if (!isFloat(type) || elementType(samples) != type || rankOf(samples) != 3 ||
      (rank != int64_t(spatial) + 1 && rank != int64_t(spatial) + 2))
    return call.refuse("tensors of these ranks or dtypes");
  Exprs shape = shapeOf(self), domain(shape);
  size_t leading = rank - spatial;
  for (size_t i = 0; i < spatial; ++i)
    domain[leading + i] = output[i];
  Type wide = opmath(type);
  return call.set(call.kernels.map(domain, {type, i64}, [&](BodyBuilder &body) {
    Exprs plane = body.dims(0, leading);
    if (leading == 1)
      plane.insert(plane.begin(), Expr(0));
    SmallVector<Element> starts;
    for (size_t i = 0; i < spatial; ++i) {
      // The width's sample comes first of two, but last of three.
      Exprs at(plane);
      at.push_back(spatial == 2 ? int64_t(1 - i) : int64_t(i));
      Expr room = shape[leading + i] - kernel[i], out = body.dim(leading + i);
      Element last = body.index(room);
      if (output[i] == 1) {
        starts.push_back(last);
        continue;
      }
      // ATen rounds every step to the tensor's dtype.
      auto rounded = [&](Element x) { return convert(convert(x, type), wide); };
      Element sample = convert(body.read(samples, at), wide);
      Element alpha = rounded(rounded(last) / rounded(body.constant(wide, output[i] - 1)));
      Element shifted = rounded(rounded(body.index(out)) + sample);
      Element start =
          convert(rounded(shifted * alpha), i64) - convert(rounded(sample * alpha), i64);
      Element isLast = body.index(out) == body.constant(i64, output[i] - 1);
      starts.push_back(select(isLast, last, start));
    }
    auto [value, position] =
        body.argExtreme(Exprs(kernel.begin(), kernel.end()), type, /*largest=*/true,
                        /*lastNan=*/true, [&](BodyBuilder &inner) {
                          Indices at = indicesOf(body.dims(0, leading));
                          Element flat = inner.constant(i64, 0);
                          for (auto [i, dim] : llvm::enumerate(inner.ownDims())) {
                            Element where = starts[i] + inner.index(dim);
                            at.push_back(where);
                            flat = flat * inner.index(shape[leading + i]) + where;
                          }
                          return std::make_pair(inner.read(self, at), flat);
                        });
    return BodyBuilder::Elements{value, position};
  }));
}

void lowering::registerPoolBackward(LoweringTable &table) {
  for (size_t spatial : {2, 3}) {
    std::string suffix = (Twine(spatial) + "d").str();
    for (StringRef name :
         {"max_pool@_with_indices", "adaptive_max_pool@", "fractional_max_pool@"}) {
      auto [head, tail] = name.split('@');
      table.add(("aten." + head + suffix + tail + "_backward.default").str(),
                [=](Call &call) { return lowerMaxPoolBackward(call, spatial); });
    }
    table.add("aten.avg_pool" + suffix + "_backward.default",
              [=](Call &call) { return lowerAvgPoolBackward(call, spatial); });
    table.add("aten._adaptive_avg_pool" + suffix + "_backward.default",
              [=](Call &call) { return lowerAdaptiveAvgPoolBackward(call, spatial); });
    table.add("aten.fractional_max_pool" + suffix + ".default",
              [=](Call &call) { return lowerFractionalMaxPool(call, spatial); });
  }
}
