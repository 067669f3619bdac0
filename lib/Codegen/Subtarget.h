#ifndef KILN_LIB_CODEGEN_SUBTARGET_H
#define KILN_LIB_CODEGEN_SUBTARGET_H

#include "llvm/ADT/StringRef.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/TargetParser/Triple.h"
#include <memory>

namespace kiln::codegen {

/// The instruction sets of a CPU, without the target machine that has them too and takes a
/// millisecond to make; null if this build of LLVM has no code generator for the triple.
std::unique_ptr<llvm::MCSubtargetInfo>
createSubtarget(const llvm::Triple &triple, llvm::StringRef cpu, llvm::StringRef features);

} // namespace kiln::codegen

#endif // KILN_LIB_CODEGEN_SUBTARGET_H
