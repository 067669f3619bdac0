/* A program that gives back one input of each dtype that aot-run reads. */
#include "../../runtime/ir_interface.h"

#include <stddef.h>
#include <string.h>

/* X(name, DLPack code, bits, PyTorch's name) */
#define DTYPES                                                                                     \
  X(b, 6, 8, "bool")                                                                               \
  X(u8, 1, 8, "uint8")                                                                             \
  X(i8, 0, 8, "int8")                                                                              \
  X(i16, 0, 16, "int16")                                                                           \
  X(i32, 0, 32, "int32")                                                                           \
  X(i64, 0, 64, "int64")                                                                           \
  X(f16, 2, 16, "float16")                                                                         \
  X(f32, 2, 32, "float32")                                                                         \
  X(f64, 2, 64, "float64")                                                                         \
  X(bf16, 4, 16, "bfloat16")                                                                       \
  X(c64, 5, 64, "complex64")                                                                       \
  X(c128, 5, 128, "complex128")                                                                    \
  X(e4m3, 10, 8, "float8_e4m3fn")                                                                  \
  X(e5m2, 12, 8, "float8_e5m2")

static const int64_t shape[] = {2, 3};

#define X(name, code, bits, dtype) {#name, code, bits, 2, 0, shape, NULL},
static const kiln_rt_tensor tensors[] = {{"scalar", 0, 64, 0, KILN_RT_SCALAR, NULL, NULL}, DTYPES};
#undef X
enum { COUNT = sizeof tensors / sizeof *tensors };

#define X(name, code, bits, dtype)                                                                 \
  ", {\"name\": \"" #name "\", \"dtype\": \"" dtype "\", \"shape\": [2, 3], \"device\": \"cpu\"}"
static const char info[] = "{\"name\": \"echo\", \"inputs\": [{\"name\": \"scalar\", \"dtype\": "
                           "\"int64\", \"shape\": [], \"device\": \"cpu\"}" DTYPES "], "
                           "\"outputs\": [{\"name\": \"scalar\", \"dtype\": \"int64\", \"shape\": "
                           "[], \"device\": \"cpu\"}" DTYPES "], \"symbols\": {}}";
#undef X

static int32_t run_main(kiln_rt_run *run) {
  for (int i = 0; i < COUNT; ++i)
    memcpy(run->outputs[i], run->inputs[i], (size_t)(i == 0 ? 1 : 6) * tensors[i].bits / 8);
  return 0;
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = COUNT,
    .num_outputs = COUNT,
    .info = info,
    .inputs = tensors,
    .outputs = tensors,
    .main = run_main,
};
