/*===- matrix_exp.c - Exponentials of matrices ---------------------------------===*
 *
 * Scaling and squaring (Golub & Van Loan, 4th edition, 9.3.1) with Taylor polynomials
 * of degree 1 to 16, as PyTorch's, but evaluated in blocks of powers (Paterson and
 * Stockmeyer). Bounds of the norm are those up to which a polynomial's backward error is
 * at most 2^-53 (Al-Mohy and Higham, 2009; Sastre, Ibanez, Defez, 2015).
 *
 *===-----------------------------------------------------------------------===*/
#include "linalg.h"

#define ROWS 8
#define COLUMNS 4

/*===-- Products ------------------------------------------------------------===*/

/* C = A B of n x n matrices by columns. */
typedef struct {
  int64_t n;
  const scalar *a, *b;
  scalar *c;
  scalar *strips; /* A, in strips of ROWS rows, column by column: n (n + ROWS) */
} product;

/* Rows ROWS i, ROWS i + 1, ... of C. */
static void multiply_strip(void *arg, int64_t i) {
  const product *p = arg;
  int64_t n = p->n, first = i * ROWS, rows = smaller(ROWS, n - first);
  double *strip = (double *)(p->strips + i * ROWS * n);
  const int64_t parts = sizeof(scalar) / sizeof(double);
  /* Real parts, then imaginary ones; zeros below the last row. */
  memset(strip, 0, (size_t)(ROWS * n) * sizeof(scalar));
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r) {
      scalar x = p->a[k * n + first + r];
      strip[k * ROWS * parts + r] = real(x);
      if (KILN_LINALG_COMPLEX)
        strip[k * ROWS * parts + ROWS + r] = imaginary(x);
    }
  for (int64_t j = 0; j < n; j += COLUMNS) {
    int64_t columns = smaller(COLUMNS, n - j);
    const scalar *b[COLUMNS];
    for (int64_t q = 0; q < COLUMNS; ++q) /* past the last column, the last one again */
      b[q] = p->b + (j + smaller(q, columns - 1)) * n;
    double re[COLUMNS][ROWS] = {{0}}, im[COLUMNS][ROWS] = {{0}};
    for (int64_t k = 0; k < n; ++k) {
      const double *x = strip + k * ROWS * parts;
      for (int q = 0; q < COLUMNS; ++q) {
        double y = real(b[q][k]), z = imaginary(b[q][k]);
        for (int r = 0; r < ROWS; ++r) {
          re[q][r] += x[r] * y;
          if (KILN_LINALG_COMPLEX) {
            re[q][r] -= x[ROWS + r] * z;
            im[q][r] += x[r] * z + x[ROWS + r] * y;
          }
        }
      }
    }
    for (int64_t q = 0; q < columns; ++q)
      for (int64_t r = 0; r < rows; ++r)
        p->c[(j + q) * n + first + r] = make(re[q][r], im[q][r]);
  }
}

/*===-- One matrix ----------------------------------------------------------===*/

typedef struct {
  const DLTensor *const *in, *const *out;
  const kiln_custom_op_context *context;
} arguments;

/* A single matrix has all threads for its products. */
static void multiply_matrices(const arguments *call, int64_t n, const scalar *a, const scalar *b,
                              scalar *c, scalar *strips) {
  product p = {n, a, b, c, strips};
  int64_t count = (n + ROWS - 1) / ROWS;
  if (call->in[0]->shape[0] == 1 && n >= 64)
    for_each(call->context, count, multiply_strip, &p);
  else
    for (int64_t i = 0; i < count; ++i)
      multiply_strip(&p, i);
}

/* The greatest sum of magnitudes of a column; NaN if some element is. */
static double column_norm(int64_t n, const scalar *a) {
  double most = 0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += absolute(a[j * n + i]);
    if (!(sum <= most))
      most = sum;
    if (most != most)
      break;
  }
  return most;
}

/* x += factor y, of all elements; y NULL: of the unit matrix. */
static void add_term(int64_t n, double factor, const scalar *y, scalar *x) {
  if (y)
    add_multiple(n * n, factor, y, x);
  else
    for (int64_t i = 0; i < n; ++i)
      x[i * n + i] += factor;
}

static const struct {
  int degree, block; /* the degree is a multiple of block */
  double bound;
} polynomials[] = {{1, 1, 2.2204460492503131e-16},  {2, 2, 2.5809568029717672e-08},
                   {4, 2, 3.3971688399769620e-04},  {8, 4, 4.9912288711153227e-02},
                   {12, 4, 2.9961589138115805e-01}, {16, 4, 7.8028742566265743e-01}};
enum { POLYNOMIALS = sizeof polynomials / sizeof *polynomials };

/* The sum of (A / 2^squarings)^k / k!, squared so many times, in x; `memory`: 5 n n + n (n + ROWS).
 */
static void exponentiate(const arguments *call, int64_t n, const scalar *a, scalar *x,
                         scalar *memory) {
  double size = column_norm(n, a), factor = 1;
  if (!is_finite(size)) {
    for (int64_t i = 0; i < n * n; ++i)
      x[i] = make(__builtin_nan(""), KILN_LINALG_COMPLEX ? __builtin_nan("") : 0);
    return;
  }
  int choice = 0, squarings = 0;
  while (choice + 1 < POLYNOMIALS && size > polynomials[choice].bound)
    ++choice;
  while (size * factor > polynomials[choice].bound && choice + 1 == POLYNOMIALS) {
    factor /= 2;
    ++squarings;
  }
  scalar *powers[5] = {NULL, memory, memory + n * n, memory + 2 * n * n, memory + 3 * n * n};
  scalar *spare = memory + 4 * n * n, *strips = spare + n * n;
  for (int64_t i = 0; i < n * n; ++i)
    powers[1][i] = a[i] * factor;
  int block = polynomials[choice].block;
  for (int k = 2; k <= block; ++k)
    multiply_matrices(call, n, powers[k / 2], powers[k - k / 2], powers[k], strips);
  double inverse_factorials[17] = {1};
  for (int k = 1; k <= 16; ++k)
    inverse_factorials[k] = inverse_factorials[k - 1] / k;
  clear(n * n, x);
  for (int first = polynomials[choice].degree - block; first >= 0; first -= block) {
    bool is_top = first == polynomials[choice].degree - block;
    if (!is_top) {
      multiply_matrices(call, n, powers[block], x, spare, strips);
      copy(n * n, spare, x);
    }
    for (int k = 0; k < block + is_top; ++k)
      add_term(n, inverse_factorials[first + k], powers[k], x);
  }
  for (int i = 0; i < squarings; ++i) {
    multiply_matrices(call, n, x, x, spare, strips);
    copy(n * n, spare, x);
  }
}

static void exponentiate_one(void *arg, int64_t i) {
  const arguments *call = arg;
  exponentiate(call, call->in[0]->shape[1], matrix_of(call->in[0], i), matrix_of(call->out[0], i),
               vector_of(call->out[1], i));
}

KILN_LINALG_FUNCTION(matrix_exp) {
  (void)num_inputs, (void)num_outputs;
  for_each(context, in[0]->shape[0], exponentiate_one, &(arguments){in, out, context});
  return KILN_OK;
}
