/*===- eig.c - Eigenvalues and vectors of any square matrices ------------------===*
 *
 * Balancing by powers of two (Golub & Van Loan, 4th edition, 7.5.7), reduction to
 * Hessenberg form by Householder reflectors (7.4.3), QR steps until it is triangular
 * (7.5: Francis' double steps for real matrices, whose conjugate pairs stay blocks of two
 * rows; single steps with Wilkinson's shift for complex ones), and the vectors of the
 * triangle by substitution from below (7.6.4). Vectors are normalised as LAPACK's: of
 * norm 1, and of complex ones the largest element is real.
 *
 *===-----------------------------------------------------------------------===*/
#include "linalg.h"

typedef double _Complex number; /* of results, whatever `scalar` is */

static inline number pair(double re, double im) { return __builtin_complex(re, im); }
static inline double re(number x) { return __real__ x; }
static inline double im(number x) { return __imag__ x; }
static inline number times(number x, number y) {
  return pair(re(x) * re(y) - im(x) * im(y), re(x) * im(y) + im(x) * re(y));
}
static inline double sum_of_parts(number x) { return magnitude(re(x)) + magnitude(im(x)); }
static number over(number x, number y) {
  if (magnitude(re(y)) >= magnitude(im(y))) {
    double ratio = im(y) / re(y), below = re(y) + im(y) * ratio;
    return pair((re(x) + im(x) * ratio) / below, (im(x) - re(x) * ratio) / below);
  }
  double ratio = re(y) / im(y), below = re(y) * ratio + im(y);
  return pair((re(x) * ratio + im(x)) / below, (im(x) * ratio - re(x)) / below);
}
static inline number widen(scalar x) { return pair(real(x), imaginary(x)); }
/* x y, of two products where x is real */
static inline number times_scalar(scalar x, number y) {
  return KILN_LINALG_COMPLEX ? times(widen(x), y) : real(x) * y;
}

/* One matrix: T by columns, and what is made of A by the same rotations. */
typedef struct {
  int64_t n;
  scalar *t, *q;  /* q NULL: no vectors are wanted */
  double *scales; /* of rows, by balancing */
  double size;    /* of T */
} schur;

static inline scalar *at(const schur *s, int64_t i, int64_t j) { return s->t + j * s->n + i; }

/*===-- To Hessenberg form --------------------------------------------------===*/

static double line_norm(const schur *s, int64_t at_line, bool is_row) {
  double sum = 0;
  for (int64_t j = 0; j < s->n; ++j)
    if (j != at_line)
      sum += taxicab(is_row ? *at(s, at_line, j) : *at(s, j, at_line));
  return sum;
}

/* Makes rows and columns of about the same size. */
static void balance(schur *s) {
  int64_t n = s->n;
  for (int64_t i = 0; i < n; ++i)
    s->scales[i] = 1;
  bool goes_on = true;
  for (int round = 0; round < 50 && goes_on; ++round) {
    goes_on = false;
    for (int64_t i = 0; i < n; ++i) {
      double row = line_norm(s, i, true), column = line_norm(s, i, false), factor = 1;
      if (row == 0 || column == 0)
        continue;
      double both = row + column, scaled = column;
      while (scaled < row / 2 && factor < 0x1p200) {
        factor *= 2;
        scaled *= 4;
      }
      while (scaled >= row * 2 && factor > 0x1p-200) {
        factor /= 2;
        scaled /= 4;
      }
      if (factor == 1 || (row / factor + column * factor) >= 0.95 * both)
        continue;
      goes_on = true;
      s->scales[i] *= factor;
      for (int64_t j = 0; j < n; ++j)
        *at(s, i, j) *= 1 / factor;
      for (int64_t j = 0; j < n; ++j)
        *at(s, j, i) *= factor;
    }
  }
}

/* `tau`, `w`: n elements each. */
static void make_hessenberg(schur *s, scalar *tau, scalar *w) {
  int64_t n = s->n;
  for (int64_t k = 0; k + 1 < n; ++k) {
    int64_t rest = n - k - 1;
    scalar *v = at(s, k + 1, k);
    double beta;
    tau[k] = KILN_LINALG(reflector)(rest, v, &beta);
    reflect(rest, rest, v, conjugate(tau[k]), at(s, k + 1, k + 1), n);
    scalar head = v[0];
    v[0] = 1;
    clear(n, w);
    for (int64_t j = 0; j < rest; ++j)
      add_multiple(n, v[j], at(s, 0, k + 1 + j), w);
    for (int64_t j = 0; j < rest; ++j)
      add_multiple(n, -multiply(tau[k], conjugate(v[j])), w, at(s, 0, k + 1 + j));
    v[0] = head;
  }
  if (s->q)
    KILN_LINALG(accumulate)(n, n, n - 1, 1, s->t, n + 1, tau, s->q);
  s->size = 0;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i)
      if (i > j + 1)
        *at(s, i, j) = 0;
      else
        s->size = greater(s->size, taxicab(*at(s, i, j)));
}

/* The first row of the block that ends at `last`, above which an element is negligible, and is made
 * zero. */
static int64_t find_block(const schur *s, int64_t last) {
  int64_t first = last;
  double least = DBL_EPSILON * DBL_EPSILON * s->size + DBL_MIN; /* nothing, beside other rounding */
  for (; first > 0; --first) {
    double around = taxicab(*at(s, first - 1, first - 1)) + taxicab(*at(s, first, first));
    if (around == 0)
      around = s->size;
    if (taxicab(*at(s, first, first - 1)) <= DBL_EPSILON * around + least) {
      *at(s, first, first - 1) = 0;
      break;
    }
  }
  return first;
}

#if KILN_LINALG_COMPLEX
/*===-- Complex matrices ----------------------------------------------------===*/

static scalar root(scalar x) {
  double size = absolute(x);
  if (size == 0)
    return 0;
  double high = square_root((size + magnitude(real(x))) / 2), low = imaginary(x) / (2 * high);
  return real(x) >= 0 ? make(high, low) : make(magnitude(low), with_sign(high, imaginary(x)));
}

/* The eigenvalue of the last two rows that is nearer to the last element. */
static scalar choose_shift(const schur *s, int64_t last, int64_t count) {
  scalar end = *at(s, last, last);
  if (count % 10 == 0) /* against cycles */
    return end + taxicab(*at(s, last, last - 1));
  scalar square = multiply(*at(s, last - 1, last), *at(s, last, last - 1));
  scalar half = 0.5 * (*at(s, last - 1, last - 1) - end);
  scalar part = root(multiply(half, half) + square);
  if (real(half) * real(part) + imaginary(half) * imaginary(part) < 0)
    part = -part;
  scalar sum = half + part;
  return taxicab(sum) == 0 ? end : end - divide(square, sum);
}

/* (x, y) = (c x + s y, c y - conj(s) x) for elements that are `stride` apart. */
static void turn(int64_t count, int64_t stride, double c, scalar by, scalar *x, scalar *y) {
  for (int64_t i = 0; i < count; ++i, x += stride, y += stride) {
    scalar old = *x;
    *x = c * old + multiply(by, *y);
    *y = c * *y - multiply(conjugate(by), old);
  }
}

static void step(schur *s, int64_t first, int64_t last, int64_t count) {
  int64_t n = s->n;
  scalar x = *at(s, first, first) - choose_shift(s, last, count), y = *at(s, first + 1, first);
  for (int64_t k = first; k < last; ++k) {
    double size = absolute(x), other = absolute(y), whole = hypotenuse(size, other), c = 1;
    scalar by = 0;
    if (whole != 0) {
      scalar unit = size == 0 ? 1 : x / size;
      c = size / whole;
      by = multiply(unit, conjugate(y / whole));
      if (k > first) {
        *at(s, k, k - 1) = unit * whole;
        *at(s, k + 1, k - 1) = 0;
      }
    }
    turn(n - k, n, c, by, at(s, k, k), at(s, k + 1, k));
    turn(smaller(k + 2, last) + 1, 1, c, conjugate(by), at(s, 0, k), at(s, 0, k + 1));
    if (s->q)
      turn(n, 1, c, conjugate(by), s->q + k * n, s->q + (k + 1) * n);
    if (k + 2 <= last) {
      x = *at(s, k + 1, k);
      y = *at(s, k + 2, k);
    }
  }
}

static bool make_triangular(schur *s, number *values) {
  int64_t count = 0;
  for (int64_t last = s->n - 1; last >= 0;) {
    int64_t first = find_block(s, last);
    if (first == last) {
      values[last] = *at(s, last, last);
      --last;
      count = 0;
    } else if (++count > KILN_LINALG_STEPS) {
      return false;
    } else {
      step(s, first, last, count);
    }
  }
  return true;
}

#else
/*===-- Real matrices -------------------------------------------------------===*/

/* (x, y) = (c x + s y, c y - s x) for elements that are `stride` apart. */
static void turn(int64_t count, int64_t stride, double c, double by, double *x, double *y) {
  for (int64_t i = 0; i < count; ++i, x += stride, y += stride) {
    double old = *x;
    *x = c * old + by * *y;
    *y = c * *y - by * old;
  }
}

/* The eigenvalues of rows `k` and k + 1; real ones make that block a triangle. */
static void finish_pair(schur *s, int64_t k, number *values) {
  int64_t n = s->n;
  double a = *at(s, k, k), b = *at(s, k, k + 1), c = *at(s, k + 1, k), d = *at(s, k + 1, k + 1);
  double half = (a - d) / 2, square = half * half + b * c;
  double part = square_root(magnitude(square));
  if (square < 0) {
    values[k] = pair(d + half, part);
    values[k + 1] = pair(d + half, -part);
    return;
  }
  double sum = half + with_sign(part, half);
  double one = d + sum, other = sum == 0 ? d : d - b * c / sum;
  /* (sum, c) is a vector of the first one. */
  double size = hypotenuse(sum, c);
  double cosine = size == 0 ? 1 : sum / size, sine = size == 0 ? 0 : c / size;
  turn(n - k, n, cosine, sine, at(s, k, k), at(s, k + 1, k));
  turn(k + 2, 1, cosine, sine, at(s, 0, k), at(s, 0, k + 1));
  if (s->q)
    turn(n, 1, cosine, sine, s->q + k * n, s->q + (k + 1) * n);
  *at(s, k, k) = one;
  *at(s, k + 1, k + 1) = other;
  *at(s, k + 1, k) = 0;
  values[k] = one;
  values[k + 1] = other;
}

/* H = I - tau v v^T of three rows, or of two, and of these columns. */
static void reflect_three(const schur *s, int64_t k, int rows, const double *v, double tau,
                          int64_t last) {
  int64_t n = s->n;
  for (int64_t j = k; j < n; ++j) {
    double *x = at(s, k, j);
    double along = tau * (x[0] + v[1] * x[1] + (rows == 3 ? v[2] * x[2] : 0));
    x[0] -= along;
    x[1] -= along * v[1];
    if (rows == 3)
      x[2] -= along * v[2];
  }
  for (int part = 0; part < 2; ++part) {
    double *base = part == 0 ? s->t : s->q;
    int64_t count = part == 0 ? smaller(k + 3, last) + 1 : n;
    if (!base)
      continue;
    double *restrict x = base + k * n, *restrict y = x + n, *restrict z = rows == 3 ? y + n : x;
    double third = rows == 3 ? v[2] : 0;
    if (rows == 3) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        double along = tau * (x[i] + v[1] * y[i] + third * z[i]);
        x[i] -= along;
        y[i] -= along * v[1];
        z[i] -= along * third;
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        double along = tau * (x[i] + v[1] * y[i]);
        x[i] -= along;
        y[i] -= along * v[1];
      }
    }
  }
}

/* Francis' double step on rows first to last, at least three. */
static void step(schur *s, int64_t first, int64_t last, int64_t count) {
  double x = *at(s, last, last), y = *at(s, last - 1, last - 1);
  double product = *at(s, last, last - 1) * *at(s, last - 1, last);
  double trace = x + y, determinant = x * y - product;
  if (count % 10 == 0) { /* against cycles */
    double size = magnitude(*at(s, last, last - 1)) + magnitude(*at(s, last - 1, last - 2));
    x += 0.75 * size;
    trace = 2 * x;
    determinant = x * x + 0.4375 * size * size;
  }
  /* The first column of (T - shift) (T - other shift), from the lowest row where what is left of it
   * may begin. */
  int64_t start = last - 2;
  double v[3];
  for (;; --start) {
    double a = *at(s, start, start), b = *at(s, start, start + 1), c = *at(s, start + 1, start);
    double d = *at(s, start + 1, start + 1), e = *at(s, start + 2, start + 1);
    v[0] = a * (a - trace) + determinant + b * c;
    v[1] = c * (a + d - trace);
    v[2] = c * e;
    double size = magnitude(v[0]) + magnitude(v[1]) + magnitude(v[2]);
    for (int i = 0; i < 3 && size != 0; ++i)
      v[i] /= size;
    if (start == first)
      break;
    double above = magnitude(*at(s, start - 1, start - 1));
    if (magnitude(*at(s, start, start - 1)) * (magnitude(v[1]) + magnitude(v[2])) <=
        DBL_EPSILON * magnitude(v[0]) * (above + magnitude(a) + magnitude(d)))
      break;
  }
  for (int64_t k = start; k < last; ++k) {
    int rows = k + 2 <= last ? 3 : 2;
    if (k > start)
      for (int i = 0; i < rows; ++i)
        v[i] = *at(s, k + i, k - 1);
    double beta, tau = KILN_LINALG(reflector)(rows, v, &beta);
    if (k > start) {
      *at(s, k, k - 1) = beta;
      for (int i = 1; i < rows; ++i)
        *at(s, k + i, k - 1) = 0;
    } else if (k > first) {
      *at(s, k, k - 1) *= 1 - tau;
    }
    reflect_three(s, k, rows, v, tau, last);
  }
}

static bool make_triangular(schur *s, number *values) {
  int64_t count = 0;
  for (int64_t last = s->n - 1; last >= 0;) {
    int64_t first = find_block(s, last);
    if (last - first < 2) {
      if (first == last)
        values[last] = *at(s, last, last);
      else
        finish_pair(s, first, values);
      last = first - 1;
      count = 0;
    } else if (++count > KILN_LINALG_STEPS) {
      return false;
    } else {
      step(s, first, last, count);
    }
  }
  return true;
}
#endif

/*===-- Vectors -------------------------------------------------------------===*/

/* Row i is the second of a block that is no triangle. */
static bool is_second(const schur *s, int64_t i) {
  return !KILN_LINALG_COMPLEX && i > 0 && taxicab(*at(s, i, i - 1)) != 0;
}

/* (T - value) x = 0 for rows 0 to last, where x ends: `x` is right of its last element on. */
static void substitute(const schur *s, int64_t k, number value, number *x) {
  double least = greater(DBL_EPSILON * s->size, DBL_MIN);
  for (int64_t i = k; i < s->n; ++i)
    x[i] = 0;
  int64_t above = k - 1;
  x[k] = 1;
  if (is_second(s, k)) { /* of a pair */
    above = k - 2;
    x[k - 1] = over(value - widen(*at(s, k, k)), widen(*at(s, k, k - 1)));
  }
  for (int64_t i = 0; i <= above; ++i) {
    x[i] = 0;
    for (int64_t j = above + 1; j <= k; ++j)
      x[i] -= times_scalar(*at(s, i, j), x[j]);
  }
  for (int64_t i = above; i >= 0; --i) {
    int64_t top = i;
    if (is_second(s, i)) {
      top = i - 1;
      number a = widen(*at(s, top, top)) - value, b = widen(*at(s, top, i));
      number c = widen(*at(s, i, top)), d = widen(*at(s, i, i)) - value;
      number determinant = times(a, d) - times(b, c);
      if (sum_of_parts(determinant) < least * least)
        determinant = least * least;
      number upper = x[top], lower = x[i];
      x[top] = over(times(upper, d) - times(b, lower), determinant);
      x[i] = over(times(a, lower) - times(c, upper), determinant);
    } else {
      number pivot = widen(*at(s, i, i)) - value;
      if (sum_of_parts(pivot) < least)
        pivot = least;
      x[i] = over(x[i], pivot);
    }
    double most = greater(sum_of_parts(x[i]), sum_of_parts(x[top]));
    if (most > 1e100) /* far from overflow */
      for (int64_t j = 0; j <= k; ++j)
        x[j] *= 1 / most;
    for (int64_t j = top; j <= i; ++j)
      for (int64_t r = 0; r < top; ++r)
        x[r] -= times_scalar(*at(s, r, j), x[j]);
    i = top;
  }
}

/* Norm 1; of a complex vector, which is not 0, the largest element is real. */
static void normalize_vector(int64_t n, number *x, bool is_real) {
  double most = 0;
  for (int64_t i = 0; i < n; ++i)
    most = greater(most, sum_of_parts(x[i]));
  double sum = 0, largest = 0;
  int64_t place = 0;
  for (int64_t i = 0; i < n; ++i) {
    x[i] *= 1 / most;
    double square = re(x[i]) * re(x[i]) + im(x[i]) * im(x[i]);
    sum += square;
    if (square > largest) {
      largest = square;
      place = i;
    }
  }
  double size = square_root(sum), part = square_root(largest);
  number factor = is_real ? pair(1 / size, 0)
                          : pair(re(x[place]) / (part * size), -im(x[place]) / (part * size));
  for (int64_t i = 0; i < n; ++i)
    x[i] = times(x[i], factor);
  if (!is_real)
    x[place] = pair(re(x[place]), 0);
}

/* V = scales Q X, normalised. `x`: n elements. */
static void make_vectors(const schur *s, const number *values, number *x, number *vectors) {
  int64_t n = s->n;
  for (int64_t k = n - 1; k >= 0; --k) {
    number *v = vectors + k * n;
    substitute(s, k, values[k], x);
    memset(v, 0, (size_t)n * sizeof *v);
    for (int64_t j = 0; j <= k; ++j)
      for (int64_t i = 0; i < n; ++i)
        v[i] += times_scalar(s->q[j * n + i], x[j]);
    for (int64_t i = 0; i < n; ++i)
      v[i] *= s->scales[i];
    bool is_pair = is_second(s, k);
    normalize_vector(n, v, !KILN_LINALG_COMPLEX && !is_pair);
    if (!is_pair)
      continue;
    /* The conjugate is the other's. */
    for (int64_t i = 0; i < n; ++i)
      v[i - n] = pair(re(v[i]), -im(v[i]));
    --k;
  }
}

static bool decompose(const decomposition *call, int64_t i) {
  int64_t n = call->in[0]->shape[1];
  /* [2 n n + 5 n]: T, Q, two rows of reflectors, one of scales, two of vectors */
  scalar *work = vector_of(call->out[1], i), *tau = work + 2 * n * n, *w = tau + n;
  schur s = {n, work, call->wants_vectors ? work + n * n : NULL, (double *)(w + n), 0};
  number *values = (number *)call->out[0]->data + i * n;
  copy(n * n, matrix_of(call->in[0], i), s.t);
  double most = KILN_LINALG(normalize)(n * n, s.t);
  bool is_done = is_finite(most);
  if (is_done) {
    balance(&s);
    make_hessenberg(&s, tau, w);
    is_done = make_triangular(&s, values);
  }
  if (!is_done)
    return false;
  if (call->wants_vectors)
    make_vectors(&s, values, (number *)(work + 2 * n * n + 3 * n),
                 (number *)call->out[2]->data + i * n * n);
  for (int64_t j = 0; j < n; ++j)
    values[j] *= most;
  return true;
}

KILN_LINALG_FUNCTION(eig) {
  (void)num_inputs;
  decomposition call = {in, out, num_outputs == 3, decompose, false};
  return KILN_LINALG(decompose_all)(context, &call);
}
