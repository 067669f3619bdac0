// What a profile says of each step (kiln_rt_profile, runtime/ir_interface.h): its name, its node, and
// what its kernel costs. The tables hold numbers alone, so that loading the model does not touch them.
#include "HostProgram.h"
#include "kiln/Dialect/Kernel/Costs.h"
#include "kiln/Host/Profile.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

SmallVector<Operation *> host::getProfiledSteps(ModuleOp module) {
  SmallVector<Operation *> steps;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<LaunchOp, ExternCallOp>(op))
      steps.push_back(op);
  });
  return steps;
}

void HostProgram::numberSteps() {
  profiledSteps = getProfiledSteps(program->getParentOfType<ModuleOp>());
  for (auto [number, step] : llvm::enumerate(profiledSteps))
    stepNumbers[step] = static_cast<int64_t>(number);
}

Value HostProgram::getStepNumber(Operation *step) {
  auto known = stepNumbers.find(step);
  return number(sym::Expr(known == stepNumbers.end() ? KILN_RT_NO_STEP : known->second));
}

void HostProgram::emitProfiledCall(Operation *step, Value buffers,
                                   llvm::function_ref<void()> emit) {
  if (!stepNumbers.contains(step))
    return emit();
  emitCheck(call(KILN_FUNCTION(kiln_rt_begin_step), {run}).getResult());
  emit();
  emitCheck(call(KILN_FUNCTION(kiln_rt_end_step), {run, getStepNumber(step), buffers}).getResult());
}

namespace {

/// The tables, as numbers.
struct ProfileTables {
  SmallVector<int64_t> steps, kernels, costs;
  std::string texts;
  std::vector<sym::Expr> expressions;

  int64_t addText(StringRef text) {
    auto [known, isNew] = textOffsets.try_emplace(text, static_cast<int64_t>(texts.size()));
    if (isNew)
      texts += text.str() + '\0';
    return known->second;
  }

  int64_t addCost(sym::Expr cost) {
    if (!cost.isValid())
      return KILN_RT_UNKNOWN;
    if (std::optional<int64_t> constant = cost.constant())
      return *constant >= 0 ? *constant : KILN_RT_UNKNOWN;
    auto [known, isNew] = expressionNumbers.try_emplace(cost, expressions.size());
    if (isNew)
      expressions.push_back(cost);
    return -(known->second + 1);
  }

  /// A row of `kernels`, a kiln_rt_profile_kernel; returns its number.
  int64_t addKernel(StringRef name, sym::Expr flops, ArrayRef<sym::Expr> bytes) {
    int64_t number = kernels.size() / (sizeof(kiln_rt_profile_kernel) / sizeof(int64_t));
    int64_t numBuffers = bytes.size(), firstCost = costs.size();
    kernels.append({addText(name), firstCost, numBuffers});
    costs.push_back(addCost(flops));
    for (sym::Expr cost : bytes)
      costs.push_back(addCost(cost));
    return number;
  }

private:
  llvm::StringMap<int64_t> textOffsets;
  DenseMap<sym::Expr, int64_t> expressionNumbers;
};

} // namespace

/// A library says nothing of what it does; tensors are taken to be moved once.
static int64_t addCall(ExternCallOp call, ProfileTables &tables) {
  SmallVector<sym::Expr> bytes;
  for (Type type : call->getOperandTypes())
    bytes.push_back(cast<BufferType>(type).getBytes());
  return tables.addKernel(call.getCallee(), sym::Expr::invalid(), bytes);
}

std::string HostProgram::emitProfile() {
  if (profiledSteps.empty())
    return "";
  ProfileTables tables;
  DenseMap<std::pair<Operation *, Attribute>, int64_t> kernelNumbers; // also by their symbols
  for (Operation *step : profiledSteps) {
    int64_t number = 0;
    if (auto launch = dyn_cast<LaunchOp>(step)) {
      kernel::FuncOp kernel = kernels.lookup(launch.getKernelAttr().getAttr());
      auto [known, isNew] = kernelNumbers.try_emplace({kernel, launch.getSymbolsAttr()});
      if (isNew) {
        kernel::KernelCosts costs = kernel::getCosts(kernel);
        for (sym::Expr &bytes : costs.bytes)
          bytes = launch.fromKernel(bytes);
        known->second =
            tables.addKernel(kernel.getName(), launch.fromKernel(costs.flops), costs.bytes);
      }
      number = known->second;
    } else {
      number = addCall(cast<ExternCallOp>(step), tables);
    }
    tables.steps.append({number, tables.addText(sym::describe(step->getLoc()))});
  }
  std::string eval;
  if (!tables.expressions.empty())
    emitEval(eval = "kiln_profile_eval", tables.expressions);
  builder.setInsertionPointToEnd(program->getParentOfType<ModuleOp>().getBody());
  // One after the other, since each may get the next free name.
  std::string steps = globals->numbers(tables.steps), kernels = globals->numbers(tables.kernels),
              costs = globals->numbers(tables.costs), texts = globals->string(tables.texts);
  SmallVector<Row<kiln_rt_profile>> row = {makeRow<kiln_rt_profile>(
      KILN_FIELD(kiln_rt_profile, steps, steps), KILN_FIELD(kiln_rt_profile, kernels, kernels),
      KILN_FIELD(kiln_rt_profile, costs, costs), KILN_FIELD(kiln_rt_profile, texts, texts),
      KILN_FIELD(kiln_rt_profile, eval, eval),
      KILN_FIELD(kiln_rt_profile, num_steps, profiledSteps.size()))};
  return globals->structs("kiln_profile", row);
}
