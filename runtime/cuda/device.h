/*===- device.h - Kernels on a device, as generated code knows them ---------===*
 *
 * A model for CUDA keeps its buffers in the memory of a GPU. main is the same as
 * for a CPU but for the functions it calls: those declared here. Like everything
 * in ir_interface.h, of which this is a part, it is the layout that the compiler
 * emits.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_CUDA_DEVICE_H
#define KILN_RUNTIME_CUDA_DEVICE_H

#include <stdint.h>

struct kiln_rt_run;

enum { KILN_RT_CUBIN = 0, KILN_RT_PTX = 1, KILN_RT_EMULATOR = 2 };

/* Code of one kernel. A zero byte follows it. */
typedef struct {
  const void *data;
  uint64_t bytes;
  uint32_t architecture; /* 10 * major + minor of the compute capability it is for */
  uint32_t kind;
} kiln_rt_image;

/* Inputs, outputs and the program's own buffers begin at multiples of this: what has less is
 * copied. */
#define KILN_RT_DEVICE_ALIGNMENT 16

/* Buffers, symbols, tensor maps and the rest that a kernel takes; the compiler refuses kernels with
 * more. */
#define KILN_RT_MAX_PARAMETERS 2048

/* Elements of a buffer, of which the GPU copies boxes. Dims are from the innermost on. */
#define KILN_RT_MAP_RANK 5
typedef struct {
  uint32_t buffer, element_bytes;
  uint32_t rank;
  uint32_t box[KILN_RT_MAP_RANK];
} kiln_rt_tensor_map;

/* Parameters: the buffers' addresses, the values of the symbols (as int64_t), the address of
 * the run's error flag, that of its workspace if it has any, and the tensor maps. Blocks have one
 * dimension. */
typedef struct kiln_rt_device_kernel {
  const char *name;
  const kiln_rt_image *images;
  const int64_t *symbols; /* numbers in kiln_program.symbols */
  uint32_t num_images, num_buffers, num_symbols;
  uint32_t threads;      /* of a block */
  uint32_t shared_bytes; /* of dynamic shared memory of a block */
  uint32_t number; /* below kiln_rt_device.num_kernels, of this kernel and its variants alone */
  /* The kernel that is launched instead on GPUs that its code is for, or NULL; of a variant, the
   * next one. */
  const struct kiln_rt_device_kernel *variant;
  /* A variant's grid, of which no more blocks run than at the same time can; then for each map
   * the offset of the first element, the sizes, and the strides but the innermost, which is 1. A
   * negative number does not fit: the kernel is launched instead. */
  void (*geometry)(const int64_t *symbols, int64_t *numbers);
  const kiln_rt_tensor_map *maps;
  uint32_t num_maps;
  uint32_t cluster; /* of how many neighbouring blocks the code makes one; grids are multiples */
  /* The bytes of the workspace that blocks of a variant which share tiles leave to each other.
   * No more than KILN_RT_WORKSPACE_BLOCKS blocks of it are launched. And the bytes that all blocks
   * of a kernel have together. */
  uint32_t workspace, shared_workspace;
} kiln_rt_device_kernel;

/* A run's workspace, which its kernels have one after the other: flags of blocks, which are zero
 * between kernels, then the bytes for each block, or for all. */
#define KILN_RT_WORKSPACE_BLOCKS 1024
#define KILN_RT_WORKSPACE_FLAGS (KILN_RT_WORKSPACE_BLOCKS * INT64_C(32))

#define KILN_RT_MAX_MAPS 4
#define KILN_RT_MAX_GEOMETRY (1 + KILN_RT_MAX_MAPS * 2 * KILN_RT_MAP_RANK)

/* The functions of the runtime for this device, which a model for CPUs does not have. */
typedef struct kiln_device_functions kiln_device_functions;

typedef struct {
  const kiln_device_functions *functions;
  uint32_t num_kernels;                 /* this entry's and those of the entries in front of it */
  uint32_t workspace, shared_workspace; /* the largest of the kernels' */
  uint32_t reserved;
  /* Copies between strides. Instead of symbols it takes: the number of elements, the bytes of one
   * (1, 2, 4, 8 or 16), then KILN_RT_COPY_RANK sizes, as many strides of the target and as many
   * of the source. Its buffers are target and source. */
  const kiln_rt_device_kernel *copy;
} kiln_rt_device;

#define KILN_RT_COPY_RANK 6
#define KILN_RT_COPY_NUMBERS (2 + 3 * KILN_RT_COPY_RANK)

/* Puts `grid` blocks of the kernel on the run's stream. Each of these functions returns KILN_OK, or
 * the status that main must return. `step` is as in kiln_rt_launch. */
int32_t kiln_rt_device_launch(struct kiln_rt_run *run, const kiln_rt_device_kernel *kernel,
                              void *const *buffers, int64_t grid, int64_t step);

/* As memcpy and kiln_rt_copy, in the device's memory. */
int32_t kiln_rt_device_copy(struct kiln_rt_run *run, void *to, const void *from, int64_t bytes);
int32_t kiln_rt_device_copy_strided(struct kiln_rt_run *run, void *to, const int64_t *to_strides,
                                    const void *from, const int64_t *from_strides,
                                    const int64_t *sizes, int64_t rank, int64_t item);

/* Waits for what is on the stream and reads `bytes` bytes of the device's memory. */
int32_t kiln_rt_device_read(struct kiln_rt_run *run, void *to, const void *from, int64_t bytes);

/* As kiln_rt_reserve and kiln_rt_bind_output. */
int32_t kiln_rt_device_reserve(struct kiln_rt_run *run, int64_t segment, int64_t bytes);
int32_t kiln_rt_device_bind_output(struct kiln_rt_run *run, int64_t index);

/* As kiln_rt_extern, with buffers in the device's memory. */
int32_t kiln_rt_device_extern(struct kiln_rt_run *run, uint32_t call, void *const *buffers,
                              const int64_t *numbers);

/*===-- Triton kernels ------------------------------------------------------===*/

/* A parameter of a Triton kernel: a buffer's address, a number of so many bits that is given as an
 * int64_t (floats: as a double), or a null pointer. */
enum {
  KILN_RT_TRITON_NULL = 0,
  KILN_RT_TRITON_BUFFER = 1,
  KILN_RT_TRITON_SIGNED = 2,
  KILN_RT_TRITON_UNSIGNED = 3,
  KILN_RT_TRITON_FLOAT = 4
};
typedef struct {
  uint16_t kind, bits;
  uint32_t index; /* of the buffer or number */
} kiln_rt_triton_parameter;

/* A kernel as compiled with one set of constants for one architecture. `kernel` has the code; its
 * buffers and symbols mean nothing. `grid` are the indices of three numbers. */
typedef struct {
  const kiln_rt_device_kernel *kernel;
  const kiln_rt_triton_parameter *parameters;
  uint32_t num_parameters;
  uint32_t alignment; /* of buffers */
  uint32_t grid[3];
  uint32_t reserved;
} kiln_rt_triton_config;

/* A launch: of the first configuration that the GPU runs and has room for. Update i is a buffer that the
 * kernel writes to: it gets the contents of buffer updates[2 * i], which are as many bytes as
 * number `updates[2 * i + 1]` says, and is buffer `first_update + i`. */
typedef struct {
  const char *where; /* "node 'add' (model.py:12)" */
  const kiln_rt_triton_config *configs;
  const int64_t *updates;
  uint32_t num_configs, num_updates, first_update, reserved;
} kiln_rt_triton;

#define KILN_RT_MAX_TRITON_PARAMETERS 1024

int32_t kiln_rt_device_triton(struct kiln_rt_run *run, const kiln_rt_triton *launch,
                              void *const *buffers, const int64_t *numbers);

#endif /* KILN_RUNTIME_CUDA_DEVICE_H */
