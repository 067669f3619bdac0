// wrapper-lower-to-llvm: the host program becomes functions and tables of the runtime's ABI.
#include "HostProgram.h"
#include "kiln/Host/LowerProgram.h"
#include "kiln/Host/Passes.h"

namespace kiln::host {
#define GEN_PASS_DEF_WRAPPERLOWERTOLLVM
#include "kiln/Host/Passes.h.inc"
} // namespace kiln::host

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;

/// Makes the program's functions and tables, and drops what they are made of.
static LogicalResult lower(ModuleOp module, const HostTablesOptions &options) {
  auto programs = llvm::to_vector(module.getOps<wrapper::ProgramOp>());
  if (programs.size() != 1)
    return module.emitError("expected one wrapper.program, found ") << programs.size();
  if (failed(HostProgram(programs.front(), options).emit()))
    return failure();
  for (auto function :
       llvm::make_early_inc_range(module.getOps<wrapper::HostFunctionOpInterface>()))
    function.erase();
  for (auto kernel : llvm::make_early_inc_range(module.getOps<kernel::FuncOp>()))
    kernel.erase();
  for (auto triton : llvm::make_early_inc_range(module.getOps<kernel::TritonOp>()))
    triton.erase();
  return success();
}

namespace {

struct LowerToLLVM : kiln::host::impl::WrapperLowerToLLVMBase<LowerToLLVM> {
  using WrapperLowerToLLVMBase::WrapperLowerToLLVMBase;

  void runOnOperation() override {
    DebugOptions debug{debugLevel, {debugFilter.begin(), debugFilter.end()}};
    HostTablesOptions options{{name, target, compiler},
                              device,
                              externalWeights,
                              weightsHash,
                              debug,
                              stepsAlone,
                              stepsHash,
                              cpu,
                              cpuFeatures,
                              entry,
                              entries,
                              number,
                              cells,
                              knownBytes};
    if (failed(lower(getOperation(), options)))
      signalPassFailure();
  }

  // One of several programs: see HostTablesOptions.
  ArrayRef<ModelEntry> entries = {};
  unsigned number = 0;
  const ConstantCells *cells = nullptr;
  int64_t knownBytes = 0;
};

} // namespace

std::unique_ptr<Pass> host::createLowerProgram(const HostTablesOptions &options) {
  auto pass = std::make_unique<LowerToLLVM>(WrapperLowerToLLVMOptions{
      options.info.name, options.info.target, options.info.compiler, options.device,
      options.externalWeights, options.weightsHash, options.debug.level,
      llvm::to_vector(options.debug.filter), options.stepsAlone, options.stepsHash, options.cpu,
      options.cpuFeatures, options.entry});
  pass->entries = options.entries;
  pass->number = options.number;
  pass->cells = options.cells;
  pass->knownBytes = options.knownBytes;
  return pass;
}
