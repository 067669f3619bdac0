/* Failing calls of the system: a C function that the model calls. */
#include "faults.h"
#include "kiln-c/custom_op.h"

void set_up(int argc, char **argv) { (void)argc, (void)argv; }

static void nothing(void *arg, int64_t i) { (void)arg, (void)i; }

int32_t add(const DLTensor *const *in, size_t num_inputs, const DLTensor *const *out,
            size_t num_outputs, const kiln_custom_op_context *context);
int32_t add(const DLTensor *const *in, size_t num_inputs, const DLTensor *const *out,
            size_t num_outputs, const kiln_custom_op_context *context) {
  (void)num_inputs, (void)num_outputs;
  context->parallel_for(context->parallel_ctx, 10, nothing, NULL);
  *(float *)out[0]->data = ((const float *)in[0]->data)[3];
  return KILN_OK;
}

void scenario(void) {
  kiln_options options = quiet_options(3);
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  float x[4] = {1, 2, 3, 4};
  tensor input;
  set_tensor(&input, x, DTYPE_F32, 1, 4, 0);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {NULL, NULL};
  STEP(kiln_model_run(model, inputs, 1, outputs, 2, NULL));
  CHECK(*(const float *)outputs[1]->dl_tensor.data == 4);
  outputs[0]->deleter(outputs[0]);
  outputs[1]->deleter(outputs[1]);
  STEP_VOID(kiln_model_destroy(model));
}
