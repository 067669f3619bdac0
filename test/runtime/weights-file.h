/*===- weights-file.h - The front of a file of external weights -------------===*/
#ifndef KILN_TEST_RUNTIME_WEIGHTS_FILE_H
#define KILN_TEST_RUNTIME_WEIGHTS_FILE_H

#include "../../runtime/weights_file.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The header before `bytes` bytes of weights. */
static inline void make_front(char front[KILN_RT_WEIGHTS_ALIGN], uint64_t bytes, uint64_t hash) {
  memset(front, ' ', KILN_RT_WEIGHTS_ALIGN);
  for (int i = 0; i < 8; ++i)
    front[i] = (char)((uint64_t)(KILN_RT_WEIGHTS_ALIGN - 8) >> 8 * i);
  char text[256];
  unsigned long long size = bytes;
  int length = snprintf(text, sizeof text,
                        KILN_RT_WEIGHTS_BEGIN "%016llx\"},\"w\":{\"dtype\":\"U8\",\"shape\":[%llu],"
                                              "\"data_offsets\":[0,%llu]}}",
                        (unsigned long long)hash, size, size);
  memcpy(front + 8, text, (size_t)length);
}

#endif /* KILN_TEST_RUNTIME_WEIGHTS_FILE_H */
