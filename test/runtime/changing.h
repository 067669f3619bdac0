/* A program that a test changes between models. */
#ifndef KILN_TEST_RUNTIME_CHANGING_H
#define KILN_TEST_RUNTIME_CHANGING_H

/* To the runtime it is as constant as any other. */
#define kiln_program kiln_program_is_constant
#include "../../runtime/ir_interface.h"
#undef kiln_program

extern kiln_rt_program changing __asm__("kiln_program");
extern kiln_rt_tensor changing_inputs[4], changing_outputs[1];
extern kiln_rt_constant changing_constants[3];
extern kiln_rt_symbol changing_symbols[1];
extern int32_t (*changing_main)(kiln_rt_run *run);

/* Puts it back as it was. */
void restore(void);

#endif /* KILN_TEST_RUNTIME_CHANGING_H */
