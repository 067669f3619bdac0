#include "HostProgram.h"
#include "kiln/Target/CPU/Passes.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_WRAPPERLOWERTOLLVM
#include "kiln/Target/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace {

struct LowerToLLVM : kiln::cpu::impl::WrapperLowerToLLVMBase<LowerToLLVM> {
  using WrapperLowerToLLVMBase::WrapperLowerToLLVMBase;

  void runOnOperation() override {
    auto programs = llvm::to_vector(getOperation().getOps<wrapper::ProgramOp>());
    if (programs.size() != 1) {
      getOperation().emitError("expected one wrapper.program, found ") << programs.size();
      return signalPassFailure();
    }
    HostTablesOptions options{{name, target, compiler}, externalWeights, weightsHash};
    if (failed(HostProgram(programs.front(), options).emit()))
      return signalPassFailure();
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<wrapper::HostFunctionOpInterface>()))
      function.erase();
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<kernel::FuncOp>()))
      kernel.erase();
  }
};

} // namespace
