/*===- linalg-test.c - Decompositions of matrices ------------------------------===*
 *
 * Compiled twice, as the functions are. Every matrix is decomposed in memory of exactly the size
 * that linalg.h says, and put together again.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/linalg/linalg.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x)                                                                                   \
  do {                                                                                             \
    if (!(x)) {                                                                                    \
      fprintf(stderr, "%s:%d: %s (%s, %d x %d)\n", __FILE__, __LINE__, #x, kind, (int)rows,        \
              (int)columns);                                                                       \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static const char *kind;
static int64_t rows, columns;

/*===-- Tensors -------------------------------------------------------------===*/

typedef struct {
  DLTensor tensor;
  int64_t shape[3];
} array;

static array allocate(int rank, int64_t a, int64_t b, int64_t c, size_t item) {
  array made = {{.ndim = rank}, {a, b, c}};
  int64_t count = rank == 0 ? 1 : a * b * (rank == 3 ? c : 1);
  if (count == 0)
    return made; /* what is empty may be nowhere */
  made.tensor.data = malloc((size_t)count * item);
  memset(made.tensor.data, 0x7f, (size_t)count * item);
  return made;
}
static array matrices(int64_t n, int64_t m) { return allocate(3, 1, n, m, sizeof(scalar)); }
static array vectors(int64_t n) { return allocate(2, 1, n, 0, sizeof(scalar)); }
static array reals(int64_t n) { return allocate(2, 1, n, 0, sizeof(double)); }
static scalar *data(array *x) { return x->tensor.data; }

static void serial(void *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  (void)ctx;
  for (int64_t i = 0; i < n; ++i)
    body(arg, i);
}

static char message[256];

#define MOST 5
static int32_t call(kiln_custom_op_fn function, array *const *in, int num_in, array *const *out,
                    int num_out) {
  const DLTensor *inputs[MOST], *outputs[MOST];
  for (int i = 0; i < num_in; ++i)
    in[i]->tensor.shape = in[i]->shape, inputs[i] = &in[i]->tensor;
  for (int i = 0; i < num_out; ++i)
    out[i]->tensor.shape = out[i]->shape, outputs[i] = &out[i]->tensor;
  kiln_custom_op_context context = {.struct_size = sizeof context,
                                    .message = message,
                                    .message_size = sizeof message,
                                    .parallel_for = serial};
  return function(inputs, (size_t)num_in, outputs, (size_t)num_out, &context);
}

static void release(array *const *x, int count) {
  for (int i = 0; i < count; ++i)
    free(x[i]->tensor.data);
}

/*===-- Matrices ------------------------------------------------------------===*/

static uint64_t state = 1;
static double next(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)(state >> 11) * 0x1p-52 - 1;
}

/* a [n, m]: column j has its element i at j * m + i. */
static void fill(const char *name, int64_t n, int64_t m, scalar *a) {
  kind = name;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i) {
      scalar x = make(next(), next());
      if (!strcmp(name, "zero"))
        x = 0;
      else if (!strcmp(name, "ones"))
        x = 1;
      else if (!strcmp(name, "identity"))
        x = i == j;
      else if (!strcmp(name, "huge"))
        x *= 1e300;
      else if (!strcmp(name, "tiny"))
        x *= 1e-300;
      else if (!strcmp(name, "graded"))
        x *= pow(10, -(double)(i + 2 * j));
      else if (!strcmp(name, "bidiagonal")) /* with zeros on its diagonal */
        x = j == i + 1 ? 1 : j == i ? i % 5 != 1 : 0;
      else if (!strcmp(name, "cycle")) /* all eigenvalues are as large */
        x = i == (j + 1) % n;
      else if (!strcmp(name, "nilpotent"))
        x = i < j ? x : 0;
      else if (!strcmp(name, "turns")) /* by a right angle */
        x = i / 2 == j / 2 ? i - j : 0;
      a[j * m + i] = x;
    }
}

static double largest(int64_t n, const scalar *x) {
  double most = 0;
  for (int64_t i = 0; i < n; ++i) {
    CHECK(is_finite(real(x[i])) && is_finite(imaginary(x[i])));
    most = greater(most, taxicab(x[i]));
  }
  return most;
}

/* Columns of q are orthonormal. */
static void check_orthonormal(int64_t n, int64_t m, const scalar *q) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      CHECK(taxicab(dot(m, q + i * m, q + j * m) - (i == j)) < 1e-13 * (double)(m + 10));
}

/* Row r, column c of U diag(s) V^H. */
static scalar product(const scalar *u, int64_t m, const double *s, const scalar *v, int64_t n,
                      int64_t k, int64_t r, int64_t c, double unit) {
  scalar sum = 0;
  for (int64_t i = 0; i < k; ++i)
    sum += multiply(u[i * m + r], conjugate(v[i * n + c])) * (s[i] / unit);
  return sum;
}

static void test_qr(int64_t n, int64_t m, const array *given) {
  int64_t k = smaller(m, n);
  array a = *given, packed = matrices(n, m), tau = vectors(k), q = matrices(m, m);
  CHECK(call(KILN_LINALG(geqrf), (array *[]){&a}, 1, (array *[]){&packed, &tau}, 2) == KILN_OK);
  CHECK(call(KILN_LINALG(orgqr), (array *[]){&packed, &tau}, 2, (array *[]){&q}, 1) == KILN_OK);
  check_orthonormal(m, m, data(&q));
  /* Q^H A is R. */
  array back = matrices(n, m);
  uint8_t adjoint = 1;
  array flag = {{.data = &adjoint}, {0}};
  CHECK(call(KILN_LINALG(ormqr), (array *[]){&packed, &tau, &a, &flag}, 4, (array *[]){&back}, 1) ==
        KILN_OK);
  double unit = largest(m * n, data(&a)) + DBL_MIN;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i) {
      scalar r = i <= j ? data(&packed)[j * m + i] : 0;
      CHECK(taxicab((data(&back)[j * m + i] - r) / unit) < 1e-13 * (double)(m + 10));
      scalar direct = dot(m, data(&q) + i * m, data(&a) + j * m);
      CHECK(unit > 1e200 || unit < 1e-200 ||
            taxicab((direct - r) / unit) < 1e-13 * (double)(m + 10));
    }
  /* And Q R is A. */
  array upper = matrices(n, m);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i)
      data(&upper)[j * m + i] = i <= j ? data(&packed)[j * m + i] : 0;
  adjoint = 0;
  CHECK(call(KILN_LINALG(ormqr), (array *[]){&packed, &tau, &upper, &flag}, 4, (array *[]){&back},
             1) == KILN_OK);
  for (int64_t i = 0; i < m * n; ++i)
    CHECK(taxicab((data(&back)[i] - data(&a)[i]) / unit) < 1e-13 * (double)(m + 10));
  release((array *[]){&packed, &tau, &q, &back, &upper}, 5);
}

/* Batches of no matrix and of several. */
static void test_batches(void) {
  kind = "batch";
  rows = columns = 3;
  for (int64_t batch = 0; batch < 3; ++batch) {
    array a = allocate(3, batch, 3, 3, sizeof(scalar)),
          packed = allocate(3, batch, 3, 3, sizeof(scalar));
    array tau = allocate(2, batch, 3, 0, sizeof(scalar));
    array values = allocate(2, batch, 3, 0, sizeof(double)),
          w = allocate(2, batch, 18, 0, sizeof(scalar));
    for (int64_t i = 0; i < batch; ++i)
      fill("random", 3, 3, data(&a) + 9 * i);
    CHECK(call(KILN_LINALG(geqrf), (array *[]){&a}, 1, (array *[]){&packed, &tau}, 2) == KILN_OK);
    CHECK(call(KILN_LINALG(eigh), (array *[]){&a}, 1, (array *[]){&values, &w}, 2) == KILN_OK);
    for (int64_t i = 0; i < batch; ++i)
      CHECK(fabs(absolute(data(&packed)[9 * i]) - norm(3, data(&a) + 9 * i)) < 1e-13);
    release((array *[]){&a, &packed, &tau, &values, &w}, 5);
  }
}

static void test_svd(int64_t n, int64_t m, const array *given) {
  int64_t k = smaller(m, n), work = m * n + k * k + 3 * k + (m > n ? m : n);
  array a = *given, s = reals(k), alone = reals(k), w = vectors(work), u = matrices(m, m);
  array v = matrices(n, n);
  CHECK(call(KILN_LINALG(svd), (array *[]){&a}, 1, (array *[]){&s, &w, &u, &v}, 4) == KILN_OK);
  CHECK(call(KILN_LINALG(svd), (array *[]){&a}, 1, (array *[]){&alone, &w}, 2) == KILN_OK);
  check_orthonormal(m, m, data(&u));
  check_orthonormal(n, n, data(&v));
  double unit = largest(m * n, data(&a)) + DBL_MIN;
  const double *values = s.tensor.data, *others = alone.tensor.data;
  for (int64_t i = 0; i < k; ++i)
    CHECK(values[i] >= 0 && (i == 0 || values[i] <= values[i - 1]) &&
          fabs(values[i] - others[i]) <= 1e-13 * values[0]);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i)
      CHECK(taxicab(product(data(&u), m, values, data(&v), n, k, i, j, unit) -
                    data(&a)[j * m + i] / unit) < 1e-13 * (double)(m + n + 10));
  /* The first columns alone are the same. */
  array few = matrices(k, m), right = matrices(k, n);
  CHECK(call(KILN_LINALG(svd), (array *[]){&a}, 1, (array *[]){&s, &w, &few, &right}, 4) ==
        KILN_OK);
  CHECK(k == 0 || !memcmp(data(&few), data(&u), (size_t)(k * m) * sizeof(scalar)));
  CHECK(k == 0 || !memcmp(data(&right), data(&v), (size_t)(k * n) * sizeof(scalar)));
  release((array *[]){&s, &alone, &w, &u, &v, &few, &right}, 7);
}

static void test_eigh(int64_t n, const array *given) {
  array a = *given, d = reals(n), alone = reals(n), w = vectors(3 * n + n * n), v = matrices(n, n);
  CHECK(call(KILN_LINALG(eigh), (array *[]){&a}, 1, (array *[]){&d, &w, &v}, 3) == KILN_OK);
  CHECK(call(KILN_LINALG(eigh), (array *[]){&a}, 1, (array *[]){&alone, &w}, 2) == KILN_OK);
  check_orthonormal(n, n, data(&v));
  double unit = largest(n * n, data(&a)) + DBL_MIN;
  const double *values = d.tensor.data, *others = alone.tensor.data;
  for (int64_t i = 0; i < n; ++i)
    CHECK((i == 0 || values[i] >= values[i - 1]) &&
          fabs(values[i] - others[i]) <= 1e-12 * unit * (double)(n + 10));
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = j; i < n; ++i) {
      scalar want = i == j ? real(data(&a)[j * n + i]) : data(&a)[j * n + i];
      CHECK(taxicab(product(data(&v), n, values, data(&v), n, n, i, j, unit) - want / unit) <
            1e-13 * (double)(2 * n + 10));
    }
  release((array *[]){&d, &alone, &w, &v}, 4);
}

static void test_eig(int64_t n, const array *given) {
  array a = *given, values = allocate(2, 1, n, 0, 2 * sizeof(double)),
        w = vectors(2 * n * n + 5 * n);
  array alone = allocate(2, 1, n, 0, 2 * sizeof(double));
  array v = allocate(3, 1, n, n, 2 * sizeof(double));
  CHECK(call(KILN_LINALG(eig), (array *[]){&a}, 1, (array *[]){&values, &w, &v}, 3) == KILN_OK);
  CHECK(call(KILN_LINALG(eig), (array *[]){&a}, 1, (array *[]){&alone, &w}, 2) == KILN_OK);
  const double complex *lambda = values.tensor.data, *x = v.tensor.data;
  CHECK(n == 0 || !memcmp(lambda, alone.tensor.data, (size_t)n * sizeof *lambda));
  double unit = largest(n * n, data(&a)) + DBL_MIN;
  for (int64_t k = 0; k < n; ++k) {
    double square = 0;
    for (int64_t i = 0; i < n; ++i) {
      double complex sum = 0;
      for (int64_t j = 0; j < n; ++j)
        sum += data(&a)[j * n + i] / unit * x[k * n + j];
      CHECK(cabs(sum - lambda[k] / unit * x[k * n + i]) < 1e-12 * (double)(n + 10));
      square += creal(x[k * n + i] * conj(x[k * n + i]));
    }
    CHECK(fabs(square - 1) < 1e-13);
    /* Pairs are exact. */
    if (!KILN_LINALG_COMPLEX && cimag(lambda[k]) > 0)
      CHECK(k + 1 < n && lambda[k + 1] == conj(lambda[k]) && x[(k + 1) * n] == conj(x[k * n]));
  }
  release((array *[]){&values, &w, &v, &alone}, 4);
}

static void test_ldl(int64_t n, const array *given, bool hermitian) {
  array a = *given, whole = matrices(n, n), ld = matrices(n, n), b = matrices(2, n);
  array x = matrices(2, n);
  array pivots = allocate(2, 1, n, 0, sizeof(int32_t)), info = allocate(2, 1, 1, 0, 4);
  uint8_t is_hermitian = hermitian;
  array flag = {{.data = &is_hermitian}, {0}};
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i) {
      scalar y = data(&a)[smaller(i, j) * n + (i > j ? i : j)];
      data(&whole)[j * n + i] = i == j && hermitian  ? real(y)
                                : i < j && hermitian ? conjugate(y)
                                                     : y;
    }
  for (int64_t i = 0; i < 2 * n; ++i)
    data(&b)[i] = make(next(), next());
  CHECK(call(KILN_LINALG(ldl_factor), (array *[]){&a, &flag}, 2, (array *[]){&ld, &pivots, &info},
             3) == KILN_OK);
  CHECK(call(KILN_LINALG(ldl_solve), (array *[]){&ld, &pivots, &b, &flag}, 4, (array *[]){&x}, 1) ==
        KILN_OK);
  int32_t *rows_of = pivots.tensor.data;
  if (!strcmp(kind, "random") || !strcmp(kind, "identity"))
    for (int64_t c = 0; c < 2; ++c) {
      double size = largest(n, data(&x) + c * n) + 1;
      for (int64_t i = 0; i < n; ++i) {
        scalar sum = 0;
        for (int64_t j = 0; j < n; ++j)
          sum += multiply(data(&whole)[j * n + i], data(&x)[c * n + j]);
        CHECK(taxicab(sum - data(&b)[c * n + i]) < 1e-12 * (double)(n + 10) * size);
      }
    }
  /* Nothing is read or written where pivots are not what a factorisation gives. */
  for (int32_t bad = -2; bad < 3 && n; ++bad) {
    rows_of[n - 1] = bad == 0 ? 0 : bad < 0 ? bad + 1 - (int32_t)n - 1 : (int32_t)n + bad;
    CHECK(call(KILN_LINALG(ldl_solve), (array *[]){&ld, &pivots, &b, &flag}, 4, (array *[]){&x},
               1) == KILN_INVALID_ARGUMENT);
  }
  release((array *[]){&whole, &ld, &b, &x, &pivots, &info}, 6);
}

/* exp(A) exp(-A) is the unit matrix. */
static void test_exponential(int64_t n, const array *given) {
  array a = *given, minus = matrices(n, n), x = matrices(n, n), y = matrices(n, n);
  array w = vectors(6 * n * n + 8 * n);
  double unit = largest(n * n, data(&a));
  for (int64_t i = 0; i < n * n; ++i) {
    data(&a)[i] /= unit > 1 ? unit : 1;
    data(&minus)[i] = -data(&a)[i];
  }
  CHECK(call(KILN_LINALG(matrix_exp), (array *[]){&a}, 1, (array *[]){&x, &w}, 2) == KILN_OK);
  CHECK(call(KILN_LINALG(matrix_exp), (array *[]){&minus}, 1, (array *[]){&y, &w}, 2) == KILN_OK);
  double size = largest(n * n, data(&x)) * largest(n * n, data(&y)) + 1;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      scalar sum = 0;
      for (int64_t k = 0; k < n; ++k)
        sum += multiply(data(&x)[k * n + i], data(&y)[j * n + k]);
      CHECK(taxicab(sum - (i == j)) < 1e-13 * (double)(n + 10) * size);
    }
  if (n == 1)
    CHECK(taxicab(data(&x)[0] - (scalar)cexp((double complex)data(&a)[0])) < 1e-14);
  release((array *[]){&minus, &x, &y, &w}, 4);
}

/* No algorithm goes on for ever, or writes elsewhere. */
static void test_not_finite(int64_t n, double value) {
  kind = "not finite";
  int64_t m = n + 1;
  array a = matrices(n, m), s = reals(n), w = vectors(m * n + n * n + 3 * n + m);
  array u = matrices(n, m), v = matrices(n, n), tau = vectors(n), packed = matrices(n, m);
  fill(kind, n, m, data(&a));
  data(&a)[n * m / 2] = value;
  CHECK(call(KILN_LINALG(svd), (array *[]){&a}, 1, (array *[]){&s, &w, &u, &v}, 4) ==
        KILN_ASSERTION_FAILED);
  CHECK(strstr(message, "failed to converge"));
  CHECK(call(KILN_LINALG(geqrf), (array *[]){&a}, 1, (array *[]){&packed, &tau}, 2) == KILN_OK);
  a.shape[2] = n;
  data(&a)[n * n - 1] = value;
  CHECK(call(KILN_LINALG(eigh), (array *[]){&a}, 1, (array *[]){&s, &w, &v}, 3) ==
        KILN_ASSERTION_FAILED);
  array values = allocate(2, 1, n, 0, 2 * sizeof(double)), work = vectors(6 * n * n + 8 * n);
  CHECK(call(KILN_LINALG(eig), (array *[]){&a}, 1, (array *[]){&values, &work}, 2) ==
        KILN_ASSERTION_FAILED);
  CHECK(call(KILN_LINALG(matrix_exp), (array *[]){&a}, 1, (array *[]){&v, &work}, 2) == KILN_OK);
  for (int64_t i = 0; i < n * n; ++i)
    CHECK(isnan(real(data(&v)[i])));
  release((array *[]){&a, &s, &w, &u, &v, &tau, &packed, &values, &work}, 9);
}

int main(void) {
  static const char *const kinds[] = {"random", "zero",       "ones",  "identity",  "huge", "tiny",
                                      "graded", "bidiagonal", "cycle", "nilpotent", "turns"};
  static const int64_t sizes[][2] = {{0, 0},   {0, 3},   {3, 0},    {1, 1},  {1, 4},
                                     {4, 1},   {2, 2},   {3, 3},    {5, 12}, {12, 5},
                                     {33, 33}, {40, 17}, {120, 120}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; ++j) {
      columns = sizes[j][0], rows = sizes[j][1];
      array a = matrices(columns, rows);
      fill(kinds[i], columns, rows, data(&a));
      test_qr(columns, rows, &a);
      test_svd(columns, rows, &a);
      if (columns == rows) {
        test_eigh(columns, &a);
        test_eig(columns, &a);
        test_ldl(columns, &a, false);
        test_ldl(columns, &a, true);
        test_exponential(columns, &a);
      }
      release((array *[]){&a}, 1);
    }
  test_batches();
  for (int64_t n = 1; n < 8; ++n) {
    test_not_finite(n, NAN);
    test_not_finite(n, INFINITY);
  }
  return 0;
}
