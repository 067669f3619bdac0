/*===- svd.c - Singular values and vectors ------------------------------------===*
 *
 * Golub and Reinsch's algorithm: Householder bidiagonalisation (Golub & Van Loan, 4th
 * edition, 5.4.8), with a real bidiagonal for complex matrices as well, and implicit
 * QR steps on that, which deflate where the diagonal is negligible (8.6.2). A matrix
 * with fewer rows than columns is decomposed as its adjoint.
 *
 *===-----------------------------------------------------------------------===*/
#include "linalg.h"

/* The bidiagonal matrix: d[i] at (i, i), e[i] at (i, i + 1); vectors, if wanted, by columns. */
typedef struct {
  int64_t m, n, u_columns; /* m >= n */
  double *d, *e;
  scalar *u, *v; /* [u_columns, m], [n, n]; NULL: neither is wanted */
} bidiagonal;

/* A = U B V^H: reflectors of U on and below the diagonal of A, of V behind each row of `rows`. */
static void bidiagonalize(bidiagonal *b, scalar *a, scalar *rows, scalar *left, scalar *right,
                          scalar *w) {
  int64_t m = b->m, n = b->n;
  for (int64_t k = 0; k < n; ++k) {
    int64_t rest = n - k - 1;
    scalar *column = a + k * m + k;
    left[k] = KILN_LINALG(reflector)(m - k, column, &b->d[k]);
    reflect(m - k, rest, column, conjugate(left[k]), column + m, m);
    b->e[k] = 0;
    right[k] = 0;
    if (rest == 0)
      continue;
    /* The row, as the column that its adjoint is. */
    scalar *v = rows + k * n + k + 1;
    for (int64_t j = 0; j < rest; ++j)
      v[j] = conjugate(column[(j + 1) * m]);
    right[k] = KILN_LINALG(reflector)(rest, v, &b->e[k]);
    v[0] = 1;
    /* A = A - tau (A v) v^H */
    clear(m - k - 1, w);
    for (int64_t j = 0; j < rest; ++j)
      add_multiple(m - k - 1, v[j], column + (j + 1) * m + 1, w);
    for (int64_t j = 0; j < rest; ++j)
      add_multiple(m - k - 1, -multiply(right[k], conjugate(v[j])), w, column + (j + 1) * m + 1);
  }
}

/* (d, e) of rows first to last, where d[last] is negligible: e[last - 1] goes into the rows above.
 */
static void clear_last(bidiagonal *b, int64_t first, int64_t last) {
  double f = b->e[last - 1];
  b->e[last - 1] = 0;
  for (int64_t j = last - 1; j >= first && f != 0; --j) {
    double size = hypotenuse(b->d[j], f), c = b->d[j] / size, s = f / size;
    b->d[j] = size;
    if (j > first) {
      f = -s * b->e[j - 1];
      b->e[j - 1] *= c;
    }
    if (b->v)
      rotate(b->n, c, s, b->v + j * b->n, b->v + last * b->n);
  }
}

/* The same where d[at] is negligible and at < last: e[at] goes into the rows below. */
static void clear_row(bidiagonal *b, int64_t at, int64_t last) {
  double f = b->e[at];
  b->e[at] = 0;
  for (int64_t j = at + 1; j <= last && f != 0; ++j) {
    double size = hypotenuse(b->d[j], f), c = b->d[j] / size, s = f / size;
    b->d[j] = size;
    if (j < last) {
      f = -s * b->e[j];
      b->e[j] *= c;
    }
    if (b->u)
      rotate(b->m, c, s, b->u + j * b->m, b->u + at * b->m);
  }
}

/* The rotation that makes (f, g) (size, 0). */
static double make_rotation(double f, double g, double *c, double *s) {
  double size = hypotenuse(f, g);
  *c = size == 0 ? 1 : f / size;
  *s = size == 0 ? 0 : g / size;
  return size;
}

/* An implicit QR step on rows first to last, with the shift that the last two rows say. */
static void step(bidiagonal *b, int64_t first, int64_t last) {
  double *d = b->d, *e = b->e;
  double most =
      greater(greater(magnitude(d[last]), magnitude(d[last - 1])),
              greater(greater(magnitude(e[last - 1]), magnitude(d[first])), magnitude(e[first])));
  double end = d[last] / most, before = d[last - 1] / most, between = e[last - 1] / most;
  double start = d[first] / most;
  double half = ((before + end) * (before - end) + between * between) / 2;
  double square = end * between * (end * between), shift = 0;
  if (half != 0 || square != 0)
    shift = square / (half + with_sign(square_root(half * half + square), half));
  double f = (start + end) * (start - end) + shift, g = start * (e[first] / most), c, s;
  for (int64_t j = first; j < last; ++j) {
    double size = make_rotation(f, g, &c, &s);
    if (j > first)
      e[j - 1] = size;
    f = c * d[j] + s * e[j];
    e[j] = c * e[j] - s * d[j];
    g = s * d[j + 1];
    d[j + 1] *= c;
    if (b->v)
      rotate(b->n, c, s, b->v + j * b->n, b->v + (j + 1) * b->n);
    d[j] = make_rotation(f, g, &c, &s);
    f = c * e[j] + s * d[j + 1];
    d[j + 1] = c * d[j + 1] - s * e[j];
    if (j + 1 < last) {
      g = s * e[j + 1];
      e[j + 1] *= c;
    }
    if (b->u)
      rotate(b->m, c, s, b->u + j * b->m, b->u + (j + 1) * b->m);
  }
  e[last - 1] = f;
}

/* Makes d the singular values but for their signs. Says if that has come to an end. */
static bool diagonalize(bidiagonal *b) {
  double *d = b->d, *e = b->e;
  int64_t left = KILN_LINALG_STEPS / 5 * b->n;
  /* Elements far below the rounding of the largest ones are nothing. */
  double least = DBL_MIN;
  for (int64_t i = 0; i < b->n; ++i)
    least = greater(least, DBL_EPSILON * DBL_EPSILON * (magnitude(d[i]) + magnitude(e[i])));
  for (int64_t last = b->n - 1; last > 0;) {
    int64_t first = last;
    while (first > 0 && magnitude(e[first - 1]) >
                            DBL_EPSILON * (magnitude(d[first - 1]) + magnitude(d[first])) + least)
      --first;
    if (first > 0)
      e[first - 1] = 0;
    if (first == last) {
      --last;
      continue;
    }
    if (left-- == 0)
      return false;
    /* A negligible element of the diagonal splits the matrix as well. */
    int64_t zero = last;
    while (zero >= first) {
      double around =
          (zero < last ? magnitude(e[zero]) : 0) + (zero > first ? magnitude(e[zero - 1]) : 0);
      if (magnitude(d[zero]) <= DBL_EPSILON * around + least)
        break;
      --zero;
    }
    if (zero < first) {
      step(b, first, last);
      continue;
    }
    d[zero] = 0;
    if (zero == last)
      clear_last(b, first, last);
    else
      clear_row(b, zero, last);
  }
  return true;
}

static void swap_columns(int64_t n, scalar *vectors, int64_t i, int64_t j, scalar *spare) {
  copy(n, vectors + i * n, spare);
  copy(n, vectors + j * n, vectors + i * n);
  copy(n, spare, vectors + j * n);
}

/* Makes the values positive and sorts them, descending. */
static void sort(bidiagonal *b, scalar *spare) {
  for (int64_t i = 0; i < b->n; ++i)
    if (b->d[i] < 0 || (b->d[i] == 0 && __builtin_signbit(b->d[i]))) {
      b->d[i] = -b->d[i];
      if (b->v)
        scale(b->n, -1, b->v + i * b->n);
    }
  for (int64_t i = 0; i + 1 < b->n; ++i) {
    int64_t most = i;
    for (int64_t j = i + 1; j < b->n; ++j)
      if (b->d[j] > b->d[most])
        most = j;
    if (most == i)
      continue;
    double value = b->d[i];
    b->d[i] = b->d[most];
    b->d[most] = value;
    if (b->v) {
      swap_columns(b->m, b->u, i, most, spare);
      swap_columns(b->n, b->v, i, most, spare);
    }
  }
}

/* The matrix, or its adjoint if it has fewer rows than columns. */
static void take(int64_t rows, int64_t columns, const scalar *from, scalar *to) {
  if (rows >= columns) {
    copy(rows * columns, from, to);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      to[i * columns + j] = conjugate(from[j * rows + i]);
}

static bool decompose(const decomposition *call, int64_t i) {
  int64_t columns = call->in[0]->shape[1], rows = call->in[0]->shape[2];
  bool is_wide = rows < columns;
  bidiagonal b = {.m = is_wide ? columns : rows, .n = is_wide ? rows : columns};
  int64_t m = b.m, n = b.n;
  b.d = (double *)call->out[0]->data + i * n;
  /* [m n + n n + 3 n + m], of which the first is A */
  scalar *a = vector_of(call->out[1], i), *reflectors = a + m * n, *left = reflectors + n * n;
  scalar *right = left + n, *w = right + n;
  b.e = (double *)(w + m);
  take(rows, columns, matrix_of(call->in[0], i), a);
  double most = KILN_LINALG(normalize)(m * n, a);
  bidiagonalize(&b, a, reflectors, left, right, w);
  if (call->wants_vectors) {
    const DLTensor *tall = call->out[is_wide ? 3 : 2];
    b.u_columns = tall->shape[1];
    b.u = matrix_of(tall, i);
    b.v = matrix_of(call->out[is_wide ? 2 : 3], i);
    KILN_LINALG(accumulate)(m, b.u_columns, n, 0, a, m + 1, left, b.u);
    KILN_LINALG(accumulate)(n, n, n - 1, 1, reflectors, n + 1, right, b.v);
  }
  if (!is_finite(most) || !diagonalize(&b))
    return false;
  sort(&b, w);
  for (int64_t j = 0; j < n; ++j)
    b.d[j] *= most;
  return true;
}

KILN_LINALG_FUNCTION(svd) {
  (void)num_inputs;
  decomposition call = {in, out, num_outputs == 4, decompose, false};
  return KILN_LINALG(decompose_all)(context, &call);
}
