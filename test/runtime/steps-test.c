/* Steps that another host runs: their results, and what is wrong with what they are given. */
#include "../../runtime/runtime.h"
#include "harness.h"

enum { ROWS = 1000 };

static float x[ROWS][8], y[ROWS][8], w[8], picked[ROWS];
static int64_t ids[ROWS];
static double scale = 2;
static tensor tensors[6];
static const DLTensor *given[6];

static void set_all(int64_t rows) {
  set_tensor(&tensors[0], x, DTYPE_F32, 2, rows, 8);
  set_tensor(&tensors[1], ids, DTYPE_I64, 1, rows, 0);
  set_tensor(&tensors[2], &scale, DTYPE_F64, 0, 0, 0);
  set_tensor(&tensors[3], w, DTYPE_F32, 1, 8, 0);
  set_tensor(&tensors[4], y, DTYPE_F32, 2, rows, 8);
  set_tensor(&tensors[5], picked, DTYPE_F32, 1, rows, 0);
  for (int i = 0; i < 6; ++i)
    given[i] = &tensors[i].t;
}

static int32_t run(kiln_model *model, int64_t rows) {
  return kiln_steps_run(model, kiln_steps_find("row"), given, 6, &rows, 1);
}

static void check_refusals(kiln_model *model) {
  int64_t rows = ROWS;
  CHECK(kiln_steps_hash() == 77);
  CHECK(kiln_steps_find("another") == -1 && kiln_steps_find(NULL) == -1);
  CHECK_FAILS(kiln_steps_run(model, -1, given, 6, &rows, 1), KILN_INVALID_ARGUMENT, "3 steps");
  CHECK_FAILS(kiln_steps_run(model, 3, given, 6, &rows, 1), KILN_INVALID_ARGUMENT, "3 steps");
  CHECK_FAILS(kiln_steps_run(NULL, 0, given, 6, &rows, 1), KILN_INVALID_ARGUMENT, "got NULL");
  CHECK_FAILS(kiln_steps_run(model, 0, given, 5, &rows, 1), KILN_INVALID_ARGUMENT,
              "row: expected 6 buffers and 1 symbols, got 5 and 1");
  CHECK_FAILS(kiln_steps_run(model, 0, NULL, 6, &rows, 1), KILN_INVALID_ARGUMENT, "got 0 and 1");
  CHECK_FAILS(kiln_steps_run(model, 0, given, 6, NULL, 1), KILN_INVALID_ARGUMENT, "got 6 and 0");
  CHECK_FAILS(kiln_steps_run(model, 2, NULL, 0, NULL, 0), 3, "failing failed with status 3");
  CHECK_FAILS(run(model, 0), KILN_INVALID_ARGUMENT, "row: expected s0 in [1, 100000], got 0");
  CHECK_FAILS(run(model, 100001), KILN_INVALID_ARGUMENT, "got 100001");
  CHECK_FAILS(kiln_steps_run(model, 0, given, 6, &rows, 2), KILN_INVALID_ARGUMENT, "got 6 and 2");
  CHECK_FAILS(run(model, ROWS - 1), KILN_SHAPE_MISMATCH, "expected float32 [s0, 8] = [999, 8]");
  given[4] = NULL;
  CHECK_FAILS(run(model, ROWS), KILN_INVALID_ARGUMENT, "buffer 4 \"row\": expected a tensor");
  set_all(ROWS);
  set_strides(&tensors[4], 1, ROWS);
  CHECK_FAILS(run(model, ROWS), KILN_INVALID_ARGUMENT, "expected a contiguous tensor");
  set_all(ROWS);
  tensors[0].t.dtype = DTYPE_F64;
  CHECK_FAILS(run(model, ROWS), KILN_INVALID_ARGUMENT, "buffer 0 \"row\": expected float32");
  set_all(ROWS);
  ids[5] = 8;
  CHECK_FAILS(run(model, ROWS), KILN_INVALID_ARGUMENT, "index out of range");
  ids[5] = 0;
  CHECK_OK(run(model, ROWS));
}

static void check_reads(kiln_model *model) {
  float read[8] = {0};
  CHECK_OK(kiln_steps_read(model, 0, sizeof read, read));
  CHECK(read[0] == 1 && read[7] == 8);
  CHECK_OK(kiln_steps_wait(model)); /* a CPU has nothing to wait for */
  CHECK_OK(kiln_steps_read(model, sizeof read, 0, NULL));
  CHECK_FAILS(kiln_steps_read(model, 4, sizeof read, read), KILN_INVALID_ARGUMENT, "32 bytes");
  CHECK_FAILS(kiln_steps_read(model, UINT64_MAX, 8, read), KILN_INVALID_ARGUMENT, "32 bytes");
  CHECK_FAILS(kiln_steps_read(model, 0, 4, NULL), KILN_INVALID_ARGUMENT, "32 bytes");
  CHECK_FAILS(kiln_steps_read(NULL, 0, 4, read), KILN_INVALID_ARGUMENT, "expected a model");
}

int main(void) {
  for (int i = 0; i < ROWS; ++i) {
    ids[i] = i % 8;
    for (int c = 0; c < 8; ++c)
      x[i][c] = (float)(8 * i + c);
  }
  for (int threads = 1; threads <= 3; ++threads) {
    kiln_options options = quiet_options(threads);
    kiln_model *model;
    CHECK_OK(kiln_model_create(&options, &model));
    set_all(ROWS);
    w[3] = 7;
    CHECK_OK(run(model, ROWS));
    for (int i = 0; i < ROWS; ++i)
      CHECK(y[i][3] == 2 * x[i][3] + 7 && y[i][4] == 2 * x[i][4] && picked[i] == x[i][ids[i]]);
    check_refusals(model);
    check_reads(model);
    kiln_model_destroy(model);
  }
  return 0;
}
