/*===- print.c - Prints of a program ------------------------------------------===*
 *
 * Generated code refers to kiln_rt_print, and nothing else in the runtime does. Formats were read
 * when the model was compiled: the first argument has a letter for each argument behind it, of
 * which the text is put together.
 *
 *   s           text              e4, f4, g4  a number with so many decimals, as printf's
 *   n           a number          t           a tensor
 *
 *===-----------------------------------------------------------------------===*/
#include "print.h"
#include "runtime.h"
#include "write.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void print_all(kiln_printed *text, const DLTensor *const *inputs, size_t num_inputs) {
  const char *kinds = inputs[0]->data, *end = kinds + inputs[0]->shape[0];
  for (size_t i = 1; i < num_inputs && kinds < end; ++i) {
    const DLTensor *input = inputs[i];
    char kind = *kinds++;
    int decimals = 0;
    while (kinds < end && *kinds >= '0' && *kinds <= '9')
      decimals = 10 * decimals + (*kinds++ - '0');
    if (kind == 's')
      kiln_print_bytes(text, input->data, (uint64_t)input->shape[0]);
    else if (kind == 't')
      kiln_print_tensor(text, input);
    else if (kind == 'n')
      kiln_print_number(text, input);
    else
      kiln_print_styled(text, input, kind, decimals);
  }
  kiln_print_bytes(text, "\n", 1);
}

int32_t kiln_rt_print(const DLTensor *const *inputs, size_t num_inputs,
                      const DLTensor *const *outputs, size_t num_outputs,
                      const kiln_custom_op_context *context) {
  (void)outputs, (void)num_outputs;
  const kiln_context *run = kiln_context_of(context->parallel_ctx);
  kiln_text message = {context->message, context->message_size, 0};
  kiln_printed text = {NULL, 0, 0};
  print_all(&text, inputs, num_inputs);
  uint64_t bytes = text.used;
  text = (kiln_printed){kiln_allocate(&run->model->allocator, bytes), 0, 0};
  if (!text.to) {
    kiln_append(&message, "out of memory for the text");
    return KILN_OUT_OF_MEMORY;
  }
  print_all(&text, inputs, num_inputs);
  bool is_written = kiln_write(STDOUT_FILENO, text.to, bytes);
  int error = errno;
  kiln_deallocate(&run->model->allocator, text.to, bytes);
  /* A host without standard output prints nothing, as in Python. */
  if (is_written || error == EBADF)
    return KILN_OK;
  kiln_append(&message, "cannot write to standard output: %s", strerror(error));
  return KILN_INVALID_ARGUMENT;
}
