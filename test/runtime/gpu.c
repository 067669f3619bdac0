/*===- gpu.c - A program for a GPU: what code generation would emit ---------===*
 *
 *   def forward(x: f32[s0]):
 *     if s0 == 7: x[0].item()
 *     weights[:s0] += 1                          # if asked for: see gpu.h
 *     return x + 4 + weights[::1024][:s0]        # weights: external
 *
 * in STEPS steps: four times 1 is added, the third time in place, then it is copied. A kernel
 * reports an index that is out of range where x is NaN. Where the compute capability is 9.0, pairs
 * of blocks add.
 *
 *===-----------------------------------------------------------------------===*/
#include "gpu.h"
#include "../../runtime/ir_interface.h"

#include <stddef.h>

static const int64_t shape[] = {-1}, weights_shape[] = {WEIGHTS}, symbol_numbers[] = {0};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 1, 0, shape, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, shape, NULL}};
static kiln_rt_constant constants[] = {
    {"weights", 2, 32, 1, 0, weights_shape, 0, 4 * (uint64_t)WEIGHTS, 0, 0}};
static const kiln_rt_symbol symbols[] = {{"s0", 1, MOST}};

/* Before the emulator's, which the machine has: what a GPU would be given. */
static kiln_rt_image images[] = {{NULL, 0, 0, KILN_RT_EMULATOR}};
static kiln_rt_image variant_images[] = {{NULL, 0, 0, KILN_RT_EMULATOR}};
static void count_blocks(const int64_t *values, int64_t *numbers) {
  numbers[0] = (values[0] + 127) / 128 * 2;
}
static const kiln_rt_device_kernel pairs = {.name = "bump_pairs",
                                            .images = variant_images,
                                            .symbols = symbol_numbers,
                                            .num_images = 1,
                                            .num_buffers = 2,
                                            .num_symbols = 1,
                                            .threads = 64,
                                            .shared_bytes = 64 << 10,
                                            .geometry = count_blocks,
                                            .cluster = 2};
static const kiln_rt_device_kernel bump = {.name = "bump",
                                           .images = images,
                                           .symbols = symbol_numbers,
                                           .num_images = 1,
                                           .num_buffers = 2,
                                           .num_symbols = 1,
                                           .threads = 64,
                                           .variant = &pairs,
                                           .cluster = 1};
static const kiln_rt_device_kernel weigh = {.name = "weigh",
                                            .images = images,
                                            .symbols = symbol_numbers,
                                            .num_images = 1,
                                            .num_buffers = 3,
                                            .num_symbols = 1,
                                            .threads = 64,
                                            .number = 1,
                                            .cluster = 1};

void use_image(const void *data, uint64_t bytes) {
  images[0].data = data;
  images[0].bytes = bytes;
  variant_images[0] = images[0];
}

void use_unloadable_variants(void) {
  static const char machine_code[64] = "\177ELF";
  variant_images[0] = (kiln_rt_image){machine_code, sizeof machine_code, 90, KILN_RT_CUBIN};
}

void use_state(bool is_used) { constants[0].flags = is_used ? KILN_RT_MUTABLE_BUFFER : 0; }

static int32_t bind(const int64_t *const *shapes, int64_t *values) {
  values[0] = shapes[0][0];
  return 0;
}
static int64_t eval(const int64_t *values, int64_t expr) { return expr == 0 ? values[0] : 0; }
static int64_t sizes(int64_t *values) { return 2 * 4096 * ((values[0] + 1023) / 1024); }

static int32_t run_main(kiln_rt_run *run) {
  int64_t count = run->symbols[0], grid = (count + 63) / 64;
  char *first = run->arena, *second = first + sizes(run->symbols) / 2;
  void *const steps[][2] = {
      {run->inputs[0], first}, {first, second}, {second, second}, {second, first}};
  for (int i = 0; i < 4; ++i) {
    int32_t status = kiln_rt_device_launch(run, &bump, steps[i], grid, i);
    if (status)
      return status;
    float read;
    if (i == 0 && count == READS &&
        (status = kiln_rt_device_read(run, &read, run->inputs[0], sizeof read)))
      return status;
  }
  float *weights = constants[0].flags ? run->state : run->weights;
  void *const state[] = {weights, weights};
  int32_t status = constants[0].flags ? kiln_rt_device_launch(run, &bump, state, grid, 4) : 0;
  if (!status)
    status = kiln_rt_device_copy(run, second, first, 4 * count);
  void *const last[] = {second, weights, run->outputs[0]};
  return status ? status : kiln_rt_device_launch(run, &weigh, last, grid, 5);
}

extern const kiln_device_functions kiln_cuda_functions;
/* The image has none: for a driver that runs nothing. */
static const kiln_rt_device_kernel copy = {.name = "copy",
                                           .images = images,
                                           .num_images = 1,
                                           .num_buffers = 2,
                                           .num_symbols = KILN_RT_COPY_NUMBERS,
                                           .threads = 64,
                                           .number = 2,
                                           .cluster = 1};
static const kiln_rt_device device = {
    .functions = &kiln_cuda_functions, .num_kernels = 3, .copy = &copy};

static const kiln_rt_profile_kernel profiled_kernels[] = {{0, 0, 2}, {5, 3, 3}};
static const kiln_rt_profile_step profiled_steps[] = {{0, 12}, {0, 11}, {0, 11},
                                                      {0, 11}, {0, 11}, {1, 11}};
static const int64_t costs[] = {1, 4, 4, 2, 4, 8, 16};
static const kiln_rt_profile profile = {
    profiled_steps, profiled_kernels, costs, "bump\0weigh\0\0node", NULL, 6};

const kiln_rt_program kiln_program = {
    .profile = &profile,
    .abi = KILN_RT_ABI,
    .num_inputs = 1,
    .num_outputs = 1,
    .num_constants = 1,
    .num_symbols = 1,
    .flags = KILN_RT_EXTERNAL_WEIGHTS | KILN_RT_HAS_EXPRESSIONS,
    .info = "{\"name\": \"gpu\"}",
    .inputs = inputs,
    .outputs = outputs,
    .constants = constants,
    .symbols = symbols,
    .weights_bytes = 4 * (uint64_t)WEIGHTS,
    .weights_hash = 0xfeed,
    .bind = bind,
    .eval = eval,
    .sizes = sizes,
    .main = run_main,
    .num_expressions = 1,
    .expressions = (const char *const[]){"s0"},
    .device = &device,
};
