/*===- kiln-c/custom_op.h - Custom operators as C functions -----------------===*
 *
 * A custom operator that a model calls can be a C function, which the model is
 * linked with:
 *
 *   aot-compile model.pt2 -o model.so --link=scale.o
 *     --custom-op='lib::scale(Tensor x, float factor=1.) -> Tensor=my_scale'
 *
 *   int32_t my_scale(const DLTensor *const *inputs, size_t num_inputs,
 *                    const DLTensor *const *outputs, size_t num_outputs,
 *                    const kiln_custom_op_context *context) {
 *     const DLTensor *x = inputs[0];
 *     double factor = *(const double *)inputs[1]->data;
 *     ...
 *     return KILN_OK;
 *   }
 *
 * `inputs` has the arguments of the operator's schema, in its order:
 *
 *   Tensor                   the tensor, row-major, in the memory of the device that
 *                            the model runs on
 *   None                     NULL
 *   Tensor[]                 the number of its tensors (0-d, int64), then these
 *   int, float, bool, Scalar a 0-d tensor of int64, float64, bool or complex128
 *   int[], float[], bool[]   a 1-d tensor of these (an empty one: int64)
 *   str, Device, Layout, MemoryFormat   its text, a 1-d tensor of uint8 without
 *                            a zero at the end ("cuda:0", "strided", "channels_last")
 *   ScalarType               256 * code + bits, as in DLPack: a 0-d tensor of int64
 *
 * Everything but tensors is in the host's memory. A tensor that the schema says is written,
 * `Tensor(a!)`, is written in place.
 *
 * `outputs` has the results, a list flattened, row-major, allocated and with the
 * sizes that export recorded. All elements are to be written. `data` is the first
 * element (`byte_offset` is 0); of a tensor without elements it may be NULL.
 *
 * What the function returns is a kiln_status. Anything but KILN_OK ends the run with
 * it. Runs on several threads call the function at the same time.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_C_CUSTOM_OP_H
#define KILN_C_CUSTOM_OP_H

#include "kiln-c/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint32_t struct_size; /* sizeof(kiln_custom_op_context); fields are only ever appended */
  uint32_t reserved;
  /* The CUDA stream that the operator's work is to be put on; the function need not wait for
   * it. The device's context is current. On CPUs: NULL. */
  void *stream;
  /* A place for the reason of a failure: at most this many bytes, the zero at the end included. */
  char *message;
  size_t message_size;
  /* Calls body(arg, i) for each 0 <= i < n, on the model's threads, and waits for all. */
  void (*parallel_for)(void *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg);
  void *parallel_ctx;
} kiln_custom_op_context;

/* Behind the definition of a function that --extern=c declares: how it is to be declared. The
 * compiler refuses another declaration. KILN_SIGNATURE(my_lookup, "(ui8[n], f32[256]) -> f32[n]") */
#define KILN_SIGNATURE(function, text) const char function##_kiln_signature[] = text

typedef int32_t (*kiln_custom_op_fn)(const DLTensor *const *inputs, size_t num_inputs,
                                     const DLTensor *const *outputs, size_t num_outputs,
                                     const kiln_custom_op_context *context);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* KILN_C_CUSTOM_OP_H */
