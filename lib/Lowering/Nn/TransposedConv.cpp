// Transposed convolutions with strides, as convolutions without. Output position o comes from input
// position i through position t of the kernel where
//
//   o + padding = i * stride + t * dilation
//
// and so the phase of o, (o + padding) mod stride, says which t there are. With stride 2 and a kernel
// of 3, even phases have t = 0 and 2, and odd ones t = 1:
//
//   o + padding            0   1   2   3   4
//   q = … floordiv 2       0   0   1   1   2       i = q - shift - (number of t) * dilation'
//   phase                  0   1   0   1   0
//
// If all phases have as many t and these meet the same inputs, then phases are columns of one
// product. Otherwise each phase is a convolution of its own, and a map takes each output from there.
// Zeros that would give all phases as many positions would spread infinities and NaN to neighbours.
#include "Conv.h"
#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// One phase along one spatial dim: outputs q < size, and the positions first + t * step of the kernel,
/// for t < count, which meet the inputs q - shift - t * dilation.
struct Phase {
  Expr size, shift;
  int64_t first = 0, step = 1, count = 0, dilation = 1;
};

/// The phases computed at once: one along each spatial dim. If `together`, it is phase 0, and those
/// dims that have a stride have a further dim for all of their phases.
struct Part {
  SmallVector<Phase> phases;
  bool together = false;
};
} // namespace

/// More kernels than this are not made, and no more columns for each output.
static constexpr int64_t maxParts = 16, maxStride = 64;

static Phase getPhase(int64_t kernel, int64_t stride, int64_t dilation, int64_t phase) {
  Phase result;
  result.step = stride / std::gcd(stride, dilation);
  result.dilation = result.step * dilation / stride;
  int64_t &first = result.first;
  while (first < result.step && first * dilation % stride != phase)
    ++first;
  if (first < std::min(result.step, kernel))
    result.count = (kernel - first + result.step - 1) / result.step;
  result.shift = (first * dilation - phase) / stride;
  return result;
}

/// Loops over a kernel of size 1 are none.
static Exprs kernelExtents(const Part &part) {
  Exprs extents;
  for (const Phase &phase : part.phases)
    if (phase.count != 1)
      extents.push_back(phase.count);
  return extents;
}

/// Sizes of the dims for phases.
static Exprs phaseExtents(const Conv &conv, const Part &part) {
  Exprs extents;
  for (int64_t stride : conv.stride)
    if (part.together && stride > 1)
      extents.push_back(stride);
  return extents;
}

/// The input at outputs `q` for the loops `taps` over the kernel.
static Element readInput(BodyBuilder &body, const Conv &conv, const Part &part, Expr n,
                         Expr channel, ArrayRef<Expr> q, ArrayRef<Expr> taps) {
  Exprs at = {n, channel};
  for (auto [phase, output] : llvm::zip_equal(part.phases, q)) {
    at.push_back(output - phase.shift);
    if (phase.count != 1) {
      at.back() = at.back() - taps.front() * phase.dilation;
      taps = taps.drop_front();
    }
  }
  return body.readPadded(conv.x, at, body.constant(elementType(conv.x), 0));
}

static Element readWeight(BodyBuilder &body, const Conv &conv, const Part &part, Expr input,
                          Expr output, ArrayRef<Expr> phases, ArrayRef<Expr> taps) {
  Exprs at = {input, output};
  for (auto [phase, stride] : llvm::zip_equal(part.phases, conv.stride)) {
    at.push_back(phase.first);
    if (part.together && stride > 1) {
      at.back() = phases.front();
      phases = phases.drop_front();
    }
    if (phase.count != 1) {
      at.back() = at.back() + taps.front() * phase.step;
      taps = taps.drop_front();
    }
  }
  return body.read(conv.weight, at);
}

/// [N, q…, phase…, C] as a product: m = (N, q…), n = (phase…, outputs), k = (kernel…, inputs), and
/// groups are batches.
static Value product(Call &call, const Conv &conv, const Part &part) {
  bool grouped = conv.groups > 1;
  Expr inputs = conv.channelsPerGroup(), outputs = conv.outputsPerGroup();
  Contraction c;
  if (grouped)
    c.batch = {Expr(conv.groups)};
  c.m = {shapeOf(conv.x)[0]};
  for (const Phase &phase : part.phases)
    c.m.push_back(phase.size);
  c.n = phaseExtents(conv, part);
  c.n.push_back(outputs);
  c.k = kernelExtents(part);
  c.k.push_back(inputs);
  unsigned m = c.batch.size(), n = m + c.m.size(), k = n + c.n.size(), last = k + c.k.size() - 1;
  Expr group = grouped ? Expr::dim(0) : Expr(0);
  auto lhs = [&](BodyBuilder &body) {
    return readInput(body, conv, part, body.dim(m), group * inputs + body.dim(last),
                     body.dims(m + 1, n), body.dims(k, last));
  };
  auto rhs = [&](BodyBuilder &body) {
    return readWeight(body, conv, part, group * inputs + body.dim(last), body.dim(k - 1),
                      body.dims(n, k - 1), body.dims(k, last));
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    return addBias(body, conv, sum, group * outputs + body.dim(k - 1));
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  if (grouped) { // groups beside their outputs
    c.perm = llvm::to_vector(llvm::seq<int64_t>(m, k - 1));
    c.perm.append({0, static_cast<int64_t>(k) - 1});
  }
  Value result = call.kernels.contract(c, elementType(conv.x));
  if (!grouped)
    return result;
  Exprs flat = shapeOf(result);
  flat.pop_back();
  flat.back() = outputs * conv.groups;
  return call.kernels.reshape(result, flat);
}

/// [N, q…, phase…, C] as [N, spatial…, C], from which as many elements are left out in front as the
/// padding exceeds a multiple of the stride by.
static Value interleave(Call &call, const Conv &conv, Value phases) {
  size_t spatial = conv.spatial();
  Exprs all = shapeOf(phases), shape = {all[0]}, whole = shape;
  SmallVector<int64_t> perm = {0};
  int64_t next = 1 + static_cast<int64_t>(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    shape.push_back(conv.output[i]);
    whole.push_back(all[1 + i] * conv.stride[i]);
    perm.push_back(1 + static_cast<int64_t>(i));
    if (conv.stride[i] > 1)
      perm.push_back(next++);
  }
  perm.push_back(next);
  shape.push_back(all.back());
  whole.push_back(all.back());
  Value result = call.kernels.reshape(call.kernels.permute(phases, perm), whole);
  return call.kernels.view(result, shape, [&](ArrayRef<Expr> dims) {
    Exprs index(dims);
    for (size_t i = 0; i < spatial; ++i)
      index[1 + i] = dims[1 + i] + conv.padding[i].mod(conv.stride[i]);
    return index;
  });
}

/// All phases at once.
static Value computeTogether(Call &call, const Conv &conv) {
  Part part;
  part.together = true;
  for (size_t i = 0; i < conv.spatial(); ++i) {
    int64_t stride = conv.stride[i];
    Phase phase = getPhase(*conv.kernel(i).constant(), stride, conv.dilation[i], 0);
    // q counts from that of the first output.
    Expr first = conv.padding[i].floorDiv(stride);
    Expr last = (conv.output[i] + conv.padding[i] - 1).floorDiv(stride);
    phase.size = call.kernels.known().simplify(last - first + 1);
    phase.shift = phase.shift - first;
    part.phases.push_back(phase);
  }
  return interleave(call, conv, product(call, conv, part));
}

/// Each phase on its own, and each output of [N, spatial…, C] from where o mod stride says. One that
/// no input meets has the bias alone.
static Value computeApart(Call &call, const Conv &conv) {
  size_t spatial = conv.spatial();
  SmallVector<std::pair<Exprs, Value>> results; // by o mod stride
  int64_t numParts =
      std::accumulate(conv.stride.begin(), conv.stride.end(), int64_t(1), std::multiplies<>());
  for (int64_t number = 0; number < numParts; ++number) {
    Part part;
    Exprs remainders;
    int64_t rest = number;
    for (size_t i = 0; i < spatial; ++i) {
      int64_t stride = conv.stride[i], remainder = rest % stride;
      int64_t padded = remainder + *conv.padding[i].constant();
      rest /= stride;
      Phase phase = getPhase(*conv.kernel(i).constant(), stride, conv.dilation[i], padded % stride);
      phase.size = call.kernels.known().simplify((conv.output[i] - 1).floorDiv(stride) + 1);
      phase.shift = phase.shift - padded / stride;
      part.phases.push_back(phase);
      remainders.push_back(remainder);
    }
    if (llvm::all_of(part.phases, [](const Phase &phase) { return phase.count > 0; }))
      results.emplace_back(remainders, product(call, conv, part));
  }

  Exprs shape = {shapeOf(conv.x)[0]};
  llvm::append_range(shape, conv.output);
  shape.push_back(conv.outputsPerGroup() * conv.groups);
  Type type = elementType(conv.x);
  return call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs index = body.ownDims();
    Element value = addBias(body, conv, body.constant(opmath(type), 0), index.back());
    value = convert(value, type);
    for (const auto &[remainders, result] : results) {
      Exprs at = index, differences, ones;
      for (size_t i = 0; i < spatial; ++i) {
        at[1 + i] = index[1 + i].floorDiv(conv.stride[i]);
        if (conv.stride[i] > 1) {
          differences.push_back(index[1 + i].mod(conv.stride[i]) - remainders[i]);
          ones.push_back(1);
        }
      }
      value = body.read(result, at, body.inside(differences, ones), value);
    }
    return value;
  });
}

Value lowering::transposedByPhase(Call &call, const Conv &conv) {
  int64_t numParts = 1;
  bool isConstant = true, alike = true;
  for (size_t i = 0; i < conv.spatial(); ++i) {
    std::optional<int64_t> kernel = conv.kernel(i).constant(), padding = conv.padding[i].constant();
    int64_t stride = conv.stride[i];
    if (!kernel || *kernel < 1 || stride > maxStride)
      return {};
    isConstant &= padding && *padding >= 0;
    alike &= stride == 1 || (conv.dilation[i] == 1 && *kernel % stride == 0);
    numParts *= stride;
  }
  if (numParts == 1)
    return {};
  if (alike)
    return computeTogether(call, conv);
  return isConstant && numParts <= maxParts ? computeApart(call, conv) : Value();
}
