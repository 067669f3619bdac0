// Debug printing: around each launch and call, the host program tells the runtime of the tensors,
// which runtime/debug.h describes as constant data.
#include "HostProgram.h"
#include "kiln/Host/Debug.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

/// The kernel of a launch or the operator of a call; "" for other steps.
static StringRef getKernelName(Operation *step) {
  if (auto launch = dyn_cast<LaunchOp>(step))
    return launch.getKernel();
  if (auto call = dyn_cast<ExternCallOp>(step))
    return call.getCallee();
  return "";
}

llvm::Error host::checkDebugFilter(ModuleOp module, ArrayRef<std::string> filter) {
  llvm::StringSet<> known;
  SmallVector<StringRef> names;
  module.walk([&](Operation *step) {
    StringRef name = getKernelName(step);
    if (!name.empty() && known.insert(name).second)
      names.push_back(name);
  });
  for (StringRef wanted : filter) {
    if (known.contains(wanted))
      continue;
    SmallVector<StringRef> near(names);
    llvm::sort(near, [&](StringRef a, StringRef b) {
      return std::pair(wanted.edit_distance(a), a) < std::pair(wanted.edit_distance(b), b);
    });
    constexpr size_t most = 4;
    near.truncate(std::min(near.size(), most));
    return llvm::createStringError(
        "--debug-filter=" + wanted + ": no kernel of the model has this name; " +
        (near.empty() ? "it has none" : "near ones are " + llvm::join(near, ", ")));
  }
  return llvm::Error::success();
}

void HostProgram::nameBuffers(HostFunctionOpInterface source) {
  for (auto [i, input] : llvm::enumerate(source.getArguments()))
    bufferNames[input] = source == program ? program.getInputName(i).str()
                                           : (source.getName() + "_arg" + Twine(i)).str();
  source.getFunctionBody().walk([&](Operation *op) {
    auto constant = dyn_cast<ConstantOp>(op);
    auto output = dyn_cast<OutputOp>(op);
    for (Value buffer : op->getResults()) {
      std::string name = (constant ? "constant" : "buf") + std::to_string(bufferNames.size());
      if (constant && constant.getName())
        name = constant.getName()->str();
      else if (output && source == program)
        name = program.getOutputName(output.getIndex()).str();
      bufferNames[buffer] = name;
    }
  });
}

Row<kiln_rt_debug_tensor> HostProgram::describeDebugTensor(Value buffer,
                                                           std::optional<kernel::ResultNode> node) {
  auto type = cast<BufferType>(buffer.getType());
  ElementCode element = describeElement(type.getElementType());
  ArrayRef<sym::Expr> noStrides;
  std::string name = globals->string(bufferNames.lookup(buffer)),
              dtype = globals->string(element.name),
              nodeName = node ? globals->string(node->node) : std::string(),
              shape = sizes(type.getSizes(), Globals::Place::Anywhere),
              strides = sizes(type.isContiguous() ? noStrides : type.getStrides(),
                              Globals::Place::Anywhere);
  return makeRow<kiln_rt_debug_tensor>(
      KILN_FIELD(kiln_rt_debug_tensor, name, name), KILN_FIELD(kiln_rt_debug_tensor, dtype, dtype),
      KILN_FIELD(kiln_rt_debug_tensor, node, nodeName),
      KILN_FIELD(kiln_rt_debug_tensor, shape, shape),
      KILN_FIELD(kiln_rt_debug_tensor, strides, strides),
      KILN_FIELD(kiln_rt_debug_tensor, code, element.code),
      KILN_FIELD(kiln_rt_debug_tensor, bits, element.bits),
      KILN_FIELD(kiln_rt_debug_tensor, rank, type.getSizes().size()),
      KILN_FIELD(kiln_rt_debug_tensor, output, node ? node->output : 0));
}

std::optional<kernel::ResultNode> HostProgram::getNode(Operation *step, unsigned result) {
  if (step->getParentOp() != program) // names of nodes are those of one graph
    return std::nullopt;
  StringRef kind = kernel::ExternOp::getOperationName();
  if (auto launch = dyn_cast<LaunchOp>(step)) {
    kernel::FuncOp kernel = kernels.lookup(launch.getKernelAttr().getAttr());
    Operation *root = kernel.getBody().front().getTerminator()->getOperand(result).getDefiningOp();
    kind = root ? root->getName().getStringRef() : "";
  }
  return kernel::getResultNode(step->getLoc(), kind, result);
}

Value HostProgram::describeDebugStep(StringRef kernel, ValueRange operands, ValueRange results,
                                     Operation *op) {
  std::string step;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(program->getParentOfType<ModuleOp>().getBody());
    Rows<kiln_rt_debug_tensor> tensors;
    for (Value buffer : operands)
      tensors.push_back(describeDebugTensor(buffer, std::nullopt));
    for (auto [i, buffer] : llvm::enumerate(results))
      tensors.push_back(describeDebugTensor(buffer, getNode(op, i)));
    std::string number = std::to_string(numDebugSteps++), name = globals->string(kernel),
                where = globals->string(sym::describe(loc)),
                table = globals->structs("kiln_debug_tensors_" + number, tensors);
    SmallVector<Row<kiln_rt_debug_step>> row = {makeRow<kiln_rt_debug_step>(
        KILN_FIELD(kiln_rt_debug_step, kernel, name), KILN_FIELD(kiln_rt_debug_step, where, where),
        KILN_FIELD(kiln_rt_debug_step, tensors, table),
        KILN_FIELD(kiln_rt_debug_step, num_operands, operands.size()),
        KILN_FIELD(kiln_rt_debug_step, num_results, results.size()),
        KILN_FIELD(kiln_rt_debug_step, level, options.debug.level),
        KILN_FIELD(kiln_rt_debug_step, reserved, 0))};
    step = globals->structs("kiln_debug_step_" + number, row);
  }
  return LLVM::AddressOfOp::create(builder, loc, ptr, step);
}

void HostProgram::emitDebug(Value step, int32_t time, Value buffers) {
  RuntimeFunction show = choose(KILN_FUNCTION(kiln_rt_debug), KILN_FUNCTION(kiln_rt_device_debug));
  emitCheck(call(show, {run, step, i32(time), buffers}).getResult());
}

void HostProgram::emitDebugInputs(Value inputs) {
  if (!options.debug.level)
    return;
  Value step = describeDebugStep("inputs", program.getArguments(), {}, program);
  emitDebug(step, KILN_RT_DEBUG_INPUTS, inputs);
}

void HostProgram::emitShown(Operation *step, ValueRange operands, ValueRange results, Value buffers,
                            llvm::function_ref<void()> emit) {
  StringRef name = getKernelName(step);
  bool isShown = options.debug.level &&
                 (options.debug.filter.empty() || llvm::is_contained(options.debug.filter, name));
  if (!isShown)
    return emit();
  Value described = describeDebugStep(name, operands, results, step);
  emitDebug(described, KILN_RT_DEBUG_BEFORE, buffers);
  emit();
  emitDebug(described, KILN_RT_DEBUG_AFTER, buffers);
}
