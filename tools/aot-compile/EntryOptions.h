// The options that say which programs become the model's entries.
#ifndef KILN_TOOLS_AOT_COMPILE_ENTRYOPTIONS_H
#define KILN_TOOLS_AOT_COMPILE_ENTRYOPTIONS_H

#include "kiln/Pipeline/Compile.h"
#include "llvm/Support/CommandLine.h"

/// Shows them among the options of `category`.
void addEntryOptions(llvm::cl::OptionCategory &category);

/// Reads them. Without an input, that of the first entry is it.
llvm::Error readEntryOptions(kiln::CompileOptions &options);

#endif // KILN_TOOLS_AOT_COMPILE_ENTRYOPTIONS_H
