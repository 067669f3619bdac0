/*===- reflect.c - QR factors and products of Householder reflectors ---------===*
 *
 * Householder QR without blocks (Golub & Van Loan, Matrix Computations, 4th edition,
 * 5.1.6 and 5.2.2), with LAPACK's reflectors.
 *
 *===-----------------------------------------------------------------------===*/
#include "linalg.h"

scalar KILN_LINALG(reflector)(int64_t n, scalar *x, double *beta) {
  *beta = real(x[0]);
  double tail = norm(n - 1, x + 1);
  if (tail == 0 && imaginary(x[0]) == 0)
    return 0;
  double size = hypotenuse(absolute(x[0]), tail);
  if (size < 0x1p-900) { /* too few digits, below the smallest normal number */
    for (int64_t i = 0; i < n; ++i)
      x[i] *= 0x1p500;
    scalar tau = KILN_LINALG(reflector)(n, x, beta);
    *beta *= 0x1p-500;
    x[0] = *beta;
    return tau;
  }
  *beta = -with_sign(size, real(x[0]));
  scalar tau = make((*beta - real(x[0])) / *beta, -imaginary(x[0]) / *beta);
  scalar head = x[0] - *beta;
  scale(n - 1, divide(make(1, 0), head), x + 1);
  x[0] = *beta;
  return tau;
}

void KILN_LINALG(accumulate)(int64_t m, int64_t columns, int64_t k, int64_t first, const scalar *v,
                             int64_t stride, const scalar *tau, scalar *q) {
  clear(m * columns, q);
  for (int64_t j = 0; j < columns; ++j)
    q[j * m + j] = 1;
  /* From the last one on: those behind it have left its column a unit vector. */
  for (int64_t i = smaller(k, columns - first) - 1; i >= 0; --i) {
    int64_t row = i + first;
    reflect(m - row, columns - row, v + i * stride + first, tau[i], q + row * m + row, m);
  }
}

/*===-- The functions -------------------------------------------------------===*/

typedef struct {
  const DLTensor *const *in, *const *out;
} arguments;

static void factorize(void *arg, int64_t i) {
  const arguments *call = arg;
  int64_t n = call->in[0]->shape[1], m = call->in[0]->shape[2];
  scalar *a = matrix_of(call->out[0], i), *tau = vector_of(call->out[1], i);
  copy(m * n, matrix_of(call->in[0], i), a);
  for (int64_t k = 0; k < smaller(m, n); ++k) {
    double beta;
    scalar *column = a + k * m + k;
    tau[k] = KILN_LINALG(reflector)(m - k, column, &beta);
    reflect(m - k, n - k - 1, column, conjugate(tau[k]), column + m, m);
  }
}

KILN_LINALG_FUNCTION(geqrf) {
  (void)num_inputs, (void)num_outputs;
  for_each(context, in[0]->shape[0], factorize, &(arguments){in, out});
  return KILN_OK;
}

static void form(void *arg, int64_t i) {
  const arguments *call = arg;
  int64_t m = call->in[0]->shape[2];
  KILN_LINALG(accumulate)(m, call->out[0]->shape[1], call->in[1]->shape[1], 0,
                          matrix_of(call->in[0], i), m + 1, vector_of(call->in[1], i),
                          matrix_of(call->out[0], i));
}

KILN_LINALG_FUNCTION(orgqr) {
  (void)num_inputs, (void)num_outputs;
  for_each(context, in[0]->shape[0], form, &(arguments){in, out});
  return KILN_OK;
}

static void apply(void *arg, int64_t i) {
  const arguments *call = arg;
  int64_t m = call->in[2]->shape[2], columns = call->in[2]->shape[1], k = call->in[1]->shape[1];
  const scalar *v = matrix_of(call->in[0], i), *tau = vector_of(call->in[1], i);
  bool adjoint = *(const uint8_t *)call->in[3]->data;
  scalar *c = matrix_of(call->out[0], i);
  copy(m * columns, matrix_of(call->in[2], i), c);
  for (int64_t step = 0; step < k; ++step) {
    int64_t j = adjoint ? step : k - 1 - step;
    reflect(m - j, columns, v + j * m + j, adjoint ? conjugate(tau[j]) : tau[j], c + j, m);
  }
}

KILN_LINALG_FUNCTION(ormqr) {
  (void)num_inputs, (void)num_outputs;
  for_each(context, in[2]->shape[0], apply, &(arguments){in, out});
  return KILN_OK;
}
