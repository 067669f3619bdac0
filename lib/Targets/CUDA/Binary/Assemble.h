//===- Assemble.h - From PTX to machine code --------------------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_BINARY_ASSEMBLE_H
#define KILN_LIB_TARGETS_CUDA_BINARY_ASSEMBLE_H

#include "kiln/Targets/CUDA/Architecture.h"

namespace kiln::cuda {

/// The output of `ptxas` for a module, with options that avoid spills where it has some by itself.
/// `report` gets what it says of registers and spills.
llvm::Expected<std::string> assemble(llvm::StringRef ptxas, const Architecture &architecture,
                                     llvm::StringRef ptx, std::string &report);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_BINARY_ASSEMBLE_H
