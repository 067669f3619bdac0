// wrapper-lower-to-llvm: the host program becomes functions and tables of the runtime's ABI.
#include "HostProgram.h"
#include "kiln/Host/Passes.h"

namespace kiln::host {
#define GEN_PASS_DEF_WRAPPERLOWERTOLLVM
#include "kiln/Host/Passes.h.inc"
} // namespace kiln::host

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;

namespace {

struct LowerToLLVM : kiln::host::impl::WrapperLowerToLLVMBase<LowerToLLVM> {
  using WrapperLowerToLLVMBase::WrapperLowerToLLVMBase;

  void runOnOperation() override {
    auto programs = llvm::to_vector(getOperation().getOps<wrapper::ProgramOp>());
    if (programs.size() != 1) {
      getOperation().emitError("expected one wrapper.program, found ") << programs.size();
      return signalPassFailure();
    }
    DebugOptions debug{debugLevel, {debugFilter.begin(), debugFilter.end()}};
    HostTablesOptions options{{name, target, compiler},
                              device,
                              externalWeights,
                              weightsHash,
                              debug,
                              stepsAlone,
                              stepsHash,
                              cpu,
                              cpuFeatures};
    if (failed(HostProgram(programs.front(), options).emit()))
      return signalPassFailure();
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<wrapper::HostFunctionOpInterface>()))
      function.erase();
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<kernel::FuncOp>()))
      kernel.erase();
    for (auto triton : llvm::make_early_inc_range(getOperation().getOps<kernel::TritonOp>()))
      triton.erase();
  }
};

} // namespace
