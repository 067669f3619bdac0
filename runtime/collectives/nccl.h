/*===- nccl.h - What is used of NCCL ----------------------------------------===*
 *
 * Declarations of NCCL's C functions, types and numbers, of version 2.14 and newer.
 * The library is looked for when a model is created; nothing is linked with it.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_COLLECTIVES_NCCL_H
#define KILN_RUNTIME_COLLECTIVES_NCCL_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;

typedef int ncclResult_t;
enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};

typedef int ncclDataType_t;
enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};

typedef int ncclRedOp_t;
enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };

/* As version 2.14 has it: newer ones take what they have added from their defaults. */
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, reserved;
} ncclConfig_t;
enum { NCCL_CONFIG_VERSION = 21400, NCCL_CONFIG_UNDEFINED = INT_MIN };
#define NCCL_CONFIG_MAGIC 0xcafebeefu

/* F(result, name, parameters). A stream is the driver's CUstream. */
#define KILN_NCCL_FUNCTIONS(F)                                                                     \
  F(ncclResult_t, ncclGetVersion, (int *version))                                                  \
  F(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))                                            \
  F(ncclResult_t, ncclCommInitRankConfig,                                                          \
    (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config))               \
  F(ncclResult_t, ncclCommAbort, (ncclComm_t comm))                                                \
  F(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                  \
  F(ncclResult_t, ncclCommCount, (const struct ncclComm *comm, int *count))                        \
  F(ncclResult_t, ncclCommUserRank, (const struct ncclComm *comm, int *rank))                      \
  F(ncclResult_t, ncclCommCuDevice, (const struct ncclComm *comm, int *device))                    \
  F(const char *, ncclGetErrorString, (ncclResult_t result))                                       \
  F(const char *, ncclGetLastError, (ncclComm_t comm))                                             \
  F(ncclResult_t, ncclAllReduce,                                                                   \
    (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,                \
     ncclComm_t comm, void *stream))                                                               \
  F(ncclResult_t, ncclReduceScatter,                                                               \
    (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,                \
     ncclComm_t comm, void *stream))                                                               \
  F(ncclResult_t, ncclAllGather,                                                                   \
    (const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,               \
     void *stream))                                                                                \
  F(ncclResult_t, ncclBroadcast,                                                                   \
    (const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,     \
     void *stream))                                                                                \
  F(ncclResult_t, ncclSend,                                                                        \
    (const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,               \
     void *stream))                                                                                \
  F(ncclResult_t, ncclRecv,                                                                        \
    (void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, void *stream))        \
  F(ncclResult_t, ncclGroupStart, (void))                                                          \
  F(ncclResult_t, ncclGroupEnd, (void))

#ifdef __cplusplus
}
#endif

#endif /* KILN_RUNTIME_COLLECTIVES_NCCL_H */
