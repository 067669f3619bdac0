/*===- abi.c - The exported functions ---------------------------------------===*/
#include "cpu.h"
#include "runtime.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t kiln_abi_version(void) { return KILN_ABI_VERSION; }

const char *kiln_model_info(void) { return kiln_program.info ? kiln_program.info : "{}"; }

int32_t kiln_report(const kiln_options *options, int32_t status) {
  const char *message = kiln_last_error();
  if (options && options->log) {
    options->log(options->log_ctx, 0, message);
  } else {
    char line[2200];
    kiln_text text = {line, sizeof line, 0};
    kiln_append(&text, "kiln: %s\n", message);
    ssize_t written = write(STDERR_FILENO, line, text.used);
    (void)written;
  }
  return status;
}

/*===-- Creation ------------------------------------------------------------===*/

/* The fields that `given` has, zero for the others. A field that `struct_size`
 * cuts through is not there. */
static int32_t read_options(const kiln_options *given, kiln_options *options) {
  memset(options, 0, sizeof *options);
  if (!given)
    return KILN_OK;
  size_t size = given->struct_size;
  if (size < sizeof given->struct_size)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "options: expected struct_size to be sizeof(kiln_options), got %zu", size);
  if (size > sizeof *options)
    size = sizeof *options;
  size_t pointers = offsetof(kiln_options, parallel_for);
  size -= size % (size < pointers ? sizeof(int32_t) : sizeof(void *));
  memcpy(options, given, size);

  if (options->num_threads < 0 || options->num_threads > KILN_MAX_THREADS)
    return kiln_fail(KILN_INVALID_ARGUMENT, "options: expected num_threads in [0, %d], got %d",
                     KILN_MAX_THREADS, options->num_threads);
  if (options->reserved != 0)
    return kiln_fail(KILN_INVALID_ARGUMENT, "options: expected reserved to be 0, got %d",
                     options->reserved);
  if (options->collective_timeout < 0)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "options: expected collective_timeout not to be negative, got %lld",
                     (long long)options->collective_timeout);
  if (!options->alloc != !options->dealloc)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "options: expected both alloc and dealloc or neither, "
                     "got %s alone",
                     options->alloc ? "alloc" : "dealloc");
  return KILN_OK;
}

/* Properties that the runtime relies on; a violation is an error of the compiler. */
static int32_t check_program(const kiln_rt_program *program) {
  bool valid = program->abi == KILN_RT_ABI && program->main;
  valid = valid && (!program->num_symbols || program->bind);
  valid = valid && program->scratch_bytes <= KILN_MAX_BYTES / (2 * KILN_MAX_THREADS);
  valid = valid && program->weights_bytes <= KILN_MAX_BYTES &&
          program->later_bytes <= KILN_MAX_BYTES - program->weights_bytes;
  for (uint32_t i = 0; valid && i < program->num_inputs; ++i)
    valid = program->inputs[i].rank <= KILN_MAX_RANK;
  for (uint32_t i = 0; valid && i < program->num_outputs; ++i)
    valid = program->outputs[i].rank <= KILN_MAX_RANK;
  for (uint32_t i = 0; valid && i < program->num_constants; ++i)
    valid = program->constants[i].rank <= KILN_MAX_RANK;
  return valid ? KILN_OK : kiln_fail(KILN_INTERNAL, "the model does not fit its runtime");
}

static int32_t create(const kiln_options *given, kiln_options *options, kiln_model **result) {
  int32_t status = read_options(given, options);
  if (status == KILN_OK)
    status = check_program(&kiln_program);
  for (uint32_t i = 1; status == KILN_OK && i < kiln_num_entries(); ++i)
    status = check_program(kiln_entry(i));
  if (status == KILN_OK)
    status = kiln_check_cpu();
  if (status != KILN_OK)
    return status;
  kiln_model *model = calloc(1, sizeof *model);
  if (!model)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a model");
  model->options = *options;
  model->allocator = (kiln_allocator){options->alloc, options->dealloc, options->alloc_ctx};
  model->own.library = &kiln_program;
  model->own.model = model;
  model->default_entry = kiln_default_entry();
  status = kiln_weights_open(&model->weights, options->weights_path);
  if (status == KILN_OK)
    status = kiln_outputs_open(model);
  if (status == KILN_OK && kiln_program.device)
    status = kiln_program.device->functions->open(model);
  if (status == KILN_OK && !options->parallel_for && !kiln_program.device) {
    int threads = options->num_threads ? options->num_threads : kiln_usable_cpus();
    status = kiln_pool_create(threads, &model->allocator, &model->pool);
  }
  for (uint32_t i = 0; status == KILN_OK && i < kiln_num_entries(); ++i)
    if (kiln_entry(i)->externs)
      status = kiln_entry(i)->externs->open(model, i);
  if (status == KILN_OK)
    status = kiln_contexts_open(&model->own);
  if (status != KILN_OK) {
    kiln_model_destroy(model);
    return status;
  }
  model->options.weights_path = NULL; /* not ours to keep */
  *result = model;
  return KILN_OK;
}

int32_t kiln_model_create(const kiln_options *options, kiln_model **model) {
  kiln_options complete = {0};
  int32_t status;
  if (!model) {
    status = kiln_fail(KILN_INVALID_ARGUMENT, "kiln_model_create: expected a place for the model, "
                                              "got NULL");
  } else {
    *model = NULL;
    status = create(options, &complete, model);
  }
  return status == KILN_OK ? KILN_OK : kiln_report(&complete, status);
}

void kiln_model_destroy(kiln_model *model) {
  if (!model)
    return;
  kiln_pool_destroy(model->pool);
  while (model->sessions)
    kiln_session_close(model->sessions);
  kiln_session_close(&model->own);
  kiln_scratches_free(model);
  kiln_outputs_close(model);
  if (kiln_program.device)
    kiln_program.device->functions->close(model);
  for (uint32_t i = 0; model->externs && i < kiln_num_entries(); ++i)
    if (kiln_entry(i)->externs)
      kiln_entry(i)->externs->close(model, i);
  free(model->externs);
  kiln_weights_close(&model->weights, &model->allocator);
  free(model);
}

/*===-- Use -----------------------------------------------------------------===*/

KILN_FAILURE static int32_t check_counts(const kiln_rt_program *program, const void *inputs,
                                         size_t num_inputs, size_t num_outputs) {
  if (num_inputs != program->num_inputs)
    return kiln_fail(KILN_INVALID_ARGUMENT, "expected %u inputs, got %zu", program->num_inputs,
                     num_inputs);
  if (num_outputs != program->num_outputs)
    return kiln_fail(KILN_INVALID_ARGUMENT, "expected %u outputs, got %zu", program->num_outputs,
                     num_outputs);
  if (num_inputs && !inputs)
    return kiln_fail(KILN_INVALID_ARGUMENT, "expected an array of %zu inputs, got NULL",
                     num_inputs);
  return kiln_fail(KILN_INVALID_ARGUMENT, "expected an array of %zu outputs, got NULL",
                   num_outputs);
}

int32_t kiln_run_session(kiln_session *session, uint32_t entry, const DLTensor *const *inputs,
                         size_t num_inputs, DLManagedTensorVersioned **outputs, size_t num_outputs,
                         void *stream) {
  const kiln_model *model = session->model;
  const kiln_rt_program *program = kiln_entry(entry);
  if (KILN_UNLIKELY(num_inputs != program->num_inputs || num_outputs != program->num_outputs ||
                    (num_inputs && !inputs) || (num_outputs && !outputs)))
    return check_counts(program, inputs, num_inputs, num_outputs);
  if (KILN_UNLIKELY(atomic_load_explicit(&model->weights.num_unknown, memory_order_relaxed)))
    return kiln_weights_fail_unknown(&model->weights);
  unsigned environment = kiln_enter_environment();
  int32_t status =
      KILN_UNLIKELY(kiln_program.device != NULL)
          ? kiln_program.device->functions->run(session, entry, inputs, outputs, stream)
          : kiln_run(session, entry, inputs, outputs);
  kiln_leave_environment(environment);
  return status;
}

KILN_ENTRY int32_t kiln_model_run(kiln_model *model, const DLTensor *const *inputs,
                                  size_t num_inputs, DLManagedTensorVersioned **outputs,
                                  size_t num_outputs, void *stream) {
  int32_t status;
  if (KILN_UNLIKELY(!model))
    status = kiln_fail(KILN_INVALID_ARGUMENT, "kiln_model_run: expected a model, got NULL");
  else if (KILN_UNLIKELY(model->default_entry == KILN_NO_ENTRY))
    status = kiln_fail_no_default();
  else
    status = kiln_run_session(&model->own, model->default_entry, inputs, num_inputs, outputs,
                              num_outputs, stream);
  return KILN_LIKELY(status == KILN_OK) ? KILN_OK
                                        : kiln_report(model ? &model->options : NULL, status);
}

int32_t kiln_model_set_constant(kiln_model *model, const char *name, const DLTensor *value) {
  int32_t status;
  if (!model || !name) {
    status = kiln_fail(KILN_INVALID_ARGUMENT, "kiln_model_set_constant: expected a %s, got NULL",
                       model ? "name" : "model");
  } else {
    unsigned environment = kiln_enter_environment();
    status = kiln_weights_set(model, name, value);
    kiln_leave_environment(environment);
  }
  return status == KILN_OK ? KILN_OK : kiln_report(model ? &model->options : NULL, status);
}
