/*===- write.h - Writing to files --------------------------------------------===*/
#ifndef KILN_RUNTIME_WRITE_H
#define KILN_RUNTIME_WRITE_H

#include <stdbool.h>
#include <stdint.h>

/* Writes all of `data` to an open file, with one call unless the system takes less of it. False:
 * errno says why. */
bool kiln_write(int file, const void *data, uint64_t bytes);

#endif /* KILN_RUNTIME_WRITE_H */
