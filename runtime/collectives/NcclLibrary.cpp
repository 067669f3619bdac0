// Finds NCCL: the loader's, of a version that is new enough.
#include "NcclLibrary.h"
#include "ExternLibrary.h"

using namespace kiln::collectives;

/// The oldest one: communicators whose calls do not block.
static constexpr int minVersion = 21400;

static std::string format(int version) {
  // Versions before 2.9 have one digit less.
  int unit = version < 10000 ? 1000 : 10000;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
         std::to_string(version % 100);
}

static const kiln::externs::LibraryName name = {"NCCL",
                                                {"libnccl.so.2", "libnccl.so"},
                                                "KILN_NCCL_LIBRARY",
                                                "pip install nvidia-nccl-cu13, or libnccl2"};

static Nccl load() {
  void *handle = kiln::externs::openLibrary(name);
  Nccl nccl = {};
  const char *missing = nullptr;
#define KILN_NCCL_FIND(result, name, parameters)                                                   \
  nccl.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name));                        \
  missing = missing ? missing : nccl.name ? nullptr : #name;
  KILN_NCCL_FUNCTIONS(KILN_NCCL_FIND)
#undef KILN_NCCL_FIND
  int version = 0;
  if (nccl.ncclGetVersion && nccl.ncclGetVersion(&version) == ncclSuccess && version < minVersion)
    throw Failure{KILN_UNSUPPORTED, "NCCL " + format(version) + " is too old: this needs " +
                                        format(minVersion) + " or newer"};
  if (missing)
    throw Failure{KILN_UNSUPPORTED, "NCCL has no function " + std::string(missing)};
  return nccl;
}

const Nccl &Nccl::get() {
  // If it throws, the next call tries again.
  static const Nccl nccl = load();
  return nccl;
}

std::string Nccl::getVersion() const {
  int version = 0;
  ncclGetVersion(&version);
  return format(version);
}

Failure Nccl::fail(ncclResult_t result, const char *what, ncclComm_t comm) const {
  const char *last = ncclGetLastError(comm);
  return {result == ncclInvalidArgument || result == ncclInvalidUsage ? KILN_INVALID_ARGUMENT
                                                                      : KILN_DEVICE_ERROR,
          "NCCL " + getVersion() + ": " + what + ": " + ncclGetErrorString(result) +
              (last && *last ? ": " + std::string(last) : "")};
}

void Nccl::check(ncclResult_t result, const char *what, ncclComm_t comm) const {
  if (result != ncclSuccess)
    throw fail(result, what, comm);
}
