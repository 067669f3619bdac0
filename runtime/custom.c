/*===- custom.c - Custom operators that C functions compute -----------------===*
 *
 * Makes the tensors of kiln-c/custom_op.h of a call's description. Generated code
 * refers to kiln_rt_custom, and nothing else in the runtime does.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <string.h>

/* The tensors of one call under construction. */
typedef struct {
  kiln_rt_run *run;
  const kiln_extern_call *call;
  const kiln_custom_memory *memory;
  DLTensor *tensors; /* operands, results, then the arguments that are no tensors */
  const DLTensor **inputs;
  int64_t *words; /* values and sizes of these, as far as they are used */
  const int64_t *numbers;
  uint32_t next_tensor, next_input;
} kiln_arguments;

/* Operands and results. */
static void add_buffers(kiln_arguments *arguments, void *const *buffers) {
  const kiln_extern_call *call = arguments->call;
  for (uint32_t i = 0; i < call->num_operands + call->num_results; ++i) {
    const kiln_extern_tensor *tensor = &call->tensors[i];
    int64_t *layout = (int64_t *)(uintptr_t)arguments->numbers;
    arguments->numbers += 2 * tensor->rank;
    arguments->tensors[arguments->next_tensor++] =
        (DLTensor){.data = buffers[i],
                   .device = arguments->memory->device,
                   .ndim = tensor->rank,
                   .dtype = {tensor->code, tensor->bits, 1},
                   .shape = layout,
                   .strides = layout + tensor->rank};
  }
}

/* The function writes to copies, which are results. */
static int32_t copy_updates(kiln_arguments *arguments) {
  const kiln_extern_call *call = arguments->call;
  for (uint32_t i = 0; i < call->num_updates; ++i) {
    DLTensor *from = &arguments->tensors[call->updates[i]];
    const DLTensor *to =
        &arguments->tensors[call->num_operands + call->num_results - call->num_updates + i];
    int32_t status = KILN_OK;
    if (from->data != to->data)
      status =
          arguments->memory->copy(arguments->run, to->data, to->strides, from->data, from->strides,
                                  to->shape, to->ndim, (int64_t)kiln_item_size(to->dtype.bits));
    if (status != KILN_OK)
      return status;
    *from = *to;
  }
  return KILN_OK;
}

/* An input in the host's memory; `count` below 0: 0-d. */
static void add(kiln_arguments *arguments, const void *data, uint8_t code, uint8_t bits,
                int64_t count) {
  DLTensor *made = &arguments->tensors[arguments->next_tensor++];
  *made = (DLTensor){.data = (void *)(uintptr_t)data,
                     .device = {kDLCPU, 0},
                     .ndim = count >= 0,
                     .dtype = {code, bits, 1}};
  if (count >= 0) {
    made->shape = arguments->words;
    made->strides = arguments->words + 1;
    *arguments->words++ = count;
    *arguments->words++ = 1;
  }
  arguments->inputs[arguments->next_input++] = made;
}

/* A number's value at `to`, and its type. */
static void write(const kiln_arguments *arguments, const kiln_extern_value *value, char *to,
                  uint8_t *code, uint8_t *bits) {
  *code = value->kind == KILN_EXTERN_FLOAT ? kDLFloat : kDLInt;
  *bits = 64;
  if (value->kind == KILN_EXTERN_BOOL) {
    *code = kDLBool;
    *bits = 8;
    *to = value->value != 0;
  } else {
    int64_t number =
        value->kind == KILN_EXTERN_NUMBER ? arguments->numbers[value->value] : value->value;
    memcpy(to, &number, sizeof number);
  }
}

/* Numbers side by side; 0-d: `count` is -1. */
static void add_numbers(kiln_arguments *arguments, const kiln_extern_value *values, int64_t count) {
  uint8_t code = kDLInt, bits = 64;
  char *data = (char *)arguments->words, *to = data;
  for (int64_t i = 0; i < (count < 0 ? 1 : count); ++i) {
    write(arguments, &values[i], to, &code, &bits);
    to += bits / 8;
  }
  arguments->words += (to - data + 7) / 8;
  add(arguments, data, code, bits, count);
}

/* A number that is the element of a tensor. */
static int32_t add_item(kiln_arguments *arguments, int64_t index) {
  const DLTensor *tensor = &arguments->tensors[index];
  void *data = arguments->words;
  arguments->words += 2;
  add(arguments, data, tensor->dtype.code, tensor->dtype.bits, -1);
  return arguments->memory->read(arguments->run, data, tensor->data,
                                 (int64_t)kiln_item_size(tensor->dtype.bits));
}

static void add_complex(kiln_arguments *arguments, const kiln_extern_value *parts) {
  int64_t *data = arguments->words;
  data[0] = parts[0].value;
  data[1] = parts[1].value;
  arguments->words += 2;
  add(arguments, data, kDLComplex, 128, -1);
}

/* One argument, whose nodes end where `*value` is then. */
static int32_t add_argument(kiln_arguments *arguments, const kiln_extern_value **value) {
  const kiln_extern_value *node = (*value)++;
  switch (node->kind) {
  case KILN_EXTERN_NONE:
    arguments->inputs[arguments->next_input++] = NULL;
    return KILN_OK;
  case KILN_EXTERN_TENSOR:
    arguments->inputs[arguments->next_input++] = &arguments->tensors[node->value];
    return KILN_OK;
  case KILN_EXTERN_ITEM:
    return add_item(arguments, node->value);
  case KILN_EXTERN_COMPLEX:
    add_complex(arguments, *value);
    *value += 2;
    return KILN_OK;
  case KILN_EXTERN_STRING:
  case KILN_EXTERN_DEVICE:
  case KILN_EXTERN_LAYOUT:
  case KILN_EXTERN_MEMORY_FORMAT:
    add(arguments, node->text, kDLUInt, 8, (int64_t)strlen(node->text));
    return KILN_OK;
  case KILN_EXTERN_LIST:
    add_numbers(arguments, *value, node->count);
    *value += node->count;
    return KILN_OK;
  default:
    add_numbers(arguments, node, -1);
    return KILN_OK;
  }
}

/* The task of a launch: `buffers` is what parallel_for was given. */
typedef struct {
  void (*body)(void *arg, int64_t i);
  void *arg;
} kiln_task;

static void run_task(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                     int32_t *error) {
  (void)symbols, (void)scratch, (void)error;
  const kiln_task *task = (const void *)buffers;
  task->body(task->arg, i);
}

static void parallel_for(void *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  kiln_task task = {body, arg};
  kiln_rt_launch(ctx, run_task, (void *const *)&task, n, KILN_RT_NO_STEP);
}

static int32_t fail(const kiln_extern_call *call, int32_t status, const char *message) {
  int32_t known = status < 0 || status > KILN_INTERNAL ? KILN_INTERNAL : status;
  if (message[0])
    return kiln_fail(known, "%s: %s: %s", call->where, call->callee, message);
  return kiln_fail(known, "%s: %s returned status %d", call->where, call->callee, (int)status);
}

int32_t kiln_call_custom(kiln_rt_run *run, const kiln_extern_call *call, kiln_custom_op_fn function,
                         void *const *buffers, const int64_t *numbers,
                         const kiln_custom_memory *memory) {
  uint32_t operands = call->num_operands, results = call->num_results;
  DLTensor tensors[operands + results + call->num_values + 1];
  const DLTensor *inputs[call->num_values + 1], *outputs[results + 1];
  int64_t words[4 * call->num_values + 1]; /* two for a value, two for a size and a stride */
  kiln_arguments arguments = {run, call, memory, tensors, inputs, words, numbers, 0, 0};
  add_buffers(&arguments, buffers);
  int32_t status = copy_updates(&arguments);
  const kiln_extern_value *value = call->args;
  for (uint32_t i = 0; i < call->num_args && status == KILN_OK; ++i)
    status = add_argument(&arguments, &value);
  if (status == KILN_OK)
    status = memory->start(run);
  if (status != KILN_OK)
    return status;

  uint32_t own = results - call->num_updates;
  for (uint32_t i = 0; i < own; ++i)
    outputs[i] = &tensors[operands + i];
  char message[512];
  message[0] = 0;
  kiln_custom_op_context context = {.struct_size = sizeof context,
                                    .stream = memory->stream,
                                    .message = message,
                                    .message_size = sizeof message,
                                    .parallel_for = parallel_for,
                                    .parallel_ctx = run};
  status = function(inputs, arguments.next_input, outputs, own, &context);
  message[sizeof message - 1] = 0;
  return KILN_LIKELY(status == KILN_OK) ? KILN_OK : fail(call, status, message);
}

/*===-- In the host's memory ------------------------------------------------===*/

static int32_t copy(kiln_rt_run *run, void *to, const int64_t *to_strides, const void *from,
                    const int64_t *from_strides, const int64_t *sizes, int64_t rank, int64_t item) {
  (void)run;
  kiln_rt_copy(to, to_strides, from, from_strides, sizes, rank, item);
  return KILN_OK;
}

static int32_t read_bytes(kiln_rt_run *run, void *to, const void *from, int64_t bytes) {
  (void)run;
  memcpy(to, from, (size_t)bytes);
  return KILN_OK;
}

static int32_t start(kiln_rt_run *run) {
  (void)run;
  return KILN_OK;
}

int32_t kiln_rt_custom(kiln_rt_run *run, const kiln_extern_call *call, kiln_custom_op_fn function,
                       void *const *buffers, const int64_t *numbers) {
  static const kiln_custom_memory memory = {{kDLCPU, 0}, NULL, copy, read_bytes, start};
  kiln_context *context = kiln_context_of(run);
  int32_t status = kiln_call_custom(run, call, function, buffers, numbers, &memory);
  if (KILN_UNLIKELY(status != KILN_OK))
    context->failure = status;
  return status;
}
