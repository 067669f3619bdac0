/*===- nccl.c - A libnccl.so.2 for machines without a GPU -------------------===*
 *
 * The calls that libkiln_collectives.so makes, on the emulator's memory and streams. Each
 * process has an emulator of its own; they meet in nccl-meeting.c. As the real one does,
 * it leaves NaN out of minima and maxima, waits for ever for who does not come or says
 * something else, until the communicator is aborted, and takes calls on communicators that do not
 * block while it is still at work on the one before as misuse, which ends the process here.
 *
 *   KILN_EMULATOR_NCCL         its version (22100)
 *   KILN_EMULATOR_NCCL_ERROR   behind so many collectives its network fails, during the next one
 *
 *===-----------------------------------------------------------------------===*/
#include "../../../../runtime/collectives/nccl.h"
#include "emulator.h"
#include "nccl-meeting.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct ncclComm {
  struct meeting meeting;
  int device;
  bool blocks;
  int polls; /* until the call is over */
  int asked; /* how often since then */
  long collectives;
};

enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, EXCHANGE };
static const char *const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                                    "exchange"};

/* What is put on a stream. */
struct collective {
  ncclComm_t comm;
  struct statement statement;
  uint64_t from[MAX_RANKS], to[MAX_RANKS]; /* of an exchange by peer, else the first ones */
};

__attribute__((noreturn)) static void misuse(const char *what) {
  fprintf(stderr, "NCCL of the emulator: %s\n", what);
  abort();
}

/* The driver is the one that the model has loaded. */
static void *find(const char *name) {
  const char *driver = getenv("KILN_CUDA_DRIVER");
  void *handle = dlopen(driver ? driver : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void *function = handle ? dlsym(handle, name) : NULL;
  if (!function)
    misuse("there is no emulator");
  return function;
}

static void *reach(uint64_t memory, size_t bytes) {
  void *(*function)(uint64_t, size_t, const char *) =
      (void *(*)(uint64_t, size_t, const char *))find("emulator_reach");
  return bytes ? function(memory, bytes, "a collective") : NULL;
}

static long setting(const char *name, long otherwise) {
  const char *value = getenv(name);
  return value ? atol(value) : otherwise;
}

/*===-- Communicators -------------------------------------------------------===*/

EXPORT ncclResult_t ncclGetVersion(int *version) {
  *version = (int)setting("KILN_EMULATOR_NCCL", 22100);
  return ncclSuccess;
}
EXPORT const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "invalid usage";
}
EXPORT const char *ncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return "";
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static int made;
  const char *folder = getenv("TMPDIR"), *address = getenv("NCCL_COMM_ID");
  char number[32];
  snprintf(number, sizeof number, "%d-%d", (int)getpid(), made++);
  memset(id, 0, sizeof *id);
  int length = snprintf(id->internal, sizeof id->internal, "%s/nccl-%s", folder ? folder : "/tmp",
                        address ? address : number);
  if (length >= (int)sizeof id->internal)
    misuse("TMPDIR is too long for an identifier");
  return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t *config) {
  int (*get_current)(void **) = (int (*)(void **))find("cuCtxGetCurrent");
  void *context = NULL;
  *comm = NULL;
  if (config && (config->magic != NCCL_CONFIG_MAGIC || config->size != sizeof *config ||
                 config->version != NCCL_CONFIG_VERSION))
    return ncclInvalidArgument;
  if (ranks < 1 || ranks > MAX_RANKS || rank < 0 || rank >= ranks)
    return ncclInvalidArgument;
  if (get_current(&context) || !context)
    misuse("a communicator is made without a context");
  ncclComm_t made = calloc(1, sizeof *made);
  made->device = *(const int *)context; /* the emulator's CUctx_st begins with it */
  made->blocks = !config || config->blocking != 0;
  if (!join_meeting(&made->meeting, id.internal, rank, ranks))
    return ncclSystemError;
  *comm = made;
  while (made->blocks && !is_complete(&made->meeting))
    usleep(100);
  return made->blocks ? ncclSuccess : ncclInProgress;
}
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

static void check_alive(const struct ncclComm *comm) {
  if (comm->meeting.is_aborted)
    misuse("a communicator is used that has been aborted");
}

/* Memory is kept, to tell who uses it still. */
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  check_alive(comm);
  abort_meeting(&comm->meeting);
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  check_alive(comm);
  long healthy = setting("KILN_EMULATOR_NCCL_ERROR", -1);
  if (comm->polls > 0)
    --comm->polls;
  else
    ++comm->asked;
  *error = !is_complete(&comm->meeting) || comm->polls                      ? ncclInProgress
           : healthy >= 0 && comm->collectives > healthy && comm->asked > 2 ? ncclRemoteError
                                                                            : ncclSuccess;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommCount(const struct ncclComm *comm, int *count) {
  check_alive(comm);
  *count = comm->meeting.ranks;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommUserRank(const struct ncclComm *comm, int *rank) {
  check_alive(comm);
  *rank = comm->meeting.rank;
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommCuDevice(const struct ncclComm *comm, int *device) {
  check_alive(comm);
  *device = comm->device;
  return ncclSuccess;
}

/*===-- Elements ------------------------------------------------------------===*/

static size_t size_of(ncclDataType_t type) {
  static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

static double load_float(const void *data, ncclDataType_t type, size_t i) {
  if (type == ncclFloat16)
    return (double)((const _Float16 *)data)[i];
  if (type == ncclFloat64)
    return ((const double *)data)[i];
  if (type == ncclFloat32)
    return ((const float *)data)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void store_float(void *data, ncclDataType_t type, size_t i, double value) {
  if (type == ncclFloat16) {
    ((_Float16 *)data)[i] = (_Float16)value;
  } else if (type == ncclFloat64) {
    ((double *)data)[i] = value;
  } else if (type == ncclFloat32) {
    ((float *)data)[i] = (float)value;
  } else {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    ((uint16_t *)data)[i] =
        single != single ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

static int64_t load_integer(const void *data, ncclDataType_t type, size_t i) {
  switch (type) {
  case ncclInt8:
    return ((const int8_t *)data)[i];
  case ncclUint8:
    return ((const uint8_t *)data)[i];
  case ncclInt32:
    return ((const int32_t *)data)[i];
  case ncclUint32:
    return ((const uint32_t *)data)[i];
  default:
    return ((const int64_t *)data)[i];
  }
}

static int64_t combine_integers(int64_t a, int64_t b, ncclDataType_t type, ncclRedOp_t op) {
  bool less = type == ncclUint64 ? (uint64_t)b < (uint64_t)a : b < a;
  return op == ncclSum    ? (int64_t)((uint64_t)a + (uint64_t)b)
         : op == ncclProd ? (int64_t)((uint64_t)a * (uint64_t)b)
                          : ((op == ncclMin) == less ? b : a);
}

static void combine(void *sums, const void *data, size_t count, ncclDataType_t type,
                    ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    if (type < ncclFloat16) {
      int64_t value =
          combine_integers(load_integer(sums, type, i), load_integer(data, type, i), type, op);
      memcpy((char *)sums + i * size_of(type), &value, size_of(type));
      continue;
    }
    double a = load_float(sums, type, i), b = load_float(data, type, i);
    double value = op == ncclProd  ? a * b
                   : op == ncclMin ? fmin(a, b)
                   : op == ncclMax ? fmax(a, b)
                                   : a + b;
    store_float(sums, type, i, value);
  }
}

/*===-- Collectives ---------------------------------------------------------===*/

/* `count` elements of all, combined from the first one's on. */
static void reduce(const struct collective *c, size_t first, size_t count) {
  const struct meeting *meeting = &c->comm->meeting;
  size_t item = size_of(c->statement.type), bytes = count * item;
  char *sums = malloc(bytes + 1), *data = malloc(bytes + 1);
  read_data(meeting, 0, sums, bytes, first * item);
  for (int rank = 1; rank < meeting->ranks; ++rank) {
    read_data(meeting, rank, data, bytes, first * item);
    combine(sums, data, count, c->statement.type, c->statement.op);
  }
  for (size_t i = 0; c->statement.op == ncclAvg && i < count; ++i)
    store_float(sums, c->statement.type, i,
                load_float(sums, c->statement.type, i) / meeting->ranks);
  if (bytes)
    memcpy(reach(c->to[0], bytes), sums, bytes);
  free(sums);
  free(data);
}

/* In order of the stream, with the emulator's lock held. */
static void execute(const void *arguments) {
  const struct collective *c = arguments;
  struct meeting *meeting = &c->comm->meeting;
  const struct statement *s = &c->statement;
  size_t count = s->count, item = size_of(s->type), bytes = count * item;
  if (meeting->is_aborted)
    return;
  size_t given = s->kind == REDUCE_SCATTER ? bytes * (size_t)meeting->ranks : bytes;
  char *parts = NULL;
  if (s->kind == EXCHANGE) {
    given = 0;
    for (int peer = 0; peer < meeting->ranks; ++peer) {
      parts = realloc(parts, given + s->sent[peer] + 1);
      if (s->sent[peer])
        memcpy(parts + given, reach(c->from[peer], s->sent[peer]), s->sent[peer]);
      given += s->sent[peer];
    }
  } else if (s->kind == BROADCAST && meeting->rank != s->root) {
    given = 0;
  }
  bool has_met = meet(meeting, s, parts ? parts : reach(c->from[0], given), given);
  free(parts);
  if (!has_met)
    return;
  if (s->kind == ALL_REDUCE)
    reduce(c, 0, count);
  else if (s->kind == REDUCE_SCATTER)
    reduce(c, (size_t)meeting->rank * count, count);
  else if (s->kind == BROADCAST)
    read_data(meeting, s->root, reach(c->to[0], bytes), bytes, 0);
  else if (s->kind == ALL_GATHER)
    for (int rank = 0; rank < meeting->ranks; ++rank)
      read_data(meeting, rank, reach(c->to[0] + (uint64_t)rank * bytes, bytes), bytes, 0);
  else
    for (int rank = 0; rank < meeting->ranks; ++rank) {
      size_t offset = 0;
      for (int before = 0; before < meeting->rank; ++before)
        offset += statement_of(meeting, rank)->sent[before];
      read_data(meeting, rank, reach(c->to[rank], s->taken[rank]), s->taken[rank], offset);
    }
  part(meeting);
}

static ncclResult_t begin(const struct collective *c, void *stream) {
  ncclComm_t comm = c->comm;
  check_alive(comm);
  if (!is_complete(&comm->meeting) || comm->polls)
    misuse("a collective is begun while a call is under way");
  int (*call)(void *, void (*)(const void *), const void *, size_t) =
      (int (*)(void *, void (*)(const void *), const void *, size_t))find("emulator_call");
  void (*record)(const char *, ...) = (void (*)(const char *, ...))find("emulator_record");
  record("nccl %s count %llu type %d op %d\n", names[c->statement.kind],
         (unsigned long long)c->statement.count, c->statement.type, c->statement.op);
  ++comm->collectives;
  comm->asked = 0;
  if (call(stream, execute, c, sizeof *c))
    return ncclUnhandledCudaError;
  comm->polls = comm->blocks ? 0 : 2;
  return comm->blocks ? ncclSuccess : ncclInProgress;
}

static ncclResult_t begin_one(enum kind kind, const void *from, void *to, size_t count,
                              ncclDataType_t type, int op, int root, ncclComm_t comm,
                              void *stream) {
  struct collective c = {
      .comm = comm,
      .statement = {.kind = (int)kind, .type = type, .op = op, .root = root, .count = count},
      .from = {(uint64_t)(uintptr_t)from},
      .to = {(uint64_t)(uintptr_t)to}};
  if (op == ncclAvg && type < ncclFloat16)
    return ncclInvalidArgument;
  return begin(&c, stream);
}

EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, void *stream) {
  return begin_one(ALL_REDUCE, from, to, count, type, op, 0, comm, stream);
}
EXPORT ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t comm, void *stream) {
  return begin_one(REDUCE_SCATTER, from, to, count, type, op, 0, comm, stream);
}
EXPORT ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, void *stream) {
  return begin_one(ALL_GATHER, from, to, count, type, 0, 0, comm, stream);
}
EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, void *stream) {
  return begin_one(BROADCAST, from, to, count, type, 0, root, comm, stream);
}

/*===-- Exchanges -----------------------------------------------------------===*/

static __thread int depth;
static __thread struct collective exchange;
static __thread void *exchange_stream;

EXPORT ncclResult_t ncclGroupStart(void) {
  if (!depth++)
    exchange = (struct collective){.statement.kind = EXCHANGE};
  return ncclSuccess;
}

static struct collective *in_group(ncclDataType_t type, ncclComm_t comm, void *stream) {
  if (!depth)
    misuse("a part of an exchange outside of a group");
  if (exchange.comm &&
      (exchange.comm != comm || exchange_stream != stream || exchange.statement.type != type))
    misuse("a group of several communicators, streams or types");
  check_alive(comm);
  exchange.comm = comm;
  exchange_stream = stream;
  exchange.statement.type = type;
  return &exchange;
}

EXPORT ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, void *stream) {
  struct collective *c = in_group(type, comm, stream);
  if (c->from[peer])
    misuse("two messages for one process");
  c->from[peer] = (uint64_t)(uintptr_t)from;
  c->statement.sent[peer] = count * size_of(type);
  return ncclSuccess;
}
EXPORT ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             void *stream) {
  struct collective *c = in_group(type, comm, stream);
  if (c->to[peer])
    misuse("two messages from one process");
  c->to[peer] = (uint64_t)(uintptr_t)to;
  c->statement.taken[peer] = count * size_of(type);
  return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void) {
  if (!depth)
    misuse("a group ends that has not begun");
  return --depth || !exchange.comm ? ncclSuccess : begin(&exchange, exchange_stream);
}
