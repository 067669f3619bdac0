/* The checks at entry: the program of test/runtime/rows.c with tensors that the input damages. Each run returns a status, and
 * nothing outside of the tensors is touched. */
#include "rows.h"

typedef struct {
  const uint8_t *data;
  size_t size;
} bytes;

static uint8_t take(bytes *from) {
  if (!from->size)
    return 0;
  --from->size;
  return *from->data++;
}

/* A number that is small or extreme. */
static int64_t take_number(bytes *from) {
  static const int64_t extremes[] = {-1,        0,         1,         7,         8,
                                     9,         64,        65,        100000,    100001,
                                     INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_MAX / 4};
  uint8_t choice = take(from);
  return choice < 128 ? choice % 10 : extremes[choice % (sizeof extremes / sizeof *extremes)];
}

/* Changes one field. Data stay where they are, or become null or unaligned: a host that passes other addresses is beyond help. */
static void damage(tensor *x, bytes *from) {
  switch (take(from) % 12) {
  case 0:
    x->t.ndim = (int32_t)take_number(from);
    if (x->t.ndim > 4) /* sizes that are there to read */
      x->t.ndim = 65 + x->t.ndim % 1000;
    break;
  case 1:
    x->shape[take(from) % 4] = take_number(from);
    break;
  case 2:
    set_strides(x, take_number(from), take_number(from));
    break;
  case 3:
    x->t.dtype.code = take(from);
    break;
  case 4:
    x->t.dtype.bits = take(from);
    break;
  case 5:
    x->t.dtype.lanes = take(from);
    break;
  case 6:
    x->t.device.device_type = (DLDeviceType)take(from);
    break;
  case 7:
    x->t.device.device_id = (int32_t)take_number(from);
    break;
  case 8:
    x->t.data = NULL;
    break;
  case 9:
    if (x->t.data) /* unaligned for every dtype here */
      x->t.data = (void *)((uintptr_t)x->t.data | (1 + take(from) % 3));
    break;
  case 10:
    x->t.shape = NULL;
    break;
  default:
    x->t.strides = NULL;
  }
}

static kiln_model *model;

static void destroy(void) { kiln_model_destroy(model); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!model) {
    kiln_options options = quiet_options(1);
    CHECK_OK(kiln_model_create(&options, &model));
    atexit(destroy);
  }
  bytes from = {data, size};
  arguments a;
  make_arguments(&a, 1 + take(&from) % 8);
  tensor *tensors[] = {&a.x, &a.ids, &a.state, &a.scale};
  uint8_t kind = take(&from);
  bool is_whole = kind % 8 == 0;
  for (int i = 0; !is_whole && i < 1 + kind % 3; ++i)
    damage(tensors[take(&from) % 4], &from);
  if (a.x.t.shape && a.x.shape[0] > a.rows)
    a.x.shape[0] = a.rows;
  if (a.ids.t.shape && a.ids.shape[0] > a.rows)
    a.ids.shape[0] = a.rows;
  /* A tensor that claims more memory than there is is the host's fault, unless that is more than an address space. */
  const int64_t elements[] = {COLUMNS * a.rows, a.rows, 16, 1};
  for (int i = 0; i < INPUTS; ++i) {
    const DLTensor *t = &tensors[i]->t;
    __int128 last = 0;
    for (int d = 0; t->shape && t->strides && d < t->ndim && t->ndim <= 4; ++d)
      last += ((__int128)t->shape[d] - 1) * t->strides[d];
    if (last >= elements[i] && last <= INT64_MAX / 8)
      tensors[i]->t.strides = NULL;
  }
  size_t num_inputs = take(&from) % 16 == 1 ? (size_t)take_number(&from) : INPUTS;
  size_t num_outputs = take(&from) % 16 == 1 ? (size_t)take_number(&from) : OUTPUTS;
  if (take(&from) % 16 == 1)
    a.inputs[take(&from) % INPUTS] = NULL;
  for (int i = 0; i < 16; ++i)
    a.ids_data[i % a.rows] =
        i < a.rows ? (int64_t)(int8_t)take(&from) % 12 : a.ids_data[i % a.rows];
  int32_t status = kiln_model_run(model, a.inputs, num_inputs, a.outputs, num_outputs, NULL);
  CHECK(status >= KILN_OK && status < KILN_INTERNAL);
  CHECK(status == KILN_OK || *kiln_last_error());
  for (int i = 0; status != KILN_OK && i < OUTPUTS; ++i)
    CHECK(!a.outputs[i]);
  free_arguments(&a);
  return 0;
}
