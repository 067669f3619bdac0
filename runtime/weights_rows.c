/*===- weights_rows.c - Replacing rows of a parameter -----------------------===*
 *
 * "NAME[BEGIN:END]" names rows: indices BEGIN to END - 1 of the first dim. They
 * are written to the parameter's place, and into the layouts that compilation has
 * made of it, where they belong. Where something else was made of it, all of that
 * is computed anew, which takes the other rows as they were.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <string.h>

/*===-- Names ---------------------------------------------------------------===*/

/* Reads a number up to `end`. False: there is something else. */
static bool read_number(const char *text, const char *end, int64_t *number) {
  *number = 0;
  if (text == end || end - text > 18)
    return false;
  for (; text < end; ++text) {
    if (*text < '0' || *text > '9')
      return false;
    *number = 10 * *number + (*text - '0');
  }
  return true;
}

bool kiln_rows_parse(const char *name, kiln_rows *rows) {
  size_t length = strlen(name);
  const char *open = strrchr(name, '['), *colon = strrchr(name, ':');
  if (!open || !colon || colon < open || name[length - 1] != ']')
    return false;
  rows->name_length = (size_t)(open - name);
  return read_number(open + 1, colon, &rows->begin) &&
         read_number(colon + 1, name + length - 1, &rows->end);
}

/*===-- Layouts -------------------------------------------------------------===*/

/* The numbers of kiln_rt_fold.layout for a dim. */
typedef struct {
  int64_t divisor, size, stride, is_row;
} layout_dim;

static const layout_dim *get_dim(const kiln_rt_fold *fold, int64_t i) {
  return (const layout_dim *)fold->layout + i;
}

static const kiln_rt_fold *next_reader(const kiln_rt_fold *fold, int64_t cell) {
  const kiln_rt_fold *end = kiln_program.folds + kiln_program.num_folds;
  for (; fold < end; ++fold)
    for (uint32_t i = 0; i < fold->num_operands; ++i)
      if (fold->constants[i] == cell)
        return fold;
  return NULL;
}

static int64_t result_of(const kiln_rt_fold *fold) { return fold->constants[fold->num_operands]; }

/* True if all that is made of a constant are layouts, of which nothing else is made. */
static bool has_layouts_alone(int64_t cell) {
  const kiln_rt_fold *fold = kiln_program.folds;
  for (; (fold = next_reader(fold, cell)); ++fold)
    if (!fold->layout || next_reader(kiln_program.folds, result_of(fold)))
      return false;
  return true;
}

/* The place of a row, or of an element in its row. */
static int64_t place(const kiln_rt_fold *fold, bool is_row, int64_t number) {
  int64_t at = 0;
  for (int64_t i = 0; i < fold->num_dims; ++i) {
    const layout_dim *dim = get_dim(fold, i);
    if ((dim->is_row != 0) == is_row)
      at += number / dim->divisor % dim->size * dim->stride;
  }
  return at;
}

/* Elements that follow each other in a row and lie `*stride` apart in a layout. */
static int64_t find_run(const kiln_rt_fold *fold, int64_t elements, int64_t *stride) {
  for (int64_t i = 0; i < fold->num_dims; ++i) {
    const layout_dim *dim = get_dim(fold, i);
    if (!dim->is_row && dim->divisor == 1) {
      *stride = dim->stride;
      return dim->size < elements ? dim->size : elements;
    }
  }
  *stride = 1;
  return 1;
}

/* Writes contiguous rows into a layout that begins at `to`, and says what of it has changed. */
static void write_layout(const kiln_rt_fold *fold, char *to, const char *from,
                         const kiln_rows *rows, int64_t elements, size_t item, int64_t *first,
                         int64_t *last) {
  static const int64_t one = 1;
  int64_t stride, run = find_run(fold, elements, &stride);
  for (int64_t row = rows->begin; row < rows->end; ++row) {
    int64_t at_row = place(fold, true, row);
    for (int64_t e = 0; e < elements; e += run) {
      int64_t at = at_row + place(fold, false, e);
      int64_t count = elements - e < run ? elements - e : run;
      kiln_copy(to + at * (int64_t)item, &stride,
                from + ((row - rows->begin) * elements + e) * (int64_t)item, &one, &count, 1, item);
      int64_t end = at + (count - 1) * stride;
      *first = at < *first ? at : *first;
      *last = end > *last ? end : *last;
    }
  }
}

/*===-- Writing -------------------------------------------------------------===*/

static int32_t upload(kiln_model *model, uint64_t offset, uint64_t bytes) {
  return kiln_program.device && bytes ? kiln_program.device->functions->upload(model, offset, bytes)
                                      : KILN_OK;
}

/* Writes the rows to all their places. `row_bytes` are those of one. */
static int32_t write_places(kiln_model *model, const kiln_rt_constant *constant, const char *value,
                            const kiln_rows *rows, uint64_t row_bytes) {
  int32_t status = KILN_OK;
  if (!(constant->flags & KILN_RT_UNPLACED))
    status = kiln_weights_store(model, constant->offset + row_bytes * (uint64_t)rows->begin, value,
                                row_bytes * (uint64_t)(rows->end - rows->begin));
  size_t item = kiln_item_size(constant->bits);
  const kiln_rt_fold *fold = kiln_program.folds;
  for (; status == KILN_OK && (fold = next_reader(fold, constant->cell)); ++fold) {
    /* It is in the blob, since no fold reads it. */
    const kiln_rt_constant *made = &kiln_program.constants[result_of(fold)];
    int64_t first = INT64_MAX, last = -1;
    status = kiln_weights_own(&model->weights);
    if (status != KILN_OK)
      break;
    write_layout(fold, atomic_load(&model->weights.blob) + made->offset, value, rows,
                 (int64_t)(row_bytes / item), item, &first, &last);
    status =
        upload(model, made->offset + (uint64_t)first * item, (uint64_t)(last - first + 1) * item);
  }
  return status;
}

/* The rows among the others, for what is made of all of them. */
static int32_t replace_whole(kiln_model *model, const kiln_rt_constant *constant, const char *value,
                             const kiln_rows *rows, uint64_t row_bytes) {
  if (constant->flags & KILN_RT_UNPLACED)
    return kiln_fail(KILN_UNSUPPORTED,
                     "constant \"%s\": its rows cannot be replaced alone, since compilation has "
                     "mixed them with others and stored nothing else: give the whole tensor",
                     constant->name);
  char *whole = kiln_allocate(&model->allocator, constant->bytes);
  if (!whole)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a copy of %llu bytes",
                     (unsigned long long)constant->bytes);
  memcpy(whole, kiln_weights_at(&model->weights, constant->offset), constant->bytes);
  memcpy(whole + row_bytes * (uint64_t)rows->begin, value,
         row_bytes * (uint64_t)(rows->end - rows->begin));
  DLTensor tensor = {whole,
                     {kDLCPU, 0},
                     constant->rank,
                     {constant->code, constant->bits, 1},
                     (int64_t *)(uintptr_t)constant->shape,
                     NULL,
                     0};
  int32_t status = kiln_weights_replace(model, constant, &tensor);
  kiln_deallocate(&model->allocator, whole, constant->bytes);
  return status;
}

static int32_t check_rows(const kiln_model *model, const kiln_rt_constant *constant,
                          const char *name, const kiln_rows *rows) {
  if (constant->rank == 0)
    return kiln_fail(KILN_SHAPE_MISMATCH, "constant \"%s\": a scalar has no rows", constant->name);
  if (rows->begin > rows->end || rows->end > constant->shape[0])
    return kiln_fail(KILN_SHAPE_MISMATCH, "constant \"%s\": expected rows within [0:%lld]", name,
                     (long long)constant->shape[0]);
  if (model->weights.known && !model->weights.known[constant->cell])
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "constant \"%s\" has no value whose rows could be replaced: give the whole "
                     "tensor first",
                     constant->name);
  return KILN_OK;
}

int32_t kiln_weights_set_rows(kiln_model *model, const kiln_rt_constant *constant, const char *name,
                              const kiln_rows *rows, const DLTensor *value) {
  int32_t status = check_rows(model, constant, name, rows);
  if (status != KILN_OK)
    return status;
  int64_t shape[KILN_MAX_RANK], strides[KILN_MAX_RANK];
  memcpy(shape, constant->shape, constant->rank * sizeof *shape);
  shape[0] = rows->end - rows->begin;
  kiln_expectation expected = {"constant",     0,     name, constant->code, constant->bits,
                               constant->rank, shape, NULL, &kiln_program};
  kiln_view view;
  status = kiln_check_tensor(&expected, value, &view);
  if (status != KILN_OK)
    return status;
  uint64_t row_bytes = constant->shape[0] ? constant->bytes / (uint64_t)constant->shape[0] : 0;
  uint64_t bytes = row_bytes * (uint64_t)shape[0];
  if (bytes == 0)
    return KILN_OK;
  char *copy = NULL, *data = view.data;
  if (view.strides) {
    data = copy = kiln_allocate(&model->allocator, bytes);
    if (!copy)
      return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a copy of %llu bytes",
                       (unsigned long long)bytes);
    kiln_contiguous_strides(shape, constant->rank, strides);
    kiln_copy(copy, strides, view.data, view.strides, shape, constant->rank,
              kiln_item_size(constant->bits));
  }
  /* Tied names have one value. */
  const kiln_rt_constant *cell = &kiln_program.constants[constant->cell];
  status = has_layouts_alone(constant->cell) ? write_places(model, cell, data, rows, row_bytes)
                                             : replace_whole(model, cell, data, rows, row_bytes);
  if (copy)
    kiln_deallocate(&model->allocator, copy, bytes);
  return status;
}
