//===- CommandLine.h - What the tools share --------------------*- C++ -*-===//
#ifndef KILN_TOOLS_COMMANDLINE_H
#define KILN_TOOLS_COMMANDLINE_H

#include "llvm/Support/Error.h"

namespace kiln {

/// Has LLVM parse the command line. What LLVM does not like it writes to standard error in its own
/// words, over several lines; here that becomes one error.
llvm::Error parseCommandLine(int argc, char **argv, llvm::StringRef overview);

} // namespace kiln

#endif // KILN_TOOLS_COMMANDLINE_H
