/* A host that gives models communicators: mpirun -n 4 mpi_host MODEL. Processes 0 and 1 are one group of the program, 2 and 3 another
 * one. Each runs the model on 4 x 3 floats that are its rank, three times, and prints a sum; then again with another communicator, in
 * which they are in the other order, and which may have the address of the one before. With MPI's headers missing where only
 * its libraries are installed, what is used of them is declared here. */
#include "kiln-c/model.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern char ompi_mpi_comm_world;
int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Comm_rank(void *comm, int *rank);
int MPI_Comm_split(void *comm, int color, int key, void **made);
int MPI_Comm_free(void **comm);

static int asked;

static void *communicator(void *ctx, const char *group, int64_t size) {
  if (strcmp(group, "0") == 0 && size == 2)
    ++asked;
  return ctx;
}

int main(int argc, char **argv) {
  int rank;
  void *pair;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(&ompi_mpi_comm_world, &rank);

  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  kiln_model_create_fn create;
  kiln_model_run_fn run;
  kiln_model_destroy_fn destroy;
  *(void **)&create = dlsym(library, "kiln_model_create");
  *(void **)&run = dlsym(library, "kiln_model_run");
  *(void **)&destroy = dlsym(library, "kiln_model_destroy");
  kiln_options options = {.struct_size = sizeof options, .num_threads = 1};
  options.communicator = communicator;
  options.collective_timeout = 20000;
  int32_t status = KILN_OK;

  float x[12];
  for (int i = 0; i < 12; ++i)
    x[i] = (float)rank;
  int64_t shape[2] = {4, 3};
  DLTensor input = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  const DLTensor *inputs[1] = {&input};
  for (int round = 0; round < 2 && status == KILN_OK; ++round) {
    kiln_model *model;
    DLManagedTensorVersioned *outputs[1] = {NULL};
    MPI_Comm_split(&ompi_mpi_comm_world, rank / 2, round ? -rank : rank, &pair);
    options.communicator_ctx = pair;
    asked = 0;
    status = create(&options, &model);
    for (int i = 0; i < 3 && status == KILN_OK; ++i)
      status = run(model, inputs, 1, outputs, 1, NULL);
    if (status == KILN_OK && asked == 1)
      printf("rank %d: %g\n", rank, ((float *)outputs[0]->dl_tensor.data)[11]);
    if (outputs[0])
      outputs[0]->deleter(outputs[0]);
    destroy(model);
    MPI_Comm_free(&pair);
  }
  MPI_Finalize();
  return status;
}
