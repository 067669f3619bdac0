/*===- tensormap.c - Tensors of which kernels copy boxes --------------------===*/
#include "driver.h"
#include "tensor.h"

#include <string.h>

_Static_assert(sizeof(struct tensor) <= sizeof(CUtensorMap), "fits what kernels are given");

/* No two elements lie at one place: dims in the order of their strides each advance by all that the
 * ones before them extend over. */
static bool are_apart(uint32_t rank, uint64_t item, const uint64_t *sizes,
                      const uint64_t *strides) {
  uint64_t extent = sizes[0] * item;
  uint32_t left = ((1U << rank) - 1) & ~1U;
  while (left) {
    uint32_t next = 0;
    for (uint32_t i = 1; i < rank; ++i)
      if (left >> i & 1 && (!next || strides[i - 1] < strides[next - 1]))
        next = i;
    left &= ~(1U << next);
    if (sizes[next] == 1)
      continue;
    if (strides[next - 1] < extent)
      return false;
    extent = sizes[next] * strides[next - 1];
  }
  return true;
}

/* What the driver asks for of a map whose lines are swizzled over 128 bytes. */
static bool is_valid(const CUtensorMap *map, int type, uint32_t rank, const void *address,
                     const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                     const uint32_t *steps) {
  uint64_t item = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2 * (uint64_t)type;
  if ((uintptr_t)map % 64 || type < 0 || type > CU_TENSOR_MAP_DATA_TYPE_UINT32 || rank < 1 ||
      rank > 5 || !address || (uintptr_t)address % 16 || box[0] * item > 128 || box[0] * item % 16)
    return false;
  for (uint32_t i = 0; i < rank; ++i)
    if (!sizes[i] || sizes[i] > (uint64_t)1 << 32 || !box[i] || box[i] > 256 || steps[i] != 1 ||
        (i + 1 < rank && (strides[i] % 16 || strides[i] >= (uint64_t)1 << 40)))
      return false;
  return are_apart(rank, item, sizes, strides);
}

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank, void *address,
                                       const uint64_t *sizes, const uint64_t *strides,
                                       const uint32_t *box, const uint32_t *steps, int interleave,
                                       int swizzle, int l2Promotion, int fill) {
  if (!is_valid(map, type, rank, address, sizes, strides, box, steps) ||
      interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || swizzle != CU_TENSOR_MAP_SWIZZLE_128B ||
      l2Promotion < 0 || l2Promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
      fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  struct tensor tensor = {.magic = TENSOR_MAGIC,
                          .item = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2 * (uint32_t)type,
                          .rank = rank,
                          .address = (uintptr_t)address};
  for (uint32_t i = 0; i < rank; ++i) {
    tensor.sizes[i] = (uint32_t)(sizes[i] - 1);
    tensor.box[i] = (uint16_t)box[i];
    if (i + 1 < rank)
      tensor.strides[i] = strides[i];
  }
  memset(map, 0, sizeof *map);
  memcpy(map, &tensor, sizeof tensor);
  record("encode %u\n", rank);
  return CUDA_SUCCESS;
}
