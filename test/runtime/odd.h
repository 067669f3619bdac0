/* The sizes of odd.c's input for which something is odd. */
#ifndef KILN_TEST_RUNTIME_ODD_H
#define KILN_TEST_RUNTIME_ODD_H

enum {
  ODD_FINE = 1,
  ODD_UNSOLVED,     /* bind finds no solution for the input */
  ODD_CONTRADICTED, /* nor one at all */
  ODD_TOO_LARGE,    /* the output's size overflows */
  ODD_TOO_WIDE,     /* its strides do */
  ODD_NO_ARENA,     /* the arena's bytes do */
  ODD_STATUS,       /* main fails without a message */
  ODD_ERROR,        /* a kernel reports a number that means nothing */
  ODD_FAILURE,      /* it reports what the program has a text for */
  ODD_CALL,         /* main calls something, which a profile shows */
  ODD_LATE,         /* an output's size overflows when it is known */
  ODD_BEYOND        /* out of the symbol's range */
};

#endif /* KILN_TEST_RUNTIME_ODD_H */
