/*===- emulator.h - Running a GPU's kernels on this machine -----------------===*
 *
 * With --gpu-arch=emulator a model carries its kernels as host code, made of the same
 * functions that become PTX (lib/Targets/CUDA/Emulate.cpp). emulator.c runs a block's
 * threads as fibres of one thread of the host; driver.h has a libcuda.so.1 on top of
 * it. A model then runs end to end without a GPU, through the runtime that it has
 * with one.
 *
 * What hardware would answer with garbage is an error here: memory accesses outside
 * of a kernel's buffers and shared memory, barriers and shuffles that not all threads
 * reach, memory that nobody has written (it holds 0xff, which is NaN). Addresses in
 * the GPU's memory have a bit set that makes the host fault.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_TEST_EMULATOR_H
#define KILN_TEST_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#define EMULATOR_DEVICE_BIT ((uintptr_t)1 << 62)
#define EMULATOR_POISON 0xff

struct CUctx_st;

/* Whether the kernels that are launched next may begin before those in front of them have ended:
 * then a thread has to wait for these (griddepcontrol.wait) before it touches global memory. */
extern int emulator_overlaps;

/* The grid of the launch that comes next, of which x runs fastest. */
extern unsigned emulator_grid[3];

/* Runs all blocks of a kernel, `NAME_emulated` of an image, so many at a time as make a cluster.
 * Returns 0, or 1 and a message. */
int emulator_launch(const char *name, void (*kernel)(void **arguments), struct CUctx_st *context,
                    void **arguments, unsigned grid, unsigned cluster, unsigned threads,
                    size_t shared_bytes, char *message, size_t message_size);

/*===-- For libraries on top of the driver, as cublaslt.c --------------------===*/

/* Puts a call on the stream, with a copy of `bytes` bytes of arguments. Returns a CUresult. */
int emulator_call(void *stream, void (*function)(const void *arguments), const void *arguments,
                  size_t bytes);
/* In such a call: the host's address of `bytes` bytes of the GPU's memory. It ends the process if
 * they are not there. */
void *emulator_reach(uint64_t memory, size_t bytes, const char *what);
/* In such a call: it has taken so much longer. Events have times as if it had. */
void emulator_skip(double milliseconds);
__attribute__((format(printf, 1, 2))) void emulator_record(const char *format, ...);

#endif /* KILN_TEST_EMULATOR_H */
