/* A host that gives models communicators of NCCL: nccl_host MODEL DRIVER NCCL, with RANK one of four processes, WORLD_SIZE and a file
 * KILN_NCCL_ID_FILE by which they meet. Processes 0 and 1 are one group of the program, 2 and 3 another one; with GROUP=4 all are one. Each runs the model on 4 x 3
 * floats that are its rank, three times, and prints an element. */
#include "collectives/nccl.h"
#include "kiln-c/model.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int asked;

static void *communicator(void *ctx, const char *group, int64_t size) {
  if (strcmp(group, "0") == 0 && size == 2)
    ++asked;
  return ctx;
}

static ncclUniqueId meet(int rank, int size, ncclResult_t (*make)(ncclUniqueId *)) {
  char name[4096], draft[4096 + 16];
  ncclUniqueId id;
  snprintf(name, sizeof name, "%s.%d", getenv("KILN_NCCL_ID_FILE"), rank / size);
  snprintf(draft, sizeof draft, "%s.draft", name);
  FILE *file = NULL;
  if (rank % size == 0) {
    make(&id);
    file = fopen(draft, "wb");
    fwrite(&id, sizeof id, 1, file);
    fclose(file);
    rename(draft, name);
    return id;
  }
  while (!file)
    file = fopen(name, "rb");
  if (fread(&id, sizeof id, 1, file) != 1)
    exit(2);
  fclose(file);
  return id;
}

static void *find(void *library, const char *name) {
  void *symbol = library ? dlsym(library, name) : NULL;
  if (!symbol)
    exit(3);
  return symbol;
}

int main(int argc, char **argv) {
  int rank = atoi(getenv("RANK")), size = getenv("GROUP") ? atoi(getenv("GROUP")) : 2;
  void *context, *driver = dlopen(argv[argc - 2], RTLD_NOW),
                 *nccl = dlopen(argv[argc - 1], RTLD_NOW);
  int (*retain)(void **, int), (*push)(void *), (*start)(unsigned);
  ncclResult_t (*make_id)(ncclUniqueId *);
  ncclResult_t (*make)(ncclComm_t *, int, ncclUniqueId, int);
  *(void **)&start = find(driver, "cuInit");
  *(void **)&retain = find(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&push = find(driver, "cuCtxPushCurrent_v2");
  *(void **)&make_id = find(nccl, "ncclGetUniqueId");
  *(void **)&make = find(nccl, "ncclCommInitRank");
  ncclComm_t comm;
  if (start(0) || retain(&context, 0) || push(context) ||
      make(&comm, size, meet(rank, size, make_id), rank % size))
    return 4;

  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  kiln_model_create_fn create;
  kiln_model_run_fn run;
  kiln_model_destroy_fn destroy;
  *(void **)&create = find(library, "kiln_model_create");
  *(void **)&run = find(library, "kiln_model_run");
  *(void **)&destroy = find(library, "kiln_model_destroy");
  kiln_options options = {.struct_size = sizeof options,
                          .communicator = communicator,
                          .communicator_ctx = comm,
                          .collective_timeout = 60000};
  kiln_model *model;
  int32_t status = create(&options, &model);

  float x[12];
  for (int i = 0; i < 12; ++i)
    x[i] = (float)rank;
  int64_t shape[2] = {4, 3};
  DLTensor input = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  const DLTensor *inputs[1] = {&input};
  DLManagedTensorVersioned *outputs[1] = {NULL};
  for (int i = 0; i < 3 && status == KILN_OK; ++i) {
    if (outputs[0])
      outputs[0]->deleter(outputs[0]);
    outputs[0] = NULL;
    status = run(model, inputs, 1, outputs, 1, NULL);
  }
  if (status == KILN_OK && asked == 1)
    printf("rank %d: %g\n", rank, ((float *)outputs[0]->dl_tensor.data)[11]);
  if (outputs[0])
    outputs[0]->deleter(outputs[0]);
  destroy(model);
  return status;
}
