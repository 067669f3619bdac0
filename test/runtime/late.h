/* What the first element of late.c's input asks for, and its limit. */
#ifndef KILN_TEST_RUNTIME_LATE_H
#define KILN_TEST_RUNTIME_LATE_H

enum { LATE_MOST = 50000, LATE_CHECK_FAILS = -101, LATE_OVERFLOWS = -102, LATE_TOO_LARGE = -103 };

#endif /* KILN_TEST_RUNTIME_LATE_H */
