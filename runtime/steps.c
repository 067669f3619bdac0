/*===- steps.c - Steps that another host runs -------------------------------===*
 *
 * The host program of an FX module is a graph of PyTorch's, which launches kernels
 * through these functions. Only a library of steps exports them and has `kiln_steps`;
 * no other model has any of this code.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <string.h>

uint32_t kiln_steps_hash(void) { return kiln_steps.hash; }

int32_t kiln_steps_find(const char *name) {
  for (uint32_t i = 0; name && i < kiln_steps.num_steps; ++i)
    if (strcmp(kiln_steps.steps[i].name, name) == 0)
      return (int32_t)i;
  return -1;
}

/* A symbol that the step does not use keeps whatever a former one has left. */
static int32_t set_symbols(kiln_context *context, const kiln_rt_step *step, const int64_t *values) {
  for (uint32_t i = 0; i < step->num_symbols; ++i) {
    const kiln_rt_symbol *symbol = &kiln_program.symbols[step->symbols[i]];
    if (values[i] < symbol->min || values[i] > symbol->max)
      return kiln_fail(KILN_INVALID_ARGUMENT, "%s: expected %s in [%lld, %lld], got %lld",
                       step->name, symbol->name, (long long)symbol->min, (long long)symbol->max,
                       (long long)values[i]);
    context->symbols[step->symbols[i]] = values[i];
  }
  return KILN_OK;
}

static int32_t check_tensors(const kiln_context *context, const kiln_rt_step *step,
                             const DLTensor *const *tensors, void **buffers) {
  for (uint32_t i = 0; i < step->num_tensors; ++i) {
    kiln_expectation expected =
        kiln_expect(context, "buffer", &step->tensors[i], i, context->symbols);
    kiln_view view;
    int32_t status = kiln_check_tensor(&expected, tensors[i], &view);
    if (status == KILN_OK)
      status = kiln_check_shape(&expected, tensors[i]);
    if (status == KILN_OK && view.strides)
      status = kiln_fail(KILN_INVALID_ARGUMENT, "buffer %u \"%s\": expected a contiguous tensor", i,
                         step->name);
    if (status != KILN_OK)
      return status;
    buffers[i] = view.data;
  }
  return KILN_OK;
}

static int32_t run_step(kiln_context *context, const kiln_rt_step *step,
                        const DLTensor *const *tensors, const int64_t *symbols) {
  void *buffers[step->num_tensors + 1];
  int32_t status = set_symbols(context, step, symbols);
  if (status == KILN_OK)
    status = check_tensors(context, step, tensors, buffers);
  if (status != KILN_OK)
    return status;
  status = kiln_program.device
               ? kiln_program.device->functions->run_step(context, step, tensors, buffers)
               : step->run(&context->run, buffers);
  if (status != KILN_OK && context->failure == KILN_OK)
    kiln_fail(status, "%s failed with status %d", step->name, (int)status);
  return status;
}

int32_t kiln_steps_run(kiln_model *model, int32_t number, const DLTensor *const *tensors,
                       size_t num_tensors, const int64_t *symbols, size_t num_symbols) {
  if (!model || number < 0 || (uint32_t)number >= kiln_steps.num_steps)
    return kiln_fail(KILN_INVALID_ARGUMENT, "expected a model and one of its %u steps, got %s %d",
                     kiln_steps.num_steps, model ? "step" : "NULL and step", (int)number);
  const kiln_rt_step *step = &kiln_steps.steps[number];
  if (num_tensors != step->num_tensors || num_symbols != step->num_symbols ||
      (num_tensors && !tensors) || (num_symbols && !symbols))
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "%s: expected %u buffers and %u symbols, got %zu and %zu", step->name,
                     step->num_tensors, step->num_symbols, tensors ? num_tensors : 0,
                     symbols ? num_symbols : 0);
  kiln_context *context = kiln_context_take(&model->own, 0);
  if (!context)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a run");
  unsigned environment = kiln_enter_environment();
  int32_t status = run_step(context, step, tensors, symbols);
  kiln_leave_environment(environment);
  kiln_context_put(context);
  return status;
}

int32_t kiln_steps_wait(kiln_model *model) {
  if (!model)
    return kiln_fail(KILN_INVALID_ARGUMENT, "expected a model, got NULL");
  if (!kiln_program.device)
    return KILN_OK;
  kiln_context *context = kiln_context_take(&model->own, 0);
  if (!context)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a run");
  int32_t status = kiln_program.device->functions->wait_steps(context);
  kiln_context_put(context);
  return status;
}

int32_t kiln_steps_read(kiln_model *model, uint64_t offset, uint64_t bytes, void *to) {
  uint64_t all = kiln_weights_bytes();
  if (!model || offset > all || bytes > all - offset || (bytes && !to))
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "expected a model, memory and a part of its %llu bytes of weights, got %llu "
                     "bytes from %llu on",
                     (unsigned long long)all, (unsigned long long)bytes,
                     (unsigned long long)offset);
  if (bytes)
    memcpy(to, atomic_load_explicit(&model->weights.blob, memory_order_acquire) + offset, bytes);
  return KILN_OK;
}
