//===- SizeExpr.h - Values of size expressions ------------------*- C++ -*-===//
//
// A model's description gives symbolic sizes as text, such as "2*s0 + 1" or
// "max(1, s0 floordiv 4)". This evaluates them: + - * floordiv ceildiv mod, min
// and max of any number of operands, parentheses, integers and symbols.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_AOT_RUN_SIZEEXPR_H
#define KILN_AOT_RUN_SIZEEXPR_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace kiln::run {

/// The value, or an error for bad syntax, an unknown symbol, division by zero or
/// a value that leaves 64 bits.
llvm::Expected<int64_t> evaluateSize(llvm::StringRef text, const llvm::StringMap<int64_t> &symbols);

} // namespace kiln::run

#endif // KILN_AOT_RUN_SIZEEXPR_H
