// libkiln_collectives.so, which models of several processes load: collectives by Open MPI, and on GPUs
// by NCCL.
#include "MpiRun.h"
#include "NcclRun.h"

#include <cstdlib>
#include <kiln-c/model.h>
#include <memory>

using namespace kiln::collectives;
using kiln::externs::guard;

namespace {
struct Prepared {
  explicit Prepared(const kiln_extern_call &call) : call(call) {}
  Call call;
  std::unique_ptr<MpiRun> mpi;
  std::unique_ptr<NcclRun> nccl;
};
} // namespace

static int32_t prepare(const kiln_extern_call *call, void **prepared, char *message, size_t size) {
  return guard(message, size, [&] { *prepared = new Prepared(*call); });
}

/// Milliseconds.
static int64_t getTimeout(const kiln_extern_host &host) {
  if (host.timeout > 0)
    return host.timeout;
  constexpr int64_t usual = 300000;
  const char *given = getenv("KILN_COLLECTIVE_TIMEOUT");
  if (!given || !*given)
    return usual;
  char *end = nullptr;
  int64_t value = strtoll(given, &end, 10);
  if (*end || value <= 0)
    throw Failure{KILN_INVALID_ARGUMENT,
                  "KILN_COLLECTIVE_TIMEOUT=" + std::string(given) + ": expected milliseconds"};
  return value;
}

static int32_t connect(void *prepared, const kiln_extern_host *host, char *message, size_t size) {
  return guard(message, size, [&] {
    kiln_extern_host known = *host;
    known.timeout = getTimeout(known);
    auto *own = static_cast<Prepared *>(prepared);
    own->call.program = host->program;
    own->call.number = host->number;
    if (host->ordinal < 0)
      own->mpi = std::make_unique<MpiRun>(own->call, known);
    else
      own->nccl = std::make_unique<NcclRun>(own->call, known);
  });
}

static void release(void *prepared) { delete static_cast<Prepared *>(prepared); }

static int32_t run(void *prepared, void **, void *const *buffers, const int64_t *numbers, int32_t,
                   char *message, size_t size) {
  return guard(message, size, [&] {
    auto *own = static_cast<Prepared *>(prepared);
    own->mpi->run(static_cast<const char *>(buffers[0]), static_cast<char *>(buffers[1]),
                  Sizes(own->call, numbers));
  });
}

static int32_t runOnDevice(void *prepared, const kiln_extern_device *device, void *const *buffers,
                           const int64_t *numbers, char *message, size_t size) {
  return guard(message, size, [&] {
    auto *own = static_cast<Prepared *>(prepared);
    own->nccl->run(*device, static_cast<const char *>(buffers[0]), static_cast<char *>(buffers[1]),
                   Sizes(own->call, numbers));
  });
}

static int32_t check(void *prepared, char *message, size_t size) {
  return guard(message, size, [&] { static_cast<Prepared *>(prepared)->nccl->check(); });
}

static void drop(void *) {}

extern "C" __attribute__((visibility("default"))) const kiln_extern_library *
kiln_get_extern_library(uint32_t abi) {
  static const kiln_extern_library library = {prepare,     release, run,  drop,
                                              runOnDevice, connect, check};
  return abi == KILN_EXTERN_ABI ? &library : nullptr;
}
