/*===- pool.c - Threads -----------------------------------------------------===*
 *
 * A launch publishes a job and joins in computing it; workers that are awake
 * join as they notice. Tasks are claimed from one counter. A worker spins for
 * about 50 us after its last job, then sleeps in a futex.
 *
 * Everything that workers and the launching thread agree on is one 64-bit word:
 *
 *   63      32 31     18      17     16 15    0
 *   [  epoch  ][ limit ][awaited][open][ count ]
 *
 * `epoch` counts jobs; its half of the word is the futex that workers sleep on.
 * A worker adds itself to `count`; if the job was not open, or `limit` workers
 * had joined, it takes itself out again without having looked at the job. The
 * launching thread closes the job when no task is left to claim and waits for
 * `count` to become 0 (after a while in a futex on the lower half, `awaited` set);
 * then nobody looks at the job any more, and its fields may change.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(state) ((uint32_t)(state) & 0xffff)
#define OPEN ((uint64_t)1 << 16)
#define AWAITED ((uint64_t)1 << 17)
#define LIMIT_SHIFT 18
#define LIMIT(state) ((uint32_t)(state) >> LIMIT_SHIFT)
#define LIMIT_MASK ((uint64_t)0x3fff << LIMIT_SHIFT)
#define EPOCH_SHIFT 32
#define EPOCH(state) ((uint32_t)((state) >> EPOCH_SHIFT))

/* About 50 us at the 2 to 4 GHz that time-stamp counters tick at. */
#define SPIN_CYCLES 150000
/* With more threads than CPUs, spinning takes the CPU from whom one waits for. */
#define SPIN_CYCLES_CROWDED 2000

/* Wakes by the launching thread; each worker woken then wakes two more. */
#define FIRST_WAKES 4

typedef struct {
  pthread_t thread;
  kiln_pool *pool;
  void *scratch;
} kiln_worker;

typedef struct {
  kiln_rt_kernel kernel;
  void *const *buffers;
  const int64_t *symbols;
  int32_t *error;
  int64_t grid, chunk;
} kiln_job;

struct kiln_pool {
  _Alignas(128) _Atomic uint64_t state;
  _Alignas(128) _Atomic int64_t next; /* first task not claimed yet */
  _Alignas(128) kiln_job job;         /* written while the job is closed and count is 0 */
  _Atomic(kiln_context *) owner;      /* the run that launches */
  _Atomic uint32_t sleepers;
  _Atomic bool stop;
  uint64_t spin_cycles;
  uint32_t workers;
  long process;     /* a fork has no workers */
  kiln_pool *older; /* in `pools` */
  const kiln_allocator *allocator;
  kiln_worker worker[];
};

/* All that have workers. */
static kiln_pool *pools;
static kiln_mutex pools_lock;

/*===-- Waiting -------------------------------------------------------------===*/

static void futex_wait(const volatile void *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(const volatile void *word, uint32_t count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static const volatile uint32_t *low_half(kiln_pool *pool) {
  return (const volatile uint32_t *)&pool->state;
}

static const volatile uint32_t *epoch_half(kiln_pool *pool) { return low_half(pool) + 1; }

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static inline uint64_t cycles(void) { return __builtin_readcyclecounter(); }

void kiln_lock(kiln_mutex *mutex) {
  uint32_t state = 0;
  if (atomic_compare_exchange_strong_explicit(&mutex->state, &state, 1, memory_order_acquire,
                                              memory_order_relaxed))
    return;
  while (atomic_exchange_explicit(&mutex->state, 2, memory_order_acquire) != 0)
    futex_wait(&mutex->state, 2);
}

void kiln_unlock(kiln_mutex *mutex) {
  if (atomic_exchange_explicit(&mutex->state, 0, memory_order_release) == 2)
    futex_wake(&mutex->state, 1);
}

/*===-- Workers -------------------------------------------------------------===*/

/* Returns the pool's state once its epoch differs from `seen`. */
static uint64_t wait_for_job(kiln_pool *pool, uint32_t seen, bool *slept) {
  uint64_t state, start = cycles();
  *slept = false;
  for (;;) {
    for (int i = 0; i < 16; ++i) {
      state = atomic_load_explicit(&pool->state, memory_order_acquire);
      if (EPOCH(state) != seen)
        return state;
      relax();
    }
    if (cycles() - start < pool->spin_cycles)
      continue;
    /* The launching thread changes the epoch, then looks at `sleepers`: either
     * it sees this one, or futex_wait sees the new epoch and returns. */
    atomic_fetch_add(&pool->sleepers, 1);
    futex_wait(epoch_half(pool), seen);
    atomic_fetch_sub(&pool->sleepers, 1);
    *slept = true;
  }
}

static void leave(kiln_pool *pool) {
  uint64_t state = atomic_fetch_sub_explicit(&pool->state, 1, memory_order_acq_rel);
  if (COUNT(state) == 1 && (state & AWAITED))
    futex_wake(low_half(pool), 1);
}

static bool join(kiln_pool *pool, uint32_t *seen) {
  uint64_t state = atomic_load_explicit(&pool->state, memory_order_relaxed);
  if (!(state & OPEN) || COUNT(state) >= LIMIT(state))
    return false;
  state = atomic_fetch_add_explicit(&pool->state, 1, memory_order_acq_rel);
  *seen = EPOCH(state); /* perhaps a later job than the one noticed */
  if ((state & OPEN) && COUNT(state) < LIMIT(state))
    return true;
  leave(pool);
  return false;
}

static void run_tasks(kiln_pool *pool, void *scratch) {
  kiln_job job = pool->job;
  for (;;) {
    int64_t i = atomic_fetch_add_explicit(&pool->next, job.chunk, memory_order_relaxed);
    if (i >= job.grid)
      return;
    int64_t end = job.grid - i < job.chunk ? job.grid : i + job.chunk;
    for (; i < end; ++i)
      job.kernel(job.buffers, job.symbols, i, scratch, job.error);
  }
}

static void *worker_main(void *arg) {
  kiln_worker *self = arg;
  kiln_pool *pool = self->pool;
  prctl(PR_SET_NAME, "kiln-worker");
  kiln_enter_environment(); /* the thread began with that of the one that made it */
  uint32_t seen = 0;
  for (;;) {
    bool slept;
    seen = EPOCH(wait_for_job(pool, seen, &slept));
    if (!join(pool, &seen)) {
      /* After `join`, which may be what sees the last epoch. */
      if (atomic_load_explicit(&pool->stop, memory_order_acquire))
        return NULL;
      continue;
    }
    if (slept && atomic_load_explicit(&pool->sleepers, memory_order_relaxed))
      futex_wake(epoch_half(pool), 2);
    run_tasks(pool, self->scratch);
    leave(pool);
    /* A job may have been joined with the last epoch. */
    if (atomic_load_explicit(&pool->stop, memory_order_acquire))
      return NULL;
  }
}

static size_t scratch_stride(void) {
  /* Rounded up so that neighbours do not share a line or its prefetched pair. */
  return (size_t)(kiln_max_scratch_bytes() + 127) / 128 * 128;
}

static void stop_workers(kiln_pool *pool, uint32_t started) {
  atomic_store_explicit(&pool->stop, true, memory_order_release);
  atomic_fetch_add(&pool->state, (uint64_t)1 << EPOCH_SHIFT);
  futex_wake(epoch_half(pool), INT32_MAX);
  for (uint32_t w = 0; w < started; ++w)
    pthread_join(pool->worker[w].thread, NULL);
}

static void free_pool(kiln_pool *pool) {
  if (pool->workers && pool->worker[0].scratch)
    kiln_deallocate(pool->allocator, pool->worker[0].scratch, pool->workers * scratch_stride());
  free(pool);
}

int32_t kiln_pool_create(int threads, const kiln_allocator *allocator, kiln_pool **result) {
  *result = NULL;
  if (threads <= 1)
    return KILN_OK;
  uint32_t workers = (uint32_t)threads - 1;
  size_t bytes = sizeof(kiln_pool) + workers * sizeof(kiln_worker);
  void *memory;
  if (posix_memalign(&memory, _Alignof(kiln_pool), bytes) != 0)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for %d threads", threads);
  memset(memory, 0, bytes);
  kiln_pool *pool = memory;
  pool->workers = workers;
  pool->process = getpid();
  pool->allocator = allocator;
  pool->spin_cycles = threads <= kiln_usable_cpus() ? SPIN_CYCLES : SPIN_CYCLES_CROWDED;
  char *scratch = NULL;
  if (scratch_stride() && !(scratch = kiln_allocate(allocator, workers * scratch_stride()))) {
    free_pool(pool);
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for the scratch of %d threads", threads);
  }

  /* The host's signal handlers stay on the host's threads. */
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &old);
  uint32_t started = 0;
  for (; started < workers; ++started) {
    kiln_worker *w = &pool->worker[started];
    w->pool = pool;
    w->scratch = scratch ? scratch + started * scratch_stride() : NULL;
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
      break;
  }
  sigprocmask(SIG_SETMASK, &old, NULL);
  if (started < workers) {
    stop_workers(pool, started);
    free_pool(pool);
    return kiln_fail(KILN_OUT_OF_MEMORY, "cannot start %d threads: the system refused number %u",
                     threads, started + 2);
  }
  kiln_lock(&pools_lock);
  pool->older = pools;
  pools = pool;
  kiln_unlock(&pools_lock);
  *result = pool;
  return KILN_OK;
}

void kiln_pool_destroy(kiln_pool *pool) {
  if (!pool)
    return;
  kiln_lock(&pools_lock);
  kiln_pool **place = &pools;
  while (*place != pool)
    place = &(*place)->older;
  *place = pool->older;
  kiln_unlock(&pools_lock);
  if (pool->process == getpid())
    stop_workers(pool, pool->workers);
  free_pool(pool);
}

/* Workers must not run code that is unloaded. A host that unloads a library whose models are there
 * still has lost their memory, and nothing else; where the process ends the runs of other threads go
 * on without workers. */
__attribute__((destructor)) static void stop_all_workers(void) {
  for (kiln_pool *pool = pools; pool; pool = pool->older) {
    if (pool->process == getpid())
      stop_workers(pool, pool->workers);
    pool->process = 0; /* there are none any more, as after a fork */
  }
}

/*===-- Launching -----------------------------------------------------------===*/

static void publish(kiln_pool *pool, uint32_t limit) {
  uint64_t change =
      ((uint64_t)1 << EPOCH_SHIFT) + ((uint64_t)limit << LIMIT_SHIFT) + OPEN; /* all were 0 */
  atomic_fetch_add(&pool->state, change);
  uint32_t asleep = atomic_load(&pool->sleepers), awake = pool->workers - asleep;
  if (asleep && awake < limit) {
    uint32_t wanted = limit - awake;
    futex_wake(epoch_half(pool), wanted < FIRST_WAKES ? wanted : FIRST_WAKES);
  }
}

static void close_and_wait(kiln_pool *pool) {
  uint64_t state =
      atomic_fetch_and_explicit(&pool->state, ~(OPEN | LIMIT_MASK), memory_order_acq_rel);
  uint64_t start = cycles();
  while (COUNT(state) != 0) {
    relax();
    if (cycles() - start >= pool->spin_cycles) {
      state = atomic_fetch_or_explicit(&pool->state, AWAITED, memory_order_acq_rel) | AWAITED;
      if (COUNT(state) != 0)
        futex_wait(low_half(pool), (uint32_t)state);
    }
    state = atomic_load_explicit(&pool->state, memory_order_acquire);
  }
  if (state & AWAITED)
    atomic_fetch_and_explicit(&pool->state, ~AWAITED, memory_order_relaxed);
}

/* Whether this run has the workers, now or already: from the first launch that
 * finds them free to the end of the run. */
static bool acquire(kiln_pool *pool, kiln_context *context) {
  if (context->owns_pool)
    return true;
  kiln_context *owner = atomic_load_explicit(&pool->owner, memory_order_relaxed);
  context->owns_pool =
      !owner && atomic_compare_exchange_strong_explicit(&pool->owner, &owner, context,
                                                        memory_order_acquire, memory_order_relaxed);
  return context->owns_pool;
}

void kiln_pool_release(kiln_context *context) {
  if (!context->owns_pool)
    return;
  context->owns_pool = false;
  atomic_store_explicit(&context->model->pool->owner, NULL, memory_order_release);
}

static void launch_in_pool(kiln_pool *pool, const kiln_context *context, kiln_rt_kernel kernel,
                           void *const *buffers, int64_t grid) {
  uint32_t limit = grid - 1 < pool->workers ? (uint32_t)(grid - 1) : pool->workers;
  int64_t chunk = grid / ((int64_t)(limit + 1) * 64);
  pool->job = (kiln_job){
      kernel, buffers, context->run.symbols, context->run.error, grid, chunk > 1 ? chunk : 1};
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  publish(pool, limit);
  run_tasks(pool, context->scratch.data);
  close_and_wait(pool);
}

/*===-- The host's parallel_for ---------------------------------------------===*/

/* How many bodies run at once is the host's secret, so each takes a scratch from
 * a stack, and new ones are made as long as that is empty. */
typedef struct {
  kiln_node node;
  _Alignas(KILN_ALIGNMENT) char data[];
} kiln_scratch;

typedef struct {
  kiln_model *model;
  kiln_job job;
  _Atomic bool out_of_memory;
} kiln_host_job;

static void host_body(void *arg, int64_t i) {
  kiln_host_job *host = arg;
  const kiln_job *job = &host->job;
  if (i < 0 || i >= job->grid)
    return;
  kiln_scratch *memory = NULL;
  if (kiln_max_scratch_bytes()) {
    memory = (kiln_scratch *)kiln_pop(&host->model->scratches);
    if (!memory)
      memory = kiln_allocate(&host->model->allocator, sizeof(kiln_scratch) + scratch_stride());
    if (!memory) {
      atomic_store_explicit(&host->out_of_memory, true, memory_order_relaxed);
      return;
    }
  }
  unsigned environment = kiln_enter_environment();
  job->kernel(job->buffers, job->symbols, i, memory ? memory->data : NULL, job->error);
  kiln_leave_environment(environment);
  if (memory)
    kiln_push(&host->model->scratches, &memory->node);
}

void kiln_scratches_free(kiln_model *model) {
  for (kiln_node *node; (node = kiln_pop(&model->scratches));)
    kiln_deallocate(&model->allocator, node, sizeof(kiln_scratch) + scratch_stride());
}

static int32_t launch_on_host(kiln_context *context, kiln_rt_kernel kernel, void *const *buffers,
                              int64_t grid) {
  kiln_model *model = context->model;
  kiln_host_job host = {
      model, {kernel, buffers, context->run.symbols, context->run.error, grid, 1}, 0};
  model->options.parallel_for(model->options.parallel_ctx, grid, host_body, &host);
  if (atomic_load_explicit(&host.out_of_memory, memory_order_relaxed))
    return kiln_rt_fail(&context->run, KILN_OUT_OF_MEMORY, "out of memory for kernel scratch");
  return KILN_OK;
}

KILN_ENTRY int32_t kiln_rt_launch(kiln_rt_run *run, kiln_rt_kernel kernel, void *const *buffers,
                                  int64_t grid, int64_t step) {
  kiln_context *context = kiln_context_of(run);
  kiln_model *model = context->model;
  if (KILN_UNLIKELY(context->profile != NULL))
    return kiln_profile_launch(run, kernel, buffers, grid, step);
  if (grid > 1 && model->options.parallel_for) {
    int32_t status = launch_on_host(context, kernel, buffers, grid);
    if (KILN_UNLIKELY(status != KILN_OK))
      return status;
  } else if (grid > 1 && model->pool && acquire(model->pool, context)) {
    launch_in_pool(model->pool, context, kernel, buffers, grid);
  } else {
    for (int64_t i = 0; i < grid; ++i)
      kernel(buffers, run->symbols, i, context->scratch.data, run->error);
  }
  if (KILN_LIKELY(*run->error == 0))
    return KILN_OK;
  if (*run->error == KILN_RT_ERROR_INDEX)
    return kiln_rt_fail(run, KILN_INVALID_ARGUMENT,
                        "index out of range: data selects an element that a tensor does not have");
  const char *failure = kiln_kernel_failure(context->program, *run->error);
  if (failure)
    return kiln_rt_fail(run, KILN_ASSERTION_FAILED, failure);
  return kiln_rt_fail(run, KILN_INTERNAL, "a kernel reported an unknown error");
}

/*===-- How many threads ----------------------------------------------------===*/

/* Reads a number and what separates it from the next; 0 if there is none. (The
 * headers of newer glibcs turn strtoll into a function that older ones lack.) */
static int64_t read_number(const char **text) {
  int64_t value = 0;
  for (; **text >= '0' && **text <= '9' && value < INT32_MAX; ++*text)
    value = 10 * value + (**text - '0');
  if (**text == ' ')
    ++*text;
  return value;
}

/* The cgroup's CPU quota in whole CPUs, rounded up; 0 if there is none. */
static int cpu_quota(void) {
  int file = open("/sys/fs/cgroup/cpu.max", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  char text[64];
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0)
    return 0;
  text[length] = 0;
  const char *at = text;
  int64_t quota = read_number(&at); /* of "max 100000": 0 */
  int64_t period = read_number(&at);
  if (quota == 0 || period == 0)
    return 0;
  int64_t cpus = quota / period + (quota % period != 0);
  return cpus < KILN_MAX_THREADS ? (int)cpus : KILN_MAX_THREADS;
}

int kiln_usable_cpus(void) {
  unsigned long mask[8192 / (8 * sizeof(unsigned long))];
  memset(mask, 0, sizeof mask);
  int count = 0;
  if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) == 0)
    for (size_t i = 0; i < sizeof mask / sizeof *mask; ++i)
      count += __builtin_popcountl(mask[i]);
  int quota = cpu_quota();
  if (quota && quota < count)
    count = quota;
  return count < 1 ? 1 : count > KILN_MAX_THREADS ? KILN_MAX_THREADS : count;
}
