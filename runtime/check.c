/*===- check.c - Checks at entry, and their messages ------------------------===*/
#include "runtime.h"

#include <string.h>

/*===-- Text ----------------------------------------------------------------===*/

void kiln_append_dtype(kiln_text *text, DLDataType type) {
  static const char *const float8[] = {"e3m4",     "e4m3", "e4m3b11fnuz", "e4m3fn",
                                       "e4m3fnuz", "e5m2", "e5m2fnuz",    "e8m0fnu"};
  unsigned bits = type.bits;
  switch (type.code) {
  case kDLInt:
    kiln_append(text, "int%u", bits);
    break;
  case kDLUInt:
    kiln_append(text, "uint%u", bits);
    break;
  case kDLFloat:
    kiln_append(text, "float%u", bits);
    break;
  case kDLBfloat:
    kiln_append(text, "bfloat%u", bits);
    break;
  case kDLComplex:
    kiln_append(text, "complex%u", bits);
    break;
  case kDLBool:
    kiln_append(text, bits == 8 ? "bool" : "bool%u", bits);
    break;
  default:
    if (type.code >= kDLFloat8_e3m4 && type.code <= kDLFloat8_e8m0fnu && bits == 8)
      kiln_append(text, "float8_%s", float8[type.code - kDLFloat8_e3m4]);
    else
      kiln_append(text, "dtype(code %u, bits %u)", type.code, bits);
  }
  if (type.lanes != 1)
    kiln_append(text, "x%u", type.lanes);
}

void kiln_append_device(kiln_text *text, DLDevice device) {
  static const char *const names[] = {[kDLCPU] = "cpu",
                                      [kDLCUDA] = "cuda",
                                      [kDLCUDAHost] = "cuda_host",
                                      [kDLOpenCL] = "opencl",
                                      [kDLVulkan] = "vulkan",
                                      [kDLMetal] = "metal",
                                      [kDLVPI] = "vpi",
                                      [kDLROCM] = "rocm",
                                      [kDLROCMHost] = "rocm_host",
                                      [kDLCUDAManaged] = "cuda_managed"};
  unsigned type = (unsigned)device.device_type;
  if (type < sizeof names / sizeof *names && names[type])
    kiln_append(text, "%s", names[type]);
  else
    kiln_append(text, "device type %u", type);
  if (type != kDLCPU)
    kiln_append(text, ":%d", device.device_id);
}

static void append_sizes(kiln_text *text, const int64_t *sizes, int rank) {
  kiln_append(text, "[");
  for (int d = 0; d < rank; ++d)
    kiln_append(text, "%s%lld", d ? ", " : "", (long long)sizes[d]);
  kiln_append(text, "]");
}

/* Sizes as the program states them: numbers, and expressions as text. */
static void append_program_sizes(kiln_text *text, const kiln_rt_program *program,
                                 const int64_t *sizes, int rank) {
  kiln_append(text, "[");
  for (int d = 0; d < rank; ++d) {
    const char *separator = d ? ", " : "";
    if (sizes[d] >= 0) {
      kiln_append(text, "%s%lld", separator, (long long)sizes[d]);
      continue;
    }
    uint64_t expr = (uint64_t)-(sizes[d] + 1);
    bool named = (program->flags & KILN_RT_HAS_EXPRESSIONS) && expr < program->num_expressions;
    kiln_append(text, "%s%s", separator, named ? program->expressions[expr] : "?");
  }
  kiln_append(text, "]");
}

static void append_name(kiln_text *text, const kiln_expectation *expected) {
  kiln_append(text, "%s ", expected->role);
  if (strcmp(expected->role, "constant") != 0)
    kiln_append(text, "%u ", expected->index);
  kiln_append(text, "\"%s\": ", expected->name ? expected->name : "");
}

KILN_FAILURE static kiln_text begin(const kiln_expectation *expected) {
  kiln_text text = kiln_begin_error();
  append_name(&text, expected);
  return text;
}

int32_t kiln_fail_type(int32_t status, const kiln_expectation *expected, const DLTensor *tensor) {
  kiln_text text = begin(expected);
  kiln_append(&text, "expected ");
  kiln_append_dtype(&text, (DLDataType){expected->code, expected->bits, 1});
  kiln_append(&text, " ");
  append_program_sizes(&text, expected->program, expected->shape, expected->rank);
  bool symbolic = false;
  for (int d = 0; d < expected->rank; ++d)
    symbolic |= expected->shape[d] < 0;
  if (symbolic && expected->symbols) {
    int64_t sizes[KILN_MAX_RANK];
    for (int d = 0; d < expected->rank; ++d)
      sizes[d] = kiln_size(expected->program, expected->shape[d], expected->symbols);
    kiln_append(&text, " = ");
    append_sizes(&text, sizes, expected->rank);
  }
  kiln_append(&text, ", got ");
  kiln_append_dtype(&text, tensor->dtype);
  /* A rank that no program has says that `shape` may be garbage as well. */
  if (tensor->ndim > KILN_MAX_RANK) {
    kiln_append(&text, " with %d dimensions", tensor->ndim);
  } else {
    kiln_append(&text, " ");
    append_sizes(&text, tensor->shape, tensor->ndim);
  }
  return status;
}

/*===-- Checks --------------------------------------------------------------===*/

/* Says which size is not what was expected: its expression where it has one, and both values. */
KILN_FAILURE static int32_t fail_size(const kiln_expectation *expected, const DLTensor *tensor,
                                      int d) {
  const kiln_rt_program *program = expected->program;
  kiln_text text = kiln_begin_error();
  int32_t status = kiln_fail_type(KILN_SHAPE_MISMATCH, expected, tensor);
  int64_t size = expected->shape[d];
  uint64_t expr = (uint64_t)-(size + 1);
  if (size >= 0 || !expected->symbols || !(program->flags & KILN_RT_HAS_EXPRESSIONS) ||
      expr >= program->num_expressions)
    return status;
  text.used = strlen(text.text);
  kiln_append(&text, ": dimension %d is %s = %lld, got %lld", d, program->expressions[expr],
              (long long)kiln_size(program, size, expected->symbols), (long long)tensor->shape[d]);
  return status;
}

int32_t kiln_check_shape(const kiln_expectation *expected, const DLTensor *tensor) {
  for (int d = 0; d < expected->rank; ++d) {
    int64_t size = expected->shape[d];
    if (size < 0) {
      if (!expected->symbols)
        continue;
      size = kiln_size(expected->program, size, expected->symbols);
    }
    if (KILN_UNLIKELY(size != tensor->shape[d]))
      return fail_size(expected, tensor, d);
  }
  return KILN_OK;
}

int32_t kiln_check_properties(const kiln_rt_program *program, uint32_t input,
                              const int64_t *properties, const int64_t *symbols) {
  const kiln_rt_tensor *tensor = &program->inputs[input];
  bool is_value = tensor->flags & KILN_RT_VALUE;
  int count = is_value ? 1 : tensor->rank;
  const int64_t *sizes = properties, *actual = is_value ? properties : properties + count;
  int64_t wanted[KILN_MAX_RANK];
  bool same = true, empty = false;
  for (int i = 0; i < count; ++i) {
    wanted[i] = kiln_size(program, tensor->strides[i], symbols);
    /* The stride of a size of 1 places nothing, nor do those of a tensor without elements. */
    same &= wanted[i] == actual[i] || (!is_value && sizes[i] == 1);
    empty |= !is_value && sizes[i] == 0;
  }
  if (KILN_LIKELY(same || empty))
    return KILN_OK;
  kiln_expectation expected = {"input",       input,        tensor->name,
                               tensor->code,  tensor->bits, tensor->rank,
                               tensor->shape, symbols,      program};
  kiln_text text = begin(&expected);
  kiln_append(&text, is_value ? "expected the value " : "expected strides ");
  append_program_sizes(&text, program, tensor->strides, count);
  bool constant = true;
  for (int i = 0; i < count; ++i)
    constant &= tensor->strides[i] >= 0;
  if (!constant) {
    kiln_append(&text, " = ");
    append_sizes(&text, wanted, count);
  }
  kiln_append(&text, ", got ");
  append_sizes(&text, actual, count);
  return is_value ? KILN_INVALID_ARGUMENT : KILN_SHAPE_MISMATCH;
}

/* Natural alignment; complex numbers align as their parts do. */
static size_t alignment_of(uint8_t code, uint8_t bits) {
  size_t item = kiln_item_size(bits);
  return code == kDLComplex ? item / 2 : item;
}

static int32_t check_layout(const kiln_expectation *expected, const DLTensor *tensor,
                            kiln_view *view) {
  size_t item = kiln_item_size(expected->bits);
  int rank = expected->rank;
  uint64_t bytes;
  if (KILN_UNLIKELY(!kiln_bytes(tensor->shape, rank, item, &bytes))) {
    kiln_text text = begin(expected);
    kiln_append(&text, "its size overflows: got shape ");
    append_sizes(&text, tensor->shape, rank);
    return KILN_INVALID_ARGUMENT;
  }
  view->strides = NULL;
  view->extent = bytes;
  if (tensor->strides) {
    for (int d = 0; d < rank; ++d)
      if (KILN_UNLIKELY(tensor->strides[d] < 0)) {
        kiln_text text = begin(expected);
        kiln_append(&text, "expected strides of at least 0, got strides ");
        append_sizes(&text, tensor->strides, rank);
        return KILN_INVALID_ARGUMENT;
      }
    if (!kiln_is_contiguous(tensor->shape, tensor->strides, rank)) {
      view->strides = tensor->strides;
      if (!kiln_extent(tensor->shape, tensor->strides, rank, item, &view->extent)) {
        kiln_text text = begin(expected);
        kiln_append(&text, "its strides overflow: got shape ");
        append_sizes(&text, tensor->shape, rank);
        kiln_append(&text, ", strides ");
        append_sizes(&text, tensor->strides, rank);
        return KILN_INVALID_ARGUMENT;
      }
    }
  }

  uintptr_t address = (uintptr_t)tensor->data, end;
  view->data = (char *)tensor->data;
  if (bytes == 0)
    return KILN_OK;
  if (KILN_UNLIKELY(!tensor->data)) {
    kiln_text text = begin(expected);
    kiln_append(&text, "expected %llu bytes of data, got a NULL data pointer",
                (unsigned long long)view->extent);
    return KILN_INVALID_ARGUMENT;
  }
  if (KILN_UNLIKELY(tensor->byte_offset > KILN_MAX_BYTES ||
                    __builtin_add_overflow(address, tensor->byte_offset, &address) ||
                    __builtin_add_overflow(address, view->extent, &end))) {
    kiln_text text = begin(expected);
    kiln_append(&text, "its data would lie past the end of memory: got byte_offset %llu",
                (unsigned long long)tensor->byte_offset);
    return KILN_INVALID_ARGUMENT;
  }
  size_t align = alignment_of(expected->code, expected->bits);
  if (KILN_UNLIKELY(address % align != 0)) {
    kiln_text text = begin(expected);
    kiln_append(&text, "expected data aligned to %zu bytes, got address 0x%llx", align,
                (unsigned long long)address);
    return KILN_INVALID_ARGUMENT;
  }
  view->data = (char *)address;
  return KILN_OK;
}

int32_t kiln_check_memory(const kiln_expectation *expected, const DLTensor *tensor,
                          const kiln_view *view) {
  char *poisoned = tensor->device.device_type == kDLCPU
                       ? __asan_region_is_poisoned(view->data, view->extent)
                       : NULL;
  if (!poisoned)
    return KILN_OK;
  kiln_text text = begin(expected);
  kiln_append(&text, "byte %llu of its %llu is freed or was never allocated (AddressSanitizer)",
              (unsigned long long)(poisoned - view->data), (unsigned long long)view->extent);
  return KILN_INVALID_ARGUMENT;
}

int32_t kiln_check_tensor(const kiln_expectation *expected, const DLTensor *tensor,
                          kiln_view *view) {
  if (KILN_UNLIKELY(!tensor)) {
    kiln_text text = begin(expected);
    kiln_append(&text, "expected a tensor, got NULL");
    return KILN_INVALID_ARGUMENT;
  }
  /* The device's functions look at its place on a device. */
  bool may_be_elsewhere = kiln_program.device && expected->role[0] != 'c';
  if (KILN_UNLIKELY(tensor->device.device_type != kDLCPU && !may_be_elsewhere)) {
    kiln_text text = begin(expected);
    kiln_append(&text, "expected device cpu, got ");
    kiln_append_device(&text, tensor->device);
    return KILN_INVALID_ARGUMENT;
  }
  if (KILN_UNLIKELY(tensor->ndim < 0 || (tensor->ndim > 0 && !tensor->shape))) {
    kiln_text text = begin(expected);
    kiln_append(&text, "expected %d dimensions, got ndim %d and shape %s", expected->rank,
                tensor->ndim, tensor->shape ? "given" : "NULL");
    return KILN_INVALID_ARGUMENT;
  }
  if (KILN_UNLIKELY(tensor->dtype.code != expected->code || tensor->dtype.bits != expected->bits ||
                    tensor->dtype.lanes != 1))
    return kiln_fail_type(KILN_INVALID_ARGUMENT, expected, tensor);
  if (KILN_UNLIKELY(tensor->ndim != expected->rank))
    return kiln_fail_type(KILN_SHAPE_MISMATCH, expected, tensor);
  for (int d = 0; d < tensor->ndim; ++d)
    if (KILN_UNLIKELY(tensor->shape[d] < 0))
      return kiln_fail_type(KILN_SHAPE_MISMATCH, expected, tensor);
  int32_t status = kiln_check_shape(expected, tensor);
  return KILN_LIKELY(status == KILN_OK) ? check_layout(expected, tensor, view) : status;
}

/*===-- Symbols -------------------------------------------------------------===*/

static bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '.' || c == '$';
}

static bool mentions(const char *expression, const char *symbol) {
  size_t length = strlen(symbol);
  for (const char *at = expression; (at = strstr(at, symbol)); ++at)
    if ((at == expression || !is_word(at[-1])) && !is_word(at[length]))
      return true;
  return false;
}

static bool any_mentions(const kiln_rt_program *program, const int64_t *sizes, int count,
                         const char *symbol) {
  for (int i = 0; i < count; ++i)
    if (sizes[i] < 0 && (uint64_t)-(sizes[i] + 1) < program->num_expressions &&
        mentions(program->expressions[-(sizes[i] + 1)], symbol))
      return true;
  return false;
}

/* The first input that has the symbol in its shape, or else as its value or in its strides, or
 * NULL. */
static const kiln_rt_tensor *find_input(const kiln_rt_program *program, const char *symbol) {
  if (!(program->flags & KILN_RT_HAS_EXPRESSIONS))
    return NULL;
  for (uint32_t i = 0; i < program->num_inputs; ++i)
    if (any_mentions(program, program->inputs[i].shape, program->inputs[i].rank, symbol))
      return &program->inputs[i];
  for (uint32_t i = 0; i < program->num_inputs; ++i) {
    const kiln_rt_tensor *input = &program->inputs[i];
    int count = input->flags & KILN_RT_VALUE ? 1 : input->flags & KILN_RT_STRIDED ? input->rank : 0;
    if (any_mentions(program, input->strides, count, symbol))
      return input;
  }
  return NULL;
}

KILN_FAILURE void kiln_append_origin(kiln_text *text, const kiln_rt_program *program,
                                     const char *symbol) {
  const kiln_rt_tensor *input = find_input(program, symbol);
  if (!input)
    return;
  kiln_append(text, " (");
  for (uint16_t d = 0; d < input->rank; ++d)
    if (input->shape[d] < 0 && (uint64_t)-(input->shape[d] + 1) < program->num_expressions &&
        !strcmp(program->expressions[-(input->shape[d] + 1)], symbol)) {
      kiln_append(text, "dimension %d of ", (int)d);
      break;
    }
  kiln_append(text, "input %d \"%s\")", (int)(input - program->inputs), input->name);
}

static void append_bound(kiln_text *text, int64_t bound) {
  if (bound == INT64_MIN || bound == INT64_MAX)
    kiln_append(text, bound < 0 ? "-inf" : "inf");
  else
    kiln_append(text, "%lld", (long long)bound);
}

KILN_FAILURE static int32_t fail_symbol(const kiln_rt_program *program,
                                        const kiln_rt_symbol *symbol, int64_t value,
                                        const DLTensor *const *inputs) {
  const kiln_rt_tensor *input = find_input(program, symbol->name);
  kiln_text text = kiln_begin_error();
  if (input) {
    uint32_t index = (uint32_t)(input - program->inputs);
    kiln_expectation expected = {"input",     index,        input->name, input->code, input->bits,
                                 input->rank, input->shape, NULL,        program};
    kiln_fail_type(KILN_SHAPE_MISMATCH, &expected, inputs[index]);
    text.used = strlen(text.text);
    kiln_append(&text, ": ");
  }
  kiln_append(&text, "expected %s in [", symbol->name);
  append_bound(&text, symbol->min);
  kiln_append(&text, ", ");
  append_bound(&text, symbol->max);
  kiln_append(&text, "], got %lld", (long long)value);
  return KILN_SHAPE_MISMATCH;
}

int32_t kiln_check_symbols(const kiln_rt_program *program, const int64_t *symbols,
                           const DLTensor *const *inputs) {
  for (uint32_t s = 0; s < program->num_symbols; ++s) {
    const kiln_rt_symbol *symbol = &program->symbols[s];
    if (KILN_UNLIKELY(symbols[s] < symbol->min || symbols[s] > symbol->max))
      return fail_symbol(program, symbol, symbols[s], inputs);
  }
  return KILN_OK;
}
