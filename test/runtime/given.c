/* The program of folds.c, whose parameters and buffers have no values before the host gives them. */
#define GIVEN KILN_RT_LATER
#include "folds.c"
