// Placement and the scalar ops; memory is in BodyMemory.cpp, reductions in BodyReduce.cpp.
#include "kiln/Codegen/BodyEmitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

BodyEmitter::BodyEmitter(KernelFrame &frame, Region &region) : frame(frame), region(region) {}

BodyEmitter::Scope::Scope(BodyEmitter &emitter)
    : emitter(emitter), undo(emitter.undo.size()), lane(emitter.lane), lanes(emitter.lanes),
      mask(emitter.mask) {}

BodyEmitter::Scope::~Scope() {
  while (emitter.undo.size() > undo) {
    Undo last = emitter.undo.pop_back_val();
    if (last.value)
      emitter.values.erase(last.value);
    else if (last.previous)
      emitter.dims[last.dim] = *last.previous;
    else
      emitter.dims.erase(last.dim);
  }
  emitter.lane = lane;
  emitter.lanes = lanes;
  emitter.mask = mask;
}

void BodyEmitter::setDim(unsigned dim, sym::Expr value) {
  auto it = dims.find(dim);
  undo.push_back({Value(), dim, it == dims.end() ? std::nullopt : std::optional(it->second)});
  dims[dim] = value;
}

sym::Expr BodyEmitter::setLanes(int64_t count, Value laneMask) {
  lanes = count;
  mask = laneMask;
  // The variable has no scalar value: code for it comes from emitVector.
  lane = count == 1 ? sym::Expr(0) : frame.addVariable(Value(), sym::Expr(count));
  return *lane;
}

void BodyEmitter::setArgument(unsigned i, Value value) { define(region.getArgument(i), value); }

void BodyEmitter::define(Value value, Value emitted) {
  values[value] = emitted;
  undo.push_back({value, 0, std::nullopt});
}

const BodyEmitter::Needs &BodyEmitter::needs(Operation *op) {
  auto [it, isNew] = needsCache.try_emplace(op);
  if (!isNew)
    return it->second;
  llvm::SmallSetVector<unsigned, 8> neededDims;
  llvm::SmallSetVector<Value, 8> neededValues;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Region *definedIn = operand.getParentRegion();
      bool outside = inner == op || !op->isAncestor(definedIn->getParentOp());
      // Tensors come from around the structured op and are looked up in the frame.
      if (outside && region.isAncestor(definedIn))
        neededValues.insert(operand);
    }
    auto map = kernel::getIndexMap(inner);
    if (!map)
      return;
    for (sym::Expr result : map.getResults())
      result.walkLeaves([&](sym::Expr leaf) {
        if (leaf.kind() == sym::Kind::Dim)
          neededDims.insert(leaf.dimIndex());
      });
  });
  // Dims that the op itself adds, and those of `values` operands, are not to be waited for.
  unsigned enclosing = kernel::getDimExtents(op->getParentRegion()).size();
  neededDims.remove_if([&](unsigned dim) { return dim >= enclosing; });
  Needs &result = needsCache[op];
  result.dims.assign(neededDims.begin(), neededDims.end());
  result.values.assign(neededValues.begin(), neededValues.end());
  return result;
}

bool BodyEmitter::isReady(Operation *op) {
  const Needs &need = needs(op);
  return llvm::all_of(need.dims, [&](unsigned dim) { return dims.contains(dim); }) &&
         llvm::all_of(need.values, [&](Value value) { return values.contains(value); });
}

bool BodyEmitter::isVarying(sym::Expr expr) const {
  bool varying = false;
  expr.walkLeaves([&](sym::Expr leaf) {
    varying |= (lanes > 1 && leaf == *lane) || vectorLeaves.contains(leaf);
  });
  return varying;
}

void BodyEmitter::emitAvailable() { emitBlock(region.front()); }

void BodyEmitter::emitBlock(Block &block) {
  while (true) {
    SmallVector<kernel::ReduceOp> ready;
    for (Operation &op : block.without_terminator()) {
      bool done = op.getNumResults() != 0 && values.contains(op.getResult(0));
      if (done || !isReady(&op))
        continue;
      if (auto reduce = dyn_cast<kernel::ReduceOp>(op))
        ready.push_back(reduce);
      else
        emitOp(&op);
    }
    if (ready.empty())
      return;
    // Those that are ready at once do not depend on each other: equal extents share a loop.
    sym::ShapeAttr extents = ready.front().getExtents();
    llvm::erase_if(ready, [&](kernel::ReduceOp op) { return op.getExtents() != extents; });
    emitReduces(ready);
  }
}

SmallVector<Value> BodyEmitter::emitKnown() {
  emitAvailable();
  SmallVector<Value> results;
  for (Value operand : region.front().getTerminator()->getOperands())
    results.push_back(values.lookup(operand));
  return results;
}

SmallVector<Value> BodyEmitter::emitYield() {
  SmallVector<Value> results = emitKnown();
  for (Value &result : results) {
    assert(result && "a dim is not bound");
    result = splat(result);
  }
  return results;
}

Value BodyEmitter::emitValue(Value value) {
  if (Value emitted = values.lookup(value))
    return emitted;
  Operation *op = value.getDefiningOp();
  assert(!isa<kernel::ReduceOp>(op) && "reductions are emitted together");
  for (Value operand : SmallVector<Value>(needs(op).values))
    emitValue(operand);
  emitOp(op);
  return values.lookup(value);
}

Value BodyEmitter::splat(Value value) {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  OpBuilder &b = frame.builder;
  VectorType type = vectorOf(value.getType());
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return arith::ConstantOp::create(b, frame.loc,
                                     SplatElementsAttr::get(type, constant.getValue()));
  return vector::BroadcastOp::create(b, frame.loc, type, value);
}

void BodyEmitter::emitOp(Operation *op) {
  if (auto read = dyn_cast<kernel::ReadOp>(op))
    return define(read, emitRead(read));
  if (auto index = dyn_cast<kernel::IndexOp>(op))
    return define(index, emitIndex(index));
  if (auto inside = dyn_cast<kernel::InsideOp>(op))
    return define(inside, emitInside(inside));
  if (auto expect = dyn_cast<kernel::ExpectOp>(op))
    return define(expect, emitExpect(expect));
  if (auto iterate = dyn_cast<kernel::IterateOp>(op))
    return emitIterate(iterate);
  if (auto select = dyn_cast<arith::SelectOp>(op); select && absorbed.contains(op))
    return define(select, values.lookup(select.getTrueValue()));
  emitElementwise(op, values, [&](Value result, Value emitted) { define(result, emitted); });
}

static bool isHarmlessDivisor(Value divisor, bool isSigned) {
  auto constant = divisor.getDefiningOp<arith::ConstantOp>();
  if (!constant)
    return false;
  Attribute value = constant.getValue();
  if (auto splat = dyn_cast<SplatElementsAttr>(value))
    value = splat.getSplatValue<Attribute>();
  auto integer = dyn_cast<IntegerAttr>(value);
  return integer && !integer.getValue().isZero() && !(isSigned && integer.getValue().isAllOnes());
}

/// A sum adds products without rounding them. Elsewhere a product is rounded, as in PyTorch: x * y - max(x * y)
/// is zero for the largest one, and x * x - y * y not negative where x = y.
static bool isOfCombine(Operation *op) {
  auto reduce = dyn_cast_or_null<kernel::ReduceOp>(op->getParentOp());
  return reduce && op->getParentRegion() == &reduce.getCombine();
}

void BodyEmitter::emitElementwise(Operation *op, const DenseMap<Value, Value> &map,
                                  function_ref<void(Value, Value)> result) {
  OpBuilder &b = frame.builder;
  SmallVector<Value> operands;
  int64_t width = 1;
  for (Value operand : op->getOperands()) {
    operands.push_back(map.lookup(operand));
    assert(operands.back() && "an operand that is not emitted");
    if (auto vector = dyn_cast<VectorType>(operands.back().getType()))
      width = vector.getNumElements();
  }
  if (width > 1) {
    // The width of the operands, not of the emitter: a horizontal combine halves it.
    int64_t saved = std::exchange(lanes, width);
    for (Value &operand : operands)
      operand = splat(operand);
    lanes = saved;
  }
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
  bool divides = isSigned || isa<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp>(op);
  if (divides && !isHarmlessDivisor(operands[1], isSigned))
    operands[1] = frame.guardDivisor(operands[0], operands[1], isSigned);
  OperationState state(frame.loc, op->getName());
  state.addOperands(operands);
  state.addAttributes(op->getAttrs());
  for (Type type : op->getResultTypes())
    state.addTypes(width > 1 ? VectorType::get(width, type) : type);
  Operation *emitted = b.create(state);
  if (isa<arith::MulFOp>(emitted) || (isa<arith::AddFOp>(emitted) && isOfCombine(op))) {
    auto arith = cast<arith::ArithFastMathInterface>(emitted);
    auto flags = arith.getFastMathFlagsAttr() ? arith.getFastMathFlagsAttr().getValue()
                                              : arith::FastMathFlags::none;
    emitted->setAttr(
        arith.getFastMathAttrName(),
        arith::FastMathFlagsAttr::get(b.getContext(), flags | arith::FastMathFlags::contract));
  }
  for (auto [from, to] : llvm::zip(op->getResults(), emitted->getResults()))
    result(from, to);
}

int64_t codegen::preferredLanes(Region &region, const CPUInfo &target) {
  unsigned memory = 0, registers = 0;
  bool scalarOnly = false;
  auto isNumber = [](Type type) { return type.isIntOrFloat(); };
  auto isWhole = [](Type type) { return isa<VectorType, RankedTensorType>(type); };
  // A value that all elements have is a scalar, however wide, as a quantizer's scale in f64 is.
  llvm::DenseSet<Value> scalars;
  auto isScalar = [&](Operation *op) {
    auto map = kernel::getIndexMap(op);
    if (op->getNumRegions() != 0 || (op->getNumOperands() == 0 && !isa<arith::ConstantOp>(op)))
      return false;
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) {
                          return scalars.contains(operand) || isWhole(operand.getType());
                        }) &&
           (!map || llvm::none_of(map.getResults(), [](sym::Expr expr) { return expr.hasDims(); }));
  };
  auto count = [&](Type type, bool isInMemory) {
    unsigned width = std::max(8u, type.getIntOrFloatBitWidth());
    if (isInMemory || isa<FloatType>(type))
      memory = std::max(memory, width);
    registers = std::max(registers, width);
  };
  region.walk<WalkOrder::PreOrder>([&](Operation *op) {
    // Also what comes from around the region: it has no form in lanes either.
    for (Type type : op->getOperandTypes())
      scalarOnly |= !isNumber(type) && !isWhole(type);
    bool isForAll = isScalar(op);
    for (Value result : op->getResults()) {
      Type type = result.getType();
      scalarOnly |= !isNumber(type) && !isWhole(type);
      if (isForAll)
        scalars.insert(result);
      else if (isNumber(type))
        count(type, isa<kernel::ReadOp>(op));
    }
    // An element for each lane is stored all the same.
    if (op->hasTrait<OpTrait::IsTerminator>())
      for (Value operand : op->getOperands())
        if (scalars.contains(operand) && isNumber(operand.getType()))
          count(operand.getType(), false);
  });
  if (scalarOnly)
    return 1;
  // Index arithmetic in i64 does not count beside data: it takes two registers.
  unsigned width = memory ? memory : registers ? registers : 32;
  return std::max<int64_t>(1, target.vectorBytes / (width / 8));
}

Value codegen::emitTailMask(KernelFrame &frame, sym::Expr first, sym::Expr end, int64_t lanes) {
  sym::Expr left = frame.assumptions.simplify(end - first);
  if (frame.assumptions.isLessOrEqual(lanes, left))
    return {};
  OpBuilder &b = frame.builder;
  if (std::optional<int64_t> count = left.constant()) {
    SmallVector<bool> bits(lanes, false);
    std::fill_n(bits.begin(), std::max<int64_t>(*count, 0), true);
    auto mask = DenseElementsAttr::get(VectorType::get(lanes, b.getI1Type()), ArrayRef(bits));
    return arith::ConstantOp::create(b, frame.loc, mask);
  }
  // In 32 bits: four more lanes fit a register.
  Value limit = frame.emit(frame.assumptions.simplify(sym::Expr::min(left, lanes)));
  limit = arith::TruncIOp::create(b, frame.loc, b.getI32Type(), limit);
  auto numbers = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
  auto type = VectorType::get(lanes, b.getI32Type());
  Value iota = arith::ConstantOp::create(b, frame.loc,
                                         DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
  return arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::slt, iota,
                               vector::BroadcastOp::create(b, frame.loc, type, limit));
}
