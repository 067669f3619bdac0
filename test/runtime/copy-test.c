/*===- copy-test.c - Copies between strides ------------------------------------===*
 *
 * Each copy is compared, gaps included, with one of element after element. The
 * memory of both sides ends with their last elements, so that sanitizers see what
 * passes it.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int rank;
  size_t item;
  int64_t shape[KILN_MAX_RANK], to[KILN_MAX_RANK], from[KILN_MAX_RANK];
} copied;

static uint64_t state = 1;

static int64_t draw(int64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)below);
}

/* Elements before and after the first, and how many there are in all. */
static int64_t span(const int64_t *shape, const int64_t *strides, int rank, int64_t *before) {
  int64_t after = 0;
  *before = 0;
  for (int d = 0; d < rank; ++d) {
    if (shape[d] == 0)
      return 0;
    int64_t step = (shape[d] - 1) * strides[d];
    *(step < 0 ? before : &after) += step < 0 ? -step : step;
  }
  return *before + after + 1;
}

static void element_by_element(char *to, const char *from, const copied *c, int d) {
  if (d == c->rank) {
    memcpy(to, from, c->item);
    return;
  }
  int64_t item = (int64_t)c->item;
  for (int64_t i = 0; i < c->shape[d]; ++i)
    element_by_element(to + i * c->to[d] * item, from + i * c->from[d] * item, c, d + 1);
}

static void check(const copied *c) {
  int64_t to_before, from_before;
  size_t to_bytes = (size_t)span(c->shape, c->to, c->rank, &to_before) * c->item;
  size_t from_bytes = (size_t)span(c->shape, c->from, c->rank, &from_before) * c->item;
  char *to = malloc(to_bytes), *expected = malloc(to_bytes), *from = malloc(from_bytes);
  for (size_t i = 0; i < from_bytes; ++i)
    from[i] = (char)draw(256);
  if (to_bytes) {
    memset(to, 0x5a, to_bytes);
    memset(expected, 0x5a, to_bytes);
  }
  size_t to_first = (size_t)to_before * c->item, from_first = (size_t)from_before * c->item;
  kiln_copy(to + to_first, c->to, from + from_first, c->from, c->shape, c->rank, c->item);
  element_by_element(expected + to_first, from + from_first, c, 0);
  if (to_bytes && memcmp(to, expected, to_bytes) != 0) {
    fprintf(stderr, "copy-test.c: wrong copy of items of %zu bytes:", c->item);
    for (int d = 0; d < c->rank; ++d)
      fprintf(stderr, " %lld (%lld <- %lld)", (long long)c->shape[d], (long long)c->to[d],
              (long long)c->from[d]);
    fprintf(stderr, "\n");
    exit(1);
  }
  free(to);
  free(expected);
  free(from);
}

/* Strides of dims in a random order, some with gaps. */
static void lay_out(const copied *c, int64_t *strides, bool gaps) {
  int order[KILN_MAX_RANK];
  for (int d = 0; d < c->rank; ++d) {
    int at = (int)draw(d + 1);
    order[d] = order[at];
    order[at] = d;
  }
  int64_t stride = 1;
  for (int i = c->rank - 1; i >= 0; --i) {
    stride += gaps && draw(3) == 0 ? draw(4) : 0;
    strides[order[i]] = stride;
    stride *= c->shape[order[i]] ? c->shape[order[i]] : 1;
  }
}

static void random_copies(int count) {
  static const size_t items[] = {1, 2, 4, 8, 16, 1, 2, 4, 8, 3, 12, 40, 100};
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 70, 0};
  for (int i = 0; i < count; ++i) {
    copied c = {.rank = (int)draw(6), .item = items[draw(13)]};
    int64_t total = 1;
    for (int d = 0; d < c.rank; ++d) {
      c.shape[d] = sizes[draw(d == 4 ? 15 : 14)];
      if (total * c.shape[d] > 1 << 14)
        c.shape[d] = 1;
      total *= c.shape[d];
    }
    lay_out(&c, c.to, draw(3) == 0);
    lay_out(&c, c.from, draw(3) == 0);
    for (int d = 0; d < c.rank; ++d) {
      int64_t kind = draw(12); /* a broadcast, a flip, windows that overlap */
      c.from[d] = kind == 0 ? 0 : kind == 1 ? -c.from[d] : kind == 2 ? 1 : c.from[d];
    }
    check(&c);
  }
}

/* Planes larger than blocks, of all sizes that squares are made for. */
static void planes(void) {
  static const int64_t sides[][2] = {{600, 3},   {3, 600},   {2, 1100},
                                     {64, 1024}, {1024, 36}, {137, 275}};
  for (size_t item = 1; item <= 16; item *= 2)
    for (size_t i = 0; i < sizeof sides / sizeof *sides; ++i) {
      int64_t rows = sides[i][0], columns = sides[i][1];
      check(&(copied){2, item, {rows, columns}, {columns, 1}, {1, rows}});
      check(&(copied){2, item, {rows, columns}, {columns + 1, 1}, {1, rows + 2}});
      check(&(copied){2, item, {rows, columns}, {columns, 1}, {-1, rows}});
      check(&(copied){2, item, {rows, columns}, {columns, 1}, {2, 2 * rows}});
      check(&(copied){3, item, {2, rows, columns}, {rows * columns, columns, 1}, {0, 1, rows}});
    }
}

int main(void) {
  random_copies(4000);
  planes();
  return 0;
}
