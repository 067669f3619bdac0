/*===- cudnn-run.c - Graphs of the emulator's cuDNN, with plain loops --------===*
 *
 * Each operation's result is an array of numbers, rounded to the dtype of its tensor.
 * Those of tensors in memory go there at the end.
 *
 *===-----------------------------------------------------------------------===*/
#include "cudnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t position[MAX_DIMS];

static int64_t count(const struct tensor *t) {
  int64_t all = 1;
  for (int i = 0; i < t->rank; ++i)
    all *= t->sizes[i];
  return all;
}

/* Finds the i-th element, row-major. */
static void locate(const struct tensor *t, int64_t i, position at) {
  for (int d = t->rank - 1; d >= 0; --d) {
    at[d] = i % t->sizes[d];
    i /= t->sizes[d];
  }
}

/* The number of an element, in a tensor whose sizes of one are broadcast. */
static int64_t number(const struct tensor *t, const position at) {
  int64_t i = 0;
  for (int d = 0; d < t->rank; ++d)
    i = i * t->sizes[d] + (t->sizes[d] == 1 ? 0 : at[d]);
  return i;
}

static int64_t place(const struct tensor *t, int64_t i) {
  position at;
  locate(t, i, at);
  int64_t offset = 0;
  for (int d = 0; d < t->rank; ++d)
    offset += at[d] * t->strides[d];
  return offset;
}

static size_t item(int type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_INT32 ? 4
         : type == CUDNN_DATA_BOOLEAN                         ? 1
                                                              : 2;
}

static uint16_t to_bfloat(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bfloat(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float round_to(int type, float value) {
  return type == CUDNN_DATA_HALF       ? (float)(_Float16)value
         : type == CUDNN_DATA_BFLOAT16 ? from_bfloat(to_bfloat(value))
                                       : value;
}

static void *reach_tensor(const struct tensor *t) {
  static void *(*reach)(uint64_t, size_t, const char *);
  reach =
      reach ? reach : (void *(*)(uint64_t, size_t, const char *))find_in_emulator("emulator_reach");
  size_t elements = (size_t)place(t, count(t) - 1) + 1;
  return reach(t->memory, elements * item(t->type), "a tensor of cuDNN's");
}

static float *load(const struct tensor *t) {
  int64_t n = count(t);
  float *values = malloc((size_t)n * sizeof *values);
  const void *memory = t->is_by_value || t->is_virtual ? NULL : reach_tensor(t);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = place(t, i);
    values[i] = !memory                       ? t->value
                : t->type == CUDNN_DATA_FLOAT ? ((const float *)memory)[at]
                : t->type == CUDNN_DATA_HALF  ? (float)((const _Float16 *)memory)[at]
                                              : from_bfloat(((const uint16_t *)memory)[at]);
  }
  return values;
}

static void store(const struct tensor *t, const float *values) {
  void *memory = reach_tensor(t);
  for (int64_t i = 0, n = count(t); i < n; ++i) {
    int64_t at = place(t, i);
    if (t->type == CUDNN_DATA_FLOAT)
      ((float *)memory)[at] = values[i];
    else if (t->type == CUDNN_DATA_HALF)
      ((_Float16 *)memory)[at] = (_Float16)values[i];
    else
      ((uint16_t *)memory)[at] = to_bfloat(values[i]);
  }
}

/*===-- Operations ----------------------------------------------------------===*/

static float convolve(const struct operation *o, const struct tensor *x, const float *xs,
                      const struct tensor *w, const float *ws, const struct tensor *y,
                      const position to) {
  int64_t channels = w->sizes[1],
          first = to[1] / (y->sizes[1] / (x->sizes[1] / channels)) * channels;
  double sum = 0;
  for (int64_t i = 0, n = count(w) / w->sizes[0]; i < n; ++i) {
    position with, from;
    locate(w, to[1] * n + i, with);
    from[0] = to[0];
    from[1] = first + with[1];
    bool is_inside = true;
    for (int d = 0; d < o->num_spatial; ++d) {
      int64_t at = to[d + 2] * o->strides[d] + with[d + 2] * o->dilation[d] - o->padding[d];
      is_inside &= at >= 0 && at < x->sizes[d + 2];
      from[d + 2] = at;
    }
    if (is_inside) {
      int64_t at = 0;
      for (int d = 0; d < x->rank; ++d)
        at = at * x->sizes[d] + from[d];
      sum += (double)xs[at] * (double)ws[to[1] * n + i];
    }
  }
  return (float)sum;
}

/* Heads of the right matrix are shared by so many of the left one. */
static float multiply(const struct tensor *a, const float *as, const struct tensor *b,
                      const float *bs, const position to) {
  int64_t depth = a->sizes[3], head = to[1] / (a->sizes[1] / b->sizes[1]);
  const float *row = as + ((to[0] * a->sizes[1] + to[1]) * a->sizes[2] + to[2]) * depth;
  const float *columns = bs + (to[0] * b->sizes[1] + head) * depth * b->sizes[3] + to[3];
  double sum = 0;
  for (int64_t i = 0; i < depth; ++i)
    sum += (double)row[i] * (double)columns[i * b->sizes[3]];
  return (float)sum;
}

static float soften(const struct tensor *x, const float *xs, int64_t i) {
  int64_t n = x->sizes[x->rank - 1], row = i / n * n;
  float most = -INFINITY;
  double sum = 0;
  for (int64_t j = row; j < row + n; ++j)
    most = xs[j] > most ? xs[j] : most;
  for (int64_t j = row; j < row + n; ++j)
    sum += exp((double)(xs[j] - most));
  return (float)(exp((double)(xs[i] - most)) / sum);
}

static float apply(const struct operation *o, float x, float b, float t, const position at) {
  switch (o->mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_RELU_FWD:
    return x > 0 ? x : 0;
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b ? 1 : 0;
  case CUDNN_POINTWISE_GEN_INDEX:
    return (float)at[o->axis];
  case CUDNN_POINTWISE_BINARY_SELECT:
    return t != 0 ? x : b;
  default:
    misuse_cudnn("a function that the emulator does not have");
  }
}

static void run_operation(const struct graph *g, const struct operation *o, float **values) {
  const struct tensor *x = &g->tensors[o->x], *y = &g->tensors[o->y],
                      *b = o->b >= 0 ? &g->tensors[o->b] : NULL,
                      *t = o->t >= 0 ? &g->tensors[o->t] : NULL;
  const float *xs = values[o->x], *bs = b ? values[o->b] : NULL, *ts = t ? values[o->t] : NULL;
  for (int64_t i = 0, n = count(y); i < n; ++i) {
    position at;
    locate(y, i, at);
    float value = o->kind == CONVOLUTION ? convolve(o, x, xs, b, bs, y, at)
                  : o->kind == MATMUL    ? multiply(x, xs, b, bs, at)
                  : o->kind == SOFTMAX   ? soften(x, xs, i)
                                         : apply(o, xs[number(x, at)], b ? bs[number(b, at)] : 0,
                                                 t ? ts[number(t, at)] : 0, at);
    values[o->y][i] = round_to(y->type, value);
  }
}

/* In order of the stream, with the emulator's lock held. */
void run_graph(const void *arguments) {
  const struct graph *g = arguments;
  float *values[MAX_TENSORS];
  bool is_written[MAX_TENSORS] = {0};
  for (int i = 0; i < g->num_operations; ++i)
    is_written[g->operations[i].y] = true;
  for (int i = 0; i < g->num_tensors; ++i)
    values[i] = is_written[i] ? malloc((size_t)count(&g->tensors[i]) * sizeof(float))
                              : load(&g->tensors[i]);
  if (g->workspace) {
    struct tensor bytes = {.type = CUDNN_DATA_BOOLEAN,
                           .rank = 1,
                           .sizes = {WORKSPACE},
                           .strides = {1},
                           .memory = g->workspace};
    memset(reach_tensor(&bytes), 0xee, WORKSPACE);
  }
  for (int i = 0; i < g->num_operations; ++i)
    run_operation(g, &g->operations[i], values);
  for (int i = 0; i < g->num_tensors; ++i) {
    if (is_written[i] && !g->tensors[i].is_virtual)
      store(&g->tensors[i], values[i]);
    free(values[i]);
  }
}

/*===-- What fits -----------------------------------------------------------===*/

static bool is_broadcast(const struct tensor *from, const struct tensor *to) {
  bool fits = from->rank == to->rank;
  for (int d = 0; fits && d < to->rank; ++d)
    fits = from->sizes[d] == to->sizes[d] || from->sizes[d] == 1;
  return fits;
}

static bool is_same(const struct tensor *a, const struct tensor *b) {
  return is_broadcast(a, b) && is_broadcast(b, a);
}

static bool check_convolution(const struct operation *o, const struct tensor *x,
                              const struct tensor *w, const struct tensor *y) {
  bool fits = x->rank == o->num_spatial + 2 && w->rank == x->rank && y->rank == x->rank &&
              x->type == w->type && (y->is_virtual || y->type == x->type) &&
              x->sizes[0] == y->sizes[0] && w->sizes[0] == y->sizes[1] &&
              x->sizes[1] % w->sizes[1] == 0 && y->sizes[1] % (x->sizes[1] / w->sizes[1]) == 0;
  for (int d = 0; fits && d < o->num_spatial; ++d) {
    int64_t window = (w->sizes[d + 2] - 1) * o->dilation[d] + 1,
            size = x->sizes[d + 2] + 2 * o->padding[d] - window;
    fits = size >= 0 && size / o->strides[d] + 1 == y->sizes[d + 2];
  }
  return fits;
}

static bool check_product(const struct tensor *a, const struct tensor *b, const struct tensor *c) {
  return a->rank == 4 && b->rank == 4 && c->rank == 4 && a->type == b->type &&
         a->sizes[0] == b->sizes[0] && a->sizes[0] == c->sizes[0] && a->sizes[1] == c->sizes[1] &&
         a->sizes[1] % b->sizes[1] == 0 && a->sizes[2] == c->sizes[2] &&
         a->sizes[3] == b->sizes[2] && b->sizes[3] == c->sizes[3];
}

bool check_operation(const struct graph *g, const struct operation *o) {
  const struct tensor *x = &g->tensors[o->x], *y = &g->tensors[o->y],
                      *b = o->b >= 0 ? &g->tensors[o->b] : NULL,
                      *t = o->t >= 0 ? &g->tensors[o->t] : NULL;
  switch (o->kind) {
  case CONVOLUTION:
    return check_convolution(o, x, b, y);
  case MATMUL:
    return check_product(x, b, y);
  case SOFTMAX:
    return is_same(x, y);
  case POINTWISE:
    return is_same(x, y) && (!b || is_broadcast(b, y)) && (!t || is_same(t, y)) &&
           (o->mode != CUDNN_POINTWISE_BINARY_SELECT || (t && t->type == CUDNN_DATA_BOOLEAN)) &&
           (o->mode != CUDNN_POINTWISE_CMP_GE || y->type == CUDNN_DATA_BOOLEAN) &&
           (o->mode != CUDNN_POINTWISE_GEN_INDEX || y->type == CUDNN_DATA_INT32);
  }
  return false;
}
