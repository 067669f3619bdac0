/* Custom operators: what a C function is given, threads, and failures. */
#include "../../runtime/runtime.h"
#include "harness.h"

static int calls_made;

static void count_task(void *arg, int64_t i) {
  __atomic_fetch_add(&((int *)arg)[i], 1, __ATOMIC_RELAXED);
}

static void check_scalar(const DLTensor *tensor, DLDataTypeCode code, int bits) {
  CHECK(tensor->ndim == 0 && tensor->dtype.code == code && tensor->dtype.bits == bits &&
        tensor->device.device_type == kDLCPU && tensor->byte_offset == 0);
}

int32_t add(const DLTensor *const *in, size_t num_inputs, const DLTensor *const *out,
            size_t num_outputs, const kiln_custom_op_context *context) {
  CHECK(num_inputs == 8 && num_outputs == 1 && context->struct_size == sizeof *context);
  CHECK(!context->stream && !context->message[0]);

  CHECK(in[0]->ndim == 1 && in[0]->shape[0] == 4 && in[0]->strides[0] == 1);
  check_scalar(in[1], kDLFloat, 64);
  CHECK(*(const double *)in[1]->data == 2.5);
  CHECK(in[2]->ndim == 1 && in[2]->shape[0] == 2 && in[2]->strides[0] == 1 &&
        in[2]->dtype.code == kDLInt);
  CHECK(((const int64_t *)in[2]->data)[0] == 7 && ((const int64_t *)in[2]->data)[1] == 4);
  CHECK(!in[3]);
  CHECK(in[4]->ndim == 1 && in[4]->shape[0] == 4 && in[4]->dtype.code == kDLUInt &&
        in[4]->dtype.bits == 8 && memcmp(in[4]->data, "name", 4) == 0);
  check_scalar(in[5], kDLComplex, 128);
  CHECK(((const double *)in[5]->data)[0] == 1 && ((const double *)in[5]->data)[1] == 2);
  check_scalar(in[6], kDLBool, 8);
  CHECK(*(const uint8_t *)in[6]->data == 1);
  check_scalar(in[7], kDLFloat, 32);

  float item = *(const float *)in[7]->data, *x = in[0]->data;
  if (item == -1)
    return -5;
  if (item == -2) {
    memset(context->message, 'x', context->message_size);
    return KILN_ASSERTION_FAILED;
  }
  int calls[1000] = {0};
  context->parallel_for(context->parallel_ctx, 1000, count_task, calls);
  for (int i = 0; i < 1000; ++i)
    CHECK(calls[i] == 1);
  ++calls_made;
  float total = 0;
  for (int i = 0; i < 4; ++i)
    total += x[i] += item;
  *(float *)out[0]->data = total;
  return KILN_OK;
}

static int32_t run(kiln_model *model, float first, float *y, float *total) {
  float x[4] = {first, 2, 3, 4};
  tensor input, result, sum;
  set_tensor(&input, x, DTYPE_F32, 1, 4, 0);
  set_tensor(&result, y, DTYPE_F32, 1, 4, 0);
  set_tensor(&sum, total, DTYPE_F32, 0, 0, 0);
  DLManagedTensorVersioned managed[2], *outputs[2] = {&managed[0], &managed[1]};
  set_managed(&managed[0], &result);
  set_managed(&managed[1], &sum);
  const DLTensor *inputs[1] = {&input.t};
  int32_t status = kiln_model_run(model, inputs, 1, outputs, 2, NULL);
  CHECK(x[0] == first && x[3] == 4); /* it has written to a copy */
  return status;
}

/*===-- Memory that does not copy, and kinds of arguments -----------------------===*/

static int copies;
static int32_t copy_fails(kiln_rt_run *run, void *to, const int64_t *to_strides, const void *from,
                          const int64_t *from_strides, const int64_t *sizes, int64_t rank,
                          int64_t item) {
  (void)run, (void)to, (void)to_strides, (void)from, (void)from_strides, (void)sizes, (void)rank;
  (void)item;
  ++copies;
  return KILN_DEVICE_ERROR;
}
static int32_t read_fails(kiln_rt_run *run, void *to, const void *from, int64_t bytes) {
  (void)run, (void)to, (void)from, (void)bytes;
  return KILN_DEVICE_ERROR;
}
static int32_t start(kiln_rt_run *run) {
  (void)run;
  return KILN_OK;
}

/* A tensor that is updated, then text of three kinds. */
static int32_t take(const DLTensor *const *in, size_t num_inputs, const DLTensor *const *out,
                    size_t num_outputs, const kiln_custom_op_context *context) {
  (void)out, (void)context;
  CHECK(num_inputs == 4 && num_outputs == 0);
  static const char *const texts[] = {NULL, "cuda:1", "strided", "channels_last"};
  for (int i = 1; i < 4; ++i)
    CHECK(in[i]->ndim == 1 && in[i]->shape[0] == (int64_t)strlen(texts[i]) &&
          memcmp(in[i]->data, texts[i], strlen(texts[i])) == 0);
  ++((float *)in[0]->data)[0];
  return KILN_INTERNAL + 1;
}

static void test_memory(void) {
  static const kiln_extern_value values[] = {{KILN_EXTERN_TENSOR, 0, 0, NULL},
                                             {KILN_EXTERN_DEVICE, 0, 0, "cuda:1"},
                                             {KILN_EXTERN_LAYOUT, 0, 0, "strided"},
                                             {KILN_EXTERN_MEMORY_FORMAT, 0, 0, "channels_last"},
                                             {KILN_EXTERN_ITEM, 0, 0, NULL}};
  static const kiln_extern_tensor tensors[] = {{2, 32, 1}, {2, 32, 1}};
  static const int64_t updates[] = {0};
  kiln_extern_call call = {.callee = "take",
                           .where = "node 'take'",
                           .args = values,
                           .tensors = tensors,
                           .updates = updates,
                           .num_args = 4,
                           .num_values = 5,
                           .num_operands = 1,
                           .num_results = 1,
                           .num_updates = 1};
  const kiln_custom_memory memory = {{kDLCPU, 0}, NULL, copy_fails, read_fails, start};
  float x[4] = {1}, y[4] = {0};
  const int64_t numbers[] = {4, 1, 4, 1};
  void *const together[] = {x, x}, *const apart[] = {x, y};
  CHECK_FAILS(kiln_call_custom(NULL, &call, take, together, numbers, &memory), KILN_INTERNAL,
              "node 'take': take returned status");
  CHECK(copies == 0 && x[0] == 2); /* it is the result already */
  CHECK(kiln_call_custom(NULL, &call, take, apart, numbers, &memory) == KILN_DEVICE_ERROR);
  CHECK(copies == 1 && x[0] == 2);
  call.num_args = 5;
  CHECK(kiln_call_custom(NULL, &call, take, together, numbers, &memory) == KILN_DEVICE_ERROR);
  CHECK(x[0] == 2);
}

int main(void) {
  test_memory();
  for (int threads = 1; threads <= 3; ++threads) {
    kiln_options options = quiet_options(threads);
    kiln_model *model;
    CHECK_OK(kiln_model_create(&options, &model));
    float y[4], total;
    CHECK_OK(run(model, 1, y, &total));
    CHECK(y[0] == 2 && y[1] == 3 && y[3] == 5 && total == 14);
    CHECK_FAILS(run(model, -1, y, &total), KILN_INTERNAL,
                "node 'add' (model.py:3): add returned status -5");
    CHECK_FAILS(run(model, -2, y, &total), KILN_ASSERTION_FAILED,
                "node 'add' (model.py:3): add: xxxxx");
    CHECK_OK(run(model, 3, y, &total));
    CHECK(y[0] == 6 && total == 24);
    kiln_model_destroy(model);
  }
  CHECK(calls_made == 6);
  return 0;
}
