/*===- custom.c - A program that calls a C function --------------------------===*
 *
 *   def forward(self, x):                  # f32[4]
 *     y = x.clone()
 *     total = lib.add_(y, 2.5, [7, x.shape[0]], None, "name", x[0].item())
 *     return y, total
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/ir_interface.h"

#include <stddef.h>

static const int64_t shape[] = {4};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 1, 0, shape, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, shape, NULL},
                                         {"total", 2, 32, 0, 0, NULL, NULL}};

static const kiln_extern_value args[] = {
    {KILN_EXTERN_TENSOR, 0, 0, NULL},
    {KILN_EXTERN_FLOAT, 0, 0x4004000000000000, NULL}, /* 2.5 */
    {KILN_EXTERN_LIST, 2, 0, NULL},
    {KILN_EXTERN_INT, 0, 7, NULL},
    {KILN_EXTERN_NUMBER, 0, 0, NULL},
    {KILN_EXTERN_NONE, 0, 0, NULL},
    {KILN_EXTERN_STRING, 0, 0, "name"},
    {KILN_EXTERN_COMPLEX, 0, 0, NULL},
    {KILN_EXTERN_FLOAT, 0, 0x3ff0000000000000, NULL},
    {KILN_EXTERN_FLOAT, 0, 0x4000000000000000, NULL},
    {KILN_EXTERN_BOOL, 0, 1, NULL},
    {KILN_EXTERN_ITEM, 0, 1, NULL},
};
static const kiln_extern_tensor tensors[] = {{2, 32, 1}, {2, 32, 0}, {2, 32, 0}, {2, 32, 1}};
static const int64_t projection[] = {0}, updates[] = {0};
static const kiln_extern_call call = {
    .callee = "add",
    .where = "node 'add' (model.py:3)",
    .args = args,
    .tensors = tensors,
    .projection = projection,
    .updates = updates,
    .num_args = 8,
    .num_values = 12,
    .num_operands = 2,
    .num_results = 2,
    .num_updates = 1,
};

int32_t add(const DLTensor *const *in, size_t num_inputs, const DLTensor *const *out,
            size_t num_outputs, const kiln_custom_op_context *context);

static int32_t run_main(kiln_rt_run *run) {
  /* x and its first element; the sum and y, in which x is copied. */
  void *const buffers[] = {run->inputs[0], run->inputs[0], run->outputs[1], run->outputs[0]};
  const int64_t numbers[] = {4, 1, 4, 1, 4};
  return kiln_rt_custom(run, &call, add, buffers, numbers);
}

const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 1,
    .num_outputs = 2,
    .info = "{\"name\": \"custom\"}",
    .inputs = inputs,
    .outputs = outputs,
    .main = run_main,
};
