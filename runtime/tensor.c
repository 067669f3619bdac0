/*===- tensor.c - Sizes and strides -----------------------------------------===*/
#include "runtime.h"

#include <string.h>

bool kiln_bytes(const int64_t *shape, int rank, size_t item, uint64_t *bytes) {
  bool empty = false;
  uint64_t total = item;
  for (int d = 0; d < rank; ++d) {
    empty |= shape[d] == 0;
    if (shape[d] > 1 && __builtin_mul_overflow(total, (uint64_t)shape[d], &total))
      return false;
  }
  *bytes = empty ? 0 : total;
  return total <= KILN_MAX_BYTES;
}

bool kiln_extent(const int64_t *shape, const int64_t *strides, int rank, size_t item,
                 uint64_t *bytes) {
  uint64_t last = 0;
  for (int d = 0; d < rank; ++d)
    if (shape[d] == 0)
      return *bytes = 0, true;
  for (int d = 0; d < rank; ++d) {
    uint64_t step;
    if (shape[d] > 1 &&
        (__builtin_mul_overflow((uint64_t)shape[d] - 1, (uint64_t)strides[d], &step) ||
         __builtin_add_overflow(last, step, &last)))
      return false;
  }
  return !__builtin_add_overflow(last, 1, &last) && !__builtin_mul_overflow(last, item, bytes) &&
         *bytes <= KILN_MAX_BYTES;
}

bool kiln_is_contiguous(const int64_t *shape, const int64_t *strides, int rank) {
  int64_t stride = 1;
  bool dense = true;
  for (int d = rank - 1; d >= 0; --d) {
    if (shape[d] == 0)
      return true;
    if (shape[d] == 1)
      continue;
    dense &= strides[d] == stride;
    stride *= shape[d];
  }
  return dense;
}

void kiln_contiguous_strides(const int64_t *shape, int rank, int64_t *strides) {
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= shape[d] > 1 ? shape[d] : 1;
  }
}

bool kiln_same_layout(const int64_t *shape, const int64_t *a, const int64_t *b, int rank) {
  bool same = true;
  for (int d = 0; d < rank; ++d) {
    if (shape[d] == 0)
      return true;
    same &= shape[d] == 1 || a[d] == b[d];
  }
  return same;
}

bool kiln_may_overlap_itself(const int64_t *shape, const int64_t *strides, int rank) {
  /* No overlap if, in some order, each stride steps over all that the smaller
   * ones span: sort by stride, then look. */
  int order[KILN_MAX_RANK], count = 0;
  for (int d = 0; d < rank; ++d) {
    if (shape[d] == 0)
      return false;
    if (shape[d] == 1)
      continue;
    int at = count++;
    for (; at > 0 && strides[order[at - 1]] > strides[d]; --at)
      order[at] = order[at - 1];
    order[at] = d;
  }
  uint64_t span = 1;
  for (int i = 0; i < count; ++i) {
    int d = order[i];
    if ((uint64_t)strides[d] < span)
      return true;
    span += ((uint64_t)shape[d] - 1) * (uint64_t)strides[d];
  }
  return false;
}
