// Convolutions of any number of spatial dims. All are computed channels-last, [N, spatial…, C], so
// that channels are next to each other for the products, and seen as PyTorch's [N, C, spatial…]
// through a view that fusion carries along.
#include "Conv.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Kernel dims of size 1 are no loops: a 1×1 convolution is a plain product.
static Exprs kernelExtents(const Conv &conv) {
  Exprs extents;
  for (size_t i = 0; i < conv.spatial(); ++i)
    if (!conv.kernel(i).isConstant(1))
      extents.push_back(conv.kernel(i));
  return extents;
}

/// One entry for each spatial dim: the kernel's position there, from its loops `dims`.
static Exprs kernelPosition(const Conv &conv, ArrayRef<Expr> dims) {
  Exprs position;
  for (size_t i = 0, next = 0; i < conv.spatial(); ++i)
    position.push_back(conv.kernel(i).isConstant(1) ? Expr(0) : dims[next++]);
  return position;
}

/// The input element that meets kernel position `at` for output position `out`; zero outside.
static Element readInput(BodyBuilder &body, const Conv &conv, Expr n, Expr channel,
                         ArrayRef<Expr> out, ArrayRef<Expr> at) {
  Element zero = body.constant(elementType(conv.x), 0);
  Exprs index = {n, channel}, shape = shapeOf(conv.x), exprs, bounds;
  for (size_t i = 0; i < conv.spatial(); ++i) {
    if (!conv.transposed) {
      index.push_back(out[i] * conv.stride[i] + at[i] * conv.dilation[i] - conv.padding[i]);
      continue;
    }
    // out = in * stride + at * dilation - padding, solved for in where that is a whole number.
    Expr scaled = out[i] + conv.padding[i] - at[i] * conv.dilation[i];
    index.push_back(scaled.floorDiv(conv.stride[i]));
    if (conv.stride[i] > 1) {
      exprs.push_back(scaled.mod(conv.stride[i]));
      bounds.push_back(1);
    }
  }
  if (exprs.empty())
    return body.readPadded(conv.x, index, zero);
  for (size_t i = 0; i < conv.spatial(); ++i) {
    exprs.push_back(index[2 + i]);
    bounds.push_back(shape[2 + i]);
  }
  return body.read(conv.x, index, body.inside(exprs, bounds), zero);
}

Element lowering::addBias(BodyBuilder &body, const Conv &conv, Element sum, Expr channel) {
  if (!conv.bias)
    return sum;
  return sum + convert(body.read(conv.bias, Exprs{channel}), sum.type());
}

Value lowering::channelsFirst(Call &call, Value result) {
  SmallVector<int64_t> perm = {0, rankOf(result) - 1};
  for (int64_t i = 1; i + 1 < rankOf(result); ++i)
    perm.push_back(i);
  return call.kernels.permute(result, perm);
}

/// Whether a depthwise convolution is a map that sums over its window, rather than a contract whose
/// columns are the channels. Measured on Zen 4, map and contract, in shares of the FMA peak:
/// windows of 3×3 0.4 to 0.85 and 0.25 to 0.45, of 5×5 0.25 to 0.6 and 0.2 to 0.65, of 7×7 0.35 and
/// 0.7. The contract takes a window of static size over something that has been computed
/// channels-last.
static bool isWindowSum(const Conv &conv) {
  Exprs sizes = kernelExtents(conv);
  llvm::append_range(sizes, conv.output);
  std::optional<int64_t> window = sym::product(kernelExtents(conv)).constant();
  bool isStatic = llvm::all_of(sizes, [](Expr size) { return size.isConstant(); });
  Type type = elementType(conv.x);
  constexpr int64_t largest = 25;
  return conv.transposed || !isStatic || *window <= largest || !(type.isF32() || type.isF64()) ||
         !conv.outputsPerGroup().isConstant(1) || isa<BlockArgument>(conv.x);
}

/// One input channel for each output channel, as a sum over the kernel.
static Value depthwise(Call &call, const Conv &conv) {
  Expr multiplier = conv.outputsPerGroup();
  Type wide = opmath(elementType(conv.x));
  Exprs domain = {shapeOf(conv.x)[0]};
  llvm::append_range(domain, conv.output);
  domain.push_back(multiplier * conv.groups);
  unsigned last = domain.size() - 1;
  Value result = call.kernels.map(domain, elementType(conv.x), [&](BodyBuilder &body) {
    Expr channel = body.dim(last), group = channel.floorDiv(multiplier);
    Element sum = body.sum(kernelExtents(conv), wide, [&](BodyBuilder &inner) {
      Exprs at = kernelPosition(conv, inner.ownDims());
      Exprs weight =
          conv.transposed ? Exprs{group, channel.mod(multiplier)} : Exprs{channel, Expr(0)};
      llvm::append_range(weight, at);
      Element x = readInput(inner, conv, body.dim(0), group, body.dims(1, last), at);
      return convert(x, wide) * convert(inner.read(conv.weight, weight), wide);
    });
    return addBias(body, conv, sum, channel);
  });
  return channelsFirst(call, result);
}

/// m = (N, spatial…), n = output channels, k = (kernel…, input channels); groups are batches.
static Value contraction(Call &call, const Conv &conv) {
  bool grouped = conv.groups > 1;
  size_t spatial = conv.spatial();
  Expr inputs = conv.channelsPerGroup(), outputs = conv.outputsPerGroup();
  Contraction c;
  if (grouped)
    c.batch = {Expr(conv.groups)};
  c.m = {shapeOf(conv.x)[0]};
  llvm::append_range(c.m, conv.output);
  c.n = {outputs};
  c.k = kernelExtents(conv);
  c.k.push_back(inputs);
  unsigned m = c.batch.size(), n = m + c.m.size(), k = n + 1, last = k + c.k.size() - 1;
  Expr group = grouped ? Expr::dim(0) : Expr(0);
  auto lhs = [&](BodyBuilder &body) {
    return readInput(body, conv, body.dim(m), group * inputs + body.dim(last),
                     body.dims(m + 1, m + 1 + spatial), kernelPosition(conv, body.dims(k, last)));
  };
  auto rhs = [&](BodyBuilder &body) {
    Expr input = body.dim(last), output = body.dim(n);
    Exprs index = conv.transposed ? Exprs{group * inputs + input, output}
                                  : Exprs{group * outputs + output, input};
    llvm::append_range(index, kernelPosition(conv, body.dims(k, last)));
    return body.read(conv.weight, index);
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    return addBias(body, conv, sum, group * outputs + body.dim(n));
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  if (grouped) { // [N, spatial…, groups, outputs]
    c.perm = llvm::to_vector(llvm::seq<int64_t>(m, n));
    c.perm.append({0, static_cast<int64_t>(n)});
  }
  Value result = call.kernels.contract(c, elementType(conv.x));
  if (grouped) {
    Exprs flat = shapeOf(result);
    flat.pop_back();
    flat.back() = outputs * conv.groups;
    result = call.kernels.reshape(result, flat);
  }
  return channelsFirst(call, result);
}

/// Checks the parts of a convolution against each other and computes it. `conv.x` may lack the N
/// dim; the result has it.
static Value compute(Call &call, Conv conv) {
  auto refuse = [&](const Twine &reason) {
    call.kernels.fail(reason);
    return Value();
  };
  Type type = elementType(conv.x);
  size_t spatial = conv.spatial();
  bool unbatched = rankOf(conv.x) == static_cast<int64_t>(spatial) + 1;
  if (isBool(type) || elementType(conv.weight) != type ||
      (conv.bias && elementType(conv.bias) != type))
    return refuse("these dtypes");
  if (unbatched) {
    Exprs shape = shapeOf(conv.x);
    shape.insert(shape.begin(), Expr(1));
    conv.x = call.kernels.reshape(conv.x, shape);
  }
  if (rankOf(conv.x) != static_cast<int64_t>(spatial) + 2 || rankOf(conv.weight) != rankOf(conv.x))
    return refuse("input and weight of these ranks");
  for (auto [stride, dilation] : llvm::zip_equal(conv.stride, conv.dilation))
    if (stride <= 0 || dilation <= 0)
      return refuse("a stride or dilation that is not positive");
  if (conv.groups <= 0)
    return refuse("no groups");
  Expr inputs = call.kernels.known().simplify(conv.channelsPerGroup());
  Expr outputs = call.kernels.known().simplify(conv.outputsPerGroup());
  Expr allOutputs = conv.transposed ? outputs * conv.groups : shapeOf(conv.weight)[0];
  if (conv.bias && rankOf(conv.bias) != 1)
    return refuse("a bias of this rank");
  constexpr StringLiteral unfit = "channels of input, weight and bias that do not fit";
  if (!call.fits(inputs * conv.groups, shapeOf(conv.x)[1], unfit) ||
      !call.fits(outputs * conv.groups, allOutputs, unfit) ||
      (conv.transposed && !call.fits(inputs * conv.groups, shapeOf(conv.weight)[0], unfit)) ||
      (conv.bias && !call.fits(shapeOf(conv.bias)[0], allOutputs, unfit)))
    return refuse(unfit);
  for (Expr size : conv.output)
    call.require(size - 1, "convolution of a dim that is too small for the kernel");
  // Only a batch may be empty.
  Exprs image = shapeOf(conv.x);
  for (Expr size : ArrayRef(image).drop_front(2))
    call.require(Expr::max(size - 1, -image[0]),
                 "convolution of an empty dim that is not the batch");
  bool isDepthwise = inputs.isConstant(1) && conv.groups > 1;
  if (isDepthwise && isWindowSum(conv))
    return depthwise(call, conv);
  if (conv.transposed)
    if (Value result = transposedByPhase(call, conv))
      return channelsFirst(call, result);
  return contraction(call, conv);
}

static LogicalResult lower(Call &call, const Conv &conv) {
  // ATen takes an image without channels to one without channels, whatever the weight.
  size_t channels = rankOf(conv.x) - conv.spatial() - 1;
  if (shapeOf(conv.x)[channels].isConstant(0) && !conv.transposed)
    return call.set(call.kernels.full(call.resultShape(), call.resultType(), 0));
  Value result = compute(call, conv);
  if (!result)
    return failure();
  if (rankOf(conv.x) == static_cast<int64_t>(conv.spatial()) + 1)
    result = call.kernels.reshape(result, call.resultShape());
  return call.set(result);
}

/// floor((in + padding - dilation * (kernel - 1) - 1) / stride) + 1
static Expr outputSize(Call &call, const Conv &conv, size_t i, Expr size, Expr padding) {
  Expr span = (conv.kernel(i) - 1) * conv.dilation[i] + 1;
  return call.kernels.known().simplify((size + padding - span).floorDiv(conv.stride[i]) + 1);
}

/// (in - 1) * stride - 2 * padding + dilation * (kernel - 1) + outputPadding + 1
static Expr transposedSize(Call &call, const Conv &conv, size_t i, Expr size, Expr extra) {
  return call.kernels.known().simplify((size - 1) * conv.stride[i] - conv.padding[i] * 2 +
                                       (conv.kernel(i) - 1) * conv.dilation[i] + extra + 1);
}

/// The arguments that all overloads share.
static std::optional<Conv> commonArguments(Call &call, size_t spatial) {
  Conv conv;
  conv.x = call.tensor("input");
  conv.weight = call.tensor("weight");
  conv.bias = call.args.optTensor("bias");
  conv.stride = call.ints("stride", spatial);
  conv.dilation = call.ints("dilation", spatial);
  conv.groups = call.ints("groups", 1).front();
  if (rankOf(conv.weight) != static_cast<int64_t>(spatial) + 2 ||
      rankOf(conv.x) + 1 < rankOf(conv.weight)) {
    call.kernels.fail("input and weight of these ranks");
    return std::nullopt;
  }
  for (int64_t stride : conv.stride)
    if (stride <= 0)
      call.kernels.fail("a stride that is not positive");
  return call.kernels.failure ? std::nullopt : std::optional(conv);
}

static Expr spatialSize(const Conv &conv, size_t i) {
  Exprs shape = shapeOf(conv.x);
  return shape[shape.size() - conv.spatial() + i];
}

static LogicalResult lowerConvolution(Call &call, size_t spatial, bool transposed) {
  std::optional<Conv> conv = commonArguments(call, spatial);
  if (!conv)
    return failure();
  conv->transposed = transposed;
  conv->padding = call.symInts("padding", spatial);
  Exprs extra(spatial, Expr(0));
  if (transposed)
    extra = call.symInts("output_padding", spatial);
  for (size_t i = 0; i < spatial; ++i) {
    Expr size = spatialSize(*conv, i);
    conv->output.push_back(transposed ? transposedSize(call, *conv, i, size, extra[i])
                                      : outputSize(call, *conv, i, size, conv->padding[i] * 2));
  }
  return lower(call, *conv);
}

/// padding = 'valid' or 'same'; 'same' puts the odd element at the end.
static LogicalResult lowerNamedPadding(Call &call, size_t spatial) {
  std::optional<Conv> conv = commonArguments(call, spatial);
  if (!conv)
    return failure();
  StringRef mode = call.args.string("padding");
  if (mode != "same" && mode != "valid")
    return call.refuse("padding = '" + mode + "'");
  for (size_t i = 0; i < spatial; ++i) {
    Expr total = mode == "same" ? (conv->kernel(i) - 1) * conv->dilation[i] : Expr(0);
    conv->padding.push_back(call.kernels.known().simplify(total.floorDiv(2)));
    conv->output.push_back(outputSize(call, *conv, i, spatialSize(*conv, i), total));
  }
  return lower(call, *conv);
}

static LogicalResult lowerAnyConvolution(Call &call) { // convolution, _convolution
  int64_t rank = rankOf(call.tensor("weight"));
  if (rank < 3)
    return call.refuse("no spatial dim");
  return lowerConvolution(call, rank - 2, call.args.boolean("transposed"));
}

/// Time, batch and channels in this order: x[t, b, c] with weights [kernel, in, out].
static LogicalResult lowerConvTbc(Call &call) {
  Value x = call.tensor("self"), weight = call.tensor("weight"), bias = call.tensor("bias");
  Type type = elementType(x);
  int64_t padding = call.args.integer("pad");
  if (!isFloat(type) || elementType(weight) != type || elementType(bias) != type)
    return call.refuse("dtypes other than one of floating-point numbers");
  if (rankOf(x) != 3 || rankOf(weight) != 3 || rankOf(bias) != 1)
    return call.refuse("input, weight and bias of these ranks");
  Exprs shape = shapeOf(x), weights = shapeOf(weight);
  constexpr StringLiteral unfit = "channels of input, weight and bias that do not fit";
  if (!call.fits(shape[2], weights[1], unfit) || !call.fits(shapeOf(bias)[0], weights[2], unfit))
    return call.refuse(unfit);
  Contraction c;
  c.m = {shape[0] - weights[0] + 1 + 2 * padding, shape[1]};
  c.n = {weights[2]};
  c.k = {weights[0], weights[1]};
  auto lhs = [&](BodyBuilder &body) {
    Exprs at = {body.dim(0) + body.dim(3) - padding, body.dim(1), body.dim(4)};
    return body.readPadded(x, at, body.constant(type, 0));
  };
  auto rhs = [&](BodyBuilder &body) {
    return body.read(weight, Exprs{body.dim(3), body.dim(4), body.dim(2)});
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    return sum + convert(body.read(bias, Exprs{body.dim(2)}), sum.type());
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  return call.set(call.kernels.contract(c, type));
}

//===-- Backward ------------------------------------------------------------------------------===//

/// The gradient of the weights: for each of them, the products of what it was multiplied with and
/// the gradient of what they became, summed over the batch and over all positions. `small` is what
/// the kernel is moved over in steps of 1, `large` what it meets there: the gradient of the output
/// and the input, or the other way round for a transposed convolution.
static Value weightGradient(Call &call, const Conv &conv, Value small, Value large) {
  size_t spatial = conv.spatial();
  Exprs smallShape = shapeOf(small), weightShape = shapeOf(conv.weight);
  bool grouped = conv.groups > 1;
  Expr rows = weightShape[0].floorDiv(conv.groups), columns = weightShape[1];
  Contraction c;
  if (grouped)
    c.batch = {Expr(conv.groups)};
  c.m = {rows};
  c.n = Exprs(ArrayRef(weightShape).drop_front(1));
  c.k = {smallShape[0]};
  llvm::append_range(c.k, ArrayRef(smallShape).drop_front(2));
  unsigned m = c.batch.size(), n = m + 1, k = n + 1 + spatial;
  Expr group = grouped ? Expr::dim(0) : Expr(0);
  auto lhs = [&](BodyBuilder &body) {
    Exprs at = {body.dim(k), group * rows + body.dim(m)};
    llvm::append_range(at, body.dims(k + 1, k + 1 + spatial));
    return body.read(small, at);
  };
  auto rhs = [&](BodyBuilder &body) {
    Exprs at = {body.dim(k), group * columns + body.dim(n)};
    for (size_t i = 0; i < spatial; ++i)
      at.push_back(body.dim(k + 1 + i) * conv.stride[i] + body.dim(n + 1 + i) * conv.dilation[i] -
                   conv.padding[i]);
    return body.readPadded(large, at, body.constant(elementType(large), 0));
  };
  c.lhs = lhs;
  c.rhs = rhs;
  Value result = call.kernels.contract(c, elementType(conv.weight));
  return grouped ? call.kernels.reshape(result, weightShape) : result;
}

/// Gradients of input, weight and bias, those that `output_mask` asks for.
static LogicalResult lowerConvolutionBackward(Call &call) {
  Value gradient = call.tensor("grad_output"), input = call.tensor("input");
  Conv conv;
  conv.weight = call.tensor("weight");
  if (rankOf(conv.weight) < 3)
    return call.refuse("no spatial dim");
  size_t spatial = rankOf(conv.weight) - 2;
  conv.stride = call.ints("stride", spatial);
  conv.dilation = call.ints("dilation", spatial);
  conv.padding = call.symInts("padding", spatial);
  conv.groups = call.ints("groups", 1).front();
  bool transposed = call.args.boolean("transposed");
  if (call.kernels.failure)
    return failure();
  Type type = elementType(gradient);
  if (rankOf(gradient) != rankOf(conv.weight) || rankOf(input) != rankOf(conv.weight) ||
      !isFloat(type) || elementType(input) != type || elementType(conv.weight) != type)
    return call.refuse("tensors of these ranks or dtypes");
  SmallVector<bool> wanted = call.args.booleanList("output_mask");
  if (wanted.size() != 3 || conv.groups <= 0)
    return call.refuse("these groups or this output_mask");
  Value results[3];
  if (wanted[0] && !call.isUnused(0)) {
    // The convolution that goes the other way, with the same weights.
    conv.x = gradient;
    conv.transposed = !transposed;
    conv.output = Exprs(ArrayRef(shapeOf(input)).drop_front(2));
    results[0] = compute(call, conv);
  }
  if (wanted[1] && !call.isUnused(1))
    results[1] = transposed ? weightGradient(call, conv, input, gradient)
                            : weightGradient(call, conv, gradient, input);
  if (wanted[2] && !call.isUnused(2)) {
    Exprs shape = shapeOf(gradient), summed = shape;
    summed.erase(summed.begin() + 1);
    Type wide = opmath(type);
    results[2] = call.kernels.map({shape[1]}, type, [&](BodyBuilder &body) {
      return body.sum(summed, wide, [&](BodyBuilder &inner) {
        Exprs at = inner.ownDims();
        at.insert(at.begin() + 1, body.dim(0));
        return convert(inner.read(gradient, at), wide);
      });
    });
  }
  return call.kernels.failure ? failure() : call.set(results);
}

void lowering::registerConv(LoweringTable &table) {
  for (size_t spatial : {1, 2, 3}) {
    std::string conv = ("aten.conv" + Twine(spatial) + "d.").str();
    table.add(conv + "default", [=](Call &call) { return lowerConvolution(call, spatial, false); });
    table.add(conv + "padding", [=](Call &call) { return lowerNamedPadding(call, spatial); });
  }
  table.add("aten.conv_transpose1d.default",
            [](Call &call) { return lowerConvolution(call, 1, true); });
  table.add("aten.conv_transpose2d.input",
            [](Call &call) { return lowerConvolution(call, 2, true); });
  table.add("aten.conv_transpose3d.input",
            [](Call &call) { return lowerConvolution(call, 3, true); });
  table.add(
      {"aten.convolution.default", "aten._convolution.default", "aten._convolution.deprecated"},
      lowerAnyConvolution);
  table.add("aten.conv_tbc.default", lowerConvTbc);
  table.add("aten.convolution_backward.default", lowerConvolutionBackward);
}
