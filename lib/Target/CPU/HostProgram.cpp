// The host program's main function.
#include "HostProgram.h"
#include "Globals.h"
#include "kiln/Target/CPU/KernelEmitters.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::wrapper;

/// kiln_status (kiln-c/model.h).
static constexpr int32_t assertionFailed = 6;

/// Fields of kiln_rt_run, all of them pointers.
enum RunField { runInputs, runOutputs, runArena, runWeights, runSymbols };

HostProgram::HostProgram(ProgramOp program, const HostTablesOptions &options)
    : program(program), options(options), builder(program), loc(program.getLoc()),
      ptr(LLVM::LLVMPointerType::get(program.getContext())), i64(builder.getI64Type()),
      i32Type(builder.getI32Type()) {}

LogicalResult HostProgram::emit() {
  auto module = program->getParentOfType<ModuleOp>();
  builder.setInsertionPointToEnd(module.getBody());
  Globals made(builder, loc);
  globals = &made;
  if (failed(emitMain()) || failed(emitBind()))
    return failure();
  emitArenaBytes();
  emitTables();
  return success();
}

//===-- Pieces of functions -----------------------------------------------------------------===//

LLVM::LLVMFuncOp HostProgram::beginFunction(StringRef name, Type result, ArrayRef<Type> arguments) {
  builder.setInsertionPointToEnd(program->getParentOfType<ModuleOp>().getBody());
  function =
      LLVM::LLVMFuncOp::create(builder, loc, name, LLVM::LLVMFunctionType::get(result, arguments),
                               LLVM::Linkage::Internal, /*dsoLocal=*/true);
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  loadedSymbols.clear();
  symbolValues = {};
  return function;
}

LLVM::LLVMFuncOp HostProgram::declare(StringRef name, Type result, ArrayRef<Type> arguments) {
  auto module = program->getParentOfType<ModuleOp>();
  if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return known;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(module.getBody());
  auto declared =
      LLVM::LLVMFuncOp::create(builder, loc, name, LLVM::LLVMFunctionType::get(result, arguments));
  // In this very link: no detour through the global offset table.
  declared.setVisibility_(LLVM::Visibility::Hidden);
  declared.setDsoLocal(true);
  return declared;
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

Value HostProgram::loadSymbol(Value symbols, StringRef name) {
  // At the function's entry, where it reaches every use.
  Value &value = loadedSymbols[name];
  if (!value) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(symbols);
    for (auto [i, symbol] : llvm::enumerate(getSymbols()))
      if (symbol.getName() == name)
        value = load(i64, symbols, i);
  }
  return value;
}

Value HostProgram::number(sym::Expr expr) {
  auto symbol = [&](StringRef name) { return loadSymbol(symbolValues, name); };
  return ExprEmitter(builder, loc, symbol).emit(expr);
}

Value HostProgram::offsetBytes(Value base, sym::Expr bytes) {
  if (bytes.isConstant(0))
    return base;
  return LLVM::GEPOp::create(builder, loc, ptr, builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{number(bytes)});
}

//===-- main --------------------------------------------------------------------------------===//

LogicalResult HostProgram::emitMain() {
  Block &body = program.getBody().front();
  size_t numArguments = 0;
  for (Operation &op : body) {
    if (auto launch = dyn_cast<LaunchOp>(op))
      numArguments = std::max<size_t>(numArguments, launch.getNumOperands());
    if (auto copy = dyn_cast<CopyOp>(op))
      numArguments = std::max<size_t>(
          numArguments, 3 * cast<BufferType>(copy.getSource().getType()).getSizes().size());
  }
  for (Operation &op : body) {
    auto name = op.getAttrOfType<FlatSymbolRefAttr>("kernel");
    if (!name)
      continue;
    auto kernel = SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(&op, name);
    kernels[name.getAttr()] = kernel;
    if (!getGrid(kernel).isValid())
      return op.emitError("kernel @") << name.getValue() << " has no schedule yet";
  }

  beginFunction("kiln_main", i32Type, {ptr});
  run = function.getArgument(0);
  inputs = load(ptr, run, runInputs);
  outputs = load(ptr, run, runOutputs);
  arena = load(ptr, run, runArena);
  weights = load(ptr, run, runWeights);
  symbolValues = load(ptr, run, runSymbols);
  if (numArguments)
    arguments = LLVM::AllocaOp::create(builder, loc, ptr, i64,
                                       ExprEmitter(builder, loc, nullptr).constant(numArguments));
  for (auto [i, input] : llvm::enumerate(program.getArguments()))
    if (!input.use_empty())
      addresses[input] = load(ptr, inputs, i);

  errorBlock = new Block();
  errorBlock->addArgument(i32Type, loc);
  for (Operation &op : body)
    emitStep(op);
  LLVM::ReturnOp::create(builder, loc, i32(0));
  function.getBody().push_back(errorBlock);
  builder.setInsertionPointToEnd(errorBlock);
  LLVM::ReturnOp::create(builder, loc, errorBlock->getArgument(0));
  return success();
}

void HostProgram::emitStep(Operation &op) {
  loc = op.getLoc();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (constant.getOffset())
      addresses[constant] = offsetBytes(weights, constant.getOffsetAttr().getInt());
  } else if (auto output = dyn_cast<OutputOp>(op)) {
    addresses[output] = load(ptr, outputs, output.getIndex());
  } else if (auto alloc = dyn_cast<AllocOp>(op)) {
    addresses[alloc] = offsetBytes(arena, alloc.getOffset()->getValue());
  } else if (auto reuse = dyn_cast<ReuseOp>(op)) {
    addresses[reuse] = addresses.lookup(reuse.getBuffer());
  } else if (auto view = dyn_cast<ViewOp>(op)) {
    sym::Expr offset = view.getOffset().getValue();
    addresses[view] = offsetBytes(addresses.lookup(view.getBuffer()),
                                  offset * getElementBytes(view.getType().getElementType()));
  } else if (auto launch = dyn_cast<LaunchOp>(op)) {
    emitLaunch(launch);
  } else if (auto copy = dyn_cast<CopyOp>(op)) {
    emitCopy(copy);
  } else if (auto assertion = dyn_cast<AssertOp>(op)) {
    emitAssert(assertion);
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
  return declare(kernel.getName(), LLVM::LLVMVoidType::get(builder.getContext()),
                 {ptr, ptr, i64, ptr, ptr});
}

void HostProgram::emitLaunch(LaunchOp launch) {
  kernel::FuncOp kernel = kernels.lookup(launch.getKernelAttr().getAttr());
  LLVM::LLVMFuncOp code = declareKernel(kernel);
  LLVM::LLVMFuncOp start = declare("kiln_rt_launch", i32Type, {ptr, ptr, ptr, i64});
  for (auto [i, buffer] : llvm::enumerate(launch.getOperands())) {
    Value slot = LLVM::GEPOp::create(builder, loc, ptr, ptr, arguments,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    LLVM::StoreOp::create(builder, loc, addresses.lookup(buffer), slot);
  }
  Value address = LLVM::AddressOfOp::create(builder, loc, code);
  Value status = LLVM::CallOp::create(builder, loc, start,
                                      ValueRange{run, address, arguments, number(getGrid(kernel))})
                     .getResult();
  emitCheck(status);
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

void HostProgram::emitCopy(CopyOp copy) {
  auto from = cast<BufferType>(copy.getSource().getType());
  auto to = cast<BufferType>(copy.getTarget().getType());
  Value source = addresses.lookup(copy.getSource()), target = addresses.lookup(copy.getTarget());
  int64_t item = getElementBytes(from.getElementType());
  if (from.isContiguous() && to.isContiguous()) {
    LLVM::MemcpyOp::create(builder, loc, target, source, number(from.getBytes()),
                           /*isVolatile=*/false);
    return;
  }
  LLVM::LLVMFuncOp strided = declare("kiln_rt_copy", LLVM::LLVMVoidType::get(builder.getContext()),
                                     {ptr, ptr, ptr, ptr, ptr, i64, i64});
  unsigned rank = from.getSizes().size();
  Value sizes = storeNumbers(arguments, 0, from.getSizes());
  Value toStrides = storeNumbers(arguments, rank, to.getStrides());
  Value fromStrides = storeNumbers(arguments, 2 * rank, from.getStrides());
  LLVM::CallOp::create(builder, loc, strided,
                       ValueRange{target, toStrides, source, fromStrides, sizes,
                                  number(sym::Expr(static_cast<int64_t>(rank))),
                                  number(sym::Expr(item))});
}

void HostProgram::emitAssert(AssertOp assertion) {
  LLVM::LLVMFuncOp fail = declare("kiln_rt_fail", i32Type, {ptr, i32Type, ptr});
  Value value = number(assertion.getExpr().getValue());
  Value holds =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::sge, value, number(sym::Expr(0)));
  Block *broken = function.addBlock(), *next = function.addBlock();
  LLVM::CondBrOp::create(builder, loc, holds, next, broken);
  builder.setInsertionPointToEnd(broken);
  std::string name;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(program->getParentOfType<ModuleOp>().getBody());
    name = globals->string(assertion.getMessage());
  }
  Value message = LLVM::AddressOfOp::create(builder, loc, ptr, name);
  Value status =
      LLVM::CallOp::create(builder, loc, fail, ValueRange{run, i32(assertionFailed), message})
          .getResult();
  LLVM::BrOp::create(builder, loc, ValueRange(status), errorBlock);
  builder.setInsertionPointToEnd(next);
}

SmallVector<sym::Expr> HostProgram::getUsedSymbols() {
  llvm::SmallSetVector<sym::Expr, 8> used;
  auto add = [&](ArrayRef<sym::Expr> exprs) {
    for (sym::Expr expr : exprs)
      expr.walkLeaves([&](sym::Expr leaf) {
        if (leaf.kind() == sym::Kind::Symbol)
          used.insert(leaf);
      });
  };
  AttrTypeWalker walker;
  walker.addWalk([&](sym::ExprAttr attr) { add(attr.getValue()); });
  walker.addWalk([&](sym::ShapeAttr attr) { add(attr.getSizes()); });
  walker.addWalk([&](sym::MapAttr attr) { add(attr.getResults()); });
  walker.addWalk([&](BufferType type) {
    add(type.getSizes());
    add(type.getStrides());
  });
  program->getParentOfType<ModuleOp>()->walk([&](Operation *op) {
    if (!isa<ModuleOp>(op))
      for (NamedAttribute attr : op->getAttrs())
        walker.walk(attr.getValue());
    for (Type type : op->getResultTypes())
      walker.walk(type);
  });
  SmallVector<sym::Expr> sorted(used.begin(), used.end());
  llvm::sort(sorted);
  return sorted;
}
