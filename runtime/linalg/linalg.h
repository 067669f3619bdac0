/*===- linalg.h - Decompositions of matrices --------------------------------===*
 *
 * C functions that models call as steps of their host program (kiln-c/custom_op.h
 * says how they are called). Each file of this folder is compiled twice, for double
 * and for double complex (KILN_LINALG_COMPLEX): lowerings convert other dtypes, and
 * lay matrices out by columns. Tensors are row-major, so a batch of m x n matrices by
 * columns has the sizes [batch, n, m]. A model has those of these functions alone
 * that it calls.
 *
 *   reflect.c  Householder QR, products of reflectors (Golub & Van Loan, 5.1, 5.2)
 *   eigh.c     Hermitian eigenvalues: tridiagonalisation, implicit QL (8.3)
 *   svd.c      singular values: bidiagonalisation, implicit QR (5.4, 8.6)
 *   eig.c      any eigenvalues: Hessenberg form, QR steps, substitution (7.4, 7.5, 7.6)
 *   ldl.c      LDL factors and systems: Bunch and Kaufman's pivoting (4.4)
 *   matrix_exp.c  exponentials: scaling and squaring of Taylor polynomials (9.3)
 *   common.c   scaling, batches, failures
 *
 * Matrices of a batch are computed in parallel, each by one thread, so results do not
 * depend on the number of threads. Memory is the caller's: what an algorithm needs
 * besides its results is a result as well, `work`. Every iteration is bounded; one that
 * does not converge, as with NaN, is KILN_ASSERTION_FAILED.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_LINALG_LINALG_H
#define KILN_RUNTIME_LINALG_LINALG_H

#include "kiln-c/custom_op.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

/* The most QR steps for an eigenvalue of any matrix; of a Hermitian one and of singular values a fifth of
 * that many, taken together. */
#ifndef KILN_LINALG_STEPS
#define KILN_LINALG_STEPS 300
#endif

/*===-- Scalars -------------------------------------------------------------===*/

#if KILN_LINALG_COMPLEX
typedef double _Complex scalar;
#define KILN_LINALG(name) kiln_linalg_##name##_c128
static inline scalar make(double re, double im) { return __builtin_complex(re, im); }
static inline double real(scalar x) { return __real__ x; }
static inline double imaginary(scalar x) { return __imag__ x; }
static inline scalar conjugate(scalar x) { return make(real(x), -imaginary(x)); }
/* C's product would look for infinities, by a function that models do not have. */
static inline scalar multiply(scalar x, scalar y) {
  return make(real(x) * real(y) - imaginary(x) * imaginary(y),
              real(x) * imaginary(y) + imaginary(x) * real(y));
}
#else
typedef double scalar;
#define KILN_LINALG(name) kiln_linalg_##name##_f64
static inline scalar make(double re, double im) { return (void)im, re; }
static inline double real(scalar x) { return x; }
static inline double imaginary(scalar x) { return (void)x, 0; }
static inline scalar conjugate(scalar x) { return x; }
static inline scalar multiply(scalar x, scalar y) { return x * y; }
#endif

static inline double magnitude(double x) { return __builtin_fabs(x); }
static inline double greater(double x, double y) { return x > y ? x : y; }
static inline int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
static inline double square_root(double x) { return __builtin_sqrt(x); }
static inline double with_sign(double x, double sign) { return __builtin_copysign(x, sign); }
static inline bool is_finite(double x) { return magnitude(x) <= DBL_MAX; }

/* sqrt(x^2 + y^2) without overflow. */
static inline double hypotenuse(double x, double y) {
  double a = magnitude(x), b = magnitude(y), high = greater(a, b), low = a > b ? b : a;
  if (high == 0 || !is_finite(high))
    return a + b;
  double ratio = low / high;
  return high * square_root(1 + ratio * ratio);
}
static inline double absolute(scalar x) {
  return KILN_LINALG_COMPLEX ? hypotenuse(real(x), imaginary(x)) : magnitude(real(x));
}
/* |re| + |im|, which serves to compare sizes. */
static inline double taxicab(scalar x) { return magnitude(real(x)) + magnitude(imaginary(x)); }

/* x / y without overflow on the way (Smith's method). */
static inline scalar divide(scalar x, scalar y) {
#if KILN_LINALG_COMPLEX
  if (magnitude(real(y)) >= magnitude(imaginary(y))) {
    double ratio = imaginary(y) / real(y), below = real(y) + imaginary(y) * ratio;
    return make((real(x) + imaginary(x) * ratio) / below, (imaginary(x) - real(x) * ratio) / below);
  }
  double ratio = real(y) / imaginary(y), below = real(y) * ratio + imaginary(y);
  return make((real(x) * ratio + imaginary(x)) / below, (imaginary(x) * ratio - real(x)) / below);
#else
  return x / y;
#endif
}

/*===-- Vectors -------------------------------------------------------------===*/

/* x^H y */
static inline scalar dot(int64_t n, const scalar *x, const scalar *y) {
#if KILN_LINALG_COMPLEX
  const double *a = (const double *)x, *b = (const double *)y;
  double re = 0, im = 0;
#pragma omp simd reduction(+ : re, im)
  for (int64_t i = 0; i < n; ++i) {
    re += a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
    im += a[2 * i] * b[2 * i + 1] - a[2 * i + 1] * b[2 * i];
  }
  return make(re, im);
#else
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    sum += x[i] * y[i];
  return sum;
#endif
}

/* y += factor x */
static inline void add_multiple(int64_t n, scalar factor, const scalar *restrict x,
                                scalar *restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    y[i] += multiply(factor, x[i]);
}

static inline void scale(int64_t n, scalar factor, scalar *x) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    x[i] = multiply(factor, x[i]);
}

/* The plane rotation (x, y) = (c x + s y, c y - s x). */
static inline void rotate(int64_t n, double c, double s, scalar *restrict x, scalar *restrict y) {
  double *restrict a = (double *)x, *restrict b = (double *)y;
  int64_t count = n * (int64_t)(sizeof(scalar) / sizeof(double));
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    double old = a[i];
    a[i] = c * old + s * b[i];
    b[i] = c * b[i] - s * old;
  }
}

/* The 2-norm. */
static inline double norm(int64_t n, const scalar *x) {
  double square = real(dot(n, x, x));
  if (square > 1e-290 && square < 1e290)
    return square_root(square);
  double most = 0;
  for (int64_t i = 0; i < n; ++i) {
    double size = greater(magnitude(real(x[i])), magnitude(imaginary(x[i])));
    if (!is_finite(size))
      return size;
    most = greater(most, size);
  }
  if (most == 0)
    return square; /* 0 or NaN */
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    double re = real(x[i]) / most, im = imaginary(x[i]) / most;
    sum += re * re + im * im;
  }
  return most * square_root(sum);
}

static inline void copy(int64_t n, const scalar *from, scalar *to) {
  if (n > 0)
    memcpy(to, from, (size_t)n * sizeof *to);
}

static inline void clear(int64_t n, scalar *x) {
  if (n > 0)
    memset(x, 0, (size_t)n * sizeof *x);
}

/*===-- Reflectors (reflect.c) ----------------------------------------------===*
 *
 * H = I - tau v v^H with v[0] = 1, which is not stored. As LAPACK's: H^H x is real, of
 * the sign that is not x[0]'s, so factors are the same as PyTorch's, signs included.
 */

/* Makes x beta in x[0] and v behind it; gives tau, and beta. */
scalar KILN_LINALG(reflector)(int64_t n, scalar *x, double *beta);

/* A = (I - factor v v^H) A for `columns` columns of m elements; v[0] counts as 1. */
static inline void reflect(int64_t m, int64_t columns, const scalar *v, scalar factor, scalar *a,
                           int64_t stride) {
  if (real(factor) == 0 && imaginary(factor) == 0)
    return;
  for (int64_t j = 0; j < columns; ++j, a += stride) {
    scalar along = multiply(factor, a[0] + dot(m - 1, v + 1, a + 1));
    a[0] -= along;
    add_multiple(m - 1, -along, v + 1, a + 1);
  }
}

/* The first `columns` columns of H_0 ... H_(k-1) in q, whose reflectors start at the rows `first`,
 * first + 1, ... and lie in `v` from i * stride + first on. q: [columns, m] */
void KILN_LINALG(accumulate)(int64_t m, int64_t columns, int64_t k, int64_t first, const scalar *v,
                             int64_t stride, const scalar *tau, scalar *q);

/*===-- Common --------------------------------------------------------------===*/

/* Divides by a power of two so that elements are near 1 at most, and gives it; infinite or NaN if
 * some element is. */
double KILN_LINALG(normalize)(int64_t n, scalar *x);

/* Leaves a message, and gives the status of a matrix that an algorithm cannot take. */
int32_t KILN_LINALG(fail)(const kiln_custom_op_context *context, const char *message);

/*===-- Batches -------------------------------------------------------------===*/

/* Calls body(arg, i) for each matrix of the batch. */
static inline void for_each(const kiln_custom_op_context *context, int64_t batch,
                            void (*body)(void *arg, int64_t i), void *arg) {
  if (batch == 1)
    body(arg, 0);
  else if (batch > 1)
    context->parallel_for(context->parallel_ctx, batch, body, arg);
}

static inline scalar *matrix_of(const DLTensor *tensor, int64_t i) {
  return (scalar *)tensor->data + i * tensor->shape[1] * tensor->shape[2];
}
static inline scalar *vector_of(const DLTensor *tensor, int64_t i) {
  return (scalar *)tensor->data + i * tensor->shape[1];
}

/* A decomposition of the matrices of a batch by an iteration that may not converge. */
typedef struct decomposition {
  const DLTensor *const *in, *const *out;
  bool wants_vectors;
  bool (*decompose)(const struct decomposition *call, int64_t i); /* false: not converged */
  bool failed;                                                    /* some matrix */
} decomposition;

/* Decomposes each matrix, and gives the status. */
int32_t KILN_LINALG(decompose_all)(const kiln_custom_op_context *context, decomposition *call);

/*===-- The functions -------------------------------------------------------===*/

#define KILN_LINALG_FUNCTION(name)                                                                 \
  int32_t KILN_LINALG(name)(const DLTensor *const *in, size_t num_inputs,                          \
                            const DLTensor *const *out, size_t num_outputs,                        \
                            const kiln_custom_op_context *context)

/* in: a [batch, n, m]. out: R on and above the diagonal and reflectors below it [batch, n, m];
 * tau [batch, min(m, n)]. */
KILN_LINALG_FUNCTION(geqrf);
/* in: reflectors [batch, n, m] and tau [batch, k] as of geqrf. out: the first c columns of their
 * product [batch, c, m]. */
KILN_LINALG_FUNCTION(orgqr);
/* in: reflectors [batch, n, m] and tau [batch, k]; c [batch, columns, m]; whether Q^H is meant.
 * out: Q C [batch, columns, m]. */
KILN_LINALG_FUNCTION(ormqr);

/* in: Hermitian matrices, of which the lower triangle counts [batch, n, n]; what is above
 * it is finite. out: eigenvalues,
 * ascending, double [batch, n]; work [batch, 3 n + n n]; and, if wanted, the vectors [batch, n, n].
 */
KILN_LINALG_FUNCTION(eigh);

/* in: a [batch, n, m]. out: singular values, descending, double [batch, k] with k = min(m, n); work
 * [batch, m n + k k + 3 k + max(m, n)]; and, if wanted, columns of U, k or m of them [batch, c, m],
 * and of V, k or n of them [batch, c, n]. */
KILN_LINALG_FUNCTION(svd);

/* in: a [batch, n, n]. out: eigenvalues, double complex [batch, n]; work [batch, 2 n n + 5 n]; and,
 * if wanted, the vectors, double complex [batch, n, n]. */
KILN_LINALG_FUNCTION(eig);

/* in: a [batch, n, n]. out: exponentials [batch, n, n]; work [batch, 6 n n + 8 n]. Of the
 * transposed matrix it is the transposed one. NaN of a matrix with elements that are not finite. */
KILN_LINALG_FUNCTION(matrix_exp);

/* in: a [batch, n, n], of which the lower triangle counts; whether it is Hermitian. out: D and L
 * [batch, n, n], what is above as it was; pivots, int32 [batch, n]; the first block, from 1, whose
 * pivot is zero, or 0, int32 [batch]. */
KILN_LINALG_FUNCTION(ldl_factor);
/* in: the first two of these; b [batch, columns, n]; whether they are Hermitian. out: x [batch,
 * columns, n]. Pivots that name no row are KILN_INVALID_ARGUMENT. */
KILN_LINALG_FUNCTION(ldl_solve);

#endif /* KILN_RUNTIME_LINALG_LINALG_H */
