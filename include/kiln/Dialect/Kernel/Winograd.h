// The matrices of kernel.winograd: Y = Aᵀ [(G w Gᵀ) ⊙ (Bᵀ D B)] A.
//
// They follow from the points at which polynomials are evaluated (Toom and Cook): 0, pairs p and -p, and infinity. With ±1
// alone, tiles are of 2 x 2 pixels. Those of 4 x 4 take ±5/8 and ±3/2, which round half as much as the usual ±1 and ±2
// (compare Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks", ACM
// TOMS 46(4), 2020), and whose powers are exact.
#ifndef KILN_DIALECT_KERNEL_WINOGRAD_H
#define KILN_DIALECT_KERNEL_WINOGRAD_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace kiln::kernel {

/// The window's rows, and columns.
constexpr int64_t winogradWindow = 3;

/// The positive points of tiles of `tile` x `tile` pixels.
llvm::ArrayRef<double> getWinogradPairs(int64_t tile);

/// By row and column. Points are 0, the first pair p and -p, the next one, infinity.
struct WinogradMatrices {
  using Matrix = llvm::SmallVector<llvm::SmallVector<double>>;
  Matrix input;  // Bᵀ, points x points
  Matrix window; // G, points x 3
  Matrix output; // Aᵀ, tile x points

  explicit WinogradMatrices(int64_t tile);
};

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_WINOGRAD_H
