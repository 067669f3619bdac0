// A lowering turns one torch.call into kernel ops; a table says which lowering an operator has.
//
//   static LogicalResult lowerRelu(Call &call) {
//     return call.pointwise({call.operand(0)}, [](BodyBuilder &, Elements x) {
//       return maximum(x[0], x[0].constant(0));
//     });
//   }
//   void registerActivations(LoweringTable &table) { table.add("aten.relu.default", lowerRelu); }
//
// A lowering either sets all results or refuses with a reason; nothing it emits may be
// approximately right. docs/adding-an-op.md walks through one.
#ifndef KILN_LOWERING_LOWERING_H
#define KILN_LOWERING_LOWERING_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "kiln/Lowering/Promotion.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace kiln::lowering {

using namespace kernel; // elements and builders

using Elements = llvm::ArrayRef<Element>;
using Pointwise = llvm::function_ref<Element(BodyBuilder &, Elements)>;

class RandomSource;

/// One torch.call that is being lowered.
class Call {
public:
  Call(torch::CallOp op, KernelBuilder &kernels, RandomSource *random = nullptr);

  torch::CallArgs args;
  KernelBuilder &kernels;
  RandomSource *random; // null where there is none

  //===-- What the program declared ----------------------------------------------------------===//

  unsigned numResults() const { return op->getNumResults(); }
  /// The result is None or nobody uses it: it need not be computed.
  bool isUnused(unsigned i) const;
  mlir::Type resultType(unsigned i = 0) const { return elementType(op->getResult(i)); }
  Exprs resultShape(unsigned i = 0) const { return shapeOf(op->getResult(i)); }

  //===-- Arguments --------------------------------------------------------------------------===//

  /// A number where the schema has a tensor is a 0-d tensor of its widest type. Null for None, and
  /// for a number of another overload.
  mlir::Value tensor(torch::CallArgs::Key key);
  /// A tensor or a number.
  Operand operand(torch::CallArgs::Key key) const;
  /// A dim argument, wrapped into [0, rank); 0 for a 0-d tensor. Fails the call when out of range.
  int64_t dim(torch::CallArgs::Key key, int64_t rank);
  /// A list of dims, wrapped and sorted; all dims for None or an empty list.
  llvm::SmallVector<int64_t> dims(torch::CallArgs::Key key, int64_t rank);
  /// An `int[n]` argument, of which a single value stands for all.
  llvm::SmallVector<int64_t> ints(torch::CallArgs::Key key, unsigned n);
  Exprs symInts(torch::CallArgs::Key key, unsigned n);
  /// The number as a constant; fails the call when it is not known at compile time.
  double constantNumber(torch::CallArgs::Key key);

  //===-- Results ----------------------------------------------------------------------------===//

  /// "aten.foo.default: reason"; for use as `return call.refuse(…)`.
  mlir::LogicalResult refuse(const llvm::Twine &reason);
  /// Sets the results. Their element types must be the declared ones and so must their sizes, if
  /// possibly by another expression.
  mlir::LogicalResult set(mlir::ValueRange values);

  /// Leaves the call to `library`, which gets its arguments as they are. For calls without a
  /// lowering of their own.
  mlir::LogicalResult toExtern(llvm::StringRef library);

  //===-- What only data says ----------------------------------------------------------------===//

  /// Gives the size of a result, a symbol that this call defines, its value: a 0-d tensor of i64,
  /// or an expression. A size that is known already is asserted to be the same.
  void defineSize(mlir::Value count, Expr size);
  void defineSize(Expr count, Expr size);
  /// A further symbol, whose value is `count`, a 0-d tensor of i64 that is at least zero: an extent
  /// inside of the results that this call computes.
  Expr newSize(mlir::Value count);
  /// The expression is at least zero: as is proved, or asserted when the model runs.
  void require(Expr expr, const llvm::Twine &message);
  void requireSame(Expr a, Expr b, const llvm::Twine &message);
  /// Whether the sizes may be the same; if that is not proved, it is asserted. For use as
  /// `if (!call.fits(…)) return call.refuse(…)`.
  bool fits(Expr a, Expr b, const llvm::Twine &message);
  bool fits(llvm::ArrayRef<Expr> a, llvm::ArrayRef<Expr> b, const llvm::Twine &message);
  /// Asserted even where it is proved: what is known of symbols may come from this very assertion.
  void assertNonNegative(Expr expr, const llvm::Twine &message);
  /// The 0-d tensor of i1 holds true when the model runs.
  void require(mlir::Value condition, const llvm::Twine &message);
  /// `value`; where `holds` is false for an element that the program computes, the run fails.
  Element expect(Element value, Element holds, const llvm::Twine &message);
  /// A divisor: an integer that is not known to differ from zero is expected to.
  Element expectDivisor(Element divisor);
  /// Gives symbols their value that have one by their range. Expressions may have it in their place:
  /// the sizes were then asserted to be the same.
  void defineFixedSizes();
  /// Symbols of results that nothing has given a value yet.
  const llvm::SetVector<Expr> &undefined() const { return pending; }

  /// Element-wise over operands that are broadcast to result 0: they are promoted, converted to the
  /// common type's `opmath`, and what `compute` gives is rounded to the common type and converted
  /// to the declared one. A number, and a tensor of one element that is not the first operand, is
  /// rounded to the common type as well, except with `exactNumbers`: ATen's kernels differ in this.
  mlir::LogicalResult pointwise(llvm::ArrayRef<Operand> operands, Pointwise compute,
                                bool exactNumbers = false);
  /// The same with a given common type.
  mlir::LogicalResult pointwise(llvm::ArrayRef<Operand> operands, mlir::Type common,
                                Pointwise compute, bool exactNumbers = false);
  /// Reads `operand` at the body's own dims, broadcast, as a value of `type`.
  Element read(BodyBuilder &body, const Operand &operand, mlir::Type type);
  /// A number as a constant or as a read of what holds it.
  Element number(BodyBuilder &body, const torch::Scalar &number, mlir::Type type);

private:
  /// `message` and the Python line that it is about.
  mlir::StringAttr located(const llvm::Twine &message);

  torch::CallOp op;
  llvm::SetVector<Expr> pending;
};

using Lowering = std::function<mlir::LogicalResult(Call &)>;

class LoweringTable {
public:
  /// `target` as in torch.call, `aten.add.Tensor`; it must be new.
  void add(llvm::StringRef target, Lowering lowering);
  void add(std::initializer_list<llvm::StringRef> targets, const Lowering &lowering);
  /// For a call with `updates`, whose last results are what the operator writes.
  void addUpdating(llvm::StringRef target, Lowering lowering);
  /// Null for an operator without a lowering.
  const Lowering *find(llvm::StringRef target, bool updating = false) const;
  const llvm::StringMap<Lowering> &all() const { return lowerings; }

private:
  llvm::StringMap<Lowering> lowerings;
};

/// How far an operator can be compiled: it has a lowering (which may still refuse cases), a library
/// could run it, or neither.
enum class Support { Native, Fallback, Refused };
Support getSupport(llvm::StringRef target);

/// All lowerings; one function for each family, each in the file of its name.
const LoweringTable &loweringTable();
void registerActivation(LoweringTable &table);
void registerActivationBackward(LoweringTable &table);
void registerAssert(LoweringTable &table);
void registerAttention(LoweringTable &table);
void registerBessel(LoweringTable &table);
void registerCat(LoweringTable &table);
void registerCholesky(LoweringTable &table);
void registerCollective(LoweringTable &table);
void registerChooseScales(LoweringTable &table);
void registerCompare(LoweringTable &table);
void registerComplex(LoweringTable &table);
void registerConv(LoweringTable &table);
void registerConvert(LoweringTable &table);
void registerCreation(LoweringTable &table);
void registerDeformConv(LoweringTable &table);
void registerDiagonal(LoweringTable &table);
void registerDistance(LoweringTable &table);
void registerEigen(LoweringTable &table);
void registerEinsum(LoweringTable &table);
void registerEmbeddingBag(LoweringTable &table);
void registerErrorFunction(LoweringTable &table);
void registerFft(LoweringTable &table);
void registerFloatParts(LoweringTable &table);
void registerGamma(LoweringTable &table);
void registerGridSample(LoweringTable &table);
void registerGroupedMatmul(LoweringTable &table);
void registerHistogram(LoweringTable &table);
void registerIm2col(LoweringTable &table);
void registerIndex(LoweringTable &table);
void registerIndexPut(LoweringTable &table);
void registerInt4(LoweringTable &table);
void registerIntegrate(LoweringTable &table);
void registerLdl(LoweringTable &table);
void registerLinearCrossEntropy(LoweringTable &table);
void registerLinearSolve(LoweringTable &table);
void registerLoss(LoweringTable &table);
void registerMarginLoss(LoweringTable &table);
void registerMatmul(LoweringTable &table);
void registerMatrixExp(LoweringTable &table);
void registerNms(LoweringTable &table);
void registerNorm(LoweringTable &table);
void registerNormBackward(LoweringTable &table);
void registerNumber(LoweringTable &table);
void registerPad(LoweringTable &table);
void registerPartScatter(LoweringTable &table);
void registerPointwise(LoweringTable &table);
void registerPolynomial(LoweringTable &table);
void registerPool(LoweringTable &table);
void registerPoolBackward(LoweringTable &table);
void registerPrims(LoweringTable &table);
void registerProduct(LoweringTable &table);
void registerQr(LoweringTable &table);
void registerQuantile(LoweringTable &table);
void registerQuantize(LoweringTable &table);
void registerQuantizeBlocks(LoweringTable &table);
void registerRandom(LoweringTable &table);
void registerReduction(LoweringTable &table);
void registerRepeat(LoweringTable &table);
void registerRoiAlign(LoweringTable &table);
void registerScan(LoweringTable &table);
void registerScatter(LoweringTable &table);
void registerSearch(LoweringTable &table);
void registerSegmentReduce(LoweringTable &table);
void registerSingularValues(LoweringTable &table);
void registerSoftmax(LoweringTable &table);
void registerSort(LoweringTable &table);
void registerStrided(LoweringTable &table);
void registerUnique(LoweringTable &table);
void registerUnpool(LoweringTable &table);
void registerUpsample(LoweringTable &table);
void registerUpsampleAntialias(LoweringTable &table);
void registerUpsampleBackward(LoweringTable &table);
void registerView(LoweringTable &table);
void registerWindow(LoweringTable &table);

} // namespace kiln::lowering

#endif // KILN_LOWERING_LOWERING_H
