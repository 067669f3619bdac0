// The body emitter's memory accesses and index arithmetic.
#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

//===-- Index arithmetic --------------------------------------------------------------------===//

SmallVector<sym::Expr> BodyEmitter::substitute(sym::MapAttr map, ValueRange mapValues) {
  SmallVector<sym::Expr> inputs;
  unsigned numDims = map.getNumDims() - mapValues.size();
  for (unsigned i = 0; i < numDims; ++i) {
    auto it = dims.find(i);
    inputs.push_back(it == dims.end() ? sym::Expr::dim(i) : it->second);
  }
  for (Value value : mapValues) {
    Value emitted = values.lookup(value);
    inputs.push_back(frame.addVariable(emitted, sym::Range()));
    if (isa<VectorType>(emitted.getType()))
      vectorLeaves[inputs.back()] = emitted;
  }
  SmallVector<sym::Expr> results;
  for (sym::Expr result : map.getResults())
    results.push_back(result.substituteDims(inputs));
  return results;
}

SmallVector<sym::Expr> BodyEmitter::bindMap(sym::MapAttr map, ValueRange mapValues) {
  SmallVector<sym::Expr> results = substitute(map, mapValues);
  for (sym::Expr &result : results)
    result = frame.assumptions.simplify(result);
  return results;
}

bool BodyEmitter::fitsIn32Bits(sym::Expr expr) const {
  auto fits = [&](sym::Expr e) {
    sym::Range range = frame.assumptions.rangeOf(e);
    return range.min && range.max && llvm::isInt<32>(*range.min) && llvm::isInt<32>(*range.max);
  };
  if (!isVarying(expr) || expr.kind() == sym::Kind::Dim)
    return fits(expr);
  bool exact =
      llvm::is_contained({sym::Kind::FloorDiv, sym::Kind::Min, sym::Kind::Max}, expr.kind());
  return fits(expr) && llvm::all_of(expr.operands(), [&](sym::Expr operand) {
           // Sums and products may wrap on the way to a result that fits.
           return exact || isVarying(operand) ? fitsIn32Bits(operand) : true;
         });
}

Value BodyEmitter::emitVectorQuotient(sym::Expr numerator, sym::Expr denominator, Type type) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  Value x = emitVector(numerator, type);
  std::optional<int64_t> constant = denominator.constant();
  if (constant && llvm::isPowerOf2_64(*constant)) {
    Value shift = arith::ConstantIntOp::create(b, loc, type, llvm::Log2_64(*constant));
    return arith::ShRSIOp::create(b, loc, x, splat(shift));
  }
  Value y = emitVector(denominator, type);
  Value one = splat(arith::ConstantIntOp::create(b, loc, type, 1));
  bool isSize = frame.assumptions.isNonNegative(denominator);
  if (isSize && !frame.assumptions.isPositive(denominator)) // must not trap
    y = arith::MaxSIOp::create(b, loc, y, one);
  else if (!isSize)
    y = frame.guardDivisor(x, y);
  if (isSize && frame.assumptions.isNonNegative(numerator))
    return arith::DivUIOp::create(b, loc, x, y);
  Value quotient = arith::DivSIOp::create(b, loc, x, y);
  Value rest = arith::SubIOp::create(b, loc, x, arith::MulIOp::create(b, loc, quotient, y));
  Value zero = splat(arith::ConstantIntOp::create(b, loc, type, 0));
  Value inexact = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, rest, zero);
  Value negative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                         arith::XOrIOp::create(b, loc, rest, y), zero);
  Value adjust = arith::AndIOp::create(b, loc, inexact, negative);
  Value below = arith::SubIOp::create(b, loc, quotient, one);
  return arith::SelectOp::create(b, loc, adjust, below, quotient);
}

Value BodyEmitter::emitVector(sym::Expr expr, Type type) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  auto narrow = [&](Value value) -> Value {
    if (getElementTypeOrSelf(value.getType()) == type)
      return value;
    Type to = isa<VectorType>(value.getType()) ? Type(vectorOf(type)) : type;
    if (auto constant = value.getDefiningOp<arith::ConstantIntOp>())
      return arith::ConstantIntOp::create(b, loc, type, constant.value());
    return arith::TruncIOp::create(b, loc, to, value);
  };
  if (!isVarying(expr))
    return splat(narrow(frame.emit(expr)));
  switch (expr.kind()) {
  case sym::Kind::Dim: {
    if (Value value = vectorLeaves.lookup(expr))
      return narrow(value);
    SmallVector<APInt> numbers;
    for (int64_t i = 0; i < lanes; ++i)
      numbers.emplace_back(type.getIntOrFloatBitWidth(), i);
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vectorOf(type), numbers));
  }
  case sym::Kind::Add:
  case sym::Kind::Mul: {
    bool isAdd = expr.kind() == sym::Kind::Add;
    sym::Expr uniform = isAdd ? 0 : 1;
    Value value;
    auto append = [&](Value other) {
      if (!value)
        value = other;
      else if (isAdd)
        value = arith::AddIOp::create(b, loc, value, other);
      else
        value = arith::MulIOp::create(b, loc, value, other);
    };
    for (sym::Expr operand : expr.operands())
      if (isVarying(operand))
        append(emitVector(operand, type));
      else
        uniform = isAdd ? uniform + operand : uniform * operand;
    if (!uniform.isConstant(isAdd ? 0 : 1))
      append(emitVector(uniform, type));
    return value;
  }
  case sym::Kind::FloorDiv:
    return emitVectorQuotient(expr.operands()[0], expr.operands()[1], type);
  case sym::Kind::Min:
  case sym::Kind::Max: {
    Value value;
    for (sym::Expr operand : expr.operands()) {
      Value other = emitVector(operand, type);
      if (!value)
        value = other;
      else if (expr.kind() == sym::Kind::Min)
        value = arith::MinSIOp::create(b, loc, value, other);
      else
        value = arith::MaxSIOp::create(b, loc, value, other);
    }
    return value;
  }
  default:
    llvm_unreachable("does not depend on the lane");
  }
}

Value BodyEmitter::emitIndex(kernel::IndexOp index) {
  sym::Expr expr = bindMap(index.getMap(), index.getValues()).front();
  return isVarying(expr) ? emitVector(expr, frame.builder.getI64Type()) : frame.emit(expr);
}

Value BodyEmitter::emitInside(kernel::InsideOp inside) {
  OpBuilder &b = frame.builder;
  Value scalar, vector;
  auto exprs = bindMap(inside.getMap(), inside.getValues());
  for (auto [i, expr, bound] : llvm::enumerate(exprs, inside.getBounds().getSizes())) {
    if (certain.contains({inside, i}))
      continue;
    if (frame.assumptions.isNonNegative(expr) && frame.assumptions.isLess(expr, bound))
      continue;
    // A negative number is a large unsigned one.
    auto compare = [&](Value value, Value limit) -> Value {
      return arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::ult, value, limit);
    };
    if (!isVarying(expr)) {
      Value test = compare(frame.emit(expr), frame.emit(bound));
      scalar = scalar ? arith::AndIOp::create(b, frame.loc, scalar, test).getResult() : test;
      continue;
    }
    bool narrow = fitsIn32Bits(expr) && fitsIn32Bits(bound);
    Type type = narrow ? b.getI32Type() : b.getI64Type();
    Value test = compare(emitVector(expr, type), emitVector(bound, type));
    vector = vector ? arith::AndIOp::create(b, frame.loc, vector, test).getResult() : test;
  }
  if (!scalar && !vector)
    return arith::ConstantIntOp::create(b, frame.loc, 1, 1);
  return andMasks(scalar, vector);
}

//===-- Masks -------------------------------------------------------------------------------===//

Value BodyEmitter::andMasks(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  if (a.getType() != b.getType()) {
    a = splat(a);
    b = splat(b);
  }
  return arith::AndIOp::create(frame.builder, frame.loc, a, b);
}

Value BodyEmitter::allLanes() {
  return splat(arith::ConstantIntOp::create(frame.builder, frame.loc, 1, 1));
}

static Value anyLane(OpBuilder &b, Location loc, Value mask) {
  if (!isa<VectorType>(mask.getType()))
    return mask;
  return vector::ReductionOp::create(b, loc, vector::CombiningKind::OR, mask);
}

//===-- Loads and stores --------------------------------------------------------------------===//

static unsigned alignmentOf(Type storage) { return storage.getIntOrFloatBitWidth() / 8; }

/// The type that elements are loaded and stored as. LLVM takes vectors apart that a target has no
/// masked access for, and half precision in a way that calls a library: integers are moved as they
/// are.
static Type getMemoryType(Type elementType) {
  Type storage = getStorageType(elementType);
  bool isHalf = storage.isBF16() || storage.isF16();
  return isHalf ? IntegerType::get(storage.getContext(), 16) : storage;
}

Value BodyEmitter::fromStorage(Value value, Type elementType) {
  OpBuilder &b = frame.builder;
  if (!elementType.isInteger(1))
    return b.createOrFold<arith::BitcastOp>(frame.loc, withElements(value.getType(), elementType),
                                            value);
  Value zero = arith::ConstantOp::create(b, frame.loc, b.getZeroAttr(value.getType()));
  return arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::ne, value, zero);
}

Value BodyEmitter::toStorage(Value value, Type elementType) {
  OpBuilder &b = frame.builder;
  Type type = withElements(value.getType(), getMemoryType(elementType));
  if (elementType.isInteger(1))
    return arith::ExtUIOp::create(b, frame.loc, type, value);
  return b.createOrFold<arith::BitcastOp>(frame.loc, type, value);
}

Value BodyEmitter::loadScalar(Value base, Type elementType, Value offset) {
  OpBuilder &b = frame.builder;
  auto load = [&](Type type, Value at) -> Value {
    return LLVM::LoadOp::create(b, frame.loc, type, frame.gep(base, type, at), alignmentOf(type));
  };
  if (auto complex = dyn_cast<ComplexType>(elementType)) {
    Value first = arith::MulIOp::create(b, frame.loc, offset, frame.constant(2));
    Value second = arith::AddIOp::create(b, frame.loc, first, frame.constant(1));
    Type part = complex.getElementType();
    return complex::CreateOp::create(b, frame.loc, complex, load(part, first), load(part, second));
  }
  return fromStorage(load(getMemoryType(elementType), offset), elementType);
}

/// Vector of addresses. What does not depend on the lane is added to the base first, so that the
/// rest is short enough for 32-bit indices, of which a register holds twice as many.
Value BodyEmitter::gatherPointers(Value base, Type storage, sym::Expr offset) {
  OpBuilder &b = frame.builder;
  sym::Expr uniform = 0, varying = 0;
  auto terms = offset.kind() == sym::Kind::Add ? offset.operands() : ArrayRef(offset);
  for (sym::Expr term : terms)
    (isVarying(term) ? varying : uniform) = (isVarying(term) ? varying : uniform) + term;
  Value start = frame.gep(base, storage, frame.emit(uniform));
  Type type = fitsIn32Bits(varying) ? b.getI32Type() : b.getI64Type();
  return LLVM::GEPOp::create(b, frame.loc, vectorOf(frame.ptrType()), storage, start,
                             ArrayRef<LLVM::GEPArg>{emitVector(varying, type)});
}

Value BodyEmitter::load(Value base, Type elementType, sym::Expr offset) {
  return load(base, elementType, frame.assumptions.simplify(offset), Value(), Value());
}

Value BodyEmitter::load(Value base, Type elementType, sym::Expr offset, Value readMask,
                        Value other) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  Type scalarType = kernel::getScalarType(elementType);
  if (!isVarying(offset)) {
    auto loadOne = [&] { return loadScalar(base, scalarType, frame.emit(offset)); };
    if (!readMask) {
      if (Value value = kept.lookup({base, offset}))
        return value;
      Value value = loadOne();
      if (isKeeping && b.getInsertionBlock() == keepingBlock)
        kept[{base, offset}] = value;
      return value;
    }
    // `other` may be a vector even where the address is one for all lanes.
    bool blend = isa<VectorType>(readMask.getType()) || isa<VectorType>(other.getType());
    Value fallback = other;
    if (blend)
      fallback = kernel::createZero(b, loc, scalarType);
    // Lanes past the end may have a condition that holds where there is nothing to read.
    bool differs = isa<VectorType>(readMask.getType());
    Value reading = differs ? andMasks(mask, readMask) : readMask;
    auto branch = scf::IfOp::create(b, loc, scalarType, anyLane(b, loc, reading), true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(b, loc, loadOne());
      b.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(b, loc, fallback);
    }
    if (!blend)
      return branch.getResult(0);
    return arith::SelectOp::create(b, loc, splat(readMask), splat(branch.getResult(0)),
                                   splat(other));
  }

  Type storage = getMemoryType(scalarType);
  VectorType type = vectorOf(storage);
  unsigned alignment = alignmentOf(storage);
  std::optional<sym::Linear> linear =
      llvm::any_of(vectorLeaves, [&](auto &leaf) { return offset.dependsOn(leaf.first); })
          ? std::nullopt
          : sym::splitLinear(offset, *lane);
  std::optional<int64_t> stride = linear ? linear->coefficient.constant() : std::nullopt;

  // A whole vector or none of it: a load from memory that holds the other value costs less than a
  // load under an empty mask, which CPUs are slow at.
  auto constant = other ? other.getDefiningOp<arith::ConstantOp>() : arith::ConstantOp();
  if (stride == 1 && !mask && readMask && !isa<VectorType>(readMask.getType()) && constant &&
      !scalarType.isInteger(1) && !isa<VectorType>(other.getType())) {
    Value there = frame.gep(base, storage, frame.emit(linear->rest));
    VectorType lanesType = vectorOf(scalarType);
    Value elsewhere = frame.constantMemory(SplatElementsAttr::get(lanesType, constant.getValue()));
    Value pointer = arith::SelectOp::create(b, loc, readMask, there, elsewhere);
    return LLVM::LoadOp::create(b, loc, lanesType, pointer, alignment);
  }

  Value active = andMasks(mask, readMask);
  if (active)
    active = splat(active);
  auto passThrough = [&]() -> Value {
    if (other)
      return toStorage(splat(other), scalarType);
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  };
  auto loadConsecutive = [&](sym::Expr from, Value laneMask) -> Value {
    Value pointer = frame.gep(base, storage, frame.emit(from));
    if (!laneMask)
      return LLVM::LoadOp::create(b, loc, type, pointer, alignment);
    return LLVM::MaskedLoadOp::create(b, loc, type, pointer, laneMask, passThrough(),
                                      b.getI32IntegerAttr(alignment), UnitAttr());
  };
  auto shuffle = [&](Value x, Value y, function_ref<int64_t(int64_t)> element) -> Value {
    SmallVector<int64_t> picks;
    for (int64_t i = 0; i < lanes; ++i)
      picks.push_back(element(i));
    return vector::ShuffleOp::create(b, loc, x, y, picks);
  };

  if (stride == 1)
    return fromStorage(loadConsecutive(linear->rest, active), scalarType);
  if (stride == -1 && !active) {
    Value loaded = loadConsecutive(linear->rest - (lanes - 1), Value());
    return fromStorage(shuffle(loaded, loaded, [&](int64_t i) { return lanes - 1 - i; }),
                       scalarType);
  }
  if (stride == 2 && !active) {
    // Two loads that end at the last element needed.
    Value low = loadConsecutive(linear->rest, Value());
    Value high = loadConsecutive(linear->rest + (lanes - 1), Value());
    return fromStorage(
        shuffle(low, high, [&](int64_t i) { return 2 * i < lanes ? 2 * i : 2 * i + 1; }),
        scalarType);
  }
  if (stride == 4 && !active && lanes >= 4) {
    // The bytes of groups of four. Four loads, the last of which ends at the last element needed.
    auto loadAt = [&](int64_t place) { return loadConsecutive(linear->rest + place, Value()); };
    Value low =
        shuffle(loadAt(0), loadAt(lanes), [&](int64_t i) { return 8 * i < 4 * lanes ? 4 * i : 0; });
    Value high = shuffle(loadAt(2 * lanes), loadAt(3 * lanes - 3), [&](int64_t i) {
      int64_t place = 4 * i - 2 * lanes;
      return place < 0 ? 0 : place < lanes ? place : place + 3;
    });
    return fromStorage(shuffle(low, high, [&](int64_t i) { return 2 * i < lanes ? i : lanes + i; }),
                       scalarType);
  }
  if (linear && !active && !frame.target.fastGather) {
    // Loads one by one are quicker than a gather that is microcode.
    Value start = frame.gep(base, storage, frame.emit(linear->rest));
    Value step = frame.emit(linear->coefficient);
    SmallVector<Value> elements;
    for (int64_t i = 0; i < lanes; ++i) {
      Value at = arith::MulIOp::create(b, loc, step, frame.constant(i));
      elements.push_back(
          LLVM::LoadOp::create(b, loc, storage, frame.gep(start, storage, at), alignment));
    }
    return fromStorage(vector::FromElementsOp::create(b, loc, type, elements), scalarType);
  }
  Value pointers = gatherPointers(base, storage, offset);
  Value gathered = LLVM::masked_gather::create(b, loc, type, pointers, active ? active : allLanes(),
                                               active ? ValueRange(passThrough()) : ValueRange(),
                                               b.getI32IntegerAttr(alignment));
  return fromStorage(gathered, scalarType);
}

/// The lanes that a constant mask has: the first ones.
static std::optional<int64_t> countFirstLanes(Value mask) {
  DenseIntElementsAttr bits;
  if (!matchPattern(mask, m_Constant(&bits)))
    return std::nullopt;
  auto values = bits.getValues<bool>();
  int64_t count = llvm::count(values, true);
  bool areFirst = llvm::all_of(llvm::seq<int64_t>(0, count), [&](int64_t i) { return values[i]; });
  return areFirst ? std::optional(count) : std::nullopt;
}

/// Stores the first `count` lanes in pieces of a power of two. Without mask registers that takes less
/// time than a masked store: on AMD's CPUs such a one is microcode, of a dozen cycles and more.
static void storeFirstLanes(KernelFrame &frame, Value value, Value pointer, int64_t count) {
  OpBuilder &b = frame.builder;
  Type storage = cast<VectorType>(value.getType()).getElementType();
  for (int64_t first = 0; first < count;) {
    auto width = static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(count - first)));
    Value at = frame.gep(pointer, storage, frame.constant(first));
    auto lanes = llvm::to_vector(llvm::seq(first, first + width));
    Value piece = width == 1 ? vector::ExtractOp::create(b, frame.loc, value, first).getResult()
                             : vector::ShuffleOp::create(b, frame.loc, value, value, lanes);
    LLVM::StoreOp::create(b, frame.loc, piece, at, alignmentOf(storage));
    first += width;
  }
}

void BodyEmitter::store(Value base, Type elementType, sym::Expr offset, Value value) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  offset = frame.assumptions.simplify(offset);
  Type scalarType = kernel::getScalarType(elementType), storage = getMemoryType(scalarType);
  if (auto complex = dyn_cast<ComplexType>(scalarType)) {
    Type part = complex.getElementType();
    Value first = frame.emit(2 * offset), second = frame.emit(2 * offset + 1);
    LLVM::StoreOp::create(b, loc, complex::ReOp::create(b, loc, part, value),
                          frame.gep(base, part, first), alignmentOf(part));
    LLVM::StoreOp::create(b, loc, complex::ImOp::create(b, loc, part, value),
                          frame.gep(base, part, second), alignmentOf(part));
    return;
  }
  unsigned alignment = alignmentOf(storage);
  if (!isVarying(offset)) {
    assert(!isa<VectorType>(value.getType()) && "lanes stored to one element");
    LLVM::StoreOp::create(b, loc, toStorage(value, scalarType),
                          frame.gep(base, storage, frame.emit(offset)), alignment);
    return;
  }
  value = toStorage(splat(value), scalarType);
  std::optional<sym::Linear> linear = sym::splitLinear(offset, *lane);
  if (linear && linear->coefficient.isConstant(1)) {
    Value pointer = frame.gep(base, storage, frame.emit(linear->rest));
    std::optional<int64_t> count = mask ? countFirstLanes(mask) : std::nullopt;
    if (count && !frame.target.avx512)
      storeFirstLanes(frame, value, pointer, *count);
    else if (mask)
      LLVM::MaskedStoreOp::create(b, loc, value, pointer, mask, alignment);
    else
      LLVM::StoreOp::create(b, loc, value, pointer, alignment);
    return;
  }
  Value pointers = gatherPointers(base, storage, offset);
  LLVM::masked_scatter::create(b, loc, value, pointers, mask ? mask : allLanes(), alignment);
}

//===-- Reads -------------------------------------------------------------------------------===//

/// `index` kept inside [0, size); outside raises the error flag.
Value BodyEmitter::checkIndex(sym::Expr index, sym::Expr size, Value readMask) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  bool varying = isVarying(index);
  Type i64 = b.getI64Type();
  auto form = [&](Value value) { return varying ? splat(value) : value; };
  Value value = varying ? emitVector(index, i64) : frame.emit(index);
  Value limit = form(frame.emit(size));
  Value bad = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, value, limit);
  // Lanes that do not read cannot fail.
  bool vectorMask = readMask && isa<VectorType>(readMask.getType());
  Value reading = varying || vectorMask ? andMasks(mask, readMask) : readMask;
  if (reading)
    bad = andMasks(bad, varying ? reading : anyLane(b, loc, reading));
  auto branch = scf::IfOp::create(b, loc, anyLane(b, loc, bad), /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value one = arith::ConstantIntOp::create(b, loc, 1, 32);
    LLVM::StoreOp::create(b, loc, one, frame.error);
  }
  Value last = arith::SubIOp::create(b, loc, limit, form(frame.constant(1)));
  value = arith::MinSIOp::create(b, loc, value, last);
  return arith::MaxSIOp::create(b, loc, value, form(frame.constant(0)));
}

/// Elements that do not exist cannot fail: neither lanes past the end, nor what stands in front of
/// a loop that has no iteration.
Value BodyEmitter::emitExpect(kernel::ExpectOp expect) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  Value holds = values.lookup(expect.getCondition()), value = values.lookup(expect.getValue());
  Value yes = arith::ConstantIntOp::create(b, loc, 1, 1);
  bool varying = isa<VectorType>(holds.getType());
  Value bad = arith::XOrIOp::create(b, loc, holds, varying ? splat(yes) : yes);
  if (varying)
    bad = andMasks(bad, mask);
  for (sym::Expr extent : kernel::getDimExtents(expect->getParentRegion()))
    if (!extent.hasDims() && !frame.assumptions.isPositive(extent))
      bad = andMasks(bad, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt,
                                                frame.emit(extent), frame.constant(0)));
  Type type = expect.getValue().getType();
  frame.reportIf(bad, expect.getCode().value_or(kernel::firstFailureCode),
                 type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 64);
  return value;
}

/// The select that repeats the mask of its operand, a read nobody else uses.
static arith::SelectOp repeatedMask(kernel::ReadOp read) {
  if (!read.getMask() || !read->hasOneUse())
    return {};
  auto select = dyn_cast<arith::SelectOp>(*read->getUsers().begin());
  if (select && select.getCondition() == read.getMask() &&
      select.getTrueValue() == read.getResult())
    return select;
  return {};
}

void BodyEmitter::prefetch(kernel::ReadOp read, int locality) {
  OpBuilder &b = frame.builder;
  auto type = cast<RankedTensorType>(read.getTensor().getType());
  sym::Expr offset =
      sym::linearize(substitute(read.getMap(), read.getValues()), sym::getShape(type));
  Value address = frame.gep(frame.buffer(read.getTensor()), getMemoryType(type.getElementType()),
                            frame.simplifyAndEmit(offset));
  LLVM::Prefetch::create(b, frame.loc, address, /*rw=*/0, locality, /*cache=*/1);
}

sym::Expr BodyEmitter::locate(kernel::ReadOp read, Value &readMask) {
  OpBuilder &b = frame.builder;
  SmallVector<sym::Expr> shape = sym::getShape(read.getTensor());
  // The parts of a loop variable that the dims are mostly add up to it again in the address: what
  // each of them is need not be known.
  SmallVector<sym::Expr> index = substitute(read.getMap(), read.getValues());
  unsigned numDims = read.getMap().getNumDims() - read.getValues().size();
  for (auto [i, expr] : llvm::enumerate(read.getMap().getResults())) {
    if (expr.numDimsUsed() <= numDims)
      continue;
    Value checked = checkIndex(frame.assumptions.simplify(index[i]), shape[i], readMask);
    index[i] = frame.addVariable(checked, shape[i]);
    if (isa<VectorType>(checked.getType()))
      vectorLeaves[index[i]] = checked;
    // An empty tensor has no element to clamp to.
    if (frame.assumptions.isPositive(shape[i]))
      continue;
    Value some = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::sgt,
                                       frame.emit(shape[i]), frame.constant(0));
    readMask = andMasks(readMask, some);
  }
  return frame.assumptions.simplify(sym::linearize(index, shape));
}

sym::Expr BodyEmitter::locateRow(kernel::ReadOp read) {
  for (Value value : read.getValues())
    emitValue(value);
  Value mask;
  sym::Expr offset = locate(read, mask);
  assert(!mask && "a row of a tensor that may be empty");
  return offset;
}

Value BodyEmitter::emitRead(kernel::ReadOp read) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  auto type = cast<RankedTensorType>(read.getTensor().getType());
  Value base = frame.buffer(read.getTensor());
  assert(base && "a tensor without a buffer");
  Value readMask = read.getMask() ? values.lookup(read.getMask()) : Value();
  Value other = read.getOther() ? values.lookup(read.getOther()) : Value();
  if (arith::SelectOp select = repeatedMask(read)) {
    absorbed.erase(select);
    if (Value instead = values.lookup(select.getFalseValue())) {
      other = instead;
      absorbed.insert(select);
    }
  }
  if (readMask)
    if (auto constant = readMask.getDefiningOp<arith::ConstantIntOp>()) {
      if (!constant.value())
        return other;
      readMask = other = Value();
    }

  sym::Expr offset = locate(read, readMask);
  if (readMask && !other)
    other = kernel::createZero(b, loc, read.getType());
  return load(base, type.getElementType(), offset, readMask, other);
}
