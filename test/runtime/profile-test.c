/* Profiles: what a host is told of runs, with a pool, without one, and with its own parallel_for. */
#include "rows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 4096 }; /* events */

typedef struct {
  kiln_profile_event events[MOST];
  atomic_int count;
} event_log;

static event_log seen;

static void note(void *ctx, const kiln_profile_event *event) {
  int at = atomic_fetch_add(&seen.count, 1);
  CHECK(ctx == &seen && event->struct_size == sizeof *event && at < MOST);
  seen.events[at] = *event;
}

static kiln_model *create(kiln_options options) {
  kiln_model *model = NULL;
  options.profile = note;
  options.profile_ctx = &seen;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

/* The event at `at`, which must be of this kind and name. */
static const kiln_profile_event *expect(int at, uint32_t kind, const char *name, int64_t launch) {
  CHECK(at < seen.count);
  const kiln_profile_event *event = &seen.events[at];
  CHECK(event->kind == kind && event->launch == launch);
  CHECK(strcmp(event->name, name) == 0 && event->begin <= event->end);
  return event;
}

/* The slices of a step, which come before it, and the step; returns the number of events. */
static int check_step(int at, const char *name, int64_t launch, int64_t rows, const char *where) {
  int last = at;
  while (seen.events[last].kind == KILN_PROFILE_SLICE)
    ++last;
  const kiln_profile_event *step = expect(last, KILN_PROFILE_STEP, name, launch);
  CHECK(strcmp(step->where, where) == 0 && step->tasks == rows);
  CHECK(step->thread == syscall(SYS_gettid));
  int64_t tasks = 0;
  for (int i = at; i < last; ++i) {
    const kiln_profile_event *slice = expect(i, KILN_PROFILE_SLICE, name, launch);
    CHECK(slice->begin >= step->begin && slice->end <= step->end && slice->tasks > 0);
    CHECK(slice->run == step->run && slice->bytes == -1);
    for (int k = at; k < i; ++k)
      CHECK(seen.events[k].thread != slice->thread);
    tasks += slice->tasks;
  }
  CHECK(last == at || tasks == rows);
  return last + 1 - at;
}

/* All events of a run from `at` on. */
static int check_run(int at, int64_t rows) {
  int first = at;
  at += check_step(at, "row", 0, rows, "node 'y' (m.py:3)");
  const kiln_profile_event *step = &seen.events[at - 1];
  CHECK(step->flops == 16 * rows && step->bytes == (32 + 8 + 32 + 4) * rows + 8 + 32);
  CHECK(step->weight_bytes == 32);
  at += check_step(at, "copy_row", 1, rows, "node 't' (m.py:4)");
  CHECK(seen.events[at - 1].bytes == -1 && seen.events[at - 1].weight_bytes == -1);
  CHECK(seen.events[at - 1].flops == 0 && seen.events[at - 1].begin >= step->end);
  CHECK(expect(at++, KILN_PROFILE_MEMORY, "weights", -1)->bytes == 32);
  CHECK(expect(at++, KILN_PROFILE_MEMORY, "arena", -1)->bytes == 32 * rows);
  const kiln_profile_event *whole = expect(at++, KILN_PROFILE_RUN, "run", -1);
  for (int i = first; i < at; ++i) {
    CHECK(seen.events[i].begin >= whole->begin && seen.events[i].end <= whole->end);
    CHECK(seen.events[i].run == whole->run);
  }
  return at;
}

/* Returns whether some step had more than one slice. */
static bool test_runs(kiln_options options, int64_t rows) {
  kiln_model *model = create(options);
  arguments a;
  make_arguments(&a, rows);
  seen.count = 0;
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(run(model, &a));
    CHECK(outputs_right(&a));
    free_outputs(&a);
  }
  int at = 0, slices = 0;
  for (int i = 0; i < 3; ++i)
    at = check_run(at, rows);
  CHECK(at == seen.count);
  for (int i = 0; i < at; ++i)
    slices += seen.events[i].kind == KILN_PROFILE_SLICE;
  free_arguments(&a);
  kiln_model_destroy(model);
  return slices > 6;
}

static void test_pools(void) {
  CHECK(!test_runs(quiet_options(1), 100));
  CHECK(!test_runs(quiet_options(4), 1));
  bool any = false;
  for (int i = 0; i < 50 && !any; ++i)
    any = test_runs(quiet_options(4), 20000);
  CHECK(any);
}

static void host_for(void *ctx, int64_t n, void (*body)(void *, int64_t), void *arg) {
  (void)ctx;
  for (int64_t i = n; i-- > 0;)
    body(arg, i);
}

static void test_parallel_for(void) {
  kiln_options options = quiet_options(0);
  options.parallel_for = host_for;
  CHECK(!test_runs(options, 100));
  CHECK(seen.events[0].kind == KILN_PROFILE_SLICE && seen.events[0].tasks == 100);
}

/* What fails is told of, too; the next run is whole again. */
static void test_failure(void) {
  kiln_model *model = create(quiet_options(2));
  arguments a;
  make_arguments(&a, 50);
  a.ids_data[7] = COLUMNS;
  seen.count = 0;
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT, "index out of range");
  expect(seen.count - 1, KILN_PROFILE_RUN, "run", -1);
  a.ids_data[7] = 7;
  seen.count = 0;
  CHECK_OK(run(model, &a));
  CHECK(check_run(0, 50) == seen.count);
  free_arguments(&a);
  kiln_model_destroy(model);
}

/* A host with the struct of an older header has no place for the function. */
static void test_older_host(void) {
  kiln_options options = quiet_options(2);
  options.profile = note;
  options.struct_size = offsetof(kiln_options, profile);
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  arguments a;
  make_arguments(&a, 10);
  seen.count = 0;
  CHECK_OK(run(model, &a));
  CHECK(seen.count == 0);
  free_arguments(&a);
  kiln_model_destroy(model);
}

static void *run_some(void *model) {
  arguments a;
  make_arguments(&a, 300);
  for (int i = 0; i < 20; ++i) {
    CHECK_OK(run(model, &a));
    CHECK(outputs_right(&a));
    free_outputs(&a);
  }
  free_arguments(&a);
  return NULL;
}

/* Several threads run one model: each run has a number and a thread of its own. */
static void test_concurrent_runs(void) {
  kiln_model *model = create(quiet_options(3));
  pthread_t runners[3];
  seen.count = 0;
  for (int r = 0; r < 3; ++r)
    CHECK(pthread_create(&runners[r], NULL, run_some, model) == 0);
  for (int r = 0; r < 3; ++r)
    pthread_join(runners[r], NULL);
  int runs = 0;
  for (int i = 0; i < seen.count; ++i) {
    const kiln_profile_event *event = &seen.events[i];
    runs += event->kind == KILN_PROFILE_RUN;
    for (int k = 0; k < i && event->kind == KILN_PROFILE_RUN; ++k)
      CHECK(seen.events[k].kind != KILN_PROFILE_RUN || seen.events[k].run != event->run);
  }
  CHECK(runs == 60);
  kiln_model_destroy(model);
}

int main(void) {
  test_pools();
  test_parallel_for();
  test_failure();
  test_older_host();
  test_concurrent_runs();
  puts("profile-test: passed");
  return 0;
}
