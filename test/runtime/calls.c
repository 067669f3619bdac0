/*===- calls.c - A program for a GPU whose main a test gives ----------------------===*
 *
 *   def forward(x: f32[s0]):   # s0 may be 0
 *     return f32[s0]
 *
 * It knows a library, of which it makes two calls, and has a workspace, for blocks and for all together.
 *
 *===-----------------------------------------------------------------------===*/
#include "calls.h"

#include <stddef.h>

int32_t (*calls_main)(kiln_rt_run *run);
int32_t (*calls_step)(kiln_rt_run *run, void *const *buffers);

static const int64_t shape[] = {-1}, y_shape[] = {-2};
kiln_rt_tensor calls_input = {"x", 2, 32, 1, 0, shape, NULL};
int64_t calls_factor = 1;
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, y_shape, NULL}};
static const kiln_rt_symbol symbols[] = {{"s0", 0, INT64_MAX}};

static int32_t bind(const int64_t *const *shapes, int64_t *values) {
  values[0] = shapes[0][0];
  return 0;
}
static int64_t eval(const int64_t *values, int64_t expr) {
  return expr ? values[0] * calls_factor : values[0];
}

static const kiln_extern_value args[] = {{KILN_EXTERN_TENSOR, 0, 0, NULL},
                                         {KILN_EXTERN_NUMBER, 0, 0, NULL}};
static const kiln_extern_tensor tensors[] = {{2, 32, 1}, {2, 32, 1}};
static const int64_t projection[] = {0};
static const kiln_extern_call calls[] = {{.callee = "fake.add.default",
                                          .where = "node 'add' (model.py:3)",
                                          .args = args,
                                          .tensors = tensors,
                                          .projection = projection,
                                          .num_args = 2,
                                          .num_values = 2,
                                          .num_operands = 1,
                                          .num_results = 1}};
static const char *const libraries[] = {"fake"};
static const kiln_rt_externs externs = {
    .libraries = libraries,
    .calls = calls,
    .num_libraries = 1,
    .num_calls = 1,
    .open = kiln_rt_open_externs,
    .close = kiln_rt_close_externs,
    .drop = kiln_rt_drop_kept,
};

static int32_t run_main(kiln_rt_run *run) { return calls_main(run); }

extern const kiln_device_functions kiln_cuda_functions;
static const kiln_rt_device device = {.functions = &kiln_cuda_functions,
                                      .num_kernels = CALLS_KERNELS,
                                      .workspace = 64,
                                      .shared_workspace = 1024};

const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 1,
    .num_outputs = 1,
    .num_symbols = 1,
    .info = "{\"name\": \"calls\"}",
    .inputs = &calls_input,
    .outputs = outputs,
    .symbols = symbols,
    .bind = bind,
    .eval = eval,
    .main = run_main,
    .externs = &externs,
    .device = &device,
    .num_failures = 1,
    .failures = (const char *const[]){"it was asserted that this is not done"},
};

static int32_t run_step(kiln_rt_run *run, void *const *buffers) { return calls_step(run, buffers); }

static const kiln_rt_tensor step_tensors[] = {{"step", 2, 32, 1, 0, shape, NULL},
                                              {"step", 2, 32, 1, 0, shape, NULL}};
static const int64_t step_symbols[] = {0};
static const kiln_rt_step steps[] = {{"step", run_step, step_tensors, step_symbols, 2, 1}};

const kiln_rt_steps kiln_steps = {steps, 1, 0};
