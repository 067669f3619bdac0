/*===- eigh.c - Eigenvalues and vectors of Hermitian matrices ----------------===*
 *
 * Householder tridiagonalisation (Golub & Van Loan, 4th edition, 8.3.1), whose
 * off-diagonal is real for complex matrices as well, and implicit QL steps with
 * Wilkinson's shift (8.3.3), whose rotations are applied to the vectors.
 *
 *===-----------------------------------------------------------------------===*/
#include "linalg.h"

/* y = A x of the lower triangle of a Hermitian matrix. */
static void multiply_hermitian(int64_t n, const scalar *a, int64_t stride, const scalar *x,
                               scalar *y) {
  clear(n, y);
  for (int64_t j = 0; j < n; ++j) {
    const scalar *column = a + j * stride;
    int64_t below = n - j - 1;
    add_multiple(below, x[j], column + j + 1, y + j + 1);
    y[j] += real(column[j]) * x[j] + dot(below, column + j + 1, x + j + 1);
  }
}

/* A = Q T Q^H of the lower triangle: T's diagonal in d, what is below it in e; reflectors
 * below the diagonal of A, their factors in tau. `w`: n elements. */
static void tridiagonalize(int64_t n, scalar *a, double *d, double *e, scalar *tau, scalar *w) {
  for (int64_t k = 0; k + 1 < n; ++k) {
    int64_t rest = n - k - 1;
    scalar *v = a + k * n + k + 1, *trailing = a + (k + 1) * n + k + 1;
    d[k] = real(a[k * n + k]);
    tau[k] = KILN_LINALG(reflector)(rest, v, &e[k]);
    if (real(tau[k]) == 0 && imaginary(tau[k]) == 0)
      continue;
    scalar head = v[0];
    v[0] = 1;
    multiply_hermitian(rest, trailing, n, v, w);
    scale(rest, tau[k], w);
    add_multiple(rest, -0.5 * multiply(tau[k], dot(rest, w, v)), v, w);
    for (int64_t j = 0; j < rest; ++j) {
      scalar *column = trailing + j * n;
      add_multiple(rest - j, -conjugate(w[j]), v + j, column + j);
      add_multiple(rest - j, -conjugate(v[j]), w + j, column + j);
    }
    v[0] = head;
  }
  if (n > 0) {
    d[n - 1] = real(a[(n - 1) * n + n - 1]);
    e[n - 1] = 0;
  }
}

/* One QL step on rows first to last. */
static void step(int64_t n, int64_t first, int64_t last, double *d, double *e, scalar *vectors) {
  double p = 0, c = 1, s = 1;
  double g = (d[first + 1] - d[first]) / (2 * e[first]);
  g = d[last] - d[first] + e[first] / (g + with_sign(hypotenuse(g, 1), g));
  for (int64_t i = last - 1; i >= first; --i) {
    double f = s * e[i], b = c * e[i], r = hypotenuse(f, g); /* where f underflows, g is e[i + 1] */
    e[i + 1] = r;
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    r = (d[i] - g) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
    if (vectors)
      rotate(n, c, s, vectors + (i + 1) * n, vectors + i * n);
  }
  d[first] -= p;
  e[first] = g;
  e[last] = 0;
}

/* Makes d the eigenvalues of the tridiagonal matrix (d, e). Says if that has come to an end. */
static bool diagonalize(int64_t n, double *d, double *e, scalar *vectors) {
  int64_t left = KILN_LINALG_STEPS / 5 * n;
  /* Elements far below the rounding of the largest ones are nothing: graded matrices would have
   * steps whose every product underflows. */
  double least = DBL_MIN;
  for (int64_t i = 0; i < n; ++i)
    least = greater(least, DBL_EPSILON * DBL_EPSILON * (magnitude(d[i]) + magnitude(e[i])));
  for (int64_t first = 0; first < n; ++first)
    for (;;) {
      int64_t last = first;
      for (; last + 1 < n; ++last)
        if (magnitude(e[last]) <=
            DBL_EPSILON * (magnitude(d[last]) + magnitude(d[last + 1])) + least)
          break;
      if (last == first)
        break;
      if (left-- == 0)
        return false;
      step(n, first, last, d, e, vectors);
    }
  return true;
}

/* Ascending. */
static void sort(int64_t n, double *d, scalar *vectors, scalar *spare) {
  for (int64_t i = 0; i + 1 < n; ++i) {
    int64_t least = i;
    for (int64_t j = i + 1; j < n; ++j)
      if (d[j] < d[least])
        least = j;
    if (least == i)
      continue;
    double value = d[i];
    d[i] = d[least];
    d[least] = value;
    if (vectors) {
      copy(n, vectors + i * n, spare);
      copy(n, vectors + least * n, vectors + i * n);
      copy(n, spare, vectors + least * n);
    }
  }
}

static bool decompose(const decomposition *call, int64_t i) {
  int64_t n = call->in[0]->shape[1];
  double *d = (double *)call->out[0]->data + i * n;
  scalar *work = vector_of(call->out[1], i), *a = work + 3 * n;
  scalar *tau = work, *w = work + n, *vectors = NULL;
  double *e = (double *)(work + 2 * n);
  copy(n * n, matrix_of(call->in[0], i), a);
  /* Far from overflow, by a power of two, which is exact. */
  double most = KILN_LINALG(normalize)(n * n, a);
  tridiagonalize(n, a, d, e, tau, w);
  if (call->wants_vectors) {
    vectors = matrix_of(call->out[2], i);
    KILN_LINALG(accumulate)(n, n, n - 1, 1, a, n + 1, tau, vectors);
  }
  if (!is_finite(most) || !diagonalize(n, d, e, vectors))
    return false;
  sort(n, d, vectors, w);
  for (int64_t j = 0; j < n; ++j)
    d[j] *= most;
  return true;
}

KILN_LINALG_FUNCTION(eigh) {
  (void)num_inputs;
  decomposition call = {in, out, num_outputs == 3, decompose, false};
  return KILN_LINALG(decompose_all)(context, &call);
}
