/* Measures what the runtime costs: `runtime-overhead [THREADS]`. Not a test: its
 * numbers depend on the machine and on what else runs there. */
#include "harness.h"

#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { REPEATS = 51 };

/* The median time of a call, in ns, over batches of `batch` calls. */
static double measure(kiln_model *model, int64_t launches, int64_t grid, int batch,
                      DLManagedTensorVersioned *given) {
  float x_data[8] = {0};
  int64_t plan_data[2] = {launches, grid};
  tensor x, plan;
  set_tensor(&x, x_data, DTYPE_F32, 1, 8, 0);
  set_tensor(&plan, plan_data, DTYPE_I64, 1, 2, 0);
  const DLTensor *inputs[] = {&x.t, &plan.t};
  double times[REPEATS];
  for (int r = 0; r < REPEATS; ++r) {
    double start = now();
    for (int i = 0; i < batch; ++i) {
      DLManagedTensorVersioned *output = given;
      CHECK_OK(kiln_model_run(model, inputs, 2, &output, 1, NULL));
      if (!given)
        output->deleter(output);
    }
    times[r] = (now() - start) / batch;
  }
  qsort(times, REPEATS, sizeof *times, compare);
  return times[REPEATS / 2];
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 0;
  kiln_options options = {0};
  options.struct_size = sizeof options;
  options.num_threads = threads;
  kiln_model *model;
  CHECK_OK(kiln_model_create(&options, &model));
  float y_data[8];
  tensor y;
  DLManagedTensorVersioned managed;
  set_tensor(&y, y_data, DTYPE_F32, 1, 8, 0);
  set_managed(&managed, &y);
  printf("call, output allocated:    %8.0f ns\n", measure(model, 0, 1, 10000, NULL));
  printf("call, output given:        %8.0f ns\n", measure(model, 0, 1, 10000, &managed));
  for (int grid = 1; grid <= 1024; grid = grid < 4 ? grid + 1 : grid * 4)
    printf("launch of %4d empty tasks: %8.0f ns\n", grid,
           measure(model, 1000, grid, 10, &managed) / 1000);
  kiln_model_destroy(model);
  return 0;
}
