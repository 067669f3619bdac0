// Functions of steps: one for the program and for each nested graph, or several where there are many
// steps, since LLVM takes time that is quadratic in the length of a function.
#include "HostProgram.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

/// Launches, calls and the like in one function at most.
static constexpr size_t maxCalls = 256;

/// Steps in order, in parts that are functions of their own. Nested graphs hand addresses to the
/// steps behind them, so that a function that runs some stays whole.
static SmallVector<SmallVector<Operation *>> splitSteps(Block &body) {
  SmallVector<SmallVector<Operation *>> parts(1);
  bool isWhole = !body.getOps<GraphCallOpInterface>().empty();
  size_t numCalls = 0;
  for (Operation &op : body) {
    bool isCall = isa<LaunchOp, ExternCallOp, CopyOp, DefineOp, CheckOp, AssertOp, ReserveOp>(op);
    if (isCall && !isWhole && numCalls == maxCalls) {
      parts.emplace_back();
      numCalls = 0;
    }
    numCalls += isCall;
    parts.back().push_back(&op);
  }
  return parts;
}

/// The number of numbers or addresses that `step` hands over in memory at once.
static size_t countArguments(Operation &step) {
  if (isa<LaunchOp, ExternCallOp>(step))
    return step.getNumOperands();
  if (auto copy = dyn_cast<CopyOp>(step))
    return 3 * cast<BufferType>(copy.getSource().getType()).getSizes().size();
  return 0;
}

/// Begins a function of some of the steps of `source`.
void HostProgram::beginPart(HostFunctionOpInterface source, StringRef name,
                            LLVM::LLVMFunctionType type, ArrayRef<Operation *> steps) {
  bool isMain = source == program;
  beginFunction(name, type);
  addresses.clear();
  run = function.getArgument(0);
  arena = isMain ? loadRunField(offsetof(kiln_rt_run, arena)) : function.getArgument(1);
  if (numSegments)
    segments = loadRunField(offsetof(kiln_rt_run, segments));
  weights = loadRunField(offsetof(kiln_rt_run, weights));
  if (llvm::any_of(getConstants(program), [](ConstantOp c) { return c.getMutated(); }))
    state = loadRunField(offsetof(kiln_rt_run, state));
  symbolValues = loadRunField(offsetof(kiln_rt_run, symbols));
  size_t numArguments = 0, numGiven = 0;
  for (Operation *op : steps) {
    numArguments = std::max(numArguments, countArguments(*op));
    if (isa<GraphCallOpInterface>(op))
      numGiven = std::max<size_t>(numGiven, op->getNumResults());
  }
  if (numArguments)
    arguments = LLVM::AllocaOp::create(builder, loc, ptr, i64,
                                       ExprEmitter(builder, loc, nullptr).constant(numArguments));
  if (numGiven)
    given = LLVM::AllocaOp::create(builder, loc, ptr, ptr,
                                   ExprEmitter(builder, loc, nullptr).constant(numGiven));
  if (isMain) {
    inputs = loadRunField(offsetof(kiln_rt_run, inputs));
    outputs = loadRunField(offsetof(kiln_rt_run, outputs));
  }
}

/// The program is kiln_main(run); a nested graph takes the run, its arena, its arguments and its
/// results. Parts take what the whole does.
void HostProgram::emitFunction(HostFunctionOpInterface source) {
  bool isMain = source == program;
  loc = source.getLoc();
  SmallVector<Type> types = {ptr};
  if (!isMain)
    types.append(1 + source.getNumArguments() + source.getNumResults(), ptr);
  auto type = LLVM::LLVMFunctionType::get(i32Type, types);
  std::string name = isMain ? "kiln_main" : "kiln_graph_" + std::to_string(graphs.size());
  auto inputAddress = [&](unsigned i) -> Value {
    return isMain ? load(ptr, inputs, i) : function.getArgument(2 + i);
  };
  auto outputAddress = [&](unsigned i) -> Value {
    return isMain ? bindOutput(i) : function.getArgument(2 + source.getNumArguments() + i);
  };
  getInput = inputAddress;
  getOutput = outputAddress;

  auto parts = splitSteps(source.getFunctionBody().front());
  SmallVector<LLVM::LLVMFuncOp> functions;
  for (auto [i, steps] : llvm::enumerate(parts)) {
    loc = source.getLoc();
    beginPart(source, parts.size() == 1 ? name : name + "_part_" + std::to_string(i), type, steps);
    if (i == 0)
      for (BlockArgument input : source.getArguments())
        if (!input.use_empty())
          getAddress(input);
    beginErrors();
    if (isMain && i == 0)
      emitDebugInputs(inputs);
    for (Operation *step : steps)
      emitStep(*step);
    endErrors();
    functions.push_back(function);
  }
  if (functions.size() > 1) {
    loc = source.getLoc();
    beginFunction(name, type);
    beginErrors();
    for (LLVM::LLVMFuncOp part : functions)
      emitCheck(LLVM::CallOp::create(builder, loc, part, function.getArguments()).getResult());
    endErrors();
  }
  if (!isMain)
    graphs[source.getName()] = function;
}

/// In the function of this part: other parts may have emitted what says where the buffer is.
Value HostProgram::getAddress(Value buffer) {
  if (Value address = addresses.lookup(buffer))
    return address;
  if (auto argument = dyn_cast<BlockArgument>(buffer))
    return addresses[buffer] = getInput(argument.getArgNumber());
  Operation *source = buffer.getDefiningOp();
  assert((isa<ConstantOp, OutputOp, AllocOp, ReuseOp, ViewOp>(source)) && "not an address alone");
  Location before = std::exchange(loc, buffer.getLoc());
  emitStep(*source);
  loc = before;
  return addresses.lookup(buffer);
}
