// A part of a program as a program of its own, to be compiled and timed alone.
#ifndef KILN_LIB_PIPELINE_LONEPROGRAM_H
#define KILN_LIB_PIPELINE_LONEPROGRAM_H

#include "kiln/Dialect/Sym/SymDialect.h"
#include "kiln/Pipeline/Compile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

namespace kiln {

/// A function `main` in a module of its own, into which ops are cloned with `builder` and `mapping`.
struct LoneProgram {
  /// Makes one of the same kind as the program around `part`.
  LoneProgram(mlir::Operation *part, mlir::ValueRange inputs, mlir::TypeRange results);

  /// Ends `main` with `results`, and makes numbers of sizes: `substitute` first, then the value that
  /// `getSize` has for a symbol. The name of one that it has no value for, or nothing.
  std::string finish(mlir::ValueRange results, llvm::function_ref<sym::Expr(sym::Expr)> substitute,
                     llvm::function_ref<std::optional<int64_t>(llvm::StringRef symbol)> getSize);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp main;
  mlir::OpBuilder builder;
  mlir::IRMapping mapping;
};

/// The value of a symbol of `module`: one of those that are given for tuning, of which there may be
/// several, or that of the exported example.
std::optional<int64_t> getTunedSize(mlir::ModuleOp module, const tuning::Options &options,
                                    llvm::StringRef symbol, size_t point);

/// The text of a lone program, which `compileLone` reads.
llvm::Expected<std::string> writeLone(mlir::ModuleOp program);

/// Compiles such text to `path` as `options` say, but without tuning, and with external code
/// generators only if `isExtern`.
llvm::Error compileLone(llvm::StringRef program, const CompileOptions &options, bool isExtern,
                        llvm::StringRef path);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_LONEPROGRAM_H
