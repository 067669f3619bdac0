/* Runs a model on an image of ones and prints its scores. */
#include "kiln-c/model.h"

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library) {
    fprintf(stderr, "usage: %s MODEL.so (%s)\n", argv[0], argc == 2 ? dlerror() : "no model");
    return 2;
  }
  kiln_model_create_fn create = (kiln_model_create_fn)dlsym(library, "kiln_model_create");
  kiln_model_run_fn run = (kiln_model_run_fn)dlsym(library, "kiln_model_run");
  kiln_model_destroy_fn destroy = (kiln_model_destroy_fn)dlsym(library, "kiln_model_destroy");
  if (!create || !run || !destroy) {
    fprintf(stderr, "%s is not a model\n", argv[1]);
    return 2;
  }

  kiln_model *model;
  if (create(NULL, &model) != KILN_OK)
    return 1; /* the message is on stderr */

  float image[3 * 8 * 8];
  for (int i = 0; i < 3 * 8 * 8; ++i)
    image[i] = 1;
  int64_t shape[] = {1, 3, 8, 8};
  DLTensor input = {
      .data = image, .device = {kDLCPU, 0}, .ndim = 4, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  const DLTensor *inputs[] = {&input};
  DLManagedTensorVersioned *outputs[] = {NULL};
  if (run(model, inputs, 1, outputs, 1, NULL) != KILN_OK)
    return 1;

  const float *scores = outputs[0]->dl_tensor.data;
  for (int64_t i = 0; i < outputs[0]->dl_tensor.shape[1]; ++i)
    printf("%.6f\n", scores[i]);
  outputs[0]->deleter(outputs[0]);
  destroy(model);
  dlclose(library);
  return 0;
}
