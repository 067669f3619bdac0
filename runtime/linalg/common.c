/*===- common.c - Scaling, batches and failures of decompositions ------------===*/
#include "linalg.h"

double KILN_LINALG(normalize)(int64_t n, scalar *x) {
  double most = 0;
  for (int64_t i = 0; i < n; ++i) {
    double size = taxicab(x[i]);
    if (!is_finite(size))
      return size;
    most = greater(most, size);
  }
  /* Numbers whose squares neither vanish nor overflow stay as they are. */
  if (most == 0 || (most > 1e-100 && most < 1e100))
    return 1;
  double power = 1;
  while (most * power < 0x1p-60)
    power *= 0x1p60;
  while (most * power > 0x1p60)
    power *= 0x1p-60;
  for (int64_t i = 0; i < n; ++i)
    x[i] *= power;
  return 1 / power;
}

int32_t KILN_LINALG(fail)(const kiln_custom_op_context *context, const char *message) {
  size_t length = strlen(message);
  if (length < context->message_size)
    memcpy(context->message, message, length + 1);
  return KILN_ASSERTION_FAILED;
}

static void decompose_one(void *arg, int64_t i) {
  decomposition *call = arg;
  if (!call->decompose(call, i))
    __atomic_store_n(&call->failed, true, __ATOMIC_RELAXED);
}

int32_t KILN_LINALG(decompose_all)(const kiln_custom_op_context *context, decomposition *call) {
  for_each(context, call->in[0]->shape[0], decompose_one, call);
  if (!call->failed)
    return KILN_OK;
  return KILN_LINALG(fail)(context, "the algorithm failed to converge; a matrix has elements that "
                                    "are not finite, or is ill-conditioned");
}
