// The course of a run: the steps of the program and of its nested graphs, which step needs which, and
// the buffers of the arena with their places and times.
#include "Types.h"
#include "Validate.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Host/ModelInfo.h"
#include "kiln/Host/Profile.h"
#include "kiln/Report/Report.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::report;
using namespace kiln::wrapper;
using codegen::estimate;
using llvm::json::Array;
using llvm::json::Object;

/// `size` as a number, which is a guess if `size` is not constant, and then also as text.
static void addSize(Object &object, StringRef key, sym::Expr size) {
  object[key] = estimate(size);
  if (!size.isConstant())
    object[(key + "_text").str()] = size.str();
}

static bool isStep(Operation *op) {
  return isa<LaunchOp, ExternCallOp, CopyOp, GraphCallOpInterface>(op);
}

/// The buffers that a step writes.
static SmallVector<Value> getWritten(Operation *step) {
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(step)
      .Case<LaunchOp, ExternCallOp>([](auto op) { return llvm::to_vector(op.getOuts()); })
      .Case([](CopyOp op) { return SmallVector<Value>{op.getTarget()}; })
      .Case([](GraphCallOpInterface op) {
        SmallVector<Value> written = llvm::to_vector(op.getResultBuffers());
        llvm::append_range(written, op->getResults());
        return written;
      })
      .Default({});
}

Object Report::describeStep(Operation *step, const StepNumbers &numbers) {
  Object result;
  if (auto number = numbers.find(step); number != numbers.end())
    result["launch"] = number->second;
  if (auto launch = dyn_cast<LaunchOp>(step)) {
    result["kernel"] = kernelNumbers.lookup(launch.getKernel());
  } else if (auto call = dyn_cast<ExternCallOp>(step)) {
    result["kind"] = "call";
    result["name"] = (call.getLibrary() + ":" + call.getCallee()).str();
  } else if (auto copy = dyn_cast<CopyOp>(step)) {
    result["kind"] = "copy";
    result["name"] = "copy";
    addSize(result, "bytes", copy.getSource().getType().getBytes());
  } else {
    result["kind"] = "graph";
    result["name"] = step->getName().stripDialect();
    Array graphs;
    for (FlatSymbolRefAttr graph : cast<GraphCallOpInterface>(step).getGraphs())
      graphs.push_back(graph.getValue());
    result["functions"] = std::move(graphs);
  }
  if (SmallVector<int64_t> found = findNodes(step->getLoc()); !found.empty())
    result["nodes"] = Array(found);
  else
    result["where"] = sym::describe(step->getLoc());
  return result;
}

namespace {

/// The steps and buffers of one function.
class FunctionReport {
public:
  FunctionReport(HostFunctionOpInterface function, function_ref<Object(Operation *)> describeStep)
      : function(function), describeStep(describeStep) {}

  Object run() {
    for (Operation &op : function.getFunctionBody().front()) {
      if (isStep(&op))
        addStep(&op);
      else if (isa<AllocOp, ReuseOp>(op))
        addBuffer(&op);
      if (isa<FreeOp, ReuseOp>(op))
        endBuffer(op.getOperand(0));
    }
    Array list;
    for (Object &buffer : buffers)
      list.push_back(std::move(buffer));
    Object result{{"name", function.getName()},
                  {"steps", std::move(steps)},
                  {"buffers", std::move(list)},
                  {"outputs", findOutputs()}};
    if (sym::ExprAttr arena = function.getArenaBytesAttr())
      addSize(result, "arena", arena.getValue());
    return result;
  }

private:
  void addStep(Operation *op) {
    int64_t number = steps.size();
    Object step = describeStep(op);
    SmallVector<Value> written = getWritten(op);
    llvm::SmallSetVector<int64_t, 4> inputs, arguments;
    llvm::SmallSetVector<Value, 4> constants;
    for (Value operand : op->getOperands()) {
      Value storage = getStorage(operand);
      if (llvm::is_contained(written, operand) && !isa<ExternCallOp>(op))
        continue;
      if (auto writers = lastWriters.find(storage); writers != lastWriters.end())
        inputs.insert_range(writers->second);
      else if (auto argument = dyn_cast<BlockArgument>(storage))
        arguments.insert(argument.getArgNumber());
    }
    for (Value buffer : written) {
      Value storage = getStorage(buffer);
      auto &writers = lastWriters[storage];
      if (isWhole(buffer, storage))
        writers.clear();
      writers.push_back(number);
      if (auto known = bufferNumbers.find(storage); known != bufferNumbers.end()) {
        Object &entry = buffers[known->second];
        if (!entry.get("maker"))
          entry["maker"] = number;
      }
    }
    if (!inputs.empty())
      step["inputs"] = Array(inputs.getArrayRef());
    if (!arguments.empty())
      step["arguments"] = Array(arguments.getArrayRef());
    steps.push_back(std::move(step));
  }

  static bool isWhole(Value buffer, Value storage) {
    auto type = cast<BufferType>(buffer.getType()), whole = cast<BufferType>(storage.getType());
    return buffer == storage || type.getBytes() == whole.getBytes();
  }

  void addBuffer(Operation *op) {
    Value buffer = op->getResult(0);
    auto type = cast<BufferType>(buffer.getType());
    Object entry{{"type", describeType(type.getElementType(), type.getSizes())},
                 {"first", int64_t(steps.size())},
                 {"last", int64_t(steps.size())}};
    addSize(entry, "bytes", type.getBytes());
    Operation *root = op;
    while (auto reuse = dyn_cast<ReuseOp>(root))
      root = getStorage(reuse.getBuffer()).getDefiningOp();
    auto alloc = cast<AllocOp>(root);
    if (alloc.getOffset())
      addSize(entry, "offset", alloc.getOffset()->getValue());
    if (alloc.getSegment())
      entry["segment"] = int64_t(alloc.getSegment());
    bufferNumbers[buffer] = buffers.size();
    buffers.push_back(std::move(entry));
  }

  void endBuffer(Value buffer) {
    if (auto known = bufferNumbers.find(getStorage(buffer)); known != bufferNumbers.end())
      buffers[known->second]["last"] = std::max<int64_t>(steps.size(), 1) - 1;
  }

  Array findOutputs() {
    Array outputs(std::vector<llvm::json::Value>(function.getNumResults(), nullptr));
    for (Operation &op : function.getFunctionBody().front()) {
      auto output = dyn_cast<OutputOp>(op);
      if (!output)
        continue;
      if (auto writers = lastWriters.find(output.getResult()); writers != lastWriters.end())
        outputs[output.getIndex()] = Array(writers->second);
    }
    return outputs;
  }

  HostFunctionOpInterface function;
  function_ref<Object(Operation *)> describeStep;
  Array steps;
  std::vector<Object> buffers;
  llvm::DenseMap<Value, int64_t> bufferNumbers;
  llvm::DenseMap<Value, SmallVector<int64_t, 2>> lastWriters;
};

} // namespace

/// How often each function is run in a run of the program, as far as sizes say.
static llvm::StringMap<double> countCalls(ArrayRef<HostFunctionOpInterface> functions) {
  llvm::StringMap<double> times;
  for (HostFunctionOpInterface function : llvm::reverse(functions)) {
    double own = times.try_emplace(function.getName(), 1).first->second;
    function->walk([&](GraphCallOpInterface call) {
      auto loop = dyn_cast<ForOp>(call.getOperation());
      double rounds = loop ? double(estimate(loop.getLength().getValue())) : 1;
      for (FlatSymbolRefAttr graph : call.getGraphs()) {
        double &count = times.try_emplace(graph.getValue(), 0).first->second;
        count += own * rounds;
      }
    });
  }
  return times;
}

void Report::addFunctions(ModuleOp module) {
  FailureOr<SmallVector<HostFunctionOpInterface>> order = getFunctionsInOrder(module);
  if (failed(order)) // has been verified
    return;
  llvm::StringMap<double> times = countCalls(*order);
  StepNumbers numbers;
  for (auto [number, step] : llvm::enumerate(host::getProfiledSteps(module)))
    numbers[step] = static_cast<int64_t>(number);
  Array functions;
  for (HostFunctionOpInterface function : llvm::reverse(*order)) {
    Object described = FunctionReport(function, [&](Operation *step) {
                         return describeStep(step, numbers);
                       }).run();
    described["times"] = times.lookup(function.getName());
    functions.push_back(std::move(described));
  }
  result["functions"] = std::move(functions);
}

void Report::addBuild(const Build &build) {
  result["kiln_report"] = reportVersion;
  result["model"] = build.model;
  result["compiler"] = build.compiler;
  result["target"] = build.target;
  result["cpu"] = build.cpu;
  result["level"] = build.level;
  if (const codegen::CPUModel *machine = build.machine)
    result["machine"] = Object{
        {"hertz", machine->hertz()},
        {"bytes_per_cycle", machine->memoryBytesPerSecond() / machine->hertz()},
        {"flops_per_cycle", double(machine->fmaUnits * machine->vectorBytes) / 2},
    };
}

void Report::addProgram(ModuleOp module, const Build &build) {
  addBuild(build);
  ProgramOp program = *module.getOps<ProgramOp>().begin();
  // Already JSON: names, shapes, ranges of symbols.
  if (auto info = llvm::json::parse(
          host::describeModel(host::ModelEntry{"model", program}, host::ConstantCells(),
                              {build.model, build.target, build.compiler}));
      info && info->getAsObject())
    for (StringRef key : {"inputs", "outputs", "symbols"})
      if (llvm::json::Value *value = info->getAsObject()->get(key))
        result[key] = std::move(*value);
  llvm::sort(remarks, [](const Remark &a, const Remark &b) { return a.key() < b.key(); });
  remarks.erase(
      llvm::unique(remarks, [](const Remark &a, const Remark &b) { return a.key() == b.key(); }),
      remarks.end());
  addKernels(module, build.machine);
  addFunctions(module);
  addWeights(program);
  addFindings(module);
}

llvm::json::Value Report::finish() && {
  result["modules"] = std::move(modules);
  result["files"] = std::move(files);
  result["code"] = std::move(code);
  return std::move(result);
}
