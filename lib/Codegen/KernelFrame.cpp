// Every kernel for a CPU begins with these: its arguments, its symbols and the addresses of its
// buffers.
#include "kiln/Codegen/KernelFrame.h"
#include "../../runtime/ir_interface.h"
#include "kiln/Codegen/RuntimeStruct.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

static_assert(kernel::firstFailureCode == KILN_RT_ERROR_FAILURE);

/// Loop variables are numbered from here, past any dim of a region.
static constexpr unsigned firstVariable = 1u << 16;

Type codegen::withElements(Type type, Type element) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.clone(element) : element;
}

Type codegen::getStorageType(Type elementType) {
  if (elementType.isInteger(1))
    return IntegerType::get(elementType.getContext(), 8);
  return kernel::getScalarType(elementType);
}

KernelFrame::KernelFrame(kernel::FuncOp func, const CPUInfo &target)
    : func(func), target(target), builder(func.getContext()), loc(func.getLoc()),
      nextVariable(firstVariable) {
  Type ptr = ptrType();
  auto type = CFunctionType<kiln_rt_kernel>::get(builder.getContext());
  function = LLVM::LLVMFuncOp::create(builder, loc, func.getName(), type);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  for (unsigned i : {0, 1, 3, 4})
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
  Value table = entry->getArgument(0);
  symbols = entry->getArgument(1);
  task = entry->getArgument(2);
  scratch = entry->getArgument(3);
  error = entry->getArgument(4);

  kernel::addSymbolRanges(func, assumptions);
  for (Operation *op = func; op; op = op->getParentOp())
    if (auto table = op->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName)) {
      for (auto [i, symbol] : llvm::enumerate(table))
        symbolNumbers.try_emplace(symbol.getName(), i);
      namedSizes = wrapper::getNamedSizes(table);
    }

  unsigned number = 0;
  auto loadBuffer = [&] {
    Value slot = LLVM::GEPOp::create(builder, loc, ptr, ptr, table,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(number++)});
    auto load = LLVM::LoadOp::create(builder, loc, ptr, slot);
    load.setInvariant(true);
    return load.getResult();
  };
  for (BlockArgument argument : func.getBody().getArguments())
    buffers[argument] = loadBuffer();
  for (unsigned i = 0, e = func.getResultTypes().size(); i < e; ++i)
    results.push_back(loadBuffer());
}

KernelFrame::KernelFrame(kernel::FuncOp func, const CPUInfo &target, ArrayRef<sym::Expr> parameters)
    : func(func), target(target), builder(func.getContext()), loc(func.getLoc()),
      nextVariable(firstVariable) {
  size_t numOperands = func.getArgumentTypes().size(), numResults = func.getResultTypes().size();
  SmallVector<Type> types(numOperands + numResults, ptrType());
  types.append(parameters.size(), builder.getI64Type());
  types.push_back(ptrType());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), types);
  function = LLVM::LLVMFuncOp::create(builder, loc, func.getName(), type);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  for (auto [operand, parameter] : llvm::zip(func.getBody().getArguments(), entry->getArguments()))
    buffers[operand] = parameter;
  llvm::append_range(results, entry->getArguments().slice(numOperands, numResults));
  for (auto [i, symbol] : llvm::enumerate(parameters))
    leaves[symbol] = entry->getArgument(numOperands + numResults + i);
  error = entry->getArguments().back();
  kernel::addSymbolRanges(func, assumptions);
}

KernelFrame::KernelFrame(Location loc, StringRef name, ArrayRef<Type> parameters,
                         const CPUInfo &target)
    : target(target), builder(loc.getContext()), loc(loc), nextVariable(firstVariable) {
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), parameters);
  function = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
}

void KernelFrame::call(StringRef name, ValueRange arguments,
                       std::function<void(KernelFrame &)> emitBody) {
  LLVM::CallOp::create(builder, loc, TypeRange(), name, arguments);
  callees.try_emplace(name.str(),
                      Callee{llvm::to_vector(arguments.getTypes()), std::move(emitBody)});
}

sym::Expr KernelFrame::addVariable(Value value, sym::Expr extent) {
  sym::Expr variable = sym::Expr::dim(nextVariable);
  assumptions.setExtent(nextVariable++, extent);
  leaves[variable] = value;
  return variable;
}

sym::Expr KernelFrame::addVariable(Value value, sym::Range range) {
  sym::Expr variable = sym::Expr::dim(nextVariable++);
  assumptions.setRange(variable, range);
  leaves[variable] = value;
  return variable;
}

sym::Expr KernelFrame::addSteppedVariable(Value value, int64_t step, sym::Expr extent) {
  sym::Expr variable = addVariable(Value(), extent.ceilDiv(step));
  stepped[variable] = {step, value};
  return step * variable;
}

sym::Expr KernelFrame::named(sym::Expr expr, sym::Expr extent) {
  expr = assumptions.simplify(expr);
  if (expr.isConstant() || expr.kind() == sym::Kind::Dim)
    return expr;
  return addVariable(emit(expr), extent);
}

Value KernelFrame::constant(int64_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
}

Value KernelFrame::constantMemory(TypedAttr constant) {
  auto [it, isNew] = constants.try_emplace(constant);
  if (!isNew)
    return it->second;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.getBody().front());
  Value one = this->constant(1);
  Value memory = LLVM::AllocaOp::create(builder, loc, ptrType(), constant.getType(), one);
  Value value = arith::ConstantOp::create(builder, loc, constant);
  LLVM::StoreOp::create(builder, loc, value, memory);
  return constants[constant] = memory;
}

void KernelFrame::reportIf(Value bad, int32_t code, unsigned width) {
  Type type = withElements(bad.getType(), builder.getIntegerType(std::clamp(width, 8u, 64u)));
  auto known = llvm::find_if(failures, [&](const Failure &failure) {
    return failure.code == code && failure.type == type;
  });
  if (known == failures.end()) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&function.getBody().front());
    Value slot = LLVM::AllocaOp::create(builder, loc, ptrType(), type, constant(1));
    Value none = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
    LLVM::StoreOp::create(builder, loc, none, slot);
    known = failures.insert(failures.end(), {code, type, slot});
  }
  Value before = LLVM::LoadOp::create(builder, loc, type, known->slot);
  Value now = arith::ExtSIOp::create(builder, loc, type, bad);
  LLVM::StoreOp::create(builder, loc, arith::OrIOp::create(builder, loc, before, now), known->slot);
}

void KernelFrame::emitFailures() {
  for (const Failure &failure : failures) {
    Value bits = LLVM::LoadOp::create(builder, loc, failure.type, failure.slot);
    if (isa<VectorType>(failure.type))
      bits = vector::ReductionOp::create(builder, loc, vector::CombiningKind::OR, bits);
    Value none = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(bits.getType()));
    Value any = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bits, none);
    auto branch = scf::IfOp::create(builder, loc, any, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value code = arith::ConstantIntOp::create(builder, loc, failure.code, 32);
    LLVM::StoreOp::create(builder, loc, code, error);
  }
}

Value KernelFrame::gep(Value base, Type elementType, Value offset) {
  return LLVM::GEPOp::create(builder, loc, ptrType(), getStorageType(elementType), base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value KernelFrame::isZero(sym::Expr size) {
  if (assumptions.isPositive(size))
    return {};
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, simplifyAndEmit(size),
                               constant(0));
}

Value KernelFrame::leafValue(sym::Expr leaf) {
  if (Value value = leaves.lookup(leaf))
    return value;
  if (auto it = stepped.find(leaf); it != stepped.end())
    return arith::DivUIOp::create(builder, loc, it->second.second, constant(it->second.first));
  assert(leaf.kind() == sym::Kind::Symbol && "a dim that is not bound");
  // In the entry block, where it serves every use.
  OpBuilder::InsertionGuard guard(builder);
  Block &entry = function.getBody().front();
  builder.setInsertionPointToStart(&entry);
  auto number = static_cast<int32_t>(symbolNumbers.lookup(leaf.symbolName()));
  Value slot = LLVM::GEPOp::create(builder, loc, ptrType(), builder.getI64Type(), symbols,
                                   ArrayRef<LLVM::GEPArg>{number});
  auto load = LLVM::LoadOp::create(builder, loc, builder.getI64Type(), slot);
  load.setInvariant(true);
  return leaves[leaf] = load;
}

/// Outer loops first: loop variables are numbered inwards. Constants last: they become part of an
/// address.
static void sortOutsideIn(SmallVectorImpl<sym::Expr> &exprs) {
  llvm::sort(exprs, [](sym::Expr a, sym::Expr b) {
    if (a.isConstant() != b.isConstant())
      return b.isConstant();
    if (a.numDimsUsed() != b.numDimsUsed())
      return a.numDimsUsed() < b.numDimsUsed();
    return a < b;
  });
}

Value KernelFrame::emitQuotient(sym::Expr numerator, sym::Expr denominator) {
  Value a = emit(numerator), b = emit(denominator);
  // Places are computed although a size of 0 has none; that must not trap.
  if (!assumptions.isPositive(denominator) && assumptions.isNonNegative(denominator))
    b = arith::MaxSIOp::create(builder, loc, b, constant(1));
  if (assumptions.isNonNegative(numerator) && assumptions.isNonNegative(denominator))
    return arith::DivUIOp::create(builder, loc, a, b);
  if (!assumptions.isPositive(denominator))
    b = guardDivisor(a, b);
  // Truncated division rounds a negative quotient up.
  Value quotient = arith::DivSIOp::create(builder, loc, a, b);
  Value rest =
      arith::SubIOp::create(builder, loc, a, arith::MulIOp::create(builder, loc, quotient, b));
  Value zero = constant(0);
  Value inexact = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, rest, zero);
  Value signs = arith::XOrIOp::create(builder, loc, rest, b);
  Value negative = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, signs, zero);
  Value adjust = arith::AndIOp::create(builder, loc, inexact, negative);
  Value one = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), adjust);
  return arith::SubIOp::create(builder, loc, quotient, one);
}

Value KernelFrame::emit(sym::Expr expr) {
  if (auto name = namedSizes.find(expr); name != namedSizes.end())
    return leafValue(name->second);
  switch (expr.kind()) {
  case sym::Kind::Invalid:
    llvm_unreachable("an invalid expression got past planning");
  case sym::Kind::Constant:
    return constant(*expr.constant());
  case sym::Kind::Symbol:
  case sym::Kind::Dim:
    return leafValue(expr);
  case sym::Kind::Add: {
    SmallVector<sym::Expr> terms(expr.operands());
    sortOutsideIn(terms);
    Value sum = emit(terms.front());
    for (sym::Expr term : llvm::drop_begin(terms))
      sum = arith::AddIOp::create(builder, loc, sum, emit(term));
    return sum;
  }
  case sym::Kind::Mul: {
    SmallVector<sym::Expr> factors(expr.operands());
    sortOutsideIn(factors);
    Value value;
    // A multiple of a stepped variable's step needs no division.
    if (std::optional<int64_t> coefficient = factors.back().constant()) {
      auto it = llvm::find_if(factors, [&](sym::Expr factor) {
        auto variable = stepped.find(factor);
        return variable != stepped.end() && *coefficient % variable->second.first == 0;
      });
      if (it != factors.end()) {
        auto [step, multiple] = stepped[*it];
        value = multiple;
        factors.erase(it);
        factors.back() = *coefficient / step;
        if (factors.back().isConstant(1))
          factors.pop_back();
      }
    }
    if (!value) {
      value = emit(factors.front());
      factors.erase(factors.begin());
    }
    for (sym::Expr factor : factors)
      value = arith::MulIOp::create(builder, loc, value, emit(factor));
    return value;
  }
  case sym::Kind::FloorDiv:
    return emitQuotient(expr.operands()[0], expr.operands()[1]);
  case sym::Kind::Min:
  case sym::Kind::Max: {
    Value value = emit(expr.operands().front());
    for (sym::Expr operand : expr.operands().drop_front()) {
      Value other = emit(operand);
      value = expr.kind() == sym::Kind::Min
                  ? arith::MinSIOp::create(builder, loc, value, other).getResult()
                  : arith::MaxSIOp::create(builder, loc, value, other).getResult();
    }
    return value;
  }
  }
  llvm_unreachable("all kinds are handled");
}

Value KernelFrame::guardDivisor(Value dividend, Value divisor, bool isSigned) {
  OpBuilder &b = builder;
  Type type = divisor.getType();
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  auto constant = [&](const APInt &value) -> Value {
    Attribute scalar = b.getIntegerAttr(getElementTypeOrSelf(type), value);
    if (auto vector = dyn_cast<VectorType>(type))
      scalar = SplatElementsAttr::get(vector, scalar);
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(scalar));
  };
  auto equals = [&](Value value, const APInt &to) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, value, constant(to));
  };
  Value bad = equals(divisor, APInt::getZero(width));
  if (isSigned) {
    Value overflows =
        arith::AndIOp::create(b, loc, equals(dividend, APInt::getSignedMinValue(width)),
                              equals(divisor, APInt::getAllOnes(width)));
    bad = arith::OrIOp::create(b, loc, bad, overflows);
  }
  return arith::SelectOp::create(b, loc, bad, constant(APInt(width, 1)), divisor);
}

SmallVector<Value> KernelFrame::emitLoop(Value begin, Value end, int64_t step, ValueRange init,
                                         function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto first = begin.getDefiningOp<arith::ConstantOp>();
  auto last = end.getDefiningOp<arith::ConstantOp>();
  if (first && last) {
    int64_t from = cast<IntegerAttr>(first.getValue()).getInt();
    int64_t to = cast<IntegerAttr>(last.getValue()).getInt();
    if (from >= to)
      return SmallVector<Value>(init);
    if (from + step >= to)
      return body(begin, init);
  }
  auto loop = scf::ForOp::create(builder, loc, begin, end, constant(step), init);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  // With no values carried the loop already has its terminator.
  if (!init.empty())
    scf::YieldOp::create(builder, loc, next);
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> KernelFrame::emitStridedLoop(
    Value first, sym::Expr total, int64_t stride, int64_t atOnce, ValueRange init,
    function_ref<SmallVector<Value>(ArrayRef<sym::Expr>, ValueRange)> body) {
  total = assumptions.simplify(total);
  Value end = emit(total);
  auto run = [&](Value begin, Value limit, int64_t count, ValueRange carried) {
    // The carried values end with the start of the next iteration.
    SmallVector<Value> values(carried);
    values.push_back(begin);
    return emitLoop(begin, limit, count * stride, values, [&](Value iv, ValueRange now) {
      SmallVector<sym::Expr> numbers;
      for (int64_t i = 0; i < count; ++i)
        numbers.push_back(addVariable(
            i ? arith::AddIOp::create(builder, loc, iv, constant(i * stride)).getResult() : iv,
            total));
      SmallVector<Value> next = body(numbers, now.drop_back());
      next.push_back(arith::AddIOp::create(builder, loc, iv, constant(count * stride)));
      return next;
    });
  };
  SmallVector<Value> values(init);
  std::optional<int64_t> known = total.constant();
  if (atOnce > 1 && (!known || *known > (atOnce - 1) * stride)) {
    Value limit = arith::SubIOp::create(builder, loc, end, constant((atOnce - 1) * stride));
    values = run(first, limit, atOnce, values);
    first = values.pop_back_val();
    if (known && *known % (atOnce * stride) == 0)
      return values;
  }
  values = run(first, end, 1, values);
  values.pop_back();
  return values;
}
