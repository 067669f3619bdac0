/*===- device.c - A program for a GPU that calls all that main may call --------------------------===*
 *
 *   def forward(x: f32[s0, 2]):
 *     x += 1                                    # in place
 *     u = x.flatten()[:u0] + 1                  # u0 is s0, as data says
 *     lib.touch(x); lib.add_(u, 1)              # on the GPU; on the host
 *     return x.t(), None, u
 *
 * The first output goes through copies that turn x around twice, in seven dims.
 *
 *===-----------------------------------------------------------------------===*/
#include "device.h"
#include "../../runtime/ir_interface.h"

#include <stddef.h>

uint32_t device_level;

static const int64_t x_shape[] = {-1, 2}, y_shape[] = {2, -1}, y_strides[] = {1, 2},
                     u_shape[] = {-2};
static const int64_t symbol_numbers[] = {1};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 2, KILN_RT_MUTATED, x_shape, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 2, 0, y_shape, y_strides},
                                         {"nothing", 0, 0, 0, KILN_RT_NONE, NULL, NULL},
                                         {"u", 2, 32, 1, KILN_RT_LATE, u_shape, NULL}};
static const kiln_rt_symbol symbols[] = {
    {"s0", 1, 10000}, {"s1", INT64_MIN, INT64_MAX}, {"u0", INT64_MIN, INT64_MAX}};
static const char *const expressions[] = {"s0", "u0"};

static kiln_rt_image images[] = {{NULL, 0, 0, KILN_RT_EMULATOR}};
static const kiln_rt_device_kernel bump = {.name = "bump",
                                           .images = images,
                                           .symbols = symbol_numbers,
                                           .num_images = 1,
                                           .num_buffers = 2,
                                           .num_symbols = 1,
                                           .threads = 64,
                                           .cluster = 1};
static const kiln_rt_device_kernel too_much = {.name = "bump",
                                               .images = images,
                                               .num_images = 1,
                                               .num_buffers = KILN_RT_MAX_PARAMETERS,
                                               .threads = 64,
                                               .number = 2,
                                               .cluster = 1};
static const kiln_rt_device_kernel copy = {.name = "copy",
                                           .images = images,
                                           .num_images = 1,
                                           .num_buffers = 2,
                                           .num_symbols = KILN_RT_COPY_NUMBERS,
                                           .threads = 64,
                                           .number = 1,
                                           .cluster = 1};

void use_image(const void *data, uint64_t bytes) {
  images[0].data = data;
  images[0].bytes = bytes;
}

static int32_t bind(const int64_t *const *shapes, int64_t *values) {
  values[0] = shapes[0][0];
  values[1] = values[2] = 0;
  return 0;
}

static int64_t eval(const int64_t *values, int64_t expr) { return values[expr ? 2 : 0]; }

static int64_t arena_half(const int64_t *values) { return (8 * values[0] + 63) / 64 * 64; }

static int64_t sizes(int64_t *values) {
  values[1] = 2 * values[0];
  return values[0] == DEVICE_NO_ARENA ? -1 : 2 * arena_half(values);
}

/*===-- C functions ---------------------------------------------------------===*/

static int32_t touch(const DLTensor *const *in, size_t num_inputs, const DLTensor *const *out,
                     size_t num_outputs, const kiln_custom_op_context *context) {
  (void)out, (void)num_outputs, (void)context;
  return num_inputs == 1 && in[0]->device.device_type == kDLCUDA && in[0]->ndim == 2 &&
                 in[0]->shape[0] != DEVICE_CUSTOM_FAILS
             ? 0
             : 1;
}

static int32_t add_on_host(const DLTensor *const *in, size_t num_inputs, const DLTensor *const *out,
                           size_t num_outputs, const kiln_custom_op_context *context) {
  (void)num_outputs, (void)context;
  if (num_inputs != 1 || in[0]->device.device_type != kDLCPU ||
      in[0]->shape[0] == DEVICE_HOST_FAILS)
    return 1;
  for (int64_t i = 0; i < in[0]->shape[0]; ++i)
    ((float *)out[0]->data)[i] = ((const float *)in[0]->data)[i] + 1;
  return 0;
}

static const kiln_extern_value tensor_argument[] = {{KILN_EXTERN_TENSOR, 0, 0, NULL}};
static const kiln_extern_tensor matrix[] = {{2, 32, 2}}, vectors[] = {{2, 32, 1}, {2, 32, 1}};
static const int64_t projection[] = {0};
static const kiln_extern_call touch_call = {.callee = "touch",
                                            .where = "node 'touch'",
                                            .args = tensor_argument,
                                            .tensors = matrix,
                                            .num_args = 1,
                                            .num_values = 1,
                                            .num_operands = 1};
static const kiln_extern_call add_call = {.callee = "add",
                                          .where = "node 'add'",
                                          .args = tensor_argument,
                                          .tensors = vectors,
                                          .projection = projection,
                                          .num_args = 1,
                                          .num_values = 1,
                                          .num_operands = 1,
                                          .num_results = 1};

/*===-- The program ---------------------------------------------------------===*/

int32_t kiln_rt_device_debug(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                             void *const *buffers);

static int32_t show(kiln_rt_run *run, int32_t time, void *const *buffers) {
  static const kiln_rt_debug_tensor tensors[] = {
      {"x", "float32", NULL, x_shape, NULL, 2, 32, 2, 0}};
  const kiln_rt_debug_step step = {"bump", "node \"\n\" (m.py:3)", tensors, 1, 0, device_level, 0};
  return device_level ? kiln_rt_device_debug(run, &step, time, buffers) : 0;
}

static int32_t turn_around(kiln_rt_run *run, char *first, char *second) {
  static const int64_t seven[] = {2, 2, 2, 2, 2, 2, 2}, there[] = {64, 32, 16, 8, 4, 2, 1};
  static const int64_t back[] = {1, 2, 4, 8, 16, 32, 64}, flat[] = {1, 7}, empty[] = {0};
  int64_t count[] = {2 * run->symbols[0], 1};
  if (run->symbols[0] != DEVICE_ROWS)
    return kiln_rt_device_copy_strided(run, second, flat, run->inputs[0], flat, count, 2, 4);
  int32_t status =
      kiln_rt_device_copy_strided(run, first, back, run->inputs[0], there, seven, 7, 4);
  if (!status)
    status = kiln_rt_device_copy_strided(run, second, there, first, back, seven, 7, 4);
  return status ? status : kiln_rt_device_copy_strided(run, NULL, flat, NULL, flat, empty, 1, 4);
}

static int32_t call_functions(kiln_rt_run *run, void *x, void *u) {
  int64_t rows = run->symbols[0];
  const int64_t matrix_numbers[] = {rows, 2, 2, 1}, vector_numbers[] = {rows, 1, rows, 1};
  void *const matrices[] = {x}, *const both[] = {u, u};
  int32_t status = kiln_rt_begin_step(run);
  if (!status)
    status = kiln_rt_device_custom(run, &touch_call, touch, matrices, matrix_numbers);
  if (!status)
    status = kiln_rt_device_custom_on_host(run, &add_call, add_on_host, both, vector_numbers);
  return status ? status : kiln_rt_end_step(run, 0, matrices);
}

static int32_t run_main(kiln_rt_run *run) {
  int64_t rows = run->symbols[0], grid = (2 * rows + 63) / 64;
  char *first = run->arena, *second = first + arena_half(run->symbols);
  void *x = run->inputs[0], *const in_place[] = {x, x};
  int32_t status = show(run, KILN_RT_DEBUG_INPUTS, run->inputs);
  if (!status)
    status = kiln_rt_device_launch(run, &bump, in_place, rows == DEVICE_WIDE_GRID ? -1 : grid, 0);
  if (!status)
    status = kiln_rt_device_launch(run, &bump, in_place, 0, KILN_RT_NO_STEP);
  if (!status && rows == DEVICE_PARAMETERS)
    status = kiln_rt_device_launch(run, &too_much, in_place, 1, KILN_RT_NO_STEP);
  if (!status)
    status = show(run, KILN_RT_DEBUG_AFTER, in_place);
  if (!status)
    status = turn_around(run, first, second);
  if (!status)
    status = kiln_rt_device_copy(run, run->outputs[0], second, 8 * rows);
  if (!status)
    status = kiln_rt_device_copy(run, run->outputs[0], second, 0);
  float read;
  if (!status)
    status = kiln_rt_device_read(run, &read, x, sizeof read);
  run->symbols[2] = rows;
  if (!status)
    status = kiln_rt_device_reserve(run, 0, rows == DEVICE_OVERFLOWS ? -1 : 8 * rows);
  if (!status)
    status = kiln_rt_device_reserve(run, 0, 0);
  if (status)
    return status;
  void *const more[] = {x, run->segments[0]};
  status = kiln_rt_device_launch(run, &bump, more, grid, KILN_RT_NO_STEP);
  if (!status)
    status = call_functions(run, x, run->segments[0]);
  if (!status)
    status = kiln_rt_device_bind_output(run, 2);
  return status ? status : kiln_rt_device_copy(run, run->outputs[2], run->segments[0], 4 * rows);
}

static const kiln_rt_profile_kernel profiled_kernels[] = {{0, 0, 1}};
static const kiln_rt_profile_step profiled_steps[] = {{0, 5}};
static const int64_t costs[] = {1, 4};
static const kiln_rt_profile profile = {
    profiled_steps, profiled_kernels, costs, "bump\0node", NULL, 1};

extern const kiln_device_functions kiln_cuda_functions;
static const kiln_rt_device device = {
    .functions = &kiln_cuda_functions, .num_kernels = 3, .copy = &copy};

const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .profile = &profile,
    .num_inputs = 1,
    .num_outputs = 3,
    .num_symbols = 3,
    .flags = KILN_RT_HAS_EXPRESSIONS,
    .info = "{\"name\": \"device\"}",
    .inputs = inputs,
    .outputs = outputs,
    .symbols = symbols,
    .bind = bind,
    .eval = eval,
    .sizes = sizes,
    .main = run_main,
    .num_expressions = 2,
    .num_segments = 1,
    .expressions = expressions,
    .device = &device,
};
