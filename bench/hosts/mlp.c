/* The arithmetic of the MLP 784-512-512-10 at batch 1 and nothing else: three matrix-vector
 * products over weights laid out for it, in plain loops that the compiler vectorises. What a model
 * takes beyond this is its call overhead. */
#include "protocol.h"

enum { COLUMNS = 64 }; /* of a block that is summed in registers */

static float *weights[3], activations[4][1024];
static const int sizes[4] = {784, 512, 512, 64}; /* the last one padded from 10 to a block */

static void layer(const float *restrict x, const float *restrict w, float *restrict y, int in,
                  int out, int relu) {
  for (int block = 0; block < out; block += COLUMNS) {
    float sum[COLUMNS] = {0};
    for (int k = 0; k < in; ++k, w += COLUMNS)
      for (int j = 0; j < COLUMNS; ++j)
        sum[j] += x[k] * w[j];
    for (int j = 0; j < COLUMNS; ++j)
      y[block + j] = relu && sum[j] < 0 ? 0 : sum[j];
  }
}

static void run_once(void) {
  for (int i = 0; i < 3; ++i) {
    layer(activations[i], weights[i], activations[i + 1], sizes[i], sizes[i + 1], i < 2);
    __asm__ volatile("" ::: "memory");
  }
}

int main(void) {
  for (int i = 0; i < 3; ++i) {
    size_t count = (size_t)sizes[i] * (size_t)sizes[i + 1];
    weights[i] = aligned_alloc(64, count * sizeof(float));
    for (size_t k = 0; k < count; ++k)
      weights[i][k] = (float)(k % 17) * 0.01f - 0.08f;
  }
  for (int k = 0; k < sizes[0]; ++k)
    activations[0][k] = (float)k * 0.001f;
  run_once();
  return serve(run_once);
}
