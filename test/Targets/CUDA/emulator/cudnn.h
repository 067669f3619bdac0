/*===- cudnn.h - Graphs of the emulator's cuDNN -----------------------------===*/
#ifndef KILN_TEST_EMULATOR_CUDNN_H
#define KILN_TEST_EMULATOR_CUDNN_H

#include "../../../../runtime/cudnn/cudnn.h"

#include <stdbool.h>

enum { MAX_DIMS = 5, MAX_TENSORS = 24, MAX_OPERATIONS = 16, WORKSPACE = 4096 };

struct tensor {
  int64_t uid, alignment;
  int type, rank;
  int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
  bool is_virtual, is_by_value;
  float value;     /* if it is by value */
  uint64_t memory; /* the GPU's */
};

enum operation_kind { CONVOLUTION, POINTWISE, MATMUL, SOFTMAX };

struct operation {
  enum operation_kind kind;
  int mode;
  int64_t axis;
  int64_t strides[3], padding[3], dilation[3];
  int num_spatial;
  int x, b, t, y; /* tensors of the graph; -1: none. Weights, and the right matrix, are `b` */
};

/* The operations that an engine runs. */
struct graph {
  struct tensor tensors[MAX_TENSORS];
  struct operation operations[MAX_OPERATIONS];
  int num_tensors, num_operations;
  uint64_t workspace;
};

/* True if sizes and dtypes fit, as cuDNN says of each operation. */
bool check_operation(const struct graph *graph, const struct operation *operation);
/* `arguments` is a graph. */
void run_graph(const void *arguments);

__attribute__((noreturn)) void misuse_cudnn(const char *what);
void *find_in_emulator(const char *name);

#endif /* KILN_TEST_EMULATOR_CUDNN_H */
