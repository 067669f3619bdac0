//===- StorageView.h - How a tensor is seen in a storage --------*- C++ -*-===//
#ifndef KILN_LIB_FRONTEND_STORAGEVIEW_H
#define KILN_LIB_FRONTEND_STORAGEVIEW_H

#include "llvm/ADT/SmallVector.h"

namespace kiln::frontend {

struct StorageView {
  /// In elements; none is negative.
  llvm::SmallVector<int64_t> sizes, strides;
  int64_t offset = 0;
  int64_t elementBytes = 1;
  /// The bytes that it touches are in [begin, end), by `setBytes`.
  int64_t begin = 0, end = 0;

  /// False if they would be behind 2^63.
  bool setBytes();
  bool isContiguous() const;
};

/// Some byte belongs to both. Views that take turns, such as columns, are looked at one element
/// after the other, unless there are very many, which count as shared.
bool overlap(const StorageView &a, const StorageView &b);

} // namespace kiln::frontend

#endif // KILN_LIB_FRONTEND_STORAGEVIEW_H
