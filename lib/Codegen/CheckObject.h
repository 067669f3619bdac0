//===- CheckObject.h - What generated code must not need --------*- C++ -*-===//
#ifndef KILN_LIB_CODEGEN_CHECKOBJECT_H
#define KILN_LIB_CODEGEN_CHECKOBJECT_H

#include "llvm/ADT/StringSet.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace kiln::codegen {

/// No instruction is on numbers of bf16, and none on f16 but conversions from and to f32. Asked
/// before LLVM's passes, which may put arithmetic on f16 together where a CPU has it.
llvm::Error checkNumbers(const llvm::Module &module);

/// The object refers to no symbol but these, memcpy, memset and memmove.
llvm::Error checkSymbols(const llvm::MemoryBuffer &object, const llvm::StringSet<> &known);

} // namespace kiln::codegen

#endif // KILN_LIB_CODEGEN_CHECKOBJECT_H
