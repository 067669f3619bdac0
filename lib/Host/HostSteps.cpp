// A library of steps: a function for each step instead of the program, and the table of them
// (`kiln_steps`, runtime/ir_interface.h).
#include "HostProgram.h"
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Host/Steps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

/// A program's main that refuses to run.
void HostProgram::emitNoMain() {
  loc = program.getLoc();
  beginFunction("kiln_main", LLVM::LLVMFunctionType::get(i32Type, {ptr}));
  Value message = text("this library has the kernels of an FX module, which runs them");
  Value status =
      call(KILN_FUNCTION(kiln_rt_fail), {function.getArgument(0), i32(KILN_UNSUPPORTED), message})
          .getResult();
  LLVM::ReturnOp::create(builder, loc, status);
}

/// kiln_step_N(run, buffers) does a step with the symbols of `run`.
std::string HostProgram::emitStepFunction(const Step &step, unsigned number) {
  loc = step.op->getLoc();
  std::string name = "kiln_step_" + std::to_string(number);
  beginFunction(name, CFunctionType<decltype(kiln_rt_step::run)>::get(builder.getContext()));
  run = function.getArgument(0);
  Value buffers = function.getArgument(1);
  symbolValues = loadRunField(offsetof(kiln_rt_run, symbols));
  beginErrors();
  for (DefineOp size : step.sizes)
    storeSymbol(symbolValues, size.getSymbol(), checkedNumber(size.getExprAttr().getValue()));
  if (auto launch = dyn_cast<LaunchOp>(step.op)) {
    emitLaunch(launch, buffers);
  } else {
    auto call = cast<ExternCallOp>(step.op);
    emitCustomCall(call, buffers, emitNumbers(call));
  }
  endErrors();
  return name;
}

void HostProgram::emitStepFunctions() {
  for (const Step &step : steps->get())
    stepFunctions.push_back(emitStepFunction(step, stepFunctions.size()));
}

HostProgram::Rows<kiln_rt_step> HostProgram::makeStepRows() {
  Rows<kiln_rt_step> rows;
  for (auto [i, step] : llvm::enumerate(steps->get())) {
    Rows<kiln_rt_tensor> tensors;
    for (Type type : step.op->getOperandTypes())
      tensors.push_back(makeTensorRow(step.name, type, 0, {}));
    SmallVector<int64_t> symbols;
    for (sym::Expr symbol : step.symbols)
      symbols.push_back(*getSymbolNumber(symbol.symbolName()));
    std::string name = globals->string(step.name),
                table = globals->structs("kiln_step_tensors_" + std::to_string(i), tensors),
                symbolTable = globals->numbers(symbols);
    rows.push_back(makeRow<kiln_rt_step>(
        KILN_FIELD(kiln_rt_step, name, name), KILN_FIELD(kiln_rt_step, run, stepFunctions[i]),
        KILN_FIELD(kiln_rt_step, tensors, table), KILN_FIELD(kiln_rt_step, symbols, symbolTable),
        KILN_FIELD(kiln_rt_step, num_tensors, tensors.size()),
        KILN_FIELD(kiln_rt_step, num_symbols, symbols.size())));
  }
  return rows;
}

void HostProgram::emitStepTable(const Rows<kiln_rt_step> &rows) {
  std::string table = globals->structs("kiln_step_table", rows);
  globals->exported("kiln_steps",
                    makeRow<kiln_rt_steps>(KILN_FIELD(kiln_rt_steps, steps, table),
                                           KILN_FIELD(kiln_rt_steps, num_steps, rows.size()),
                                           KILN_FIELD(kiln_rt_steps, hash, options.stepsHash)));
}
