/*===- tensormap.c - Tensors of which the GPU copies boxes ------------------===*
 *
 * A kernel that copies boxes of a tensor to shared memory has a parameter, made by the
 * driver, that says where and how large the tensor is. It is made when a launch is put on
 * a stream or into a graph: as long as a graph's addresses stay, so do its maps.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <string.h>

static CUresult encode(const kiln_cuda_driver *driver, const kiln_rt_tensor_map *map,
                       const void *buffer, const int64_t *numbers, CUtensorMap *result) {
  static const int types[] = {CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT16,
                              CU_TENSOR_MAP_DATA_TYPE_UINT32};
  uint64_t sizes[KILN_RT_MAP_RANK], strides[KILN_RT_MAP_RANK];
  uint32_t ones[KILN_RT_MAP_RANK];
  const int64_t *size = numbers + 1, *stride = size + map->rank;
  for (uint32_t i = 0; i < map->rank; ++i) {
    /* No box of an empty tensor is copied. */
    if (size[i] == 0) {
      memset(result, 0, sizeof *result);
      return CUDA_SUCCESS;
    }
    sizes[i] = (uint64_t)size[i];
    if (i + 1 < map->rank)
      strides[i] = (uint64_t)stride[i] * map->element_bytes;
    ones[i] = 1;
  }
  CUdeviceptr address = kiln_cuda_address(buffer) + (CUdeviceptr)numbers[0] * map->element_bytes;
  return driver->cuTensorMapEncodeTiled(
      result, types[map->element_bytes / 2], map->rank, kiln_cuda_pointer(address), sizes, strides,
      map->box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CUresult kiln_cuda_encode_maps(const struct kiln_device *device,
                               const kiln_rt_device_kernel *kernel, void *const *buffers,
                               const int64_t *symbols, CUtensorMap *maps) {
  int64_t numbers[KILN_RT_MAX_GEOMETRY], *next = numbers + 1;
  CUresult result = CUDA_SUCCESS;
  if (!kernel->num_maps)
    return result;
  kernel->geometry(symbols, numbers);
  for (uint32_t i = 0; i < kernel->num_maps && result == CUDA_SUCCESS; ++i) {
    const kiln_rt_tensor_map *map = &kernel->maps[i];
    result = encode(device->driver, map, buffers[map->buffer], next, &maps[i]);
    next += 2 * map->rank;
  }
  return result;
}

int64_t kiln_cuda_variant_grid(struct kiln_device *device, const kiln_rt_device_kernel *kernel,
                               const int64_t *symbols) {
  int64_t numbers[KILN_RT_MAX_GEOMETRY];
  kernel->geometry(symbols, numbers);
  int64_t max_blocks = kiln_cuda_loaded_of(device, kernel)->max_blocks;
  return numbers[0] < max_blocks ? numbers[0] : max_blocks;
}
