// Views of a storage, and whether two of them have bytes in common.
#include "StorageView.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include <optional>

using namespace llvm;
using namespace kiln::frontend;

bool StorageView::setBytes() {
  begin = end = 0;
  if (is_contained(sizes, 0))
    return true;
  int64_t last = offset;
  for (auto [size, stride] : zip(sizes, strides)) {
    int64_t step;
    if (__builtin_mul_overflow(size - 1, stride, &step) ||
        __builtin_add_overflow(last, step, &last))
      return false;
  }
  return !__builtin_mul_overflow(offset, elementBytes, &begin) &&
         !__builtin_add_overflow(last, 1, &last) &&
         !__builtin_mul_overflow(last, elementBytes, &end);
}

bool StorageView::isContiguous() const {
  int64_t expected = 1;
  for (auto [size, stride] : reverse(zip(sizes, strides))) {
    if (size != 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

/// Elements that a search looks at.
static constexpr int64_t mostElements = 1 << 24;

/// Calls `visit` with the first byte of each element until it returns true, which is the result;
/// nullopt: there are too many.
static std::optional<bool> visitElements(const StorageView &view,
                                         function_ref<bool(int64_t)> visit) {
  SmallVector<std::pair<int64_t, int64_t>> dims;
  int64_t count = 1;
  for (auto [size, stride] : zip(view.sizes, view.strides)) {
    if (size == 1 || stride == 0)
      continue;
    if (size > mostElements / count)
      return std::nullopt;
    count *= size;
    dims.emplace_back(size, stride);
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = view.offset, rest = i;
    for (auto [size, stride] : reverse(dims)) {
      position += rest % size * stride;
      rest /= size;
    }
    if (visit(position * view.elementBytes))
      return true;
  }
  return false;
}

bool kiln::frontend::overlap(const StorageView &a, const StorageView &b) {
  int64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  if (begin >= end)
    return false;
  if ((a.isContiguous() && b.isContiguous()) || end - begin > 8 * mostElements)
    return true;
  // Elements begin at multiples of their size, which is a power of two.
  int64_t unit = std::min(a.elementBytes, b.elementBytes);
  BitVector taken((end - begin) / unit);
  auto visitUnits = [&](const StorageView &view, auto visit) {
    return visitElements(view, [&](int64_t first) {
      for (int64_t byte = first; byte < first + view.elementBytes; byte += unit)
        if (byte >= begin && byte < end && visit((byte - begin) / unit))
          return true;
      return false;
    });
  };
  if (!visitUnits(a, [&](int64_t place) { return taken.set(place), false; }))
    return true;
  return visitUnits(b, [&](int64_t place) { return taken.test(place); }).value_or(true);
}
