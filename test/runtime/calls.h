/* The program in calls.c, as calls-test.c knows it. */
#ifndef KILN_TEST_RUNTIME_CALLS_H
#define KILN_TEST_RUNTIME_CALLS_H

#include "../../runtime/ir_interface.h"

/* main of the program: what a test wants to be called. */
extern int32_t (*calls_main)(kiln_rt_run *run);

/* Its input, and how many elements the output has for one of the input's. */
extern kiln_rt_tensor calls_input;
extern int64_t calls_factor;

/* The work of its only step, with two tensors f32[s0]. */
extern int32_t (*calls_step)(kiln_rt_run *run, void *const *buffers);

/* Numbers of the kernels that tests make up; each has its own. */
enum { CALLS_KERNELS = 40 };

#endif /* KILN_TEST_RUNTIME_CALLS_H */
