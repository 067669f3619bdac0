// Builds kernel-dialect ops: what every lowering is written with.
//
//   // y = relu(x + bias), bias aligned to the last dim
//   Value y = kernels.map(shape, f32, [&](BodyBuilder &body) {
//     return maximum(body.broadcast(x) + body.broadcast(bias), body.constant(f32, 0.0));
//   });
//
// A body computes one element from its dims (`body.dim(i)`, an expression) and from what it reads.
// Index expressions are simplified under what is known of dims and symbols when a read is built.
//
// What cannot be expressed is reported with `fail`; the first reason is kept, building goes on with
// placeholders, and the caller discards everything.
#ifndef KILN_DIALECT_KERNEL_BUILDER_KERNELBUILDER_H
#define KILN_DIALECT_KERNEL_BUILDER_KERNELBUILDER_H

#include "kiln/Dialect/Kernel/Builder/Element.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Sym/Assumptions.h"
#include <string>
#include <variant>

namespace kiln::kernel {

using sym::Expr;
using Exprs = llvm::SmallVector<Expr>;

inline mlir::Type elementType(mlir::Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}
inline int64_t rankOf(mlir::Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getRank();
}
inline Exprs shapeOf(mlir::Value tensor) { return sym::getShape(tensor); }

/// The place that a read has along one dim: an expression over dims, or an integer computed from
/// data (of any width; generated code keeps it inside the tensor and fails the run when it was
/// outside).
class Index {
public:
  Index(Expr expr) : index(expr) {}            // NOLINT
  Index(int64_t value) : index(Expr(value)) {} // NOLINT
  Index(Element value) : index(value) {}       // NOLINT
  const Expr *expr() const { return std::get_if<Expr>(&index); }
  const Element &data() const { return std::get<Element>(index); }

private:
  std::variant<Expr, Element> index;
};
using Indices = llvm::SmallVector<Index>;
inline Indices indicesOf(llvm::ArrayRef<Expr> exprs) { return Indices(exprs); }

class KernelBuilder;

/// The inside of one region.
class BodyBuilder {
public:
  mlir::ImplicitLocOpBuilder &b();
  /// Extents of all dims around, outermost first.
  llvm::ArrayRef<Expr> extents() const { return dimExtents; }
  unsigned numDims() const { return dimExtents.size(); }
  Expr dim(unsigned i) const { return Expr::dim(i); }
  /// d_begin, …, d_(end-1).
  Exprs dims(unsigned begin, unsigned end) const;
  /// The dims of the structured op or reduction that this is the body of.
  Exprs ownDims() const { return dims(firstOwn, numDims()); }
  const sym::Assumptions &known() const { return assumptions; }

  Element constant(mlir::Type type, double value);
  Element constant(mlir::Type type, int64_t value);
  Element constant(mlir::Type type, int value) { return constant(type, int64_t(value)); }
  /// The value of an expression, in i64.
  Element index(Expr expr);
  /// 0 <= exprs[i] < bounds[i] for all i.
  Element inside(llvm::ArrayRef<Expr> exprs, llvm::ArrayRef<Expr> bounds);

  Element read(mlir::Value tensor, llvm::ArrayRef<Index> indices);
  Element read(mlir::Value tensor, llvm::ArrayRef<Expr> indices);
  /// `other` where the mask is false; memory is not touched there.
  Element read(mlir::Value tensor, llvm::ArrayRef<Index> indices, Element mask, Element other);
  Element read(mlir::Value tensor, llvm::ArrayRef<Expr> indices, Element mask, Element other);
  /// As if padded with `other` outside the tensor's bounds. A dim that is proved to stay inside
  /// needs no test; when none needs one, this is a plain read.
  Element readPadded(mlir::Value tensor, llvm::ArrayRef<Expr> indices, Element other);
  /// The element that index `at` of `tensor` broadcast to `shape` has: trailing dims are aligned,
  /// dims of size 1 repeat.
  Element broadcast(mlir::Value tensor, llvm::ArrayRef<Expr> at, llvm::ArrayRef<Expr> shape);
  /// The same at the body's own dims.
  Element broadcast(mlir::Value tensor);

  using Elements = llvm::SmallVector<Element>;
  using Body = llvm::function_ref<Element(BodyBuilder &)>;
  /// Reduces over further dims of these extents. `init` is the identity of `combine`, which takes
  /// an accumulated tuple and a new one.
  Elements
  reduce(llvm::ArrayRef<Expr> extents, llvm::ArrayRef<Element> init,
         llvm::function_ref<Elements(BodyBuilder &)> body,
         llvm::function_ref<Elements(llvm::ArrayRef<Element>, llvm::ArrayRef<Element>)> combine);
  /// The body's type is the result's.
  Element sum(llvm::ArrayRef<Expr> extents, mlir::Type type, Body body);
  Element prod(llvm::ArrayRef<Expr> extents, mlir::Type type, Body body);
  Element max(llvm::ArrayRef<Expr> extents, mlir::Type type, Body body); // NaN if any is
  Element min(llvm::ArrayRef<Expr> extents, mlir::Type type, Body body);
  Element any(llvm::ArrayRef<Expr> extents, Body body);
  Element all(llvm::ArrayRef<Expr> extents, Body body);
  /// The extreme value and the least `position` that has it. NaN is more extreme than any number;
  /// of several, the last one's position is given with `lastNan`. `body` gives value and position
  /// (i64).
  std::pair<Element, Element>
  argExtreme(llvm::ArrayRef<Expr> extents, mlir::Type type, bool largest, bool lastNan,
             llvm::function_ref<std::pair<Element, Element>(BodyBuilder &)> body);

private:
  friend class KernelBuilder;
  BodyBuilder(KernelBuilder &kernels, llvm::ArrayRef<Expr> extents, unsigned firstOwn);
  Element readImpl(mlir::Value tensor, llvm::ArrayRef<Index> indices, Element mask, Element other);
  Expr broadcastIndex(Expr index, Expr from, Expr to);

  KernelBuilder &kernels;
  Exprs dimExtents;
  unsigned firstOwn;
  sym::Assumptions assumptions;
};

/// A kernel.contract; see KernelOps.td. Dims are numbered batch, m, n, k.
struct Contraction {
  Exprs batch, m, n, k;
  llvm::SmallVector<int64_t> perm; // empty: batch, m, n
  llvm::function_ref<Element(BodyBuilder &)> lhs, rhs;
  /// From the sum (in the operands' opmath type) to the result; null: the sum itself.
  llvm::function_ref<Element(BodyBuilder &, Element)> epilogue = nullptr;
};

/// A kernel.attention. Dims are numbered batch, m, n, d, dv.
struct AttentionSpec {
  Exprs batch;
  Expr m, n, d, dv;
  double scale = 1;
  bool causal = false, nan = false;
  llvm::SmallVector<int64_t> perm;
  llvm::function_ref<Element(BodyBuilder &)> q, k, v;
  llvm::function_ref<Element(BodyBuilder &)> bias = nullptr; // null: none
  /// The score of the scaled product and the bias (null if there is none); null: their sum.
  llvm::function_ref<Element(BodyBuilder &, Element product, Element bias)> score = nullptr;
};

/// A kernel.scan: along `dim` of `shape`, `finish` of a state that starts as `init` and takes one
/// `body` after the other.
struct ScanSpec {
  using Elements = BodyBuilder::Elements;
  Exprs shape;
  int64_t dim;
  llvm::function_ref<Elements(BodyBuilder &)> init, body;
  llvm::function_ref<Elements(llvm::ArrayRef<Element> state, llvm::ArrayRef<Element> next)> combine;
  llvm::function_ref<Elements(llvm::ArrayRef<Element>)> finish = nullptr; // null: the state itself
};

/// A kernel.scatter. Dims are numbered batch, targets, places.
struct ScatterSpec {
  struct Write {
    llvm::SmallVector<Element> index; // one for each target dim, of any integer type
    Element enabled;                  // none: always
    Element value;
  };
  Exprs batch, targets, places;
  llvm::SmallVector<int64_t> perm; // empty: batch, targets
  llvm::function_ref<Element(BodyBuilder &)> init;
  llvm::function_ref<Write(BodyBuilder &)> update;
  llvm::function_ref<Element(Element old, Element value)> combine = nullptr; // null: the value
};

class KernelBuilder {
public:
  /// Ops are built at `builder`'s insertion point. `symbols` are the ranges of the module's
  /// symbols.
  KernelBuilder(mlir::ImplicitLocOpBuilder &builder, const sym::Assumptions &symbols)
      : builder(builder), symbols(symbols) {}

  mlir::ImplicitLocOpBuilder &b() { return builder; }
  const sym::Assumptions &known() const { return symbols; }

  /// A kernel.map over `shape`; what the body gives is converted to `type`.
  mlir::Value map(llvm::ArrayRef<Expr> shape, mlir::Type type,
                  llvm::function_ref<Element(BodyBuilder &)> body);
  /// One result for each of `types`.
  llvm::SmallVector<mlir::Value> map(llvm::ArrayRef<Expr> shape, llvm::ArrayRef<mlir::Type> types,
                                     llvm::function_ref<BodyBuilder::Elements(BodyBuilder &)> body);
  mlir::Value contract(const Contraction &contraction, mlir::Type type);
  mlir::Value attention(const AttentionSpec &spec, mlir::Type type);
  /// One result for each of `types`.
  llvm::SmallVector<mlir::Value> scan(const ScanSpec &spec, llvm::ArrayRef<mlir::Type> types);
  mlir::Value scatter(const ScatterSpec &spec, mlir::Type type);
  /// The stable ascending order of the last dim by `key`, which gives a signed i64: positions, i64.
  mlir::Value sort(llvm::ArrayRef<Expr> shape, llvm::function_ref<Element(BodyBuilder &)> key);
  /// A kernel.repeat: `count` gives how often an element stands in the result, `start` is for the
  /// chunk d0.
  mlir::Value repeat(Expr total, Expr chunk, Expr size,
                     llvm::function_ref<Element(BodyBuilder &, Expr element)> count,
                     llvm::function_ref<Element(BodyBuilder &)> start);

  /// Element d of the result is element `index(d)` of the tensor.
  mlir::Value view(mlir::Value tensor, llvm::ArrayRef<Expr> shape,
                   llvm::function_ref<Exprs(llvm::ArrayRef<Expr> dims)> index);
  /// The same elements in row-major order; the number of elements must be the same.
  mlir::Value reshape(mlir::Value tensor, llvm::ArrayRef<Expr> shape);
  /// Dim i of the result is dim perm[i] of the tensor.
  mlir::Value permute(mlir::Value tensor, llvm::ArrayRef<int64_t> perm);
  mlir::Value expand(mlir::Value tensor, llvm::ArrayRef<Expr> shape);
  /// The shape that all of these (null ones left out) are broadcast to; nullopt if there is none.
  std::optional<Exprs> broadcastShapes(llvm::ArrayRef<mlir::Value> tensors) const;
  mlir::Value full(llvm::ArrayRef<Expr> shape, mlir::Type type, double value);
  mlir::Value convert(mlir::Value tensor, mlir::Type type);
  /// `tensor` as a tensor of exactly this shape: itself, or a view when equal sizes are written as
  /// different expressions.
  mlir::Value withShape(mlir::Value tensor, llvm::ArrayRef<Expr> shape);

  /// The sizes are the same for all values of the symbols.
  bool isSame(Expr a, Expr b) const;
  bool isSame(llvm::ArrayRef<Expr> a, llvm::ArrayRef<Expr> b) const;

  /// Fails the run unless the sizes are the same: in front of the op that is being built.
  void assertSame(Expr a, Expr b);

  void fail(const llvm::Twine &reason);
  std::optional<std::string> failure;

private:
  friend class BodyBuilder;
  /// Fills a region that takes `extents` as dims; the body's value is converted to `type`.
  Element fill(mlir::Region &region, llvm::ArrayRef<Expr> extents, mlir::Type type,
               llvm::function_ref<Element(BodyBuilder &)> body);

  mlir::ImplicitLocOpBuilder &builder;
  const sym::Assumptions &symbols;
};

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_BUILDER_KERNELBUILDER_H
