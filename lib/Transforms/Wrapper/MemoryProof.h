// What can be proved of a function's memory for all values of its symbols.
#ifndef KILN_TRANSFORMS_WRAPPER_MEMORYPROOF_H
#define KILN_TRANSFORMS_WRAPPER_MEMORYPROOF_H

#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Sym/Assumptions.h"

namespace kiln::wrapper {

/// Bytes [begin, end) of a piece of memory.
struct Span {
  sym::Expr begin, end;
};

/// The bytes of a buffer in the memory that it is a view of. Those between strided elements belong to the span.
struct BufferSpan : Span {
  mlir::Value storage;
  BufferType type;
};

class MemoryProof {
public:
  explicit MemoryProof(HostFunctionOpInterface function);

  BufferSpan getSpan(mlir::Value buffer) const;

  /// a <= b.
  bool isAtMost(sym::Expr a, sym::Expr b) const;
  /// a <= b, also because one can go from a to b along `steps`: no span ends before it begins, whatever is
  /// known about the sizes in it.
  bool isReached(sym::Expr a, sym::Expr b, llvm::ArrayRef<Span> steps) const;
  bool areApart(const Span &a, const Span &b, llvm::ArrayRef<Span> steps) const;
  bool areEqual(sym::Expr a, sym::Expr b) const { return a == b || known.isEqual(a, b); }
  bool isMultipleOf(sym::Expr expr, int64_t number) const {
    return known.isMultipleOf(expr, number);
  }

  /// All views of `storage`, and `storage` itself.
  llvm::ArrayRef<Span> getViews(mlir::Value storage) const;

  void setWritten(const BufferSpan &span);
  void setUnwritten(mlir::Value storage) { written.erase(storage); }
  bool isWritten(const BufferSpan &span) const;

private:
  struct Written {
    llvm::SmallVector<Span> spans;         // without gaps
    llvm::SmallVector<BufferSpan> strided; // elements with gaps between them
  };
  mlir::Value getRoot(mlir::Value storage) const;

  sym::Assumptions known;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Span>> views;
  llvm::DenseMap<mlir::Value, Written> written;
  llvm::DenseMap<uint64_t, mlir::Value> outputs; // the first `wrapper.output` of each
};

} // namespace kiln::wrapper

#endif // KILN_TRANSFORMS_WRAPPER_MEMORYPROOF_H
