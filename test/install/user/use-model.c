/* Loads a model and prints what it says of itself. */
#include "kiln-c/custom_op.h"
#include "kiln-c/model.h"
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library)
    return 1;
  kiln_abi_version_fn version = (kiln_abi_version_fn)dlsym(library, "kiln_abi_version");
  kiln_model_info_fn info = (kiln_model_info_fn)dlsym(library, "kiln_model_info");
  kiln_model_create_fn create = (kiln_model_create_fn)dlsym(library, "kiln_model_create");
  kiln_model_destroy_fn destroy = (kiln_model_destroy_fn)dlsym(library, "kiln_model_destroy");
  kiln_model *model = NULL;
  if (version() != KILN_ABI_VERSION || create(NULL, &model) != KILN_OK)
    return 1;
  puts(info());
  destroy(model);
  return 0;
}
