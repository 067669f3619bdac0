/*===- gpu-files.h - Files for tests of the program in gpu.c -----------------===*/
#ifndef KILN_TEST_RUNTIME_GPU_FILES_H
#define KILN_TEST_RUNTIME_GPU_FILES_H

#include "../../runtime/ir_interface.h"
#include "gpu.h"
#include "harness.h"
#include "weights-file.h"

/* The program's external weights. */
static inline void write_weights(const char *path) {
  static char front[KILN_RT_WEIGHTS_ALIGN];
  make_front(front, 4 * (uint64_t)WEIGHTS, 0xfeed);
  FILE *file = fopen(path, "wb");
  CHECK(file && fwrite(front, sizeof front, 1, file) == 1);
  float *data = malloc(4 * (size_t)WEIGHTS);
  for (int64_t i = 0; i < WEIGHTS; ++i)
    data[i] = weight(i);
  CHECK(fwrite(data, 4, WEIGHTS, file) == WEIGHTS && fclose(file) == 0);
  free(data);
}

/* All of a file, with a zero behind it, for the caller to free. */
static inline void *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  CHECK(file && fseek(file, 0, SEEK_END) == 0);
  *bytes = (size_t)ftell(file);
  rewind(file);
  char *data = calloc(1, *bytes + 1);
  CHECK(fread(data, 1, *bytes, file) == *bytes && fclose(file) == 0);
  return data;
}

#endif /* KILN_TEST_RUNTIME_GPU_FILES_H */
