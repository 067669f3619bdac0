// Pieces of Python text: names, expressions, types, arguments.
#ifndef KILN_LIB_FX_FXTEXT_H
#define KILN_LIB_FX_FXTEXT_H

#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace kiln::fx {

/// Names that Python takes and that are given once.
class Names {
public:
  Names();
  /// `wanted`, changed as little as possible.
  std::string add(llvm::StringRef wanted);

private:
  llvm::StringSet<> taken;
};

/// A string literal.
std::string quote(llvm::StringRef text);
/// A tuple: `(a,)`.
std::string tuple(llvm::ArrayRef<std::string> items);
std::string list(llvm::ArrayRef<std::string> items);
/// A float literal.
std::string number(double value);
/// `torch.float32`; empty for a type that PyTorch has not.
std::string dtype(mlir::Type elementType);

/// An expression; `symbol` gives the name of a symbol's value.
std::string expression(sym::Expr expr, llvm::function_ref<std::string(llvm::StringRef)> symbol);

} // namespace kiln::fx

#endif // KILN_LIB_FX_FXTEXT_H
