/*===- print.h - Text of numbers and tensors, as Python has it ----------------===*/
#ifndef KILN_RUNTIME_PRINT_H
#define KILN_RUNTIME_PRINT_H

#include "kiln-c/custom_op.h"

/* Text under construction. NULL `to`: it is only measured. */
typedef struct {
  char *to;
  uint64_t used;
  uint64_t line; /* where the last line of a tensor begins */
} kiln_printed;

void kiln_print_bytes(kiln_printed *text, const char *bytes, uint64_t count);
void kiln_print_text(kiln_printed *text, const char *c_string);
__attribute__((format(printf, 2, 3))) void kiln_print_format(kiln_printed *text, const char *style,
                                                             ...);
void kiln_print_spaces(kiln_printed *text, int64_t count);

/* The text of one number: up to 309 digits, and decimals. */
typedef struct {
  int length;
  char text[508];
} kiln_digits;

/* `value` in printf's style 'e', 'f' or 'g', with Python's nan, and a point in every locale. */
kiln_digits kiln_write_real(char style, int decimals, double value);
/* The element at `data`, as Python prints numbers; `part` of a complex one. */
kiln_digits kiln_write_element(const void *data, DLDataType dtype, int part);

/* str(tensor.item()) of a 0-d tensor. All tensors here are in the host's memory. */
void kiln_print_number(kiln_printed *text, const DLTensor *tensor);
/* The same in a style of printf's, of a number that is not complex. */
void kiln_print_styled(kiln_printed *text, const DLTensor *tensor, char style, int decimals);
/* str(tensor), as PyTorch's. (print_tensor.c) */
void kiln_print_tensor(kiln_printed *text, const DLTensor *tensor);

/* The function that a print calls; print.c says what it is given. */
int32_t kiln_rt_print(const DLTensor *const *inputs, size_t num_inputs,
                      const DLTensor *const *outputs, size_t num_outputs,
                      const kiln_custom_op_context *context);

#endif /* KILN_RUNTIME_PRINT_H */
