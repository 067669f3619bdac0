/* A host program in plain C: loads a model with dlopen, runs it from several threads, prints the
 * first output. Usage: host MODEL.so VALUE: fills the only input (float32) with VALUE; prints one
 * number a line. */
#include "kiln-c/model.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int32_t (*model_run)(kiln_model *, const DLTensor *const *, size_t,
                            DLManagedTensorVersioned **, size_t, void *);
static kiln_model *model;
static DLTensor input;

static void *find(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (!symbol) {
    fprintf(stderr, "no symbol %s\n", name);
    exit(2);
  }
  return symbol;
}

static void *run_often(void *unused) {
  (void)unused;
  for (int i = 0; i < 200; ++i) {
    const DLTensor *inputs[1] = {&input};
    DLManagedTensorVersioned *outputs[1] = {NULL};
    if (model_run(model, inputs, 1, outputs, 1, NULL) != KILN_OK)
      return (void *)1;
    outputs[0]->deleter(outputs[0]);
  }
  return NULL;
}

static int64_t count(const DLTensor *tensor) {
  int64_t elements = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i)
    elements *= tensor->shape[i];
  return elements;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  uint32_t (*abi_version)(void);
  int32_t (*create)(const kiln_options *, kiln_model **);
  void (*destroy)(kiln_model *);
  const char *(*last_error)(void);
  *(void **)&abi_version = find(library, "kiln_abi_version");
  *(void **)&create = find(library, "kiln_model_create");
  *(void **)&destroy = find(library, "kiln_model_destroy");
  *(void **)&last_error = find(library, "kiln_last_error");
  *(void **)&model_run = find(library, "kiln_model_run");
  if (abi_version() != KILN_ABI_VERSION)
    return 2;

  kiln_options options = {0};
  options.struct_size = sizeof options;
  options.num_threads = 2;
  if (create(&options, &model) != KILN_OK) {
    fprintf(stderr, "%s\n", last_error());
    return 1;
  }

  static float data[3 * 6];
  int64_t shape[2] = {3, 6};
  for (int i = 0; i < 18; ++i)
    data[i] = strtof(argv[2], NULL);
  input.data = data;
  input.device.device_type = kDLCPU;
  input.ndim = 2;
  input.dtype.code = kDLFloat;
  input.dtype.bits = 32;
  input.dtype.lanes = 1;
  input.shape = shape; /* no strides: contiguous */

  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    pthread_create(&threads[i], NULL, run_often, NULL);
  for (int i = 0; i < 4; ++i) {
    void *failed;
    pthread_join(threads[i], &failed);
    if (failed)
      return 1;
  }

  const DLTensor *inputs[1] = {&input};
  DLManagedTensorVersioned *outputs[1] = {NULL};
  if (model_run(model, inputs, 1, outputs, 1, NULL) != KILN_OK) {
    fprintf(stderr, "%s\n", last_error());
    return 1;
  }
  const DLTensor *result = &outputs[0]->dl_tensor;
  for (int64_t i = 0; i < count(result); ++i)
    printf("%.9g\n", ((const float *)result->data)[i]);

  /* The same slot again: written in place. */
  void *before = outputs[0]->dl_tensor.data;
  if (model_run(model, inputs, 1, outputs, 1, NULL) != KILN_OK ||
      outputs[0]->dl_tensor.data != before)
    return 1;
  outputs[0]->deleter(outputs[0]);

  /* A wrong input is a status with a message, and the model still works. */
  shape[1] = 7;
  outputs[0] = NULL;
  if (model_run(model, inputs, 1, outputs, 1, NULL) == KILN_OK || !last_error()[0] || outputs[0])
    return 1;
  shape[1] = 6;
  if (model_run(model, inputs, 1, outputs, 1, NULL) != KILN_OK)
    return 1;
  outputs[0]->deleter(outputs[0]);
  destroy(model);
  return dlclose(library);
}
