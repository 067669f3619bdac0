/*===- element.h - Elements of tensors as numbers -----------------------------===*/
#ifndef KILN_RUNTIME_ELEMENT_H
#define KILN_RUNTIME_ELEMENT_H

#include "kiln-c/model.h"

/* A real number: exact in one of the two. */
typedef struct {
  enum { KILN_SIGNED, KILN_UNSIGNED, KILN_REAL } kind;
  uint64_t integer;
  double value;
} kiln_number;

static inline kiln_number kiln_real_number(double value) {
  return (kiln_number){KILN_REAL, 0, value};
}

/* The element at `data`, of DLPack's code and bits; complex ones have two parts, of which `part` is
 * wanted. */
kiln_number kiln_load_number(const void *data, uint8_t code, uint8_t bits, int part);

#endif /* KILN_RUNTIME_ELEMENT_H */
