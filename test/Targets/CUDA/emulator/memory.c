/*===- memory.c - Memory and copies -----------------------------------------===*/
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static struct allocation *allocations;
static size_t allocated[2]; /* on GPUs, of the host */

struct allocation *find_allocation(uintptr_t address) {
  for (struct allocation *a = allocations; a; a = a->next)
    if (address >= (uintptr_t)a->data && address < (uintptr_t)a->data + a->bytes)
      return a;
  return NULL;
}

void revive(struct allocation *allocation) {
  allocation->is_free = false;
  memset(allocation->data, EMULATOR_POISON, allocation->bytes);
}

/* What has been freed is given to others later, when nobody can have it still. */
void set_free(struct allocation *allocation) {
  if (allocation->is_free)
    misuse("memory is freed twice");
  allocation->is_free = true;
  memset(allocation->data, EMULATOR_POISON, allocation->bytes);
  if (allocation->of)
    return; /* the graph's next run has it again */
  allocated[allocation->host] -= allocation->bytes;
  /* The oldest go when there are many. */
  unsigned count = 0;
  for (struct allocation **at = &allocations; *at;) {
    struct allocation *a = *at;
    if (a->is_free && !a->of && ++count > 64) {
      *at = a->next;
      free(a->data);
      free(a);
    } else {
      at = &a->next;
    }
  }
}

static CUresult allocate(size_t bytes, bool host, struct allocation **result) {
  if (!bytes)
    return CUDA_ERROR_INVALID_VALUE;
  size_t limit = (size_t)setting(host ? "KILN_EMULATOR_PINNED" : "KILN_EMULATOR_MEMORY", 0);
  if (limit && (bytes > limit || allocated[host] > limit - bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  struct allocation *made = calloc(1, sizeof *made);
  if (!made || posix_memalign((void **)&made->data, 256, bytes)) {
    free(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made->bytes = bytes;
  made->host = host;
  made->device = current()->device;
  made->next = allocations;
  allocations = made;
  allocated[host] += bytes;
  revive(made);
  *result = made;
  return CUDA_SUCCESS;
}

static CUdeviceptr address_of(const struct allocation *a) {
  return (uintptr_t)a->data | (a->host ? 0 : EMULATOR_DEVICE_BIT);
}

static struct allocation *get_whole(CUdeviceptr memory, bool host) {
  struct allocation *a = find_allocation(memory & ~EMULATOR_DEVICE_BIT);
  if (!a || address_of(a) != memory || a->host != host)
    misuse("%#llx is freed, which is not memory that was allocated", memory);
  if (a->is_free || a->is_returned)
    misuse("memory is freed twice");
  return a;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
  struct allocation *made;
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    result = check_uncaptured();
  if (result == CUDA_SUCCESS)
    result = allocate(bytes, false, &made);
  if (result == CUDA_SUCCESS)
    *memory = address_of(made);
  return leave(result);
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr memory) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    result = check_uncaptured();
  if (result == CUDA_SUCCESS) {
    struct allocation *a = get_whole(memory, false);
    /* Of a pool's memory whoever frees it has waited for what uses it. */
    if (!a->pool) {
      record("wait for what uses memory\n");
      drain_all(NULL);
    }
    set_free(a);
  }
  return leave(result);
}
EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  CUresult result = enter();
  int device = properties->location.id;
  for (size_t i = 0; i < sizeof properties->reserved; ++i)
    if (properties->reserved[i])
      result = CUDA_ERROR_INVALID_VALUE;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || properties->handleTypes ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || device < 0 ||
      device >= MAX_DEVICES || properties->win32SecurityAttributes)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    *pool = keep(sizeof **pool);
    **pool = (struct CUmemPoolHandle_st){device, false};
    record("pool of device %d\n", device);
  }
  return leave(result);
}
/* Memory of it may stay until it is freed, by the documentation. The driver of CUDA 13.0 crashes in a
 * later call then. */
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    if (pool->is_destroyed)
      misuse("a pool is destroyed twice");
    for (const struct allocation *a = allocations; a; a = a->next)
      if (a->pool == pool && !a->is_free && !a->of)
        misuse("a pool is destroyed while its memory is in use");
    pool->is_destroyed = true;
    record("destroy pool of device %d\n", pool->device);
  }
  return leave(result);
}
EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  return pool && value && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t bytes, CUmemoryPool pool,
                                        CUstream stream) {
  struct allocation *made;
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    stream = get_stream(stream);
    if (pool->is_destroyed)
      misuse("memory of a pool that is destroyed");
    if (pool->device != current()->device)
      misuse("memory of another device's pool");
    result = allocate(bytes, false, &made);
  }
  if (result == CUDA_SUCCESS) {
    made->of = stream->capture;
    made->pool = pool;
    *memory = address_of(made);
    result = add_operation(stream, (struct operation){.kind = ALLOCATE, .allocation = made});
  }
  return leave(result);
}
EXPORT CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    stream = get_stream(stream);
    struct allocation *a = get_whole(memory, false);
    if (stream->capture && a->of != stream->capture)
      misuse("a graph frees memory that it has not allocated");
    a->is_returned = true;
    result = add_operation(stream, (struct operation){.kind = FREE, .allocation = a});
  }
  return leave(result);
}
EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  struct allocation *made;
  CUresult result = enter();
  (void)flags;
  if (result == CUDA_SUCCESS)
    result = check_uncaptured();
  if (result == CUDA_SUCCESS)
    result = allocate(bytes, true, &made);
  if (result == CUDA_SUCCESS)
    *memory = made->data;
  return leave(result);
}
EXPORT CUresult cuMemFreeHost(void *memory) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    struct allocation *a = get_whole((uintptr_t)memory, true);
    if (is_awaited(a->data, a->bytes, NULL))
      misuse("pinned memory is freed that is still to be read or written");
    set_free(a);
  }
  return leave(result);
}

char *reach(CUcontext context, CUdeviceptr memory, size_t bytes, const char *what) {
  uintptr_t address = memory & ~EMULATOR_DEVICE_BIT;
  struct allocation *a = find_allocation(address);
  if (!a || (!a->host && !(memory & EMULATOR_DEVICE_BIT)))
    misuse("%s uses %#llx, which is no memory of a GPU", what, memory);
  if (a->is_free)
    misuse("%s uses memory that has been freed", what);
  if (bytes > a->bytes || address - (uintptr_t)a->data > a->bytes - bytes)
    misuse("%s uses %zu bytes at %zu of %zu that were allocated", what, bytes,
           (size_t)(address - (uintptr_t)a->data), a->bytes);
  if (!a->host && a->device != context->device)
    misuse("%s on device %d uses memory of device %d", what, context->device, a->device);
  return (char *)address;
}

/* Bytes that nobody has freed, of the GPUs' memory or of the host's. */
EXPORT size_t emulator_memory_in_use(bool host) {
  size_t bytes = 0;
  for (struct allocation *a = allocations; a; a = a->next)
    bytes += a->host == host && !a->is_free && !a->of ? a->bytes : 0;
  return bytes;
}

/*===-- Copies --------------------------------------------------------------===*/

static bool is_pinned(const void *memory) {
  struct allocation *a = find_allocation((uintptr_t)memory);
  return a && a->host;
}

static CUresult copy_to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  struct operation copy = {.kind = COPY, .to = to, .host_from = (char *)from, .bytes = bytes};
  reach(current(), to, bytes, "a copy");
  record("copy %zu bytes of %s memory\n", bytes, is_pinned(from) ? "pinned" : "pageable");
  if (!is_pinned(from) && !stream->capture) {
    copy.host_from = malloc(bytes);
    copy.owns_from = true;
    memcpy(copy.host_from, from, bytes);
  }
  return add_operation(stream, copy);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && bytes)
    result = copy_to_device(to, from, bytes, get_stream(stream));
  return leave(result);
}
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    result = check_uncaptured();
  if (result == CUDA_SUCCESS && bytes) {
    /* What is pageable has been read when this returns, and need not have arrived. */
    bool waits = is_pinned(from);
    result = copy_to_device(to, from, bytes, get_stream(NULL));
    if (result == CUDA_SUCCESS && waits) {
      record("wait for a copy\n");
      result = drain(get_stream(NULL));
    }
  }
  return leave(result);
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && bytes) {
    stream = get_stream(stream);
    reach(current(), from, bytes, "a copy");
    result = add_operation(
        stream, (struct operation){.kind = COPY, .from = from, .host_to = to, .bytes = bytes});
    if (result == CUDA_SUCCESS && !is_pinned(to) && !stream->capture) {
      record("wait for a copy\n");
      result = drain(stream);
    }
  }
  return leave(result);
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                     CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && bytes) {
    reach(current(), to, bytes, "a copy");
    reach(current(), from, bytes, "a copy");
    result =
        add_operation(get_stream(stream),
                      (struct operation){.kind = COPY, .to = to, .from = from, .bytes = bytes});
  }
  return leave(result);
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && to % 4)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && count) {
    struct operation copy = {.kind = COPY, .to = to, .bytes = 4 * count, .owns_from = true};
    reach(current(), to, copy.bytes, "a memset");
    copy.host_from = malloc(copy.bytes);
    for (size_t i = 0; i < count; ++i)
      memcpy(copy.host_from + 4 * i, &value, 4);
    result = add_operation(get_stream(stream), copy);
  }
  return leave(result);
}
EXPORT CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
  CUresult result = enter();
  struct allocation *a = find_allocation(pointer & ~EMULATOR_DEVICE_BIT);
  if (result == CUDA_SUCCESS && (!a || a->is_free))
    result = CUDA_ERROR_INVALID_VALUE;
  else if (result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    *(unsigned *)value = a->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  else if (result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    *(int *)value = a->device;
  else if (result == CUDA_SUCCESS)
    result = CUDA_ERROR_INVALID_VALUE;
  return leave(result);
}
