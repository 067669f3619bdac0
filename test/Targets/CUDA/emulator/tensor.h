/*===- tensor.h - What the emulated driver keeps in a tensor map ------------===*/
#ifndef KILN_TEST_EMULATOR_TENSOR_H
#define KILN_TEST_EMULATOR_TENSOR_H

#include <stdint.h>

#define TENSOR_MAGIC 0x6b696c6e

struct tensor {
  uint32_t magic, item, rank;
  uint32_t sizes[5]; /* less 1 */
  uint64_t address;
  uint64_t strides[4]; /* bytes, of dims 1, 2, ... */
  uint16_t box[5];
};

#endif /* KILN_TEST_EMULATOR_TENSOR_H */
