/*===- ldl.c - LDL factors of symmetric and Hermitian matrices -----------------===*
 *
 * A = P L D L^T P^T (or with L^H) with blocks of one and two rows in D, by the pivoting
 * of Bunch and Kaufman (Golub & Van Loan, 4th edition, 4.4.4). Factors and pivots are
 * stored as LAPACK's sytrf and hetrf do for the lower triangle: a block of one row has
 * the row, from 1, that its own was swapped with; one of two rows has twice the negative
 * number of the row that its second one was swapped with.
 *
 *===-----------------------------------------------------------------------===*/
#include "linalg.h"

/* One matrix by columns. */
typedef struct {
  int64_t n;
  scalar *a;
  bool is_hermitian;
} symmetric;

static inline scalar *at(const symmetric *s, int64_t i, int64_t j) { return s->a + j * s->n + i; }
/* The element above the diagonal that stands for one below it. */
static inline scalar mirror(const symmetric *s, scalar x) {
  return s->is_hermitian ? conjugate(x) : x;
}
static inline double size_of_diagonal(const symmetric *s, int64_t k) {
  scalar x = *at(s, k, k);
  return s->is_hermitian ? magnitude(real(x)) : taxicab(x);
}
static void swap(scalar *x, scalar *y) {
  scalar old = *x;
  *x = *y;
  *y = old;
}

/*===-- Factors -------------------------------------------------------------===*/

/* The row to swap with, and of how many rows the block at k is; 0: there is no pivot. */
static int choose_pivot(const symmetric *s, int64_t k, int64_t *row) {
  const double alpha = 0.6403882032022076; /* (1 + sqrt(17)) / 8 */
  double own = size_of_diagonal(s, k), below = 0, beside = 0;
  int64_t most = k;
  for (int64_t i = k + 1; i < s->n; ++i)
    if (taxicab(*at(s, i, k)) > below) {
      below = taxicab(*at(s, i, k));
      most = i;
    }
  *row = k;
  if (!(greater(own, below) > 0)) /* or NaN */
    return 0;
  if (most == k || own >= alpha * below)
    return 1;
  for (int64_t j = k; j < most; ++j)
    beside = greater(beside, taxicab(*at(s, most, j)));
  for (int64_t i = most + 1; i < s->n; ++i)
    beside = greater(beside, taxicab(*at(s, i, most)));
  if (own >= alpha * below * (below / beside))
    return 1;
  *row = most;
  return size_of_diagonal(s, most) >= alpha * beside ? 1 : 2;
}

/* Swaps rows and columns `to` < `from` of what is not factored yet. */
static void exchange(const symmetric *s, int64_t to, int64_t from) {
  for (int64_t i = from + 1; i < s->n; ++i)
    swap(at(s, i, to), at(s, i, from));
  for (int64_t i = to + 1; i < from; ++i) {
    scalar old = mirror(s, *at(s, i, to));
    *at(s, i, to) = mirror(s, *at(s, from, i));
    *at(s, from, i) = old;
  }
  *at(s, from, to) = mirror(s, *at(s, from, to));
  swap(at(s, to, to), at(s, from, from));
}

static void eliminate_one(const symmetric *s, int64_t k) {
  scalar inverse = divide(make(1, 0), *at(s, k, k));
  scalar *x = at(s, 0, k);
  for (int64_t j = k + 1; j < s->n; ++j) {
    scalar factor = multiply(mirror(s, x[j]), inverse);
    add_multiple(s->n - j, -factor, x + j, at(s, j, j));
  }
  scale(s->n - k - 1, inverse, x + k + 1);
}

static void eliminate_two(const symmetric *s, int64_t k) {
  scalar *x = at(s, 0, k), *y = at(s, 0, k + 1), between = x[k + 1];
  /* D / |between|, or D / between: near 1 off the diagonal */
  scalar unit = s->is_hermitian ? make(absolute(between), 0) : between;
  scalar below = divide(between, unit), above = mirror(s, below);
  scalar first = divide(x[k], unit), second = divide(y[k + 1], unit);
  scalar determinant = multiply(first, second) - multiply(below, above);
  scalar factor = divide(divide(make(1, 0), determinant), unit);
  for (int64_t j = k + 2; j < s->n; ++j) {
    scalar one = multiply(factor, multiply(second, x[j]) - multiply(below, y[j]));
    scalar two = multiply(factor, multiply(first, y[j]) - multiply(above, x[j]));
    add_multiple(s->n - j, -mirror(s, one), x + j, at(s, j, j));
    add_multiple(s->n - j, -mirror(s, two), y + j, at(s, j, j));
    x[j] = one;
    y[j] = two;
  }
}

/* Gives the first block, from 1, whose pivot is zero; 0 without. */
static int32_t factor(const symmetric *s, int32_t *pivots) {
  int32_t zero = 0;
  for (int64_t k = 0; k < s->n;) {
    int64_t row;
    int count = choose_pivot(s, k, &row), rows = count == 2 ? 2 : 1;
    int64_t own = k + rows - 1;
    if (row != own) {
      exchange(s, own, row);
      if (rows == 2)
        swap(at(s, k + 1, k), at(s, row, k));
    }
    for (int64_t i = k; i <= own && s->is_hermitian; ++i)
      *at(s, i, i) = real(*at(s, i, i));
    for (int64_t i = k; i <= own; ++i)
      pivots[i] = (int32_t)(rows == 2 ? -(row + 1) : row + 1);
    if (count == 0 && zero == 0)
      zero = (int32_t)(k + 1);
    else if (count == 1)
      eliminate_one(s, k);
    else if (count == 2)
      eliminate_two(s, k);
    k += rows;
  }
  return zero;
}

typedef struct {
  const DLTensor *const *in, *const *out;
  bool is_hermitian;
  bool failed;
} arguments;

static void factor_one(void *arg, int64_t i) {
  const arguments *call = arg;
  int64_t n = call->in[0]->shape[1];
  symmetric s = {n, matrix_of(call->out[0], i), call->is_hermitian};
  copy(n * n, matrix_of(call->in[0], i), s.a);
  int32_t *pivots = (int32_t *)call->out[1]->data + i * n;
  ((int32_t *)call->out[2]->data)[i] = factor(&s, pivots);
}

KILN_LINALG_FUNCTION(ldl_factor) {
  (void)num_inputs, (void)num_outputs;
  arguments call = {in, out, *(const uint8_t *)in[1]->data, false};
  for_each(context, in[0]->shape[0], factor_one, &call);
  return KILN_OK;
}

/*===-- Systems -------------------------------------------------------------===*/

/* x of D x = x for the block of two rows at k. */
static void solve_two(const symmetric *s, int64_t k, scalar *x) {
  scalar below = *at(s, k + 1, k), above = mirror(s, below);
  scalar first = divide(*at(s, k, k), above), second = divide(*at(s, k + 1, k + 1), below);
  scalar determinant = multiply(first, second) - 1;
  scalar one = divide(x[k], above), two = divide(x[k + 1], below);
  x[k] = divide(multiply(second, one) - two, determinant);
  x[k + 1] = divide(multiply(first, two) - one, determinant);
}

/* The row that a pivot names; -1: none that is there, or half a block. */
static int64_t find_row(const int32_t *pivots, int64_t n, int64_t k) {
  int64_t row = pivots[k] > 0 ? pivots[k] - 1 : -(int64_t)pivots[k] - 1;
  return row >= 0 && row < n ? row : -1;
}

static bool solve_column(const symmetric *s, const int32_t *pivots, scalar *x) {
  int64_t n = s->n;
  for (int64_t k = 0; k < n;) {
    int64_t row = find_row(pivots, n, k), rows = pivots[k] > 0 ? 1 : 2;
    if (row < 0 || k + rows > n || (rows == 2 && pivots[k + 1] != pivots[k]))
      return false;
    swap(&x[k + rows - 1], &x[row]);
    for (int64_t j = k; j < k + rows; ++j)
      add_multiple(n - k - rows, -x[j], at(s, k + rows, j), x + k + rows);
    if (rows == 1)
      x[k] = divide(x[k], *at(s, k, k));
    else
      solve_two(s, k, x);
    k += rows;
  }
  for (int64_t k = n - 1; k >= 0;) {
    int64_t rows = pivots[k] > 0 ? 1 : 2;
    for (int64_t j = k - rows + 1; j <= k; ++j)
      for (int64_t i = k + 1; i < n; ++i)
        x[j] -= multiply(mirror(s, *at(s, i, j)), x[i]);
    swap(&x[k], &x[find_row(pivots, n, k)]);
    k -= rows;
  }
  return true;
}

static void solve_one(void *arg, int64_t i) {
  arguments *call = arg;
  int64_t n = call->in[0]->shape[1], columns = call->in[2]->shape[1];
  symmetric s = {n, matrix_of(call->in[0], i), call->is_hermitian};
  const int32_t *pivots = (const int32_t *)call->in[1]->data + i * n;
  scalar *x = matrix_of(call->out[0], i);
  copy(n * columns, matrix_of(call->in[2], i), x);
  for (int64_t j = 0; j < columns; ++j)
    if (!solve_column(&s, pivots, x + j * n))
      __atomic_store_n(&call->failed, true, __ATOMIC_RELAXED);
}

KILN_LINALG_FUNCTION(ldl_solve) {
  (void)num_inputs, (void)num_outputs;
  arguments call = {in, out, *(const uint8_t *)in[3]->data, false};
  for_each(context, in[0]->shape[0], solve_one, &call);
  if (!call.failed)
    return KILN_OK;
  KILN_LINALG(fail)(context, "pivots that name no rows of the factors");
  return KILN_INVALID_ARGUMENT;
}
