/*===- debug_internal.h - Inside debug printing -------------------------------===*/
#ifndef KILN_RUNTIME_DEBUG_INTERNAL_H
#define KILN_RUNTIME_DEBUG_INTERNAL_H

#include "runtime.h"

/* A contiguous tensor in the host's memory. */
typedef struct {
  const char *dtype; /* PyTorch's name */
  uint8_t code, bits;
  uint16_t rank;
  const int64_t *shape;
  uint64_t count; /* elements */
  const void *data;
} kiln_debug_tensor;

/* As many elements are printed one by one, as in PyTorch. */
#define KILN_DEBUG_MOST_PRINTED 64

/* Room for what kiln_debug_describe appends. */
#define KILN_DEBUG_DESCRIPTION_BYTES 16384

/* Values if they are few, number of elements, sizes, dtype, mean, least, greatest, deviation. */
void kiln_debug_describe(kiln_text *text, const kiln_debug_tensor *tensor);

/* Writes the tensor to an open file as .npy; dtypes that numpy lacks as bytes ("|V2"). False: the
 * system says why in errno. */
bool kiln_debug_save(int file, const kiln_debug_tensor *tensor);

/* A device's, in which the buffers are. A function that fails has set the message. */
typedef struct {
  /* For all that the run has launched. */
  int32_t (*wait)(kiln_rt_run *run, const kiln_rt_debug_step *step);
  int32_t (*read)(kiln_rt_run *run, void *to, const void *from, int64_t bytes);
} kiln_debug_memory;

/* kiln_rt_debug; NULL `memory`: the host's. (debug.c) */
int32_t kiln_debug_show(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                        void *const *buffers, const kiln_debug_memory *memory);

#endif /* KILN_RUNTIME_DEBUG_INTERNAL_H */
