/* The program in device.c, as device-test.c knows it. */
#ifndef KILN_TEST_RUNTIME_DEVICE_H
#define KILN_TEST_RUNTIME_DEVICE_H

#include <stdint.h>

/* Rows of x for which something goes wrong, and one for which nothing does. */
enum {
  DEVICE_WIDE_GRID = 1,
  DEVICE_PARAMETERS,
  DEVICE_OVERFLOWS,
  DEVICE_CUSTOM_FAILS,
  DEVICE_HOST_FAILS,
  DEVICE_NO_ARENA,
  DEVICE_ROWS = 64
};

/* Has the kernels run this image, for the emulator. */
void use_image(const void *data, uint64_t bytes);

/* The level of debug printing that the program is compiled with. */
extern uint32_t device_level;

#endif /* KILN_TEST_RUNTIME_DEVICE_H */
