/*===- copy.c - Copies between strides --------------------------------------===*
 *
 * The dims of a copy are sorted by the strides of the target and merged. What is
 * left are rows of bytes, or a target and a source whose nearest elements lie
 * along different dims, `across` in the source and `along` in the target:
 *
 *      source            one square           target
 *      r0 r1 r2 r3       in registers         w0 w1 w2 w3
 *   w0  .  .  .  .  ──▶  4 loads,        ──▶  r0 .  .  .  .
 *   w1  .  .  .  .       8 shuffles,          r1 .  .  .  .
 *   …                    4 stores             …
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <string.h>

/* Steps are in bytes. */
typedef struct {
  int64_t size, to, from;
} copy_dim;

enum {
  vector_bytes = 16,
  line_bytes = 64,
  /* A block's lines stay in the nearest cache while it is copied. Measured on Zen 5: 256 to 1024 by
   * 64 to 256 bytes take 1.6 to 2.9 times as long as memcpy for images in the second and third
   * cache; longer ones more. */
  long_bytes = 512,
  short_bytes = 128,
  /* Lines at multiples of this share so few sets that a long block does not stay. */
  colliding_bytes = 1024,
};

static int64_t distance(int64_t step) { return step < 0 ? -step : step; }

/* Sorts the dims, those of the largest steps in the target first, without those of size 1, and
 * merges neighbours that advance as one. Returns their number, or -1 if there is nothing to copy. */
static int collapse(copy_dim *dims, const int64_t *to_strides, const int64_t *from_strides,
                    const int64_t *shape, int rank, size_t item) {
  int count = 0;
  for (int d = 0; d < rank; ++d) {
    if (shape[d] == 0)
      return -1;
    if (shape[d] == 1)
      continue;
    copy_dim dim = {shape[d], to_strides[d] * (int64_t)item, from_strides[d] * (int64_t)item};
    int at = count++;
    for (; at > 0 && distance(dims[at - 1].to) < distance(dim.to); --at)
      dims[at] = dims[at - 1];
    dims[at] = dim;
  }
  int merged = 0;
  for (int d = 0; d < count; ++d) {
    copy_dim *outer = &dims[merged - 1], inner = dims[d];
    if (merged > 0 && outer->to == inner.to * inner.size && outer->from == inner.from * inner.size)
      *outer = (copy_dim){outer->size * inner.size, inner.to, inner.from};
    else
      dims[merged++] = inner;
  }
  return merged;
}

/* Runs of 3 bytes and more, without a call where they are short. */
static inline void copy_bytes(char *to, const char *from, size_t bytes) {
#define ENDS(size)                                                                                 \
  if (bytes >= size) {                                                                             \
    memcpy(to, from, size);                                                                        \
    memcpy(to + bytes - size, from + bytes - size, size);                                          \
    return;                                                                                        \
  }
  if (bytes > 2 * vector_bytes) {
    memcpy(to, from, bytes);
    return;
  }
  ENDS(16)
  ENDS(8)
  ENDS(4)
#undef ENDS
  memcpy(to, from, 2);
  to[bytes - 1] = from[bytes - 1];
}

/* One row, of elements whose size is a compile-time constant in the cases that matter. */
static void copy_row(char *to, const char *from, copy_dim dim, size_t item) {
  int64_t n = dim.size;
#define ROW(bytes)                                                                                 \
  case bytes:                                                                                      \
    if (dim.to == bytes)                                                                           \
      for (int64_t i = 0; i < n; ++i, from += dim.from)                                            \
        memcpy(to + i * bytes, from, bytes);                                                       \
    else                                                                                           \
      for (int64_t i = 0; i < n; ++i, to += dim.to, from += dim.from)                              \
        memcpy(to, from, bytes);                                                                   \
    return
  switch (item) {
    ROW(1);
    ROW(2);
    ROW(4);
    ROW(8);
    ROW(16);
  }
#undef ROW
  for (int64_t i = 0; i < n; ++i, to += dim.to, from += dim.from)
    copy_bytes(to, from, item);
}

/* A square of vectors is transposed by perfect shuffles of its rows: with `n` elements in a vector,
 * log2(n) times each row is interleaved with the one n / 2 below. Of the `n` rows the first `loads`
 * are read and of the columns the first `stores` are written: constants, once this is inlined. */
#define SQUARE(name, type, n, low, high)                                                           \
  static inline __attribute__((always_inline)) void name(                                          \
      char *to, int64_t to_step, const char *from, int64_t from_step, int loads, int stores) {     \
    typedef type vector __attribute__((vector_size(vector_bytes)));                                \
    vector rows[n] = {0}, next[n];                                                                 \
    _Pragma("unroll") for (int i = 0; i < n; ++i) if (i < loads)                                   \
        memcpy(&rows[i], from + i * from_step, vector_bytes);                                      \
    _Pragma("unroll") for (int done = 1; done < n; done *= 2) {                                    \
      _Pragma("unroll") for (int i = 0; i < n / 2; ++i) {                                          \
        next[2 * i] = __builtin_shufflevector(rows[i], rows[i + n / 2], low);                      \
        next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + n / 2], high);                 \
      }                                                                                            \
      _Pragma("unroll") for (int i = 0; i < n; ++i) rows[i] = next[i];                             \
    }                                                                                              \
    _Pragma("unroll") for (int i = 0; i < n; ++i) if (i < stores)                                  \
        memcpy(to + i * to_step, &rows[i], vector_bytes);                                          \
  }
#define LIST(...) __VA_ARGS__
SQUARE(square1, uint8_t, 16, LIST(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
       LIST(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
SQUARE(square2, uint16_t, 8, LIST(0, 8, 1, 9, 2, 10, 3, 11), LIST(4, 12, 5, 13, 6, 14, 7, 15))
SQUARE(square4, uint32_t, 4, LIST(0, 4, 1, 5), LIST(2, 6, 3, 7))
SQUARE(square8, uint64_t, 2, LIST(0, 2), LIST(1, 3))

/* The side with the larger steps, whose cache lines may share a set, is gone along: few of its lines
 * are then in use at a time. True for rows of the target, false for those of the source. */
static bool steps_over_rows(copy_dim along, copy_dim across) {
  return distance(across.to) >= distance(along.from);
}

/* Squares of one block; the last in each direction ends with the block. */
#define BLOCK(bytes)                                                                               \
  static inline __attribute__((always_inline)) void line##bytes(                                   \
      char *to, int64_t to_next, int64_t to_step, const char *from, int64_t from_next,             \
      int64_t from_step, int64_t size) {                                                           \
    enum { n = vector_bytes / bytes };                                                             \
    int64_t i = 0;                                                                                 \
    for (; i <= size - n; i += n)                                                                  \
      square##bytes(to + i * to_next, to_step, from + i * from_next, from_step, n, n);             \
    if (i < size)                                                                                  \
      square##bytes(to + (size - n) * to_next, to_step, from + (size - n) * from_next, from_step,  \
                    n, n);                                                                         \
  }                                                                                                \
  static void block##bytes(char *to, const char *from, copy_dim along, copy_dim across) {          \
    enum { n = vector_bytes / bytes };                                                             \
    bool rows = steps_over_rows(along, across);                                                    \
    int64_t size = rows ? across.size : along.size;                                                \
    for (int64_t i = 0; i < size; i += n) {                                                        \
      int64_t j = i < size - n ? i : size - n;                                                     \
      if (rows)                                                                                    \
        line##bytes(to + j * across.to, bytes, across.to, from + j * bytes, along.from,            \
                    along.from, along.size);                                                       \
      else                                                                                         \
        line##bytes(to + j * bytes, across.to, across.to, from + j * along.from, bytes,            \
                    along.from, across.size);                                                      \
    }                                                                                              \
  }
BLOCK(1)
BLOCK(2)
BLOCK(4)
BLOCK(8)

/* Few elements side by side, such as the three colours of pixels, between whole planes and pixels
 * without gaps. A vector that is read then ends in the next pixels; one that is written does too, and
 * these are written after it. Returns the number of pixels that are done: no vector passes the end. */
#define PIXELS(bytes)                                                                              \
  static int64_t split##bytes(char *to, const char *from, copy_dim pixels, copy_dim planes) {      \
    enum { n = vector_bytes / bytes };                                                             \
    int64_t colours = planes.size, done = 0;                                                       \
    for (; (done + n - 1) * colours + n <= pixels.size * colours; done += n)                       \
      square##bytes(to + done * bytes, planes.to, from + done * pixels.from, pixels.from, n,       \
                    (int)colours);                                                                 \
    return done;                                                                                   \
  }                                                                                                \
  static int64_t join##bytes(char *to, const char *from, copy_dim planes, copy_dim pixels) {       \
    enum { n = vector_bytes / bytes };                                                             \
    int64_t colours = planes.size, done = 0;                                                       \
    for (; (done + n - 1) * colours + n <= pixels.size * colours; done += n)                       \
      square##bytes(to + done * pixels.to, pixels.to, from + done * bytes, planes.from,            \
                    (int)colours, n);                                                              \
    return done;                                                                                   \
  }
PIXELS(1)
PIXELS(2)
PIXELS(4)

typedef void copy_block(char *to, const char *from, copy_dim along, copy_dim across);
typedef int64_t copy_pixels(char *to, const char *from, copy_dim along, copy_dim across);

static void copy_rows(char *to, const char *from, copy_dim along, copy_dim across, size_t item) {
  for (int64_t r = 0; r < across.size; ++r)
    copy_row(to + r * across.to, from + r * across.from, along, item);
}

/* A plane in blocks. The last one in each direction has up to twice the size, so that none is
 * smaller than a square. */
static void copy_blocks(char *to, const char *from, copy_dim along, copy_dim across, size_t item,
                        copy_block *block) {
  bool rows = steps_over_rows(along, across);
  int64_t more = !rows && across.to % colliding_bytes == 0 ? line_bytes : long_bytes;
  int64_t height = (rows ? more : short_bytes) / (int64_t)item;
  int64_t width = (rows ? short_bytes : more) / (int64_t)item;
  for (int64_t w = 0; w < along.size;) {
    copy_dim a = {along.size - w < 2 * height ? along.size - w : height, along.to, along.from};
    for (int64_t r = 0; r < across.size;) {
      copy_dim b = {across.size - r < 2 * width ? across.size - r : width, across.to, across.from};
      char *target = to + w * a.to + r * b.to;
      const char *source = from + w * a.from + r * b.from;
      if (block)
        block(target, source, a, b);
      else
        copy_rows(target, source, a, b, item);
      r += b.size;
    }
    w += a.size;
  }
}

/* Two dims: `along` has the smaller steps in the target, `across` those in the source. */
static void copy_plane(char *to, const char *from, copy_dim along, copy_dim across, size_t item) {
  static copy_block *const blocks[] = {[1] = block1, [2] = block2, [4] = block4, [8] = block8};
  static copy_pixels *const splits[] = {[1] = split1, [2] = split2, [4] = split4, [8] = NULL};
  static copy_pixels *const joins[] = {[1] = join1, [2] = join2, [4] = join4, [8] = NULL};
  bool near = item <= 8 && (item & (item - 1)) == 0 && along.to == (int64_t)item &&
              across.from == (int64_t)item;
  int64_t n = near ? vector_bytes / (int64_t)item : 0;
  if (near && across.size <= n && splits[item] && along.from == across.size * across.from) {
    int64_t done = splits[item](to, from, along, across);
    to += done * along.to;
    from += done * along.from;
    along.size -= done;
  } else if (near && along.size <= n && joins[item] && across.to == along.size * along.to) {
    int64_t done = joins[item](to, from, along, across);
    to += done * across.to;
    from += done * across.from;
    across.size -= done;
  }
  if (across.from == 0 || distance(across.from) >= distance(along.from) || item > short_bytes / 2) {
    copy_rows(to, from, along, across, item);
    return;
  }
  near &= along.size >= n && across.size >= n;
  copy_blocks(to, from, along, across, item, near ? blocks[item] : NULL);
}

void kiln_copy(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides,
               const int64_t *shape, int rank, size_t item) {
  copy_dim dims[KILN_MAX_RANK + 2];
  int count = collapse(dims + 2, to_strides, from_strides, shape, rank, item);
  if (count < 0)
    return;
  /* The two innermost dims there always are, of one element each if need be. */
  copy_dim *first = dims + 2;
  if (count > 0 && first[count - 1].to == (int64_t)item && first[count - 1].from == (int64_t)item)
    item *= (size_t)first[--count].size;
  for (; count < 2; ++count)
    *--first = (copy_dim){1, 0, 0};
  int last = count - 1, across = -1;
  for (int d = last - 1; d >= 0; --d)
    if (first[d].from != 0 &&
        (across < 0 || distance(first[d].from) < distance(first[across].from)))
      across = d;
  /* The source's nearest dim comes next to the target's. */
  if (across < 0)
    across = last - 1;
  copy_dim moved = first[across];
  for (int d = across; d < last - 1; ++d)
    first[d] = first[d + 1];
  first[last - 1] = moved;

  int64_t at[KILN_MAX_RANK] = {0};
  char *target = to;
  const char *source = from;
  for (;;) {
    copy_plane(target, source, first[last], first[last - 1], item);
    int d = last - 2;
    for (; d >= 0; --d) {
      target += first[d].to;
      source += first[d].from;
      if (++at[d] < first[d].size)
        break;
      target -= first[d].to * first[d].size;
      source -= first[d].from * first[d].size;
      at[d] = 0;
    }
    if (d < 0)
      return;
  }
}

void kiln_rt_copy(void *to, const int64_t *to_strides, const void *from,
                  const int64_t *from_strides, const int64_t *sizes, int64_t rank, int64_t item) {
  kiln_copy(to, to_strides, from, from_strides, sizes, (int)rank, (size_t)item);
}
