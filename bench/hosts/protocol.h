/* What every measured process shares: reading the inputs, and obeying the measuring program on
 * stdin.
 *
 * Inputs file: int64 count, then for each input int64 dtype code, bits, rank, sizes..., bytes, and
 * the data (64-byte aligned in memory). Commands, one a line, each answered by one line: run N N
 * runs; their times in nanoseconds peak      peak resident memory of the process so far, in kB At
 * the end of input the process ends. A host prints "ready" after its first run. */
#ifndef KILN_BENCH_PROTOCOL_H
#define KILN_BENCH_PROTOCOL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_INPUTS = 64, MAX_RANK = 8 };

typedef struct {
  int64_t code, bits, rank, sizes[MAX_RANK], bytes;
  void *data;
} host_input;

static inline void die(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static inline int64_t read_number(FILE *file, const char *path) {
  int64_t value;
  if (fread(&value, sizeof value, 1, file) != 1)
    die(path, "ends early");
  return value;
}

/* Returns how many inputs there are. */
static inline int read_inputs(const char *path, host_input *inputs) {
  FILE *file = fopen(path, "rb");
  if (!file)
    die(path, "cannot be opened");
  int64_t count = read_number(file, path);
  if (count > MAX_INPUTS)
    die(path, "has too many inputs");
  for (int64_t i = 0; i < count; ++i) {
    host_input *input = &inputs[i];
    input->code = read_number(file, path);
    input->bits = read_number(file, path);
    input->rank = read_number(file, path);
    if (input->rank > MAX_RANK)
      die(path, "has an input of too high a rank");
    for (int64_t d = 0; d < input->rank; ++d)
      input->sizes[d] = read_number(file, path);
    input->bytes = read_number(file, path);
    input->data = aligned_alloc(64, (size_t)(input->bytes + 63) / 64 * 64 + 64);
    if (!input->data || fread(input->data, 1, (size_t)input->bytes, file) != (size_t)input->bytes)
      die(path, "ends early");
  }
  fclose(file);
  return (int)count;
}

/* Time that passes, or with KILN_BENCH_CPU this thread's own, which others on the machine hardly change. */
static clockid_t used_clock = CLOCK_MONOTONIC;

static inline int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(used_clock, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static inline long peak_kb(void) {
  char line[256];
  long kb = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %ld kB", &kb) == 1)
      break;
  if (file)
    fclose(file);
  return kb;
}

/* When what is timed of a run was over; 0: at its end. For hosts that time the beginning alone. */
static int64_t stopped_ns;

/* Obeys commands until stdin ends. The times of short runs are noted as they come and printed
 * afterwards. */
static inline int serve(void (*run_once)(void)) {
  char line[256];
  static int64_t times[1 << 16];
  if (getenv("KILN_BENCH_CPU"))
    used_clock = CLOCK_THREAD_CPUTIME_ID;
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    long count;
    if (sscanf(line, "run %ld", &count) == 1 && count > 0 &&
        count <= (long)(sizeof times / sizeof *times)) {
      for (long i = 0; i < count; ++i) {
        stopped_ns = 0;
        int64_t start = now_ns();
        run_once();
        int64_t end = now_ns();
        times[i] = (stopped_ns ? stopped_ns : end) - start;
      }
      for (long i = 0; i < count; ++i)
        printf("%lld ", (long long)times[i]);
    } else if (strcmp(line, "peak\n") == 0) {
      printf("%ld", peak_kb());
    } else {
      die("unknown command", line);
    }
    printf("\n");
    fflush(stdout);
  }
  return 0;
}

#endif
