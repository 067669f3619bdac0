// Products with weights of four bits: packed by blocks of columns, and widened where they are
// multiplied; with dynamic quantization, the rows are rounded to eight bits when the model runs.
//
// Whatever the layout of a packed weight, a map brings it into one of our own: byte (k / 2, n) has
// the weights of column n for steps k and k + 1 of the sum. Of a constant that is done at compile
// time.
#include "kiln/Lowering/Int4.h"
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static Value flatten(Call &call, Value tensor) {
  return call.kernels.reshape(tensor, {sym::product(shapeOf(tensor))});
}

/// The lower or (for an odd `which`) the upper half of a byte, in i32.
static Element halfOf(BodyBuilder &body, Element byte, Expr which) {
  Type i32 = body.b().getI32Type();
  Element shift = convert(body.index(which.mod(2) * 4), i32);
  return shiftRight(convert(byte, i32), shift) & body.constant(i32, 15);
}

/// Two of them in a byte. The lower one is not masked.
static Element byteOf(BodyBuilder &body, Element lower, Element upper) {
  Type i32 = body.b().getI32Type();
  Type byte = IntegerType::get(i32.getContext(), 8, IntegerType::Unsigned);
  return convert(convert(lower, i32) | shiftLeft(convert(upper, i32), body.constant(i32, 4)), byte);
}

//===-- Weights packed by a CPU ---------------------------------------------------------------===//

std::pair<Expr, Expr> Int4Part::locate(Expr n, Expr k) const {
  Expr column = (n - first).mod(block);
  Expr byte = halves ? column.mod(block / 2) : column.floorDiv(2);
  Expr half = halves ? column.floorDiv(block / 2) : column.mod(2);
  Expr start = (n - first).floorDiv(block) * (sums * block / 2);
  return {begin() + start + k * (block / 2) + byte, half};
}

std::pair<Expr, Expr> Int4Part::columnOf(Expr at) const {
  Expr byte = at - begin(), inBlock = byte.mod(sums * block / 2);
  Expr column = inBlock.mod(block / 2) * (halves ? 1 : 2);
  return {inBlock.floorDiv(block / 2), first + byte.floorDiv(sums * block / 2) * block + column};
}

SmallVector<Int4Part, 2> lowering::getInt4Parts(int64_t columns, int64_t sums, StringRef vectors) {
  int64_t block = vectors == "avx512" ? 64 : 32, rest = columns % block;
  SmallVector<Int4Part, 2> parts;
  if (columns != rest)
    parts.push_back({0, columns - rest, block, sums, vectors != "none"});
  if (rest != 0)
    parts.push_back({columns - rest, rest, rest, sums, false});
  return parts;
}

/// The parts of a weight [columns, sums]. Empty if this cannot be told.
static SmallVector<Int4Part, 2> getParts(Call &call, Expr columns, Expr sums) {
  std::optional<int64_t> n = columns.constant(), k = sums.constant();
  if (!n || !k || *n <= 0 || *k <= 0 || *n % 16 != 0 || *k % 2 != 0)
    return {};
  auto module = call.args.op()->getParentOfType<ModuleOp>();
  auto attribute = module->getAttrOfType<StringAttr>(int4LayoutAttrName);
  return getInt4Parts(*n, *k, attribute ? attribute.getValue() : "avx512");
}

/// The value of `compute` for the part in which `at` is; `bound` says where a part ends.
static Element selectPart(BodyBuilder &body, ArrayRef<Int4Part> parts, Expr at,
                          function_ref<Expr(const Int4Part &)> bound,
                          function_ref<Element(const Int4Part &, Element mask)> compute) {
  if (parts.size() == 1)
    return compute(parts[0], Element());
  Element isFirst = body.inside({at}, {bound(parts[0])});
  return select(isFirst, compute(parts[0], isFirst), compute(parts[1], ~isFirst));
}

static LogicalResult lowerPack(Call &call) {
  Value weight = call.tensor(0);
  if (rankOf(weight) != 2 || !elementType(weight).isInteger(32))
    return call.refuse("a weight of this dtype or rank");
  Exprs shape = shapeOf(weight);
  SmallVector<Int4Part, 2> parts = getParts(call, shape[0], shape[1]);
  if (parts.empty())
    return call.refuse("columns that are not a known multiple of 16, or sums not one of 2");
  return call.set(
      call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) -> Element {
        Expr at = body.dim(0) * shape[1].floorDiv(2) + body.dim(1);
        auto end = [](const Int4Part &part) { return part.begin() + part.size(); };
        auto pair = [&](const Int4Part &part, Element mask) {
          auto [k, n] = part.columnOf(at);
          auto read = [&](Expr column) {
            Exprs index{column, k};
            return mask ? body.read(weight, index, mask, body.constant(elementType(weight), 0))
                        : body.read(weight, index);
          };
          return byteOf(body, read(n), read(n + part.step()));
        };
        return selectPart(body, parts, at, end, pair);
      }));
}

/// The packed weight as bytes [k / 2, n].
static Value unpack(Call &call, Value packed, ArrayRef<Int4Part> parts, Expr columns, Expr sums) {
  Value bytes = flatten(call, packed);
  Type type = elementType(packed);
  return call.kernels.map({sums.floorDiv(2), columns}, type, [&](BodyBuilder &body) -> Element {
    Expr n = body.dim(1);
    auto nibble = [&](Expr k) {
      auto end = [](const Int4Part &part) { return Expr(part.first + part.columns); };
      return selectPart(body, parts, n, end, [&](const Int4Part &part, Element mask) {
        auto [at, half] = part.locate(n, k);
        Exprs index{at};
        Element byte =
            mask ? body.read(bytes, index, mask, body.constant(type, 0)) : body.read(bytes, index);
        return halfOf(body, byte, half);
      });
    };
    return byteOf(body, nibble(body.dim(0) * 2), nibble(body.dim(0) * 2 + 1));
  });
}

//===-- Products ------------------------------------------------------------------------------===//

/// Weight (k, n) of bytes [k / 2, n]: -8, …, 7.
static Element readWeight(BodyBuilder &body, Value bytes, Expr k, Expr n, Type type) {
  Element four = halfOf(body, body.read(bytes, Exprs{k.floorDiv(2), n}), k);
  return convert(four - four.constant(8), type);
}

/// x[m, k] · (weight[n, k] * scale + zero), of which there are two for each group of k and each n.
static LogicalResult lowerProduct(Call &call) {
  Value x = call.tensor(0), packed = call.tensor(1), parameters = call.tensor(3);
  int64_t group = call.args.integer(2);
  Type type = elementType(x);
  if (!isFloat(type) || type.isF64() || elementType(parameters) != type ||
      !elementType(packed).isUnsignedInteger(8))
    return call.refuse("these dtypes");
  if (rankOf(x) != 2 || rankOf(packed) != 2 || rankOf(parameters) != 3 || group <= 0)
    return call.refuse("shapes that have no product");
  Expr rows = shapeOf(x)[0], sums = shapeOf(packed)[1] * 2, columns = shapeOf(packed)[0];
  std::optional<int64_t> numSums = sums.constant();
  if (!numSums || *numSums % group != 0 || !call.kernels.isSame(sums, shapeOf(x)[1]) ||
      !call.kernels.isSame(shapeOf(parameters), {Expr(*numSums / group), columns, Expr(2)}))
    return call.refuse("shapes that have no product, or a sum of unknown length");
  SmallVector<Int4Part, 2> parts = getParts(call, columns, sums);
  if (parts.empty())
    return call.refuse("columns that are not a known multiple of 16");

  Value bytes = unpack(call, packed, parts, columns, sums);
  Type f32 = Float32Type::get(type.getContext());
  // The halves of a constant are laid out for vectors at compile time.
  auto separate = [&](int64_t which) {
    return call.kernels.map({Expr(*numSums / group), columns}, f32, [&](BodyBuilder &body) {
      return convert(body.read(parameters, Exprs{body.dim(0), body.dim(1), Expr(which)}), f32);
    });
  };
  Value scales = separate(0), zeros = separate(1);
  Contraction c;
  c.m = {rows};
  c.n = {columns};
  c.k = {sums};
  auto lhs = [&](BodyBuilder &body) {
    return convert(body.read(x, Exprs{body.dim(0), body.dim(2)}), f32);
  };
  auto rhs = [&](BodyBuilder &body) {
    Expr k = body.dim(2), n = body.dim(1);
    Exprs at{k.floorDiv(group), n};
    return readWeight(body, bytes, k, n, f32) * body.read(scales, at) + body.read(zeros, at);
  };
  auto epilogue = [&](BodyBuilder &, Element sum) { return convert(sum, type); };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  return call.set(call.kernels.contract(c, type));
}

//===-- Dynamic quantization ------------------------------------------------------------------===//

/// Weights, scales and bias, one after the other, all as f32: a byte with two weights, too.
static LogicalResult lowerDynamicPack(Call &call) {
  SmallVector<Value> tensors{call.tensor(0), call.tensor(1)};
  if (Value bias = call.args.optTensor(2))
    tensors.push_back(bias);
  Expr size = 0;
  for (Value &tensor : tensors) {
    tensor = flatten(call, tensor);
    size = size + shapeOf(tensor)[0];
  }
  Type type = call.resultType();
  return call.set(call.kernels.map({size}, type, [&](BodyBuilder &body) {
    Expr begin = 0;
    Element value = body.constant(type, 0);
    for (Value tensor : tensors) {
      Expr at = body.dim(0) - begin, length = shapeOf(tensor)[0];
      Element mask = body.inside({at}, {length});
      Element other = body.constant(elementType(tensor), 0);
      value = select(mask, convert(body.read(tensor, Exprs{at}, mask, other), type), value);
      begin = begin + length;
    }
    return value;
  }));
}

/// To the nearest integer, halves away from zero.
static Element roundAway(Element x) {
  Element whole = trunc(x);
  Element up = copysign(x.constant(1), x);
  return select(abs(x - whole) < x.constant(0.5), whole, whole + up);
}

namespace {

/// The parts of a weight packed for products of int8 rows.
struct DynamicWeight {
  Value bytes, scales, bias; // [k / 2, n], [group of k, n], [n] or null
  Expr columns, sums;
  int64_t group;
};

/// Rows as integers: x is (q - zero) / scale.
struct RowScales {
  Value scale, zero;
};

} // namespace

/// Refuses with a reason.
static std::optional<DynamicWeight> getDynamicWeight(Call &call, Value packed) {
  int64_t group = call.args.integer(2), sums = call.args.integer(3), columns = call.args.integer(4);
  auto refuse = [&](const Twine &reason) -> std::optional<DynamicWeight> {
    (void)call.refuse(reason);
    return std::nullopt;
  };
  if (group <= 0 || sums <= 0 || columns <= 0 || sums % 2 != 0 || sums % group != 0 ||
      sums > (int64_t(1) << 31) || columns > (int64_t(1) << 31))
    return refuse("a weight of this size");
  int64_t groups = sums / group, weights = columns * sums / 2, scales = columns * groups;
  bool hasBias = call.kernels.isSame(shapeOf(packed)[0], weights + scales + columns);
  if (!hasBias && !call.kernels.isSame(shapeOf(packed)[0], weights + scales))
    return refuse("a packed weight of this size");
  Type f32 = elementType(packed);
  Type byte = IntegerType::get(f32.getContext(), 8, IntegerType::Unsigned);
  DynamicWeight weight;
  weight.columns = columns;
  weight.sums = sums;
  weight.group = group;
  weight.bytes = call.kernels.map({sums / 2, columns}, byte, [&](BodyBuilder &body) {
    return convert(body.read(packed, Exprs{body.dim(1) * (sums / 2) + body.dim(0)}), byte);
  });
  weight.scales = call.kernels.map({groups, columns}, f32, [&](BodyBuilder &body) {
    return body.read(packed, Exprs{weights + body.dim(1) * groups + body.dim(0)});
  });
  if (hasBias)
    weight.bias = call.kernels.map({columns}, f32, [&](BodyBuilder &body) {
      return body.read(packed, Exprs{weights + scales + body.dim(0)});
    });
  return weight;
}

/// The scale that spreads a row over eight bits, and which of them is zero.
static RowScales scaleRows(Call &call, Value x) {
  Type f32 = Float32Type::get(x.getContext());
  SmallVector<Value> results = call.kernels.map(
      {shapeOf(x)[0]}, {f32, f32}, [&](BodyBuilder &body) -> BodyBuilder::Elements {
        auto element = [&](BodyBuilder &inner) {
          return convert(inner.read(x, inner.dims(0, 2)), f32);
        };
        Element none = body.constant(f32, 0);
        Element least = minimum(body.min({shapeOf(x)[1]}, f32, element), none);
        Element most = maximum(body.max({shapeOf(x)[1]}, f32, element), none);
        Element low = body.constant(f32, -128), high = body.constant(f32, 127);
        Element scale = select(least == most, body.constant(f32, 1), 255.0 / (most - least));
        Element lowZero = low - least * scale, highZero = high - most * scale;
        Element error = (low + least * scale) + (high + most * scale);
        Element zero = select(error > none, lowZero, highZero);
        return {scale, roundEven(minimum(maximum(zero, low), high))};
      });
  return {results[0], results[1]};
}

/// To bf16 by dropping bits, as the rows of bf16 are written.
static Element truncateToHalf(Element x, Type type) {
  Type i32 = x.b().getI32Type();
  Element bits = x.make(arith::BitcastOp::create(x.b(), i32, x.value()), i32);
  bits = bits & bits.constant(int64_t(-65536));
  return convert(x.make(arith::BitcastOp::create(x.b(), x.type(), bits.value()), x.type()), type);
}

/// The product of rounded rows with weights, in which every sum is an integer if there is one scale
/// for a column; if there are more, the weights are scaled before they are multiplied.
static LogicalResult lowerDynamicProduct(Call &call) {
  Value x = call.tensor(0), packed = call.tensor(1);
  Type type = elementType(x), f32 = Float32Type::get(type.getContext());
  if (!(type.isF32() || type.isBF16()) || elementType(packed) != f32)
    return call.refuse("these dtypes");
  if (rankOf(x) != 2 || rankOf(packed) != 1 ||
      !call.kernels.isSame(shapeOf(x)[1], call.args.integer(3)))
    return call.refuse("shapes that have no product");
  std::optional<DynamicWeight> weight = getDynamicWeight(call, packed);
  if (!weight)
    return failure();
  bool inGroups = !weight->sums.isConstant(weight->group);
  if (inGroups && (type != f32 || weight->group % 32 != 0))
    return call.refuse("groups of this size and dtype");
  RowScales rows = scaleRows(call, x);
  // Sums of so many products of 255 and 8 are exact in f32, which is faster.
  constexpr int64_t exactSums = (1 << 24) / (255 * 8);
  bool asInts = !inGroups && weight->group > exactSums;
  Type product = asInts ? Builder(type.getContext()).getI32Type() : f32;
  Contraction c;
  c.m = {shapeOf(x)[0]};
  c.n = {weight->columns};
  c.k = {weight->sums};
  auto lhs = [&](BodyBuilder &body) {
    Exprs row{body.dim(0)};
    Element zero = body.read(rows.zero, row);
    Element value = convert(body.read(x, Exprs{body.dim(0), body.dim(2)}), f32);
    value = roundAway(value * body.read(rows.scale, row)) + zero;
    value = minimum(maximum(value, value.constant(-128)), value.constant(127)) - zero;
    return convert(value, product);
  };
  auto rhs = [&](BodyBuilder &body) {
    Expr n = body.dim(1), k = body.dim(2);
    Element value = readWeight(body, weight->bytes, k, n, product);
    return inGroups ? value * body.read(weight->scales, Exprs{k.floorDiv(weight->group), n})
                    : value;
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    Exprs column{body.dim(1)};
    Element value = convert(sum, f32);
    if (!inGroups)
      value = value * body.read(weight->scales, Exprs{Expr(0), body.dim(1)});
    value = value * (1.0 / body.read(rows.scale, Exprs{body.dim(0)}));
    if (weight->bias)
      value = value + body.read(weight->bias, column);
    double most = type.isBF16() ? 3.38953139e+38 : std::numeric_limits<float>::max();
    value = minimum(maximum(value, value.constant(-most)), value.constant(most));
    return type.isBF16() ? truncateToHalf(value, type) : value;
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  return call.set(call.kernels.contract(c, type));
}

void lowering::registerInt4(LoweringTable &table) {
  table.add("aten._convert_weight_to_int4pack_for_cpu.default", lowerPack);
  table.add("aten._weight_int4pack_mm_for_cpu.default", lowerProduct);
  table.add("aten._dyn_quant_pack_4bit_weight.default", lowerDynamicPack);
  table.add("aten._dyn_quant_matmul_4bit.default", lowerDynamicProduct);
}
