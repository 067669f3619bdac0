// Types, numbers and index expressions as C, and errors about what has no C.
#ifndef KILN_C_CWRITER_H
#define KILN_C_CWRITER_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <string>

namespace cbackend {

/// Text with indented lines, in which symbols have names that C allows.
class CWriter {
public:
  /// One line. An opening brace at its end indents those that follow, a closing one at its start
  /// ends that.
  void line(const llvm::Twine &text);

  /// The type of an element in memory and in variables; a bool in memory is a byte. The error is
  /// reported on `op`.
  std::string memoryType(mlir::Operation *op, mlir::Type type);
  std::string scalarType(mlir::Operation *op, mlir::Type type);

  /// The C identifier of a symbol of the model.
  std::string symbol(llvm::StringRef name);
  /// An expression over symbols and over dims, whose values are given.
  std::string expr(kiln::sym::Expr expr, llvm::ArrayRef<std::string> dims = {});

  void refuse(mlir::Operation *op, const llvm::Twine &why);
  /// The op, or any of its kind, has no words in this language.
  void refuse(mlir::Operation *op);
  bool hasFailed() const { return failed; }

  std::string text;

private:
  unsigned depth = 0;
  bool failed = false;
  std::map<std::string, std::string> symbols;
  llvm::StringSet<> taken;
};

/// Text that a comment may hold.
std::string comment(llvm::StringRef text);

/// A number as C writes it, without loss.
std::string literal(double value, bool isFloat);
std::string literal(int64_t value);

} // namespace cbackend

#endif // KILN_C_CWRITER_H
