/*===- gpu.h - What gpu-test.c knows of the program in gpu.c ----------------===*/
#ifndef KILN_TEST_RUNTIME_GPU_H
#define KILN_TEST_RUNTIME_GPU_H

#include <stdbool.h>
#include <stdint.h>

/* The weights are of more than two of the pieces in which they are copied. */
#ifndef GPU_STRIDE
#define GPU_STRIDE 1024
#endif
enum { MOST = 4500, STRIDE = GPU_STRIDE, WEIGHTS = STRIDE * (MOST - 1) + 1, READS = 7, STEPS = 6 };

static inline float weight(int64_t i) { return (float)(i % 8191); }

/* Whether models that are made from now on write to their weights. */
void use_state(bool is_used);

/* Has the kernels run this image, for the emulator. */
void use_image(const void *data, uint64_t bytes);

/* From now on variants are machine code that the driver does not take. */
void use_unloadable_variants(void);

#endif /* KILN_TEST_RUNTIME_GPU_H */
