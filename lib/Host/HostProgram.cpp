// The functions that run the program and its nested graphs.
#include "HostProgram.h"
#include "kiln/Codegen/Globals.h"
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Host/Device.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

HostProgram::HostProgram(ProgramOp program, const HostTablesOptions &options)
    : program(program), options(options), builder(program), loc(program.getLoc()),
      ptr(LLVM::LLVMPointerType::get(program.getContext())), i64(builder.getI64Type()),
      i32Type(builder.getI32Type()), namedSizes(wrapper::getNamedSizes(program.getSymbolsAttr())) {
  for (auto [i, symbol] : llvm::enumerate(getSymbols()))
    symbolNumbers[symbol.getName()] = i;
}

LogicalResult HostProgram::emit() {
  auto module = program->getParentOfType<ModuleOp>();
  builder.setInsertionPointToEnd(module.getBody());
  Globals made(builder, loc);
  globals = &made;
  FailureOr<SmallVector<HostFunctionOpInterface>> functions = getFunctionsInOrder(module);
  if (failed(functions) || failed(findKernels()))
    return failure();
  for (HostFunctionOpInterface source : *functions) {
    definedSymbols.insert_range(getDefinedSymbols(source));
    if (!options.stepsAlone)
      numSegments += llvm::range_size(source.getFunctionBody().getOps<ReserveOp>());
  }
  findEntrySizes();
  if (options.stepsAlone) {
    steps.emplace(module);
    emitStepFunctions();
    emitNoMain();
  } else {
    numberSteps();
    for (HostFunctionOpInterface source : *functions) {
      if (options.debug.level)
        nameBuffers(source);
      emitFunction(source);
    }
  }
  emitBind();
  emitSizes();
  emitTables();
  return success();
}

//===-- Pieces of functions -----------------------------------------------------------------===//

LLVM::LLVMFuncOp HostProgram::beginFunction(StringRef name, LLVM::LLVMFunctionType type) {
  builder.setInsertionPointToEnd(program->getParentOfType<ModuleOp>().getBody());
  function = LLVM::LLVMFuncOp::create(builder, loc, name, type, LLVM::Linkage::Internal,
                                      /*dsoLocal=*/true);
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  loadedSymbols.clear();
  symbolValues = otherSymbols = {};
  return function;
}

void HostProgram::beginErrors() {
  errorBlock = new Block();
  errorBlock->addArgument(i32Type, loc);
}

void HostProgram::endErrors() {
  LLVM::ReturnOp::create(builder, loc, i32(0));
  function.getBody().push_back(errorBlock);
  builder.setInsertionPointToEnd(errorBlock);
  LLVM::ReturnOp::create(builder, loc, errorBlock->getArgument(0));
}

LLVM::LLVMFuncOp HostProgram::declare(StringRef name, LLVM::LLVMFunctionType type) {
  auto module = program->getParentOfType<ModuleOp>();
  if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return known;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(module.getBody());
  auto declared = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  // In this very link: no detour through the global offset table.
  declared.setVisibility_(LLVM::Visibility::Hidden);
  declared.setDsoLocal(true);
  return declared;
}

LLVM::LLVMFuncOp HostProgram::declare(const RuntimeFunction &function) {
  return declare(function.name, function.getType(builder.getContext()));
}

LLVM::CallOp HostProgram::call(const RuntimeFunction &function, ValueRange operands) {
  return LLVM::CallOp::create(builder, loc, declare(function), operands);
}

Value HostProgram::loadRunField(size_t offset) {
  return load(ptr, run, static_cast<int64_t>(offset / sizeof(void *)));
}

void HostProgram::storeRunField(size_t offset, Value value) {
  Value slot =
      LLVM::GEPOp::create(builder, loc, ptr, ptr, run,
                          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset / sizeof(void *))});
  LLVM::StoreOp::create(builder, loc, value, slot);
}

Value HostProgram::load(Type type, Value base, int64_t index) {
  Value address = base;
  if (index != 0)
    address = LLVM::GEPOp::create(builder, loc, ptr, type, base,
                                  ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  return LLVM::LoadOp::create(builder, loc, type, address);
}

Value HostProgram::i32(int32_t value) {
  return LLVM::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
}

ArrayRef<NamedAttribute> HostProgram::getSymbols() const {
  DictionaryAttr symbols = ProgramOp(program).getSymbolsAttr();
  return symbols ? symbols.getValue() : ArrayRef<NamedAttribute>();
}

std::optional<unsigned> HostProgram::getSymbolNumber(StringRef name) const {
  auto number = symbolNumbers.find(name);
  return number == symbolNumbers.end() ? std::nullopt : std::optional(number->second);
}

Value HostProgram::loadSymbol(Value symbols, StringRef name) {
  // Symbols that the program defines change on the way.
  if (definedSymbols.contains(sym::Expr::symbol(name)))
    return load(i64, symbols, *getSymbolNumber(name));
  // At the function's entry, where it reaches every use.
  Value &value = loadedSymbols[name];
  if (!value) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(symbols);
    if (std::optional<unsigned> number = getSymbolNumber(name))
      value = load(i64, symbols, *number);
  }
  return value;
}

void HostProgram::storeSymbol(Value symbols, StringRef name, Value value) {
  auto number = static_cast<int32_t>(*getSymbolNumber(name));
  Value slot = LLVM::GEPOp::create(builder, loc, ptr, i64, symbols, ArrayRef<LLVM::GEPArg>{number});
  LLVM::StoreOp::create(builder, loc, value, slot);
}

Value HostProgram::number(sym::Expr expr) {
  if (auto name = namedSizes.find(expr); name != namedSizes.end())
    expr = name->second;
  auto symbol = [&](StringRef name) { return loadSymbol(symbolValues, name); };
  return ExprEmitter(builder, loc, symbol).emit(expr);
}

Value HostProgram::checkedNumber(sym::Expr expr) {
  auto symbol = [&](StringRef name) { return loadSymbol(symbolValues, name); };
  return ExprEmitter(builder, loc, symbol).emitChecked(expr);
}

Value HostProgram::text(StringRef text) {
  std::string name;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(program->getParentOfType<ModuleOp>().getBody());
    name = globals->string(text);
  }
  return LLVM::AddressOfOp::create(builder, loc, ptr, name);
}

Value HostProgram::offsetBytes(Value base, sym::Expr bytes) {
  return bytes.isConstant(0) ? base : offsetBytes(base, number(bytes));
}

Value HostProgram::offsetBytes(Value base, Value bytes) {
  return LLVM::GEPOp::create(builder, loc, ptr, builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{bytes});
}

//===-- Functions of steps ------------------------------------------------------------------===//

LogicalResult HostProgram::findKernels() {
  WalkResult walk = program->getParentOfType<ModuleOp>()->walk([&](Operation *op) {
    SmallVector<FlatSymbolRefAttr> names;
    if (auto launch = dyn_cast<LaunchOp>(op))
      names = launch.getKernels();
    else if (auto fold = dyn_cast<FoldOp>(op))
      names = {fold.getKernelAttr()};
    for (FlatSymbolRefAttr name : names) {
      auto kernel = SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(op, name);
      kernels[name.getAttr()] = kernel;
      if (getGrid(kernel).isValid())
        continue;
      op->emitError("kernel @") << name.getValue() << " has no schedule yet";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

void HostProgram::emitStep(Operation &op) {
  if (entrySizes.contains(&op))
    return;
  loc = op.getLoc();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (constant.getOffset())
      addresses[constant] =
          offsetBytes(constant.getMutated() ? state : weights, constant.getOffsetAttr().getInt());
  } else if (auto output = dyn_cast<OutputOp>(op)) {
    addresses[output] = getOutput(output.getIndex());
  } else if (auto alloc = dyn_cast<AllocOp>(op)) {
    int64_t segment = alloc.getSegment();
    Value base = segment ? load(ptr, segments, segment - 1) : arena;
    addresses[alloc] = offsetBytes(base, alloc.getOffset()->getValue());
  } else if (auto reserve = dyn_cast<ReserveOp>(op)) {
    emitReserve(reserve);
  } else if (auto reuse = dyn_cast<ReuseOp>(op)) {
    addresses[reuse] = getAddress(reuse.getBuffer());
  } else if (auto view = dyn_cast<ViewOp>(op)) {
    sym::Expr offset = view.getOffset().getValue();
    addresses[view] = offsetBytes(getAddress(view.getBuffer()),
                                  offset * getElementBytes(view.getType().getElementType()));
  } else if (auto launch = dyn_cast<LaunchOp>(op)) {
    emitLaunch(launch, storeAddresses(launch.getOperands()));
  } else if (auto call = dyn_cast<ExternCallOp>(op)) {
    emitExternCall(call);
  } else if (auto copy = dyn_cast<CopyOp>(op)) {
    emitCopy(copy);
  } else if (auto define = dyn_cast<DefineOp>(op)) {
    emitDefine(define);
  } else if (auto check = dyn_cast<CheckOp>(op)) {
    emitCheckData(check);
  } else if (auto assertion = dyn_cast<AssertOp>(op)) {
    emitAssert(assertion);
  } else if (auto give = dyn_cast<GiveOp>(op)) {
    LLVM::StoreOp::create(builder, loc, getAddress(give.getBuffer()), getOutput(give.getIndex()));
  } else if (auto call = dyn_cast<CallOp>(op)) {
    emitGraph(call.getGraphAttr(), {lookUp(call.getIns())}, lookUp(call.getOuts()),
              call.getWorkspace());
    loadGiven(call.getGiven());
  } else if (auto branch = dyn_cast<IfOp>(op)) {
    emitIf(branch);
  } else if (auto loop = dyn_cast<WhileOp>(op)) {
    emitWhile(loop);
  } else if (auto loop = dyn_cast<ForOp>(op)) {
    emitFor(loop);
  }
  // Comments, frees and folds leave nothing: the arena is planned, constants are known.
}

void HostProgram::emitCheck(Value status) {
  Value isError = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, status, i32(0));
  Block *next = function.addBlock();
  LLVM::CondBrOp::create(builder, loc, isError, errorBlock, ValueRange(status), next, ValueRange(),
                         std::pair<uint32_t, uint32_t>(1, 1u << 20));
  builder.setInsertionPointToEnd(next);
}

LLVM::LLVMFuncOp HostProgram::declareKernel(kernel::FuncOp kernel) {
  scratchBytes = std::max(scratchBytes, getScratchBytes(kernel));
  return declare(kernel.getName(), CFunctionType<kiln_rt_kernel>::get(builder.getContext()));
}

std::string HostProgram::declareData(StringRef name) {
  auto module = program->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    auto data = LLVM::GlobalOp::create(builder, loc, builder.getI8Type(), /*isConstant=*/true,
                                       LLVM::Linkage::External, name, Attribute());
    data.setVisibility_(LLVM::Visibility::Hidden);
    data.setDsoLocal(true);
  }
  return name.str();
}

Value HostProgram::getKernelAddress(kernel::FuncOp kernel) {
  if (isDevice())
    return LLVM::AddressOfOp::create(builder, loc, ptr,
                                     declareData(getDeviceKernelSymbol(kernel.getName())));
  return LLVM::AddressOfOp::create(builder, loc, declareKernel(kernel));
}

void HostProgram::emitLaunch(LaunchOp launch, Value buffers) {
  LLVM::LLVMFuncOp start =
      declare(choose(KILN_FUNCTION(kiln_rt_launch), KILN_FUNCTION(kiln_rt_device_launch)));
  SmallVector<kernel::FuncOp> functions;
  for (FlatSymbolRefAttr name : launch.getKernels())
    functions.push_back(kernels.lookup(name.getAttr()));
  Value address = getKernelAddress(functions.front());
  Value grid = number(launch.fromKernel(getGrid(functions.front())));
  Value symbols = emitSymbols(launch, functions.front());
  for (auto [kernel, condition] :
       llvm::zip_equal(ArrayRef(functions).drop_front(), launch.getConditions())) {
    Value holds = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::sge, number(condition),
                                       number(sym::Expr(0)));
    address =
        LLVM::SelectOp::create(builder, loc, holds, getKernelAddress(kernel), address).getResult();
    grid = LLVM::SelectOp::create(builder, loc, holds, number(getGrid(kernel)), grid).getResult();
  }
  emitShown(launch, launch.getIns(), launch.getOuts(), buffers, [&] {
    SmallVector<Value> operands = {run, address, buffers, grid, getStepNumber(launch)};
    if (symbols)
      storeRunField(offsetof(kiln_rt_run, symbols), symbols);
    Value status = LLVM::CallOp::create(builder, loc, start, operands).getResult();
    if (symbols)
      storeRunField(offsetof(kiln_rt_run, symbols), symbolValues);
    emitCheck(status);
  });
}

ArrayRef<std::pair<sym::Expr, sym::Expr>> HostProgram::getSymbolsOf(kernel::FuncOp kernel) {
  auto [found, isNew] = symbolsOf.try_emplace(kernel);
  if (!isNew)
    return found->second;
  SymbolCollector used;
  used.add(kernel);
  for (NamedAttribute symbol : getSymbols()) {
    sym::Expr name = sym::Expr::symbol(symbol.getName());
    auto properties = dyn_cast<DictionaryAttr>(symbol.getValue());
    auto size = properties ? properties.getAs<sym::ExprAttr>(sizeAttrName) : sym::ExprAttr();
    bool isUsed = size || used.symbols.contains(name);
    if (size)
      size.getValue().walkLeaves([&](sym::Expr leaf) { isUsed &= used.symbols.contains(leaf); });
    if (isUsed)
      found->second.push_back({name, size ? size.getValue() : name});
  }
  return found->second;
}

Value HostProgram::emitSymbols(LaunchOp launch, kernel::FuncOp kernel) {
  if (!launch.getSymbolsAttr())
    return {};
  if (!otherSymbols) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&function.getBody().front());
    Value count = LLVM::ConstantOp::create(
        builder, loc, builder.getI64IntegerAttr(static_cast<int64_t>(getSymbols().size())));
    otherSymbols = LLVM::AllocaOp::create(builder, loc, ptr, i64, count);
  }
  for (auto [name, value] : getSymbolsOf(kernel))
    storeSymbol(otherSymbols, name.symbolName(), number(launch.fromKernel(value)));
  return otherSymbols;
}

Value HostProgram::storeAddresses(ValueRange buffers) {
  if (buffers.empty())
    return LLVM::ZeroOp::create(builder, loc, ptr);
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    Value slot = LLVM::GEPOp::create(builder, loc, ptr, ptr, arguments,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    LLVM::StoreOp::create(builder, loc, getAddress(buffer), slot);
  }
  return arguments;
}

Value HostProgram::storeNumbers(Value memory, unsigned at, ArrayRef<sym::Expr> numbers) {
  Value first = LLVM::GEPOp::create(builder, loc, ptr, i64, memory,
                                    ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(at)});
  for (auto [i, expr] : llvm::enumerate(numbers)) {
    Value slot = LLVM::GEPOp::create(builder, loc, ptr, i64, first,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    LLVM::StoreOp::create(builder, loc, number(expr), slot);
  }
  return first;
}

void HostProgram::copyBytes(Value to, Value from, Value bytes) {
  if (!isDevice()) {
    LLVM::MemcpyOp::create(builder, loc, to, from, bytes, /*isVolatile=*/false);
    return;
  }
  emitCheck(call(KILN_FUNCTION(kiln_rt_device_copy), {run, to, from, bytes}).getResult());
}

void HostProgram::emitCopy(CopyOp copy) {
  auto from = cast<BufferType>(copy.getSource().getType());
  auto to = cast<BufferType>(copy.getTarget().getType());
  Value source = getAddress(copy.getSource()), target = getAddress(copy.getTarget());
  int64_t item = getElementBytes(from.getElementType());
  if (from.isContiguous() && to.isContiguous())
    return copyBytes(target, source, number(from.getBytes()));
  unsigned rank = from.getSizes().size();
  Value sizes = storeNumbers(arguments, 0, from.getSizes());
  Value toStrides = storeNumbers(arguments, rank, to.getStrides());
  Value fromStrides = storeNumbers(arguments, 2 * rank, from.getStrides());
  SmallVector<Value> operands = {target,
                                 toStrides,
                                 source,
                                 fromStrides,
                                 sizes,
                                 number(sym::Expr(static_cast<int64_t>(rank))),
                                 number(sym::Expr(item))};
  if (isDevice()) {
    operands.insert(operands.begin(), run);
    return emitCheck(call(KILN_FUNCTION(kiln_rt_device_copy_strided), operands).getResult());
  }
  call(KILN_FUNCTION(kiln_rt_copy), operands);
}

//===-- What depends on data ----------------------------------------------------------------===//

Value HostProgram::loadData(Type type, Value address) {
  if (!isDevice())
    return load(type, address, 0);
  // The device has to come to here first.
  Value memory;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&function.getBody().front());
    Value one = LLVM::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(1));
    memory = LLVM::AllocaOp::create(builder, loc, ptr, i64, one);
  }
  Value bytes = number(sym::Expr(static_cast<int64_t>(type.getIntOrFloatBitWidth() / 8)));
  emitCheck(call(KILN_FUNCTION(kiln_rt_device_read), {run, memory, address, bytes}).getResult());
  return LLVM::LoadOp::create(builder, loc, type, memory);
}

void HostProgram::emitDefine(DefineOp define) {
  // A sum or product that leaves 64 bits becomes -1, which is no size.
  Value value = define.getValue() ? loadData(i64, getAddress(define.getValue()))
                                  : checkedNumber(define.getExprAttr().getValue());
  storeSymbol(symbolValues, define.getSymbol(), value);
}

void HostProgram::emitReserve(ReserveOp reserve) {
  Value number = this->number(sym::Expr(static_cast<int64_t>(reserve.getSegment()) - 1));
  Value bytes = checkedNumber(reserve.getBytes().getValue());
  RuntimeFunction make =
      choose(KILN_FUNCTION(kiln_rt_reserve), KILN_FUNCTION(kiln_rt_device_reserve));
  emitCheck(call(make, {run, number, bytes}).getResult());
}

bool HostProgram::isLate(unsigned output) {
  SymbolCollector used;
  used.walker.walk(program.getResultTypes()[output]);
  return llvm::any_of(used.symbols, [&](sym::Expr e) { return definedSymbols.contains(e); });
}

Value HostProgram::bindOutput(unsigned index) {
  if (isLate(index) && boundOutputs.insert(index).second) {
    RuntimeFunction bind =
        choose(KILN_FUNCTION(kiln_rt_bind_output), KILN_FUNCTION(kiln_rt_device_bind_output));
    Value number = this->number(sym::Expr(static_cast<int64_t>(index)));
    emitCheck(call(bind, {run, number}).getResult());
  }
  return load(ptr, outputs, index);
}

void HostProgram::failUnless(Value holds, StringRef message, ArrayRef<sym::Expr> symbols) {
  Block *broken = function.addBlock(), *next = function.addBlock();
  LLVM::CondBrOp::create(builder, loc, holds, next, broken);
  builder.setInsertionPointToEnd(broken);
  SmallVector<int64_t> numbers;
  for (sym::Expr symbol : symbols)
    numbers.push_back(*getSymbolNumber(symbol.symbolName()));
  std::string table;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(program->getParentOfType<ModuleOp>().getBody());
    table = globals->numbers(numbers);
  }
  Value list = table.empty() ? LLVM::ZeroOp::create(builder, loc, ptr).getResult()
                             : LLVM::AddressOfOp::create(builder, loc, ptr, table).getResult();
  Value count = number(sym::Expr(static_cast<int64_t>(numbers.size())));
  Value status =
      call(KILN_FUNCTION(kiln_rt_assert_failed), {run, text(message), list, count}).getResult();
  LLVM::BrOp::create(builder, loc, ValueRange(status), errorBlock);
  builder.setInsertionPointToEnd(next);
}

void HostProgram::emitAssert(AssertOp assertion) {
  sym::Expr expr = assertion.getExpr().getValue();
  // A condition that cannot be computed does not hold.
  Value holds = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::sge, checkedNumber(expr),
                                     number(sym::Expr(0)));
  SymbolCollector used;
  used.add(expr);
  failUnless(holds, assertion.getMessage(), used.symbols.getArrayRef());
}

void HostProgram::emitCheckData(CheckOp check) {
  Value byte = loadData(builder.getI8Type(), getAddress(check.getCondition()));
  Value zero = LLVM::ConstantOp::create(builder, loc, builder.getI8IntegerAttr(0));
  Value holds = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, byte, zero);
  failUnless(holds, check.getMessage(), {});
}
