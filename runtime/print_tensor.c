/*===- print_tensor.c - Tensors as PyTorch prints them ------------------------===*
 *
 * With PyTorch's default options: 4 decimals, lines of 80, and of more than 1000 elements the first
 * and last 3 of each dim. All elements printed have one width and one notation.
 *
 *===-----------------------------------------------------------------------===*/
#include "element.h"
#include "print.h"
#include "runtime.h"

#include <stdbool.h>
#include <stddef.h>

enum { DECIMALS = 4, MOST_ELEMENTS = 1000, EDGE = 3, LINE = 80 };

/*===-- The elements that are printed ---------------------------------------===*/

typedef struct {
  const DLTensor *tensor;
  int64_t item; /* bytes */
  bool is_summary;
} printed_tensor;

static bool is_cut(const printed_tensor *printed, int dim) {
  return printed->is_summary && printed->tensor->shape[dim] > 2 * EDGE;
}

/* How many parts of the dim are printed, and where the next one begins that is. */
static int64_t count_parts(const printed_tensor *printed, int dim) {
  return is_cut(printed, dim) ? 2 * EDGE : printed->tensor->shape[dim];
}
static const char *get_part(const printed_tensor *printed, int dim, const char *data, int64_t i) {
  int64_t size = printed->tensor->shape[dim];
  int64_t index = is_cut(printed, dim) && i >= EDGE ? size - 2 * EDGE + i : i;
  return data + index * printed->tensor->strides[dim] * printed->item;
}

typedef void visitor(void *context, const char *element);

static void visit(const printed_tensor *printed, int dim, const char *data, visitor *function,
                  void *context) {
  if (dim == printed->tensor->ndim)
    return function(context, data);
  int64_t count = count_parts(printed, dim);
  for (int64_t i = 0; i < count; ++i)
    visit(printed, dim + 1, get_part(printed, dim, data, i), function, context);
}

/*===-- Notation ------------------------------------------------------------===*/

/* One for real parts and one for imaginary parts. */
typedef struct {
  DLDataType dtype;
  int part;
  bool is_real;    /* floating-point */
  bool is_integer; /* but all values are integers */
  bool is_scientific;
  double least, greatest; /* magnitudes that are finite and not 0 */
  int width;
} notation;

static double load(const notation *as, const char *element) {
  return kiln_load_number(element, as->dtype.code, as->dtype.bits, as->part).value;
}

static bool is_counted(double x) { return x != 0 && x - x == 0; }

static void find_range(void *context, const char *element) {
  notation *as = context;
  double x = load(as, element), magnitude = x < 0 ? -x : x;
  if (!is_counted(x))
    return;
  if (magnitude < as->least || as->greatest == 0)
    as->least = magnitude;
  if (magnitude > as->greatest)
    as->greatest = magnitude;
  /* Larger ones are integers, and may not fit. */
  if (magnitude < 0x1p53 && (double)(int64_t)x != x)
    as->is_integer = false;
}

/* Less the spaces that make its width. */
static kiln_digits write(const notation *as, const char *element) {
  if (!as->is_real)
    return kiln_write_element(element, as->dtype, 0);
  double x = load(as, element);
  if (as->is_scientific)
    return kiln_write_real('e', DECIMALS, x);
  kiln_digits digits = kiln_write_real('f', as->is_integer ? 0 : DECIMALS, x);
  if (as->is_integer && x - x == 0)
    digits.text[digits.length++] = '.';
  return digits;
}

static void widen(void *context, const char *element) {
  notation *as = context;
  if (as->is_real && !is_counted(load(as, element)))
    return;
  int length = write(as, element).length;
  as->width = length > as->width ? length : as->width;
}

static notation choose_notation(const printed_tensor *printed, int part) {
  DLDataType dtype = printed->tensor->dtype;
  bool is_real = dtype.code != kDLInt && dtype.code != kDLUInt && dtype.code != kDLBool;
  notation as = {.dtype = dtype, .part = part, .is_real = is_real, .is_integer = true, .width = 1};
  if (is_real) {
    visit(printed, 0, printed->tensor->data, find_range, &as);
    as.is_scientific = as.greatest != 0 && (as.greatest / as.least > 1000.0 ||
                                            as.greatest > 1.0e8 || as.least < 1.0e-4);
  }
  visit(printed, 0, printed->tensor->data, widen, &as);
  return as;
}

/*===-- Text ----------------------------------------------------------------===*/

typedef struct {
  const printed_tensor *printed;
  notation real, imaginary;
} layout;

static void print_element(kiln_printed *text, const layout *as, const char *element) {
  kiln_digits digits = write(&as->real, element);
  kiln_print_spaces(text, as->real.width - digits.length);
  kiln_print_bytes(text, digits.text, (uint64_t)digits.length);
  if (as->real.dtype.code != kDLComplex)
    return;
  digits = write(&as->imaginary, element);
  kiln_print_text(text, digits.text[0] == '-' ? "" : "+");
  kiln_print_bytes(text, digits.text, (uint64_t)digits.length);
  kiln_print_text(text, "j");
}

/* Leads to the next part, which is on the same line if there are no `newlines`. */
static void separate(kiln_printed *text, int newlines, int indent) {
  kiln_print_text(text, ",");
  for (int i = 0; i < newlines; ++i)
    kiln_print_text(text, "\n");
  if (newlines)
    text->line = text->used;
  kiln_print_spaces(text, newlines ? indent + 1 : 1);
}

static void print_vector(kiln_printed *text, const layout *as, int dim, const char *data,
                         int indent) {
  int64_t count = count_parts(as->printed, dim), place = 0;
  int length = as->real.width + 2;
  if (as->real.dtype.code == kDLComplex)
    length += as->imaginary.width + 1;
  int64_t per_line = indent + length <= LINE ? (LINE - indent) / length : 1;
  for (int64_t i = 0; i < count; ++i, ++place) {
    if (place)
      separate(text, place % per_line == 0, indent);
    if (i == EDGE && is_cut(as->printed, dim)) {
      kiln_print_text(text, " ...");
      ++place;
      separate(text, place % per_line == 0, indent);
    }
    print_element(text, as, get_part(as->printed, dim, data, i));
  }
}

static void print_dim(kiln_printed *text, const layout *as, int dim, const char *data, int indent) {
  int rank = as->printed->tensor->ndim;
  if (dim == rank)
    return print_element(text, as, data);
  kiln_print_text(text, "[");
  if (dim == rank - 1) {
    print_vector(text, as, dim, data, indent);
  } else {
    int64_t count = count_parts(as->printed, dim);
    int newlines = rank - dim - 1;
    for (int64_t i = 0; i < count; ++i) {
      if (i)
        separate(text, newlines, indent);
      if (i == EDGE && is_cut(as->printed, dim)) {
        kiln_print_text(text, "...");
        separate(text, newlines, indent);
      }
      print_dim(text, as, dim + 1, get_part(as->printed, dim, data, i), indent + 1);
    }
  }
  kiln_print_text(text, "]");
}

/*===-- What comes behind the elements --------------------------------------===*/

/* The dtypes that are not said, unless there are no elements. */
static bool is_default(DLDataType dtype, bool is_empty) {
  if (dtype.code == kDLFloat && dtype.bits == 32)
    return true;
  return !is_empty && (dtype.code == kDLBool || (dtype.code == kDLInt && dtype.bits == 64) ||
                       (dtype.code == kDLComplex && dtype.bits == 64));
}

static void print_size(kiln_printed *text, const DLTensor *tensor) {
  kiln_print_text(text, "size=(");
  for (int d = 0; d < tensor->ndim; ++d)
    kiln_print_format(text, "%s%lld", d ? ", " : "", (long long)tensor->shape[d]);
  kiln_print_text(text, tensor->ndim == 1 ? ",)" : ")");
}

static void print_dtype(kiln_printed *text, const DLTensor *tensor) {
  char name[32];
  kiln_text dtype = {name, sizeof name, 0};
  kiln_append_dtype(&dtype, tensor->dtype);
  kiln_print_format(text, "dtype=torch.%s", name);
}

/* On the same line if there is room. `column` is where PyTorch takes that line to end. */
static void print_suffix(kiln_printed *text, const DLTensor *tensor,
                         void (*print)(kiln_printed *, const DLTensor *), uint64_t *column,
                         int indent) {
  kiln_printed measured = {NULL, 0, 0};
  print(&measured, tensor);
  if (*column + measured.used + 2 > LINE) {
    kiln_print_text(text, ",\n");
    kiln_print_spaces(text, indent);
    *column = (uint64_t)indent + measured.used;
  } else {
    kiln_print_text(text, ", ");
    *column += measured.used + 2;
  }
  print(text, tensor);
}

void kiln_print_tensor(kiln_printed *text, const DLTensor *tensor) {
  static const char prefix[] = "tensor(";
  int indent = sizeof prefix - 1;
  int64_t count = 1;
  for (int d = 0; d < tensor->ndim; ++d)
    count *= tensor->shape[d];
  text->line = text->used;
  kiln_print_text(text, prefix);
  if (count) {
    const printed_tensor printed = {tensor, (int64_t)(tensor->dtype.bits / 8),
                                    count > MOST_ELEMENTS};
    layout as = {&printed, choose_notation(&printed, 0), {.width = 0}};
    if (tensor->dtype.code == kDLComplex)
      as.imaginary = choose_notation(&printed, 1);
    print_dim(text, &as, 0, tensor->data, indent);
  } else {
    kiln_print_text(text, "[]");
  }
  uint64_t column = text->used - text->line + 2;
  if (!count && tensor->ndim != 1)
    print_suffix(text, tensor, print_size, &column, indent);
  if (!is_default(tensor->dtype, !count))
    print_suffix(text, tensor, print_dtype, &column, indent);
  kiln_print_text(text, ")");
}
