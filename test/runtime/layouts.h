/* The weights of layouts.c, which a run returns. */
#ifndef KILN_TEST_RUNTIME_LAYOUTS_H
#define KILN_TEST_RUNTIME_LAYOUTS_H

#include "../../runtime/ir_interface.h"

typedef struct {
  _Alignas(64) float plain[8];
  _Alignas(64) float in_panels[24];
  _Alignas(64) float transposed[15];
  _Alignas(64) uint8_t in_bytes[32];
  _Alignas(64) float doubled[4];
  _Alignas(64) float twice[4];
  _Alignas(64) float lost_twice[4];
  _Alignas(64) float chained_twice[8];
  _Alignas(64) float scalar[1];
  _Alignas(64) float in_pairs[6];
} layouts;

#endif /* KILN_TEST_RUNTIME_LAYOUTS_H */
