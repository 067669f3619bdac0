/*===- tensor.c - Strides and copies ----------------------------------------===*/
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

/* One row. Sizes are compile-time constants so that memcpy becomes a move. */
#define COPY_ROW(item)                                                                             \
  case item:                                                                                       \
    for (int64_t i = 0; i < n; ++i, to += to_step, from += from_step)                              \
      memcpy(to, from, item);                                                                      \
    break

static void copy_row(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                     size_t item) {
  if (to_step == (int64_t)item && from_step == (int64_t)item) {
    memcpy(to, from, (size_t)n * item);
    return;
  }
  switch (item) {
    COPY_ROW(1);
    COPY_ROW(2);
    COPY_ROW(4);
    COPY_ROW(8);
    COPY_ROW(16);
  default:
    for (int64_t i = 0; i < n; ++i, to += to_step, from += from_step)
      memcpy(to, from, item);
  }
}

void kiln_copy(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides,
               const int64_t *shape, int rank, size_t item) {
  /* Drop sizes of 1 and merge neighbours that advance as one. Steps are in bytes. */
  int64_t size[KILN_MAX_RANK], to_step[KILN_MAX_RANK], from_step[KILN_MAX_RANK];
  int64_t at[KILN_MAX_RANK];
  int dims = 0;
  for (int d = 0; d < rank; ++d) {
    if (shape[d] == 0)
      return;
    if (shape[d] == 1)
      continue;
    int64_t t = to_strides[d] * (int64_t)item, f = from_strides[d] * (int64_t)item;
    if (dims > 0 && to_step[dims - 1] == t * shape[d] && from_step[dims - 1] == f * shape[d]) {
      size[dims - 1] *= shape[d];
      to_step[dims - 1] = t;
      from_step[dims - 1] = f;
      continue;
    }
    size[dims] = shape[d];
    to_step[dims] = t;
    from_step[dims] = f;
    at[dims] = 0;
    ++dims;
  }
  if (dims == 0) {
    memcpy(to, from, item);
    return;
  }
  char *target = to;
  const char *source = from;
  for (;;) {
    copy_row(target, to_step[dims - 1], source, from_step[dims - 1], size[dims - 1], item);
    int d = dims - 2;
    for (; d >= 0; --d) {
      target += to_step[d];
      source += from_step[d];
      if (++at[d] < size[d])
        break;
      target -= to_step[d] * size[d];
      source -= from_step[d] * size[d];
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}

void kiln_rt_copy(void *to, const int64_t *to_strides, const void *from,
                  const int64_t *from_strides, const int64_t *sizes, int64_t rank, int64_t item) {
  kiln_copy(to, to_strides, from, from_strides, sizes, (int)rank, (size_t)item);
}
