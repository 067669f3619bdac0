/* Buffers on a GPU, which a driver plays: a model's own, and those of sessions. */
#include "gpu-harness.h"

/* Runs that change the model follow each other, whatever their streams do. */
static void test_state(void) {
  use_state(true);
  kiln_model *model = create(0);
  CUstream streams[2];
  arguments a[6];
  for (int i = 0; i < 2; ++i)
    CHECK_CUDA(cuda->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 6; ++i) {
    make_arguments(&a[i], 100, 0);
    set_input(&a[i], i, streams[i % 2]);
    CHECK_OK(run(model, &a[i], streams[i % 2]));
  }
  for (int i = 5; i >= 0; --i) {
    float y;
    CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(&y, a[i].y, sizeof y, streams[i % 2]));
    CHECK(y == x_value(0, i) + 4 + weight(0) + (float)(i + 1));
  }
  for (int i = 0; i < 6; ++i)
    free_arguments(&a[i]);
  for (int i = 0; i < 2; ++i)
    CHECK_CUDA(cuda->cuStreamDestroy_v2(streams[i]));
  kiln_model_destroy(model);
  use_state(false);
}

/* One run of a session on a stream; the first number that it gives. */
static float run_session(kiln_session *session, arguments *a, CUstream stream) {
  const DLTensor *inputs[] = {&a->input.t};
  DLManagedTensorVersioned *outputs[] = {&a->managed};
  set_input(a, 0, stream);
  CHECK_OK(kiln_session_run(session, 0, inputs, 1, outputs, 1, stream));
  float y;
  CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(&y, a->y, sizeof y, stream));
  CHECK_CUDA(cuda->cuStreamSynchronize(stream));
  return y - x_value(0, 0) - 4 - weight(0);
}

/* Sessions have buffers of their own on the GPU; a run adds 1 to each element. */
static void test_sessions(void) {
  use_state(true);
  kiln_model *model = create(0);
  size_t before = memory_in_use(false);
  kiln_session *first = NULL, *second = NULL, *clone = NULL;
  CHECK_OK(kiln_session_create(model, &first));
  CHECK(memory_in_use(false) - before == 4 * (size_t)WEIGHTS);
  CHECK_OK(kiln_session_create(model, &second));
  CUstream streams[2];
  for (int i = 0; i < 2; ++i)
    CHECK_CUDA(cuda->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  arguments a;
  make_arguments(&a, 100, 0);
  for (int i = 0; i < 6; ++i)
    CHECK(run_session(first, &a, streams[i % 2]) == (float)(i + 1));
  CHECK(run_session(second, &a, NULL) == 1);
  CHECK_OK(kiln_session_clone(first, &clone));
  CHECK(run_session(clone, &a, streams[0]) == 7 && run_session(first, &a, streams[1]) == 7);
  CHECK_OK(kiln_session_reset(first));
  CHECK(run_session(first, &a, streams[0]) == 1 && run_session(clone, &a, streams[1]) == 8);
  kiln_session_destroy(clone);
  kiln_session_destroy(second);
  set_input(&a, 0, NULL);
  CHECK_OK(run(model, &a, NULL)); /* the model's own */
  CHECK(run_session(first, &a, NULL) == 2);
  free_arguments(&a);
  kiln_model_destroy(model);
  CHECK(memory_in_use(false) <= before);
  CHECK_FAILS(kiln_session_reset(first), KILN_INVALID_ARGUMENT, "model has been destroyed");
  kiln_session_destroy(first);
  for (int i = 0; i < 2; ++i)
    CHECK_CUDA(cuda->cuStreamDestroy_v2(streams[i]));
  use_state(false);
}

/* A buffer's value is for sessions that are made or reset later, and for the model's own runs, which
 * have not had any before. */
static void test_values(void) {
  float y, five = weight(0) + 5;
  use_state(true);
  kiln_model *model = create(0);
  kiln_session *before = NULL, *after = NULL;
  CHECK_OK(kiln_session_create(model, &before));
  tensor value;
  float ten = weight(0) + 10;
  set_tensor(&value, &ten, DTYPE_F32, 1, WEIGHTS, 0);
  set_strides(&value, 0, 0);
  CHECK_OK(kiln_model_set_constant(model, "weights", &value.t));
  CHECK_OK(kiln_session_create(model, &after));
  arguments a;
  make_arguments(&a, 100, 0);
  CHECK(run_session(before, &a, NULL) == 1 && run_session(after, &a, NULL) == 11);
  CHECK_OK(kiln_session_reset(before));
  CHECK(run_session(before, &a, NULL) == 11);
  CHECK_OK(run(model, &a, NULL));
  CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(&y, a.y, sizeof y, NULL));
  CHECK_CUDA(cuda->cuStreamSynchronize(NULL));
  CHECK(y == x_value(0, 0) + 4 + weight(0) + 11);
  /* The first row alone: of the model's own, too, which is there now. */
  set_tensor(&value, &five, DTYPE_F32, 1, 1, 0);
  CHECK_OK(kiln_model_set_constant(model, "weights[0:1]", &value.t));
  CHECK_OK(kiln_session_reset(after));
  CHECK(run_session(before, &a, NULL) == 12 && run_session(after, &a, NULL) == 6);
  CHECK_OK(run(model, &a, NULL));
  float both[2];
  CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(both, a.y, sizeof both, NULL));
  CHECK_CUDA(cuda->cuStreamSynchronize(NULL));
  CHECK(both[0] == x_value(0, 0) + 4 + five + 1 && both[1] == x_value(1, 0) + 4 + ten);
  free_arguments(&a);
  kiln_session_destroy(before);
  kiln_session_destroy(after);
  kiln_model_destroy(model);
  use_state(false);
}

int main(int argc, char **argv) {
  size_t bytes;
  void *image;
  open_gpu(argc, argv, &image, &bytes);
  CHECK_CUDA(cuda->cuCtxPushCurrent_v2(contexts[0]));
  test_state();
  test_sessions();
  test_values();
  close_gpu(image);
  puts("gpu-session-test: passed");
  return 0;
}
