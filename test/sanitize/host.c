/* Runs a model on tensors of a file, each in a block of memory of its own, and writes its outputs to another: a host that sanitizers
 * can be built into.
 *   host MODEL.so INPUTS OUTPUTS THREADS RUNS      or: host MODEL.so, which prints the model's description
 * A file has the number of tensors, then of each its DLPack code, bits, rank, sizes, strides and bytes as int64, and the bytes from the
 * first element past the last. A rank of -1 is an output that is None. */
#include "kiln-c/model.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
  fprintf(stderr, "host: %s\n", what);
  exit(3);
}

static int64_t read_number(FILE *file) {
  int64_t number;
  if (fread(&number, sizeof number, 1, file) != 1)
    fail("the inputs end early");
  return number;
}

static DLTensor *read_tensor(FILE *file) {
  DLTensor *t = calloc(1, sizeof *t);
  t->device.device_type = kDLCPU;
  t->dtype.code = (uint8_t)read_number(file);
  t->dtype.bits = (uint8_t)read_number(file);
  t->dtype.lanes = 1;
  t->ndim = (int32_t)read_number(file);
  t->shape = calloc((size_t)t->ndim + 1, sizeof(int64_t));
  t->strides = calloc((size_t)t->ndim + 1, sizeof(int64_t));
  for (int d = 0; d < t->ndim; ++d)
    t->shape[d] = read_number(file);
  for (int d = 0; d < t->ndim; ++d)
    t->strides[d] = read_number(file);
  size_t bytes = (size_t)read_number(file);
  if (posix_memalign(&t->data, 16, bytes))
    fail("out of memory");
  if (bytes && fread(t->data, bytes, 1, file) != 1)
    fail("the inputs end early");
  return t;
}

static void write_number(FILE *file, int64_t number) { fwrite(&number, sizeof number, 1, file); }

/* The elements from dimension `d` on, without what is between them. */
static void write_elements(FILE *file, const DLTensor *t, const char *data, int d) {
  size_t item = t->dtype.bits / 8u;
  if (d == t->ndim) {
    fwrite(data, item, 1, file);
    return;
  }
  for (int64_t i = 0; i < t->shape[d]; ++i)
    write_elements(file, t, data + i * (t->strides ? t->strides[d] : 0) * (int64_t)item, d + 1);
}

static void write_output(FILE *file, const DLManagedTensorVersioned *output) {
  if (!output) {
    write_number(file, 0);
    write_number(file, 0);
    write_number(file, -1);
    return;
  }
  const DLTensor *t = &output->dl_tensor;
  write_number(file, t->dtype.code);
  write_number(file, t->dtype.bits);
  write_number(file, t->ndim);
  bool is_empty = false;
  for (int d = 0; d < t->ndim; ++d) {
    write_number(file, t->shape[d]);
    is_empty |= t->shape[d] == 0;
  }
  if (!is_empty) /* which may have no memory */
    write_elements(file, t, (const char *)t->data + t->byte_offset, 0);
}

int main(int argc, char **argv) {
  if (argc != 6 && argc != 2)
    fail("usage: host MODEL.so [INPUTS OUTPUTS THREADS RUNS]");
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(dlerror());
  if (argc == 2)
    return puts(((const char *(*)(void))dlsym(library, "kiln_model_info"))()) < 0;
  kiln_model_create_fn create = (kiln_model_create_fn)dlsym(library, "kiln_model_create");
  kiln_model_run_fn run = (kiln_model_run_fn)dlsym(library, "kiln_model_run");
  kiln_model_destroy_fn destroy = (kiln_model_destroy_fn)dlsym(library, "kiln_model_destroy");
  const char *(*last_error)(void) = (const char *(*)(void))dlsym(library, "kiln_last_error");
  FILE *in = fopen(argv[2], "rb");
  if (!in)
    fail("cannot read the inputs");
  size_t num_inputs = (size_t)read_number(in), num_outputs = (size_t)read_number(in);
  const DLTensor **inputs = calloc(num_inputs + 1, sizeof *inputs);
  for (size_t i = 0; i < num_inputs; ++i)
    inputs[i] = read_tensor(in);
  fclose(in);
  kiln_options options = {.struct_size = sizeof options, .num_threads = atoi(argv[4])};
  kiln_model *model;
  if (create(&options, &model) != KILN_OK)
    fail(last_error());
  DLManagedTensorVersioned **outputs = calloc(num_outputs + 1, sizeof *outputs);
  FILE *out = fopen(argv[3], "wb");
  if (!out)
    fail("cannot write the outputs");
  for (int i = 0, runs = atoi(argv[5]); i < runs; ++i) {
    if (run(model, inputs, num_inputs, outputs, num_outputs, NULL) != KILN_OK)
      fail(last_error());
    for (size_t o = 0; o < num_outputs; ++o) {
      if (i == 0)
        write_output(out, outputs[o]);
      if (outputs[o])
        outputs[o]->deleter(outputs[o]);
      outputs[o] = NULL;
    }
  }
  destroy(model);
  for (size_t i = 0; i < num_inputs; ++i) {
    free(inputs[i]->data);
    free(inputs[i]->shape);
    free(inputs[i]->strides);
    free((void *)inputs[i]);
  }
  free(inputs);
  free(outputs);
  return fclose(out) ? 3 : 0;
}
