/* entries.c: which name its last entry has. */
#ifndef KILN_TEST_RUNTIME_ENTRIES_H
#define KILN_TEST_RUNTIME_ENTRIES_H

#include <stdbool.h>

/* `model` instead of `count`; no model may live. */
void entries_set_model(bool has_model);

#endif /* KILN_TEST_RUNTIME_ENTRIES_H */
