// LLVM's new pass manager with the analyses that passes for a machine ask for.
#ifndef KILN_CODEGEN_LLVMANALYSES_H
#define KILN_CODEGEN_LLVMANALYSES_H

#include "llvm/Passes/PassBuilder.h"

namespace kiln::codegen {

/// All analyses of `builder`, each known to the others. One for each module.
struct LLVMAnalyses {
  explicit LLVMAnalyses(llvm::TargetMachine *machine) : builder(machine) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
  }

  llvm::PassBuilder builder;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
};

} // namespace kiln::codegen

#endif // KILN_CODEGEN_LLVMANALYSES_H
