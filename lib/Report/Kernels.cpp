// Kernels with their schedules, costs and operands, and the weights that they read.
#include "Types.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Dialect/Kernel/Costs.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Report/Report.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::report;
using namespace kiln::wrapper;
using codegen::estimate;
using llvm::json::Array;
using llvm::json::Object;

template <typename T> static std::string print(T attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

/// The number that planners would take for an expression; 0 for what has none.
static double guess(sym::Expr count) { return count.isValid() ? double(estimate(count)) : 0; }

/// Bytes of the widest floating-point numbers that a kernel computes; 0: it computes none.
static int64_t getWidth(kernel::FuncOp kernel) {
  unsigned bits = 0;
  kernel.walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      auto parts = dyn_cast<ComplexType>(type);
      if (auto number = dyn_cast<FloatType>(parts ? parts.getElementType() : type))
        bits = std::max(bits, number.getWidth());
    }
  });
  return bits / 8;
}

/// "kernel @map_0: SCHEDULE". Sizes in a launch get names after it has been planned.
static std::string getScheduleText(StringRef description) {
  return description.split(", #kernel.launch").first.str();
}

/// Remarks on how kernels are run.
static constexpr StringLiteral scheduleRemark = "Schedule";

void Report::addKernels(ModuleOp module, const codegen::CPUModel *machine) {
  // A kernel may have been planned several times, to be timed: the schedule that it has counts.
  llvm::StringMap<const Remark *> schedules;
  for (const Remark &remark : remarks)
    if (remark.name == scheduleRemark)
      schedules[getScheduleText(remark.text)] = &remark;
  llvm::StringSet<> folds;
  module.walk([&](FoldOp fold) { folds.insert(fold.getKernel()); });

  Array kernels;
  for (auto kernel : module.getOps<kernel::FuncOp>()) {
    kernelNumbers[kernel.getSymName()] = kernels.size();
    kernel::KernelCosts costs = kernel::getCosts(kernel);
    double flops = guess(costs.flops), bytes = guess(sym::sum(costs.bytes));
    Object entry{{"name", kernel.getSymName()},
                 {"op", kernel.getRoot()->getName().stripDialect()},
                 {"flops", flops},
                 {"bytes", bytes}};
    if (folds.contains(kernel.getSymName()))
      entry["fold"] = true;
    if (auto schedule = kernel.getScheduleAttr())
      entry["schedule"] = print(schedule);
    if (auto launch = kernel.getLaunchAttr())
      entry["launch"] = print(launch);
    if (const Remark *remark = schedules.lookup(getScheduleText(describeSchedule(kernel)))) {
      entry["reason"] = remark->reason;
      if (remark->cycles)
        entry["cycles"] = *remark->cycles;
    }
    // Cycles of one core that can do nothing but operations, or nothing but moves to memory.
    if (machine) {
      int64_t width = std::max<int64_t>(getWidth(kernel), 4);
      entry["compute_cycles"] =
          flops / (2.0 * double(machine->fmaUnits * machine->vectorBytes) / double(width));
      entry["memory_cycles"] = bytes / machine->memoryBytesPerSecond() * machine->hertz();
    }
    Array operands, results;
    auto describeTensor = [](Type type) {
      auto tensor = cast<RankedTensorType>(type);
      return describeType(tensor.getElementType(), sym::getShape(tensor));
    };
    for (Type type : kernel.getArgumentTypes())
      operands.push_back(describeTensor(type));
    for (Type type : kernel.getResultTypes())
      results.push_back(describeTensor(type));
    entry["operands"] = std::move(operands);
    entry["results"] = std::move(results);
    kernels.push_back(std::move(entry));
  }
  result["kernels"] = std::move(kernels);
}

/// Columns of the panels in which launches read `constant`, or 0.
static int64_t getPanel(ConstantOp constant, SymbolTable &symbols) {
  for (OpOperand &use : constant->getUses()) {
    auto launch = dyn_cast<LaunchOp>(use.getOwner());
    if (!launch || use.getOperandNumber() >= launch.getIns().size())
      continue;
    auto kernel = symbols.lookup<kernel::FuncOp>(launch.getKernel());
    auto contract = kernel ? dyn_cast<kernel::ContractOp>(kernel.getRoot()) : kernel::ContractOp();
    if (!contract || !contract.getPanel())
      continue;
    Value argument = kernel.getBody().getArgument(use.getOperandNumber());
    bool isRight = false;
    contract.getRhs().walk([&](kernel::ReadOp read) { isRight |= read.getTensor() == argument; });
    if (isRight)
      return *contract.getPanel();
  }
  return 0;
}

void Report::addWeights(ProgramOp program) {
  SymbolTable symbols(program->getParentOfType<ModuleOp>());
  llvm::DenseMap<Value, FoldOp> makers;
  for (FoldOp fold : getFolds(program))
    for (Value made : fold.getOuts())
      makers[made] = fold;
  // The parameters that a constant has been computed from, through all folds.
  std::function<void(Value, Array &)> addSources = [&](Value constant, Array &sources) {
    if (FoldOp fold = makers.lookup(constant))
      for (Value in : fold.getIns()) {
        auto name = in.getDefiningOp<ConstantOp>().getName();
        if (name && !llvm::is_contained(sources, llvm::json::Value(*name)))
          sources.push_back(*name);
        else if (!name)
          addSources(in, sources);
      }
  };
  Array weights;
  for (ConstantOp constant : getConstants(program)) {
    if (!constant.getOffset())
      continue;
    BufferType type = constant.getType();
    Object entry{{"type", describeType(type.getElementType(), type.getSizes())},
                 {"bytes", type.getBytes().constant().value_or(0)},
                 {"offset", constant.getOffsetAttr().getInt()}};
    if (constant.getName())
      entry["name"] = *constant.getName();
    if (constant.getMutated())
      entry["mutated"] = true;
    if (FoldOp fold = makers.lookup(constant.getResult())) {
      entry["fold"] = fold.getKernel();
      Array sources;
      addSources(constant.getResult(), sources);
      entry["sources"] = std::move(sources);
    }
    if (int64_t panel = getPanel(constant, symbols))
      entry["panel"] = panel;
    weights.push_back(std::move(entry));
  }
  result["weights"] = std::move(weights);
  result["weights_bytes"] = program.getWeightsBytes().value_or(0);
}
