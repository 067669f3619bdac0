/* Many threads on one model, pools asleep and awake, a host's parallel_for, fork. */
#include "rows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNNERS = 4, RUNS = 60 };

static void *run_many(void *model) {
  arguments a;
  make_arguments(&a, 2100); /* enough for outputs to be kept */
  for (int i = 0; i < RUNS; ++i) {
    if (i % 8 == 3) { /* the error is this thread's alone */
      a.ids_data[i % 50] = 99;
      CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT, "index out of range");
      a.ids_data[i % 50] = i % 50 % COLUMNS;
      continue;
    }
    CHECK_OK(run(model, &a));
    CHECK(outputs_right(&a));
    free_outputs(&a);
  }
  free_arguments(&a);
  return NULL;
}

static void run_from_many_threads(kiln_model *model) {
  pthread_t runners[RUNNERS];
  for (int r = 0; r < RUNNERS; ++r)
    CHECK(pthread_create(&runners[r], NULL, run_many, model) == 0);
  for (int r = 0; r < RUNNERS; ++r)
    pthread_join(runners[r], NULL);
}

static kiln_model *create(int threads) {
  kiln_options options = quiet_options(threads);
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

static void test_concurrent_runs(void) {
  for (int threads = 1; threads <= 4; ++threads) {
    kiln_model *model = create(threads);
    run_from_many_threads(model);
    kiln_model_destroy(model);
  }
}

/* A host that starts threads for each call; several calls run at once. */
typedef struct {
  void (*body)(void *, int64_t);
  void *arg;
  int64_t n;
  _Atomic int64_t next;
} host_call;

static void *host_worker(void *arg) {
  host_call *call = arg;
  for (int64_t i; (i = call->next++) < call->n;)
    call->body(call->arg, i);
  return NULL;
}

static void host_for(void *ctx, int64_t n, void (*body)(void *, int64_t), void *arg) {
  (void)ctx;
  host_call call = {body, arg, n, 0};
  pthread_t helpers[2];
  for (int h = 0; h < 2; ++h)
    CHECK(pthread_create(&helpers[h], NULL, host_worker, &call) == 0);
  host_worker(&call);
  for (int h = 0; h < 2; ++h)
    pthread_join(helpers[h], NULL);
}

static void test_parallel_for(void) {
  kiln_options options = quiet_options(0);
  options.parallel_for = host_for;
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  run_from_many_threads(model);
  kiln_model_destroy(model);
}

/* Workers that have parked are woken, whatever the moment. */
static void test_parking(void) {
  kiln_model *model = create(3);
  arguments a;
  make_arguments(&a, 200);
  for (int i = 0; i < 200; ++i) {
    struct timespec pause = {0, i * 1000};
    nanosleep(&pause, NULL);
    CHECK_OK(run(model, &a));
    CHECK(outputs_right(&a));
    free_outputs(&a);
  }
  free_arguments(&a);
  kiln_model_destroy(model);
}

/* Destruction finds workers that have not started yet, spin, or sleep. */
static void test_lifetime(void) {
  arguments a;
  make_arguments(&a, 20);
  for (int i = 0; i < 60; ++i) {
    kiln_model *model = create(1 + i % 5);
    if (i % 3) {
      CHECK_OK(run(model, &a));
      CHECK(outputs_right(&a));
      free_outputs(&a);
    }
    struct timespec pause = {0, i % 4 * 50000};
    nanosleep(&pause, NULL);
    kiln_model_destroy(model);
  }
  free_arguments(&a);
  kiln_model *crowd = create(64);
  make_arguments(&a, 5000);
  CHECK_OK(run(crowd, &a));
  CHECK(outputs_right(&a));
  free_arguments(&a);
  kiln_model_destroy(crowd);
}

/* Destruction right behind a launch, which workers may be about to join: they find
 * the job closed, and the pool stopping in the same word. */
static void test_destruction_behind_launch(void) {
  arguments a;
  make_arguments(&a, 2);
  for (int i = 0; i < 2000; ++i) {
    kiln_model *model = create(4);
    CHECK_OK(run(model, &a));
    free_outputs(&a);
    kiln_model_destroy(model);
  }
  free_arguments(&a);
}

/* A child has no workers, and computes alone. */
static void test_fork(void) {
  kiln_model *model = create(3);
  arguments a;
  make_arguments(&a, 100);
  CHECK_OK(run(model, &a));
  free_outputs(&a);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    bool right = run(model, &a) == KILN_OK && outputs_right(&a);
    free_outputs(&a);
    kiln_model_destroy(model);
    _exit(right ? 0 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  free_arguments(&a);
  kiln_model_destroy(model);
}

int main(void) {
  test_fork();
  test_concurrent_runs();
  test_parallel_for();
  test_parking();
  test_lifetime();
  test_destruction_behind_launch();
  puts("ok");
  return 0;
}
