// Discrete Fourier transforms. A dim of constant size is split by its prime factors (Cooley and
// Tukey, 1965), each step a short sum; a dynamic one is summed up as it is. Real and imaginary
// parts are tensors of their own, which vectors can hold.
#include "kiln/Lowering/Lowering.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// A complex tensor by its parts.
struct Parts {
  Value re, im;
};

/// How a transform is scaled.
enum class Scale { None, Length, Root };

class Transform {
public:
  /// Computes in f64: errors add up along a transform.
  explicit Transform(Call &call)
      : kernels(call.kernels), real(Float64Type::get(call.args.op().getContext())) {}

  /// The parts of a real or complex tensor.
  Parts split(Value tensor) {
    SmallVector<Value> parts = kernels.map(shapeOf(tensor), {real, real}, [&](BodyBuilder &body) {
      Element x = body.broadcast(tensor);
      if (!isComplex(x.type()))
        return BodyBuilder::Elements{convert(x, real), body.constant(real, 0)};
      return BodyBuilder::Elements{convert(lowering::real(x), real), convert(imag(x), real)};
    });
    return {parts[0], parts[1]};
  }

  Value join(Parts x, Type part) {
    return kernels.map(shapeOf(x.re), ComplexType::get(part), [&](BodyBuilder &body) {
      return makeComplex(convert(body.broadcast(x.re), part), convert(body.broadcast(x.im), part));
    });
  }

  /// `size` elements along `dim`: cut off, or filled with zeros.
  Parts resize(Parts x, int64_t dim, Expr size) {
    Exprs shape = shapeOf(x.re);
    if (kernels.isSame(shape[dim], size))
      return x;
    shape[dim] = size;
    auto one = [&](Value tensor) {
      return kernels.map(shape, real, [&](BodyBuilder &body) {
        return body.readPadded(tensor, body.ownDims(), body.constant(real, 0));
      });
    };
    return {one(x.re), one(x.im)};
  }

  Parts conjugate(Parts x) {
    return {x.re, kernels.map(shapeOf(x.im), real,
                              [&](BodyBuilder &body) { return -body.broadcast(x.im); })};
  }

  /// The first half of a spectrum with X[n - k] = conj(X[k]), as the whole of `size` elements.
  Parts completeHalf(Parts x, int64_t dim, Expr size) {
    Exprs shape = shapeOf(x.re);
    Expr half = size.floorDiv(2) + 1;
    shape[dim] = size;
    auto one = [&](Value tensor, bool negate) {
      return kernels.map(shape, real, [&](BodyBuilder &body) {
        Exprs at = body.ownDims(), mirrored = at;
        mirrored[dim] = size - at[dim];
        Element first = body.index(at[dim]) < body.index(half);
        Element zero = body.constant(real, 0);
        Element x = body.readPadded(tensor, at, zero), y = body.readPadded(tensor, mirrored, zero);
        return select(first, x, negate ? -y : y);
      });
    };
    return {one(x.re, false), one(x.im, true)};
  }

  Parts run(Parts x, int64_t dim, bool forward, Scale scale) {
    Exprs shape = shapeOf(x.re);
    Expr length = shape[dim];
    Expr before = sym::product(ArrayRef(shape).take_front(dim));
    Expr after = sym::product(ArrayRef(shape).drop_front(dim + 1));
    Exprs flat = {before, length, after};
    x = {kernels.reshape(x.re, flat), kernels.reshape(x.im, flat)};
    Value table = twiddles(length, forward);
    x = transform(x, flat, length, table, 1);
    if (scale != Scale::None)
      x = {scaled(x.re, length, scale), scaled(x.im, length, scale)};
    return {kernels.reshape(x.re, shape), kernels.reshape(x.im, shape)};
  }

private:
  /// exp(∓2πi·j/length) for each j, as [length, 2]. The angle within its eighth of the circle is
  /// an exact fraction, so that zeros are zeros and what is symmetric stays so: the transform of
  /// real numbers has no imaginary part in the middle.
  Value twiddles(Expr length, bool forward) {
    Type f64 = kernels.b().getF64Type(), i64 = kernels.b().getI64Type();
    return kernels.map({length, 2}, real, [&](BodyBuilder &body) {
      Expr eighth = (body.dim(0) * 8).floorDiv(length);
      Element number = body.index(eighth), size = body.index(length), one = number.constant(1);
      Element rest = body.index(body.dim(0) * 8 - eighth * length);
      Element part = select((number & one) == one, size - rest, rest); // odd eighths from their end
      Element angle = convert(part, f64) * (M_PI / 4) / convert(size, f64);
      Element isReal = body.index(body.dim(1)) == body.constant(i64, 0);
      Element isSwapped = ((number + one) & number.constant(3)) >= number.constant(2);
      Element hasSine = isReal ^ ~isSwapped, sine = apply<math::SinOp>(angle);
      Element value = select(hasSine, sine, apply<math::CosOp>(angle));
      Element left = (number + number.constant(2)) & number.constant(4);
      Element below = number & number.constant(4);
      Element sign = select(isReal, left, forward ? number.constant(4) - below : below);
      return select(sign == number.constant(0), value, 0.0 - value);
    });
  }

  struct Number {
    Element re, im;
  };
  Number factor(BodyBuilder &body, Value table, Expr power) {
    return {body.read(table, Exprs{power, 0}), body.read(table, Exprs{power, 1})};
  }
  static Number multiply(Number a, Number b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }

  /// Smallest factors together, as long as a step stays short; those of 2 in the end. An odd step
  /// leaves the middle of a spectrum to the steps after it, a product with no twiddle.
  static int64_t radixOf(int64_t length) {
    constexpr int64_t most = 16;
    int64_t radix = 1, odd = length >> llvm::countr_zero(uint64_t(length));
    auto hasRoom = [&](int64_t prime) { return radix == 1 || radix * prime <= most; };
    for (int64_t prime = 3; odd > 1; prime += 2) {
      if (prime * prime > odd)
        prime = odd;
      for (; odd % prime == 0; odd /= prime, radix *= prime)
        if (!hasRoom(prime))
          return radix;
    }
    for (; length / radix % 2 == 0 && hasRoom(2); radix *= 2)
      ;
    return radix;
  }

  /// Transforms dim 1 of [before, length, after]. `table` has the powers for `step` times `length`.
  Parts transform(Parts x, Exprs shape, Expr length, Value table, int64_t step) {
    std::optional<int64_t> constant = length.constant();
    int64_t radix = constant && *constant > 1 ? radixOf(*constant) : 1;
    bool whole = !constant || radix == *constant;
    if (constant && *constant <= 1)
      return x;
    Expr first = whole ? length : Expr(radix), second = whole ? Expr(1) : Expr(*constant / radix);
    // X[k1 + first·k2] = sum over n2 of W^(n2·k1) · (sum over n1 of x[second·n1 + n2] · V^(n1·k1))
    // · U^(n2·k2): the inner sum and the factor before the next step, on [before, k1, n2, after].
    Exprs stage = {shape[0], first, second, shape[2]};
    SmallVector<Value> sums = kernels.map(stage, {real, real}, [&](BodyBuilder &body) {
      Element zero = body.constant(real, 0);
      BodyBuilder::Elements sum = body.reduce(
          {first}, {zero, zero},
          [&](BodyBuilder &inner) {
            Expr n1 = inner.dim(4), k1 = inner.dim(1), n2 = inner.dim(2);
            Exprs at = {inner.dim(0), second * n1 + n2, inner.dim(3)};
            Number value = {inner.read(x.re, at), inner.read(x.im, at)};
            Expr power = (n1 * k1).mod(first) * second * step;
            Number product = multiply(value, factor(inner, table, power));
            return BodyBuilder::Elements{product.re, product.im};
          },
          [](ArrayRef<Element> a, ArrayRef<Element> b) {
            return BodyBuilder::Elements{a[0] + b[0], a[1] + b[1]};
          });
      Number result = {sum[0], sum[1]};
      if (!whole)
        result = multiply(result, factor(body, table, body.dim(1) * body.dim(2) * step));
      return BodyBuilder::Elements{result.re, result.im};
    });
    if (whole)
      return {kernels.reshape(sums[0], shape), kernels.reshape(sums[1], shape)};
    Exprs rest = {shape[0] * first, second, shape[2]};
    Parts next = {kernels.reshape(sums[0], rest), kernels.reshape(sums[1], rest)};
    next = transform(next, rest, second, table, step * radix);
    auto restore = [&](Value tensor) { // [before, k1, k2, after] -> k1 + first·k2
      Value split = kernels.reshape(tensor, stage);
      return kernels.reshape(kernels.permute(split, {0, 2, 1, 3}), shape);
    };
    return {restore(next.re), restore(next.im)};
  }

  Value scaled(Value tensor, Expr length, Scale scale) {
    Type f64 = kernels.b().getF64Type();
    return kernels.map(shapeOf(tensor), real, [&](BodyBuilder &body) {
      Element by = convert(body.index(length), f64);
      by = 1.0 / (scale == Scale::Root ? sqrt(by) : by);
      return body.broadcast(tensor) * convert(by, real);
    });
  }

  KernelBuilder &kernels;
  Type real;
};

/// One of the fft functions.
struct FftKind {
  bool forward;
  bool realInput = false;  // gives the first half of the spectrum
  bool realOutput = false; // takes it
  bool conjugate = false;  // hfft, ihfft
  bool twoDims = false, manyDims = false;
};
} // namespace

/// The real type to compute in; null for what has no transform.
static Type realType(Call &call, Value self) {
  Type type = elementType(self);
  if (auto complexType = dyn_cast<ComplexType>(type))
    type = complexType.getElementType();
  type = toFloat(type);
  if (type.isF32() || type.isF64())
    return type;
  call.kernels.fail("this dtype");
  return {};
}

static std::optional<Scale> scaleOf(Call &call, bool forward) {
  StringRef norm = call.args.string("norm");
  if (norm.empty() || norm == "backward")
    return forward ? Scale::None : Scale::Length;
  if (norm == "forward")
    return forward ? Scale::Length : Scale::None;
  if (norm == "ortho")
    return Scale::Root;
  call.kernels.fail("this norm");
  return std::nullopt;
}

static LogicalResult lowerFft(Call &call, FftKind kind) {
  Value self = call.tensor(0);
  int64_t rank = rankOf(self);
  Type real = realType(call, self);
  auto scale = scaleOf(call, kind.forward);
  if (!real || !scale)
    return failure();
  SmallVector<int64_t> dims;
  std::optional<Exprs> sizes;
  if (kind.twoDims || kind.manyDims) {
    sizes = call.args.optSymIntList("s");
    if (auto given = call.args.optIntList("dim"))
      dims = *given;
    else
      for (int64_t i = sizes ? rank - int64_t(sizes->size()) : 0; i < rank; ++i)
        dims.push_back(i);
  } else {
    dims = {call.args.integer("dim")};
    if (auto n = call.args.optSymInt("n"))
      sizes = Exprs{*n};
  }
  for (int64_t &dim : dims) {
    dim += dim < 0 ? rank : 0;
    if (dim < 0 || dim >= rank)
      return call.refuse("a dim is out of range");
  }
  if (sizes && sizes->size() != dims.size())
    return call.refuse("as many sizes as dims are needed");
  Transform transform(call);
  Parts x = transform.split(self);
  if (kind.conjugate && kind.realOutput)
    x = transform.conjugate(x);
  // The last dim is the one that is halved: it is the last of a backward transform.
  for (size_t i = 0; i < dims.size(); ++i) {
    bool last = i + 1 == dims.size();
    int64_t dim = dims[i];
    Expr size = shapeOf(x.re)[dim];
    bool given = sizes && !(*sizes)[i].isConstant(-1);
    if (given)
      size = (*sizes)[i];
    else if (kind.realOutput && last)
      size = 2 * (size - 1);
    call.require(size - 1, "a transform of no elements");
    if (kind.realOutput && last) {
      x = transform.resize(x, dim, call.kernels.known().simplify(size.floorDiv(2) + 1));
      x = transform.completeHalf(x, dim, size);
    } else {
      x = transform.resize(x, dim, size);
    }
    bool forward = kind.conjugate ? !kind.forward : kind.forward;
    if (kind.conjugate && kind.realInput)
      forward = true; // and the conjugate of it
    x = transform.run(x, dim, forward, *scale);
    if (kind.realInput && last)
      x = transform.resize(x, dim, call.kernels.known().simplify(size.floorDiv(2) + 1));
  }
  if (kind.conjugate && kind.realInput)
    x = transform.conjugate(x);
  return call.set(kind.realOutput ? call.kernels.convert(x.re, real) : transform.join(x, real));
}

/// _fft_c2c, _fft_r2c, _fft_c2r: what the functions above become when they are decomposed.
static LogicalResult lowerCoreFft(Call &call) {
  Value self = call.tensor(0);
  int64_t rank = rankOf(self), normalization = call.args.integer("normalization");
  Type real = realType(call, self);
  if (!real)
    return failure();
  SmallVector<int64_t> dims = call.args.intList("dim");
  for (int64_t &dim : dims) {
    dim += dim < 0 ? rank : 0;
    if (dim < 0 || dim >= rank)
      return call.refuse("a dim is out of range");
  }
  if (normalization < 0 || normalization > 2)
    return call.refuse("this normalization");
  Scale scale = normalization == 0 ? Scale::None : normalization == 1 ? Scale::Root : Scale::Length;
  bool fromHalf = call.args.has("last_dim_size"), half = call.args.has("onesided");
  bool forward = call.args.has("forward") ? call.args.boolean("forward") : half;
  Transform transform(call);
  Parts x = transform.split(self);
  for (size_t i = 0; i < dims.size(); ++i) {
    bool last = i + 1 == dims.size();
    if (fromHalf && last) {
      Expr size = call.args.symInt("last_dim_size");
      x = transform.resize(x, dims[i], call.kernels.known().simplify(size.floorDiv(2) + 1));
      x = transform.completeHalf(x, dims[i], size);
    }
    Expr size = shapeOf(x.re)[dims[i]];
    x = transform.run(x, dims[i], forward, scale);
    if (half && last && call.args.boolean("onesided"))
      x = transform.resize(x, dims[i], call.kernels.known().simplify(size.floorDiv(2) + 1));
  }
  return call.set(fromHalf ? call.kernels.convert(x.re, real) : transform.join(x, real));
}

/// The transforms of windows `hop` apart: [batch, frequencies, frames].
static LogicalResult lowerStft(Call &call) {
  Value self = call.tensor(0), window = call.args.optTensor("window");
  bool batched = rankOf(self) == 2;
  if (rankOf(self) != 1 && !batched)
    return call.refuse("a signal of this rank");
  if (call.args.has("center") && call.args.boolean("center"))
    return call.refuse("center = True");
  if (call.args.optBoolean("align_to_window").value_or(false))
    return call.refuse("align_to_window = True");
  Type real = realType(call, self);
  if (!real)
    return failure();
  int64_t length = call.args.integer("n_fft");
  int64_t hop = call.args.optInteger("hop_length").value_or(length / 4);
  int64_t own = call.args.optInteger("win_length").value_or(length);
  bool isReal = !isComplex(elementType(self));
  bool onesided = call.args.optBoolean("onesided")
                      .value_or(isReal && !(window && isComplex(elementType(window))));
  if (length <= 0 || hop <= 0 || own <= 0 || own > length)
    return call.refuse("these lengths");
  if (window &&
      (rankOf(window) != 1 || !call.fits(shapeOf(window)[0], own, "a window of another length")))
    return call.refuse("a window of another length");
  Exprs shape = shapeOf(self);
  Expr frames = call.kernels.known().simplify((shape.back() - length).floorDiv(hop) + 1);
  Expr batch = batched ? shape[0] : Expr(1);
  self = call.kernels.reshape(self, {batch, shape.back()});
  int64_t left = (length - own) / 2; // the window stands in the middle
  Type full = window && isComplex(elementType(window)) ? elementType(window) : elementType(self);
  Value windows = call.kernels.map({batch, frames, length}, full, [&](BodyBuilder &body) {
    Element x = convert(body.read(self, Exprs{body.dim(0), body.dim(1) * hop + body.dim(2)}), full);
    if (!window && own == length)
      return x;
    Expr at = body.dim(2) - left;
    if (!window)
      return select(body.inside({at}, {Expr(own)}), x, body.constant(full, 0));
    Element zero = body.constant(elementType(window), 0);
    return x * convert(body.readPadded(window, Exprs{at}, zero), full);
  });
  Transform transform(call);
  Parts x = transform.split(windows);
  x = transform.run(x, 2, /*forward=*/true,
                    call.args.boolean("normalized") ? Scale::Root : Scale::None);
  if (onesided)
    x = transform.resize(x, 2, Expr(length / 2 + 1));
  Value result = call.kernels.permute(transform.join(x, real), {0, 2, 1});
  Exprs resultShape = shapeOf(result);
  if (!batched)
    resultShape.erase(resultShape.begin());
  result = call.kernels.reshape(result, resultShape);
  if (isComplex(call.resultType()))
    return call.set(result);
  // Without return_complex, parts as a last dim of 2.
  Exprs parts = resultShape;
  parts.push_back(2);
  size_t rank = resultShape.size();
  return call.set(call.kernels.map(parts, real, [&](BodyBuilder &body) {
    Element x = body.read(result, body.dims(0, rank));
    Element second = body.index(body.dim(rank)) == body.constant(body.b().getI64Type(), 1);
    return select(second, imag(x), lowering::real(x));
  }));
}

namespace {
/// Frames of `length` elements, each `hop` behind the one before, under a window of `own` elements
/// in the middle of the frame.
struct Frames {
  explicit Frames(Call &call)
      : window(call.args.optTensor("window")), length(call.args.integer("n_fft")),
        hop(call.args.optInteger("hop_length").value_or(length / 4)),
        own(call.args.optInteger("win_length").value_or(length)), left((length - own) / 2) {}

  /// `combine` gets a frame, which may not be there, a place in it, and the window there, 0 if the
  /// place is outside. Gives the sum over the frames that cover `place` of the signal.
  Element sumOver(BodyBuilder &body, Expr place,
                  function_ref<Element(BodyBuilder &, Expr, Expr, Element)> combine) const {
    Type f64 = body.b().getF64Type();
    return body.sum({Expr((length + hop - 1) / hop)}, f64, [&](BodyBuilder &inner) {
      Expr frame = place.floorDiv(hop) - inner.dim(inner.numDims() - 1);
      Expr at = place - frame * hop;
      Element zero = inner.constant(f64, 0), weight = inner.constant(f64, 1);
      if (window)
        weight = convert(
            inner.readPadded(window, Exprs{at - left}, inner.constant(elementType(window), 0)),
            f64);
      weight = select(inner.inside({frame, at - left}, {count, Expr(own)}), weight, zero);
      return combine(inner, frame, at, weight);
    });
  }

  Value window;
  int64_t length, hop, own, left;
  Expr count;
};
} // namespace

/// The signal of such transforms: what the windows that cover a place have there, over the sum of
/// the squares of the window.
static LogicalResult lowerIstft(Call &call) {
  Value self = call.tensor(0);
  Type real = realType(call, self), f64 = call.kernels.b().getF64Type();
  if (!real)
    return failure();
  bool batched = rankOf(self) == 3, isComplexSignal = call.args.boolean("return_complex");
  if ((rankOf(self) != 2 && !batched) || !isComplex(elementType(self)))
    return call.refuse("spectra of this rank or dtype");
  Exprs shape = shapeOf(self);
  Expr batch = batched ? shape[0] : Expr(1), bins = shape[shape.size() - 2];
  Frames frames(call);
  frames.count = shape.back();
  int64_t length = frames.length;
  bool onesided =
      call.args.optBoolean("onesided").value_or(!call.kernels.isSame(bins, Expr(length)));
  if (length <= 0 || frames.hop <= 0 || frames.own <= 0 || frames.own > length ||
      frames.hop > frames.own || (onesided && isComplexSignal) ||
      !call.fits(bins, Expr(onesided ? length / 2 + 1 : length), "another number of frequencies"))
    return call.refuse("these lengths");
  if (Value window = frames.window;
      window && (rankOf(window) != 1 || isComplex(elementType(window)) ||
                 !call.fits(shapeOf(window)[0], frames.own, "a window of another length")))
    return call.refuse("a window of another length, or of complex numbers");

  Transform transform(call);
  Value spectra = call.kernels.reshape(self, {batch, bins, frames.count});
  Parts x = transform.split(call.kernels.permute(spectra, {0, 2, 1}));
  if (!isComplexSignal) {
    x = transform.resize(x, 2, Expr(length / 2 + 1));
    x = transform.completeHalf(x, 2, Expr(length));
  }
  x = transform.run(x, 2, /*forward=*/false,
                    call.args.boolean("normalized") ? Scale::Root : Scale::Length);

  Expr start = call.args.boolean("center") ? length / 2 : 0;
  Expr end = length + frames.hop * (frames.count - 1), signal = call.resultShape().back();
  Value squares = call.kernels.map({signal}, f64, [&](BodyBuilder &body) {
    return frames.sumOver(body, body.dim(0) + start, [](BodyBuilder &, Expr, Expr, Element weight) {
      return weight * weight;
    });
  });
  Value isCovered = call.kernels.map({}, call.kernels.b().getI1Type(), [&](BodyBuilder &body) {
    return body.all({signal}, [&](BodyBuilder &inner) {
      Element square = inner.read(squares, inner.ownDims());
      return ~(square < square.constant(1e-11)) | ~inner.inside({inner.dim(0) + start}, {end});
    });
  });
  call.require(isCovered, "istft: there are places that no window covers");
  auto signalOf = [&](Value part) {
    return call.kernels.map({batch, signal}, real, [&](BodyBuilder &body) {
      Expr place = body.dim(1) + start;
      Element zero = body.constant(f64, 0);
      auto addWeighted = [&](BodyBuilder &inner, Expr frame, Expr at, Element weight) {
        return inner.readPadded(part, Exprs{inner.dim(0), frame, at}, zero) * weight;
      };
      Element sum = frames.sumOver(body, place, addWeighted);
      return select(body.inside({place}, {end}), sum / body.read(squares, Exprs{body.dim(1)}),
                    zero);
    });
  };
  Value result = signalOf(x.re);
  if (isComplexSignal) {
    Value imaginary = signalOf(x.im);
    result = call.kernels.map({batch, signal}, call.resultType(), [&](BodyBuilder &body) {
      return makeComplex(body.broadcast(result), body.broadcast(imaginary));
    });
  }
  return call.set(call.kernels.reshape(result, call.resultShape()));
}

/// Rolls each dim by half its size: zero to the middle, or back.
static LogicalResult shift(Call &call, bool inverse) {
  Value self = call.tensor(0);
  SmallVector<int64_t> dims;
  if (!call.args.isNone("dim") && call.args.optIntList("dim") && call.args.intList("dim").empty())
    return call.set(self);
  dims = call.dims("dim", rankOf(self));
  Exprs shape = shapeOf(self);
  return call.set(call.kernels.view(self, shape, [&](ArrayRef<Expr> at) {
    Exprs index(at);
    for (int64_t dim : dims) {
      Expr half = inverse ? (shape[dim] + 1).floorDiv(2) : shape[dim].floorDiv(2);
      if (!shape[dim].isConstant(0))
        index[dim] = (at[dim] - half).mod(shape[dim]);
    }
    return index;
  }));
}

void lowering::registerFft(LoweringTable &table) {
  struct Name {
    StringRef name;
    FftKind kind;
  };
  const Name names[] = {{"fft", {true}},
                        {"ifft", {false}},
                        {"rfft", {true, true}},
                        {"irfft", {false, false, true}},
                        {"hfft", {true, false, true, true}},
                        {"ihfft", {false, true, false, true}}};
  for (const Name &entry : names)
    for (StringRef suffix : {"", "2", "n"}) {
      FftKind kind = entry.kind;
      kind.twoDims = suffix == "2";
      kind.manyDims = suffix == "n";
      table.add(("aten.fft_" + entry.name + suffix + ".default").str(),
                [kind](Call &call) { return lowerFft(call, kind); });
    }
  table.add({"aten._fft_c2c.default", "aten._fft_r2c.default", "aten._fft_c2r.default"},
            lowerCoreFft);
  table.add({"aten.stft.default", "aten.stft.center"}, lowerStft);
  table.add("aten.istft.default", lowerIstft);
  table.add("aten.fft_fftshift.default", [](Call &call) { return shift(call, false); });
  table.add("aten.fft_ifftshift.default", [](Call &call) { return shift(call, true); });
}
