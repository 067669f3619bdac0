/*===- externs.c - A program that calls a library ----------------------------===*
 *
 *   def forward(self, x):                  # f32[4]
 *     return fake.add(x, number=42)        # by libkiln_fake.so, see fake-library.c
 *
 * Then the first elements of the result are overwritten with those of fake.times(x): x[0] times
 * x[1]. fake.nothing() and, by libkiln_spare.so, spare.nothing(externs_text) do nothing.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/ir_interface.h"

#include <stddef.h>

static const int64_t shape[] = {4};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 1, 0, shape, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, shape, NULL}};

extern char externs_text[];
char externs_text[] = "text";

static const kiln_extern_value add_args[] = {{KILN_EXTERN_TENSOR, 0, 0, NULL},
                                             {KILN_EXTERN_NUMBER, 0, 0, NULL}};
static const kiln_extern_value text_args[] = {{KILN_EXTERN_STRING, 0, 0, externs_text}};
static const kiln_extern_tensor tensors[] = {{2, 32, 1}, {2, 32, 1}};
static const int64_t projection[] = {0}, size_of[] = {0, 0};
static const kiln_extern_tensor times_tensors[] = {{2, 32, 1}, {0, 64, 0}, {0, 64, 0}};
static const kiln_extern_tensor fetch_tensors[] = {{0, 64, 0}, {2, 32, 1}};
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
    {.callee = "fake.times.default",
     .where = "node 'times' (model.py:5)",
     .args = add_args,
     .tensors = times_tensors,
     .sizes = size_of,
     .num_args = 1,
     .num_values = 1,
     .num_operands = 1,
     .num_results = 2,
     .num_sizes = 1},
    {.callee = KILN_EXTERN_RESULTS,
     .where = "node 'times' (model.py:5)",
     .args = add_args,
     .tensors = fetch_tensors,
     .projection = projection,
     .num_args = 1,
     .num_values = 1,
     .num_operands = 1,
     .num_results = 1},
    {.callee = "spare.nothing.default",
     .where = "node 'nothing_1' (model.py:6)",
     .args = text_args,
     .library = 1,
     .num_args = 1,
     .num_values = 1},
};
static const char *const libraries[] = {"fake", "spare"};
static const kiln_rt_externs externs = {
    .libraries = libraries,
    .calls = calls,
    .num_libraries = 2,
    .num_calls = 5,
    .open = kiln_rt_open_externs,
    .close = kiln_rt_close_externs,
    .drop = kiln_rt_drop_kept,
};

static int32_t run_main(kiln_rt_run *run) {
  void *const buffers[] = {run->inputs[0], run->outputs[0]};
  const int64_t numbers[] = {4, 1, 4, 1, 42};
  int32_t status = kiln_rt_extern(run, 0, buffers, numbers);
  if (!status)
    status = kiln_rt_extern(run, 1, NULL, NULL);
  if (!status)
    status = kiln_rt_extern(run, 4, NULL, NULL);
  if (status || !(((float *)run->inputs[0])[0] > 0))
    return status;
  int64_t count, number;
  void *const times[] = {run->inputs[0], &count, &number};
  status = kiln_rt_extern(run, 2, times, numbers);
  if (status || count > 4)
    return status ? status : kiln_rt_fail(run, 6, "too many");
  void *const fetch[] = {&number, run->outputs[0]};
  return kiln_rt_extern(run, 3, fetch, (const int64_t[]){count, 1});
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
