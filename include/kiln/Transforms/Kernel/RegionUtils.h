// Moving region code of the kernel dialect: putting a producer's body in place of a read, a
// consumer's body into an epilogue, and asking what a body costs.
//
// The one delicate matter is the numbering of dims. A map inside a region takes the dims around it,
// then its `values`; a nested reduce adds dims after those around *it*. When a body written for R
// dims is cloned to a place with E dims, every map in it is renumbered:
//
//   source   [0, R) domain dims    [R, R+N) nested reduce dims    then own values
//   target   [0, E) place's dims   [E, E+N) nested reduce dims    then own values, then borrowed
//   values
//
// where domain dim i becomes an expression over the place's dims and, if the element that is asked
// for is itself computed from data, over values that the cloned op then has to take too
// ("borrowed").
#ifndef KILN_TRANSFORMS_KERNEL_REGIONUTILS_H
#define KILN_TRANSFORMS_KERNEL_REGIONUTILS_H

#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace kiln::kernel {

/// The expressions that a body's domain dims become at the place it is cloned to.
struct DimSubstitution {
  unsigned sourceDims = 0; // R
  unsigned targetDims = 0; // E
  /// R expressions over dims [0, E) and [E, E + values.size()), the latter standing for `values`.
  llvm::SmallVector<sym::Expr> dims;
  llvm::SmallVector<mlir::Value> values;
  /// If set, the clone's memory is touched only where this is true.
  mlir::Value mask;
};

/// The zero of a type of numbers, or of vectors of real ones.
mlir::Value createZero(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type);

/// Clones the ops of `source` (without its terminator) and returns the yielded values. Values that
/// `mapping` already knows are not cloned.
llvm::SmallVector<mlir::Value> cloneBody(mlir::OpBuilder &builder, mlir::Block &source,
                                         const DimSubstitution &substitution,
                                         mlir::IRMapping &mapping);

/// Copies the body of `source`, with its arguments, to the empty region `target`, its dims renamed to
/// `dims`, expressions over `targetDims` dims (0: as many).
void renameBody(mlir::Region &source, mlir::Region &target, llvm::ArrayRef<sym::Expr> dims,
                mlir::OpBuilder &builder, unsigned targetDims = 0);

/// Simplifies the index map of `op` with what is known where it stands.
void simplifyMap(IndexedOpInterface op, const sym::Assumptions &known);

/// Whether the producer's index maps, with the read's map put in for its dims, stay within what an
/// expression can hold.
bool canInline(ReadOp read, MapOp producer);

/// Replaces `read`, a read of a result of `producer`, by a clone of the producer's body.
void inlineRead(mlir::RewriterBase &rewriter, ReadOp read, MapOp producer);

/// A read, in `region`, of floats that a map computes and that may take the map's place; null: there is none.
ReadOp findComputedRead(mlir::Region &region);

/// Puts maps in place of the reads of floats in `region` that they compute, and returns them, each before those that it
/// reads.
llvm::SetVector<mlir::Operation *> inlineComputedReads(mlir::RewriterBase &rewriter,
                                                       mlir::Region &region);

/// Erases those of `ops` whose results nobody uses. One may be all that uses another.
void eraseUnused(mlir::RewriterBase &rewriter, llvm::SetVector<mlir::Operation *> ops);

/// Erases ops of `block` whose results nobody uses.
void eraseUnused(mlir::Block &block);

/// Leaves away what rounds numbers of `region` that are extended again, and extends bytes at once.
void dropRounding(mlir::RewriterBase &rewriter, mlir::Region &region);

/// Each element is read at its own place.
bool readsOwnPlaces(ReadOp read);

/// Lets all that reads a view read its tensor. A view of which nothing else is made is erased.
void foldReads(mlir::RewriterBase &rewriter, MapOp view);

/// The map from a region's dims when only dims [0, numDims) exist, dropping trailing unused values.
sym::IndexMap identityMap(unsigned rank, unsigned numDims);

/// `kernel.map` over `shape` whose one body op reads `tensor` at `index`.
MapOp createView(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tensor,
                 llvm::ArrayRef<sym::Expr> shape, llvm::ArrayRef<sym::Expr> index);

/// Makes constants that `region` of `op` reads run along `dim`, by views in front of `op` that
/// constant folding evaluates. To be called where no pass reads through views any more.
void moveLast(mlir::Operation *op, mlir::Region &region, sym::Expr dim);

/// The read that `region` yields, if data says which rows of a tensor it reads, which is not empty, and elements that follow each other
/// along dim `along` are neighbours there; null otherwise. What is computed besides does not depend on that dim.
ReadOp findGatheredRows(mlir::Region &region, sym::Expr along);

/// The cost of computing one element, in rough units of a simple arithmetic op.
struct BodyCost {
  int64_t arithmetic = 0;     // additions, multiplications, comparisons
  int64_t transcendental = 0; // exp, tanh, division, square root …
  int64_t reads = 0;          // reads of tensors
  int64_t uniformReads = 0;   // those of them that are of one element
  int64_t gathers = 0;        // reads at indices that are data
  bool reduces = false;
};
BodyCost getCost(mlir::Region &body);

/// Some value in it is a complex number.
bool computesComplex(mlir::Region &body);

/// Maps of complex numbers may become part of `op`. Maps, and products of complex numbers, are then computed one element at
/// a time; targets compute other ops in vectors, of which there are none of complex numbers.
bool takesComplex(mlir::Operation *op);

/// All structured ops directly in `block`, in order.
llvm::SmallVector<mlir::Operation *> getStructuredOps(mlir::Block &block);

/// The tensors from outside that an op's regions read, each once, in order of first use.
llvm::SmallVector<mlir::Value> getReadTensors(mlir::Operation *op);

/// The tensors that `region` reads, once for each read.
llvm::SmallVector<mlir::Value> readTensors(mlir::Region &region);

/// Constants, and maps of nothing but constants, are known before the program runs.
bool isKnownConstant(mlir::Value tensor);

/// The bytes of the constant that is read; nothing if it is none, or one that the program writes to.
std::optional<ConstantBytes> getReadConstant(ReadOp read);

/// The read that `value` is, perhaps converted, of a constant that the program does not write to and all of whose bytes are zero;
/// null: it is none.
ReadOp findReadOfZeros(mlir::Value value);

/// A `kernel.func` named after the kind of `root` and `number`, with a copy of it; `operands` are
/// the tensors it reads (`getReadTensors`).
FuncOp createKernel(mlir::OpBuilder &builder, mlir::Operation *root,
                    llvm::ArrayRef<mlir::Value> operands, size_t number);

/// The text of a kernel without its name: equal for structurally equal kernels.
std::string getFingerprint(FuncOp func);

} // namespace kiln::kernel

#endif // KILN_TRANSFORMS_KERNEL_REGIONUTILS_H
