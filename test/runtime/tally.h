/*===- tally.h - What tests know of the program in tally.c ------------------===*/
#ifndef KILN_TEST_RUNTIME_TALLY_H
#define KILN_TEST_RUNTIME_TALLY_H

#include "../../runtime/ir_interface.h"

enum { TALLY_SIZE = 1 << 15 };

/* Called in the middle of a run; NULL: nothing is. */
extern void (*tally_pause)(void);

#endif /* KILN_TEST_RUNTIME_TALLY_H */
