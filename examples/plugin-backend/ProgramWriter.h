// A finished program as a C file.
#ifndef KILN_C_PROGRAMWRITER_H
#define KILN_C_PROGRAMWRITER_H

#include "CWriter.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Targets/Target.h"

namespace cbackend {

struct Options {
  /// The name of the function; empty: that of the model.
  std::string function;
  /// Constants are read from a file and not arrays.
  bool weightsFile = false;
};

class ModelWriter {
public:
  ModelWriter(const kiln::FinishedProgram &finished, const Options &options);
  /// The text and, if asked for, the weights. Errors are reported.
  mlir::FailureOr<std::vector<kiln::ProgramFile>> write();

private:
  void writeKernels();
  void writeArenaSize();
  void writeConstants();
  void writeMain();
  void writeSignatureComment();
  void checkSymbols();
  void writeStep(mlir::Operation *op);
  void writeLaunch(kiln::wrapper::LaunchOp launch);
  void writeCopy(kiln::wrapper::CopyOp copy);
  void define(mlir::Value buffer, const llvm::Twine &address);
  std::string parameters(bool ofArena);

  const kiln::FinishedProgram &finished;
  const Options &options;
  mlir::ModuleOp module;
  kiln::wrapper::ProgramOp program;
  CWriter out;
  std::string function;
  std::string weights;
  /// The symbols that the caller gives, in the order of the function's parameters.
  llvm::SmallVector<kiln::sym::Expr> symbols;
  llvm::DenseMap<mlir::Value, std::string> names;
};

} // namespace cbackend

#endif // KILN_C_PROGRAMWRITER_H
