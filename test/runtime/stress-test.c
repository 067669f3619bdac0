/* Many threads on many models, hosts with signals and with another floating-point environment, forks,
 * and many runs without growth. argv: how many threads and models, how many runs. */
#include "rows.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MOST = 256 };

static bool ends_in_use;
/* Asked by the sanitizer that looks for leaks, at the end. */
int __lsan_is_turned_off(void) { return ends_in_use; }

static int count = 8;
static long runs = 2000;
static kiln_model *models[MOST];

static kiln_model *create(kiln_options options) {
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

/*===-- Threads -------------------------------------------------------------===*/

static void *run_all(void *number) {
  int first = *(int *)number;
  arguments a;
  make_arguments(&a, 1 + 37 * first % 200);
  for (int i = 0; i < 4 * count; ++i) {
    CHECK_OK(run(models[(first + i) % count], &a));
    CHECK(outputs_right(&a));
    if (i % 3 == 0)
      free_outputs(&a);
  }
  free_arguments(&a);
  return NULL;
}

/* Every thread runs every model, some of them at the same time. */
static void test_threads(void) {
  pthread_t threads[MOST];
  int numbers[MOST];
  for (int i = 0; i < count; ++i)
    models[i] = create(quiet_options(1 + i % 3));
  for (int i = 0; i < count; ++i) {
    numbers[i] = i;
    CHECK(pthread_create(&threads[i], NULL, run_all, &numbers[i]) == 0);
  }
  for (int i = 0; i < count; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < count; ++i)
    kiln_model_destroy(models[i]);
}

/*===-- Signals and forks ---------------------------------------------------===*/

static atomic_int signals;
static void count_signal(int number) {
  (void)number;
  ++signals;
}

static void run_times(kiln_model *model, long times, int64_t rows) {
  arguments a;
  make_arguments(&a, rows);
  for (long i = 0; i < times; ++i) {
    CHECK_OK(run(model, &a));
    CHECK(i % 64 || outputs_right(&a));
  }
  free_arguments(&a);
}

/* Waits are interrupted, since the handler does not ask for calls of the system to go on. */
static void test_signals(void) {
  struct sigaction action = {.sa_handler = count_signal}, former;
  struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  CHECK(sigaction(SIGALRM, &action, &former) == 0);
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  do {
    kiln_model *model = create(quiet_options(3));
    run_times(model, 200, 2000);
    kiln_model_destroy(model);
  } while (signals < 20);
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  CHECK(sigaction(SIGALRM, &former, NULL) == 0);
}

/* A child goes on with the parent's models, ends them or just ends. */
static void test_forks(void) {
  kiln_model *model = create(quiet_options(3)), *other = create(quiet_options(2));
  run_times(model, 3, 100);
  for (int i = 0; i < 4; ++i) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      run_times(model, 10, 300);
      ends_in_use = i % 2;
      if (!ends_in_use) {
        kiln_model_destroy(other);
        kiln_model_destroy(model);
      }
      if (i / 2)
        exit(0);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run_times(model, 3, 100);
  }
  kiln_model_destroy(other);
  kiln_model_destroy(model);
}

/*===-- Growth --------------------------------------------------------------===*/

static size_t used_bytes(void) {
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer) ||                           \
    __has_feature(thread_sanitizer)
  return 0; /* its allocator does not tell */
#else
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#endif
}

static void test_growth(void) {
  kiln_model *model = create(quiet_options(2));
  run_times(model, 100, 20);
  size_t before = used_bytes();
  run_times(model, runs, 20);
  CHECK(used_bytes() == before);
  kiln_model_destroy(model);
  for (long i = -20; i < runs / 100; ++i) {
    if (i == 0)
      before = used_bytes(); /* with what the system keeps of freed blocks and threads */
    model = create(quiet_options(2));
    run_times(model, 1, 20);
    kiln_model_destroy(model);
  }
  CHECK(used_bytes() <= before + 4096);
}

/*===-- The floating-point environment --------------------------------------===*/

#if defined(__x86_64__)
static void serial_for(void *ctx, int64_t n, void (*body)(void *, int64_t), void *arg) {
  (void)ctx;
  unsigned host = _mm_getcsr() & ~0x3fu;
  for (int64_t i = 0; i < n; ++i)
    body(arg, i);
  CHECK((_mm_getcsr() & ~0x3fu) == host);
}

/* x is denormal, and the sum with w rounded; the host traps where a result is not exact. */
static void check_environment(const kiln_options *options, unsigned mxcsr) {
  float tiny = 1e-40f, large = 1e8f, w[COLUMNS] = {0, 1, 1, 1, 1, 1, 1, 1};
  float x[30 * COLUMNS];
  for (int i = 0; i < 30 * COLUMNS; ++i)
    x[i] = i % COLUMNS ? large : tiny;
  unsigned host = _mm_getcsr();
  _mm_setcsr(mxcsr);
  kiln_model *model = create(*options);
  tensor value;
  set_tensor(&value, w, DTYPE_F32, 1, COLUMNS, 0);
  CHECK_OK(kiln_model_set_constant(model, "w", &value.t));
  arguments a;
  make_arguments(&a, 30);
  a.x.t.data = x;
  CHECK_OK(run(model, &a));
  CHECK((_mm_getcsr() & ~0x3fu) == mxcsr); /* but for what has happened */
  kiln_model_destroy(model);
  _mm_setcsr(host);
  for (int i = 0; i < 30 * COLUMNS; ++i) {
    float got = element(&a.outputs[0]->dl_tensor, i / COLUMNS, i % COLUMNS);
    CHECK(got == (i % COLUMNS ? 2e8f : 2 * tiny));
  }
  free_arguments(&a);
}

static void test_environment(void) {
  static const unsigned modes[] = {0x1f80,          /* as usual */
                                   0x1f80 | 0x8040, /* denormal numbers are zero */
                                   0x1f80 | 0x4000, /* rounds up */
                                   0x1f80 | 0x6000, /* to zero */
                                   0x0000};         /* traps */
  kiln_options options = quiet_options(1);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i) {
    options.num_threads = 1;
    options.parallel_for = NULL;
    check_environment(&options, modes[i]);
    options.num_threads = 4;
    check_environment(&options, modes[i]);
    options.parallel_for = serial_for;
    check_environment(&options, modes[i]);
  }
}
#else
static void test_environment(void) {}
#endif

/*===-- The end of the process ----------------------------------------------===*/

static void *run_for_ever(void *model) {
  arguments a;
  make_arguments(&a, 500);
  for (;;)
    CHECK_OK(run(model, &a));
  return NULL;
}

/* It ends while models are there and run. */
static void test_end(void) {
  for (int i = 0; i < 5; ++i) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      pthread_t thread;
      kiln_model *model = create(quiet_options(3));
      ends_in_use = true;
      CHECK(pthread_create(&thread, NULL, run_for_ever, model) == 0);
      usleep(1000 * (useconds_t)i);
      exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

int main(int argc, char **argv) {
  count = argc > 1 ? atoi(argv[1]) : count;
  runs = argc > 2 ? atol(argv[2]) : runs;
  CHECK(count > 0 && count <= MOST && runs > 0);
  test_forks();
  test_end();
  test_environment();
  test_signals();
  test_growth();
  test_threads();
  puts("stress-test: passed");
  return 0;
}
