/* Failing calls of the system: threads, copies, large blocks, profiles, a host's parallel_for. */
#include "faults.h"
#include "rows.h"

enum { ROWS = 70000 }; /* copies of more than 4 MB */

static void note(void *ctx, const kiln_profile_event *event) { (void)ctx, (void)event; }

static void serial_for(void *ctx, int64_t n, void (*body)(void *, int64_t), void *arg) {
  (void)ctx;
  for (int64_t i = 0; i < n; ++i)
    body(arg, i);
}

static void use(const kiln_options *options, int64_t rows) {
  kiln_model *model = NULL;
  STEP(kiln_model_create(options, &model));
  static float x[COLUMNS * ROWS], t[COLUMNS * ROWS];
  arguments a;
  make_arguments(&a, rows);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < COLUMNS; ++c)
      x[c * rows + r] = x_value(r, c);
  a.x.t.data = x;
  set_strides(&a.x, 1, rows);
  tensor given;
  DLManagedTensorVersioned managed;
  set_tensor(&given, t, DTYPE_F32, 2, COLUMNS, rows);
  set_strides(&given, rows, 1);
  set_managed(&managed, &given);
  a.outputs[3] = &managed;
  STEP(run(model, &a));
  CHECK(outputs_right(&a));

  float w[2 * COLUMNS] = {0};
  for (int c = 0; c < COLUMNS; ++c)
    w[2 * c] = (float)(c + 1);
  tensor value;
  set_tensor(&value, w, DTYPE_F32, 1, COLUMNS, 0);
  set_strides(&value, 2, 0);
  STEP(kiln_model_set_constant(model, "w", &value.t));
  a.outputs[3] = NULL;
  free_outputs(&a);
  STEP(run(model, &a));
  CHECK(outputs_right(&a));
  free_arguments(&a);
  STEP_VOID(kiln_model_destroy(model));
}

void set_up(int argc, char **argv) { (void)argc, (void)argv; }

void scenario(void) {
  kiln_options options = quiet_options(3);
  use(&options, ROWS);
  options.num_threads = 0;
  options.profile = note;
  use(&options, 3);
  options.parallel_for = serial_for;
  use(&options, 3);
}
