/*===- debug.h - What debug printing is told of a launch --------------------===*
 *
 * A model that was compiled with --debug-print above 0 calls kiln_rt_debug (on a
 * device kiln_rt_device_debug) with its inputs when a run begins, and around each
 * launch and each call of a library or of a C function. The description is constant
 * data in the model. Generated code refers to these functions, and nothing else in
 * the runtime does: other models have none of this code.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_DEBUG_H
#define KILN_RUNTIME_DEBUG_H

#include <stdint.h>

/* Sizes and strides are as in ir_interface.h. */
typedef struct {
  const char *name;
  const char *dtype; /* PyTorch's name */
  const char *node;  /* of the exported program, whose output `output` a result is; NULL: of none */
  const int64_t *shape;
  const int64_t *strides; /* NULL: contiguous */
  uint8_t code, bits;     /* DLPack's */
  uint16_t rank;
  uint32_t output;
} kiln_rt_debug_tensor;

typedef struct {
  const char *kernel;                  /* or the operator that is called, or "inputs" */
  const char *where;                   /* "node 'relu' (model.py:12)" */
  const kiln_rt_debug_tensor *tensors; /* operands, then results */
  uint32_t num_operands, num_results;
  uint32_t level; /* of --debug-print, a kiln_rt_debug_level */
  uint32_t reserved;
} kiln_rt_debug_step;

enum {
  KILN_RT_DEBUG_OFF = 0,
  KILN_RT_DEBUG_SAVE = 1,  /* tensors, as files under $KILN_DEBUG_DIR */
  KILN_RT_DEBUG_PRINT = 2, /* tensors */
  KILN_RT_DEBUG_NAMES = 3  /* of kernels alone */
};

/* The time at which the step is shown. */
enum { KILN_RT_DEBUG_INPUTS = 0, KILN_RT_DEBUG_BEFORE = 1, KILN_RT_DEBUG_AFTER = 2 };

struct kiln_rt_run;

/* Returns the status that main must return if it is not 0: a file cannot be written, or the
 * environment asks for what the model has not. */
int32_t kiln_rt_debug(struct kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                      void *const *buffers);
/* The same with buffers in the device's memory, after a wait for all that the run has launched. */
int32_t kiln_rt_device_debug(struct kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                             void *const *buffers);

#endif /* KILN_RUNTIME_DEBUG_H */
