/* Decompositions whose steps are used up: compiled with none, the iterations end and say so. */
#include "../../runtime/linalg/linalg.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 4 };

static char message[256];

static void serial(void *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  (void)ctx;
  for (int64_t i = 0; i < n; ++i)
    body(arg, i);
}

/* The diagonal's own eigenvalues need no steps; those of a full matrix do. */
static void check(const char *name, kiln_custom_op_fn function, bool is_full) {
  static scalar a[SIZE * SIZE], work[6 * SIZE * SIZE + 8 * SIZE];
  static char values[2 * SIZE * sizeof(double)];
  int64_t a_shape[] = {1, SIZE, SIZE}, values_shape[] = {1, SIZE};
  int64_t work_shape[] = {1, sizeof work / sizeof *work};
  for (int i = 0; i < SIZE * SIZE; ++i)
    a[i] = i % (SIZE + 1) == 0 || is_full ? 1 + i * i % 7 : 0;
  DLTensor matrix = {.data = a, .ndim = 3, .shape = a_shape};
  DLTensor results[] = {{.data = values, .ndim = 2, .shape = values_shape},
                        {.data = work, .ndim = 2, .shape = work_shape}};
  const DLTensor *in[] = {&matrix}, *out[] = {&results[0], &results[1]};
  kiln_custom_op_context context = {.struct_size = sizeof context,
                                    .message = message,
                                    .message_size = sizeof message,
                                    .parallel_for = serial};
  int32_t status = function(in, 1, out, 2, &context);
  bool is_right = is_full ? status == KILN_ASSERTION_FAILED && strstr(message, "converge")
                          : status == KILN_OK && *(double *)values > 0;
  if (!is_right) {
    fprintf(stderr, "%s of a %s matrix: status %d, \"%s\"\n", name, is_full ? "full" : "diagonal",
            (int)status, message);
    exit(1);
  }
}

int main(void) {
  for (int is_full = 0; is_full < 2; ++is_full) {
    check("eigh", KILN_LINALG(eigh), is_full);
    check("svd", KILN_LINALG(svd), is_full);
    check("eig", KILN_LINALG(eig), is_full);
  }
  return 0;
}
