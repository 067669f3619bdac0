// Batches of matrices: what factorisations and systems of equations are written with. They are
// computed in double precision, whatever the dtype.
#ifndef KILN_LIB_LOWERING_LINALG_LINALG_H
#define KILN_LIB_LOWERING_LINALG_LINALG_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// f64, or complex numbers of two.
mlir::Type doublePrecision(mlir::Type type);

/// The dims before the last two, and a tensor with them as one: [batch, m, n], in double precision
/// if it is of floats.
llvm::ArrayRef<Expr> batchOf(llvm::ArrayRef<Expr> shape);
mlir::Value flattenBatch(Call &call, mlir::Value tensor);
/// A result [batch, …] in the shape and dtype that the call declares.
mlir::Value restore(Call &call, mlir::Value tensor, unsigned result = 0);

/// The dims that all of these are broadcast to; `message` is a run's that finds that they do not fit.
std::optional<Exprs> commonDims(Call &call, llvm::ArrayRef<Exprs> all, const llvm::Twine &message);
/// The batch dims that all of these matrices are broadcast to.
std::optional<Exprs> commonBatch(Call &call, llvm::ArrayRef<mlir::Value> matrices);
/// [batch, m, n] of `tensor` broadcast to these batch dims.
mlir::Value broadcastBatch(Call &call, mlir::Value tensor, llvm::ArrayRef<Expr> batch);
/// [batch, k] of pivots.
mlir::Value flattenPivots(Call &call, mlir::Value pivots);

bool isMatrix(mlir::Value tensor);
/// A matrix of floats with as many rows as columns.
bool isSquare(Call &call, mlir::Value tensor);

mlir::Value transposeMatrices(Call &call, mlir::Value tensor);
Element conjugate(Element x); // itself if it is real
mlir::Value conjugate(Call &call, mlir::Value tensor);
mlir::Value conjugateTranspose(Call &call, mlir::Value tensor);
/// [batch, n, n] with ones on the diagonal.
mlir::Value identityMatrices(Call &call, Expr batch, Expr n, mlir::Type type);

/// Triangular systems [batch, n, n] x X = B; the solution X is [batch, n, columns].
struct Triangle {
  mlir::Value matrix;
  bool upper = false;
  bool unit = false; // ones stand for the diagonal
};
mlir::Value solveTriangle(Call &call, const Triangle &triangle, mlir::Value rhs);

/// P A = L U by partial pivoting.
struct Factors {
  mlir::Value lu;          // [batch, m, n]: U, and L below the diagonal, which is of ones
  mlir::Value pivots;      // [batch, min(m, n)] i32: the row, from 1, that each was swapped with
  mlir::Value permutation; // [batch, m] i64: the row of A that each row is
};
Factors factorize(Call &call, mlir::Value matrices);
/// The permutation of m rows that pivots say.
mlir::Value permutationOf(Call &call, mlir::Value pivots, Expr m);
/// X with A X = B of the factors of A, or with A^H X = B.
mlir::Value solveFactors(Call &call, const Factors &factors, mlir::Value rhs, bool adjoint = false);
/// [batch] i32: the first diagonal element, from 1, that is zero; 0 without.
mlir::Value firstZeroPivot(Call &call, mlir::Value lu);

/// The inverses of [batch, n, n]; fails the run where there is none if `checked`. `info`, unless
/// null, is set to the numbers of the zero pivots.
mlir::Value invertMatrices(Call &call, mlir::Value matrices, bool checked,
                           mlir::Value *info = nullptr);

/// By columns, the lower triangle of the Hermitian matrices that this triangle of [batch, n, n]
/// says, and zeros above.
mlir::Value takeTriangle(Call &call, mlir::Value matrices, bool upper);
/// Eigenvalues [batch, n], f64, ascending, and eigenvectors by columns of the Hermitian matrices
/// that a triangle of [batch, n, n] says.
mlir::Value eigenvalues(Call &call, mlir::Value matrices, bool upper);
std::pair<mlir::Value, mlir::Value> eigenvectors(Call &call, mlir::Value matrices, bool upper);

/// The result of a call: a norm of the singular values of its first tensor, whose rows and columns
/// are these dims.
enum class SingularNorm { Largest, Smallest, Sum };
mlir::LogicalResult singularNorm(Call &call, SingularNorm norm, std::array<int64_t, 2> dims);

/// Results of a function of the runtime's, "kiln_linalg_" and `name` and the dtype: of `operands`,
/// the first of which says the dtype, and then `numbers`.
llvm::SmallVector<mlir::Value> callRuntime(Call &call, llvm::StringRef name,
                                           llvm::ArrayRef<mlir::Value> operands,
                                           llvm::ArrayRef<mlir::Type> results,
                                           llvm::ArrayRef<mlir::Attribute> numbers = {});

/// Fails the run unless all of `info` is 0.
void requireSuccess(Call &call, mlir::Value info, llvm::StringRef message);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_LINALG_LINALG_H
