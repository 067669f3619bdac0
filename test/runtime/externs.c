/*===- externs.c - A program that calls a library ----------------------------===*
 *
 *   def forward(self, x):                  # f32[4]
 *     return fake.add(x, number=42)        # by libkiln_fake.so, see fake-library.c
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/ir_interface.h"

#include <stddef.h>

static const int64_t shape[] = {4};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 1, 0, shape, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, shape, NULL}};

static const kiln_extern_value add_args[] = {{KILN_EXTERN_TENSOR, 0, 0, NULL},
                                             {KILN_EXTERN_NUMBER, 0, 0, NULL}};
static const kiln_extern_tensor tensors[] = {{2, 32, 1}, {2, 32, 1}};
static const int64_t projection[] = {0};
static const kiln_extern_call calls[] = {
    {.callee = "fake.add.default",
     .where = "node 'add' (model.py:3)",
     .args = add_args,
     .tensors = tensors,
     .projection = projection,
     .num_args = 2,
     .num_values = 2,
     .num_operands = 1,
     .num_results = 1},
    {.callee = "fake.nothing.default", .where = "node 'nothing' (model.py:4)"},
};
static const char *const libraries[] = {"fake"};
static const kiln_rt_externs externs = {
    .libraries = libraries,
    .calls = calls,
    .num_libraries = 1,
    .num_calls = 2,
    .open = kiln_rt_open_externs,
    .close = kiln_rt_close_externs,
};

static int32_t run_main(kiln_rt_run *run) {
  void *const buffers[] = {run->inputs[0], run->outputs[0]};
  const int64_t numbers[] = {4, 1, 4, 1, 42};
  int32_t status = kiln_rt_extern(run, 0, buffers, numbers);
  return status ? status : kiln_rt_extern(run, 1, NULL, NULL);
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 1,
    .num_outputs = 1,
    .info = "{\"name\": \"externs\"}",
    .inputs = inputs,
    .outputs = outputs,
    .main = run_main,
    .externs = &externs,
};
