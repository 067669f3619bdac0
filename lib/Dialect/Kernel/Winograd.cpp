// The matrices of kernel.winograd.
#include "kiln/Dialect/Kernel/Winograd.h"

using namespace kiln;
using namespace kiln::kernel;

llvm::ArrayRef<double> kernel::getWinogradPairs(int64_t tile) {
  static constexpr double two[] = {1}, four[] = {0.625, 1.5};
  return tile == 2 ? llvm::ArrayRef(two) : llvm::ArrayRef(four);
}

/// The coefficients of the product of x - root over all roots but number `left`, lowest power first.
static llvm::SmallVector<double> expand(llvm::ArrayRef<double> roots, size_t left) {
  llvm::SmallVector<double> polynomial{1};
  for (size_t i = 0; i < roots.size(); ++i) {
    if (i == left)
      continue;
    polynomial.insert(polynomial.begin(), 0); // times x
    for (size_t power = 0; power + 1 < polynomial.size(); ++power)
      polynomial[power] -= roots[i] * polynomial[power + 1];
  }
  return polynomial;
}

WinogradMatrices::WinogradMatrices(int64_t tile) {
  llvm::SmallVector<double> points{0};
  for (double pair : getWinogradPairs(tile))
    points.append({pair, -pair});
  size_t finite = points.size();
  for (size_t i = 0; i <= finite; ++i) {
    input.push_back(expand(points, i));
    input.back().resize(finite + 1);
  }
  for (size_t i = 0; i < finite; ++i) {
    double scale = 1;
    for (size_t j = 0; j < finite; ++j)
      scale *= j == i ? 1 : points[i] - points[j];
    window.push_back({1 / scale, points[i] / scale, points[i] * points[i] / scale});
  }
  window.push_back({0, 0, 1});
  llvm::SmallVector<double> powers(finite, 1);
  for (int64_t row = 0; row < tile; ++row) {
    output.push_back(powers);
    output.back().push_back(row + 1 == tile ? 1 : 0);
    for (size_t i = 0; i < finite; ++i)
      powers[i] *= points[i];
  }
}
