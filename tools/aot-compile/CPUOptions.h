// The options that say which CPU code is made for, and what is allowed on it.
#ifndef KILN_TOOLS_AOT_COMPILE_CPUOPTIONS_H
#define KILN_TOOLS_AOT_COMPILE_CPUOPTIONS_H

#include "kiln/Pipeline/Compile.h"
#include "llvm/Support/CommandLine.h"

/// Shows them among the options of `category`.
void addCPUOptions(llvm::cl::OptionCategory &category);

/// Reads them: `options.target` is the name of the target, and gets its options if it is `cpu`.
llvm::Error readCPUOptions(kiln::CompileOptions &options);

#endif // KILN_TOOLS_AOT_COMPILE_CPUOPTIONS_H
