// Finds cuDNN: the loader's, of a version that is new enough.
#include "Loaded.h"
#include "ExternLibrary.h"

#include <array>
#include <memory>

using namespace kiln::cudnn;

/// The oldest one.
static constexpr size_t minVersion = 91000;
/// Names of functions and numbers are those of this one.
static constexpr size_t nextMajor = 100000;

static const kiln::externs::LibraryName name = {
    "cuDNN",
    {"libcudnn.so.9"},
    "KILN_LIBCUDNN",
    "pip install nvidia-cudnn-cu13, or nvidia-cudnn-cu12 for an older driver"};

/// Before version 9 there are four digits.
static std::string format(size_t version) {
  if (version < 10000)
    return std::to_string(version / 1000);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

static Library load() {
  void *handle = kiln::externs::openLibrary(name);
  Library library = {};
  const char *missing = nullptr;
#define KILN_CUDNN_FIND(result, name, parameters)                                                  \
  library.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name));                     \
  missing = missing ? missing : library.name ? nullptr : #name;
  KILN_CUDNN_FUNCTIONS(KILN_CUDNN_FIND)
#undef KILN_CUDNN_FIND
  if (library.cudnnGetVersion)
    library.need(minVersion, "");
  if (size_t version = library.cudnnGetVersion ? library.cudnnGetVersion() : 0;
      version >= nextMajor)
    throw Failure{KILN_UNSUPPORTED,
                  "cuDNN " + format(version) + " is too new: this needs version 9"};
  if (missing)
    throw Failure{KILN_UNSUPPORTED, "cuDNN has no function " + std::string(missing)};
  return library;
}

void Library::need(size_t version, const std::string &what) const {
  if (cudnnGetVersion() < version)
    throw Failure{KILN_UNSUPPORTED, "cuDNN " + getVersion() + " is too old" +
                                        (what.empty() ? what : " for " + what) + ": this needs " +
                                        format(version) +
                                        " or newer (pip install --upgrade nvidia-cudnn-cu13)"};
}

const Library &Library::get() {
  // If it throws, the next call tries again.
  static const Library library = load();
  return library;
}

std::string Library::getVersion() const { return format(cudnnGetVersion()); }

namespace {
struct Device {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
};
} // namespace

Lease Library::lease(int device, void *stream, bool isCaptured) const {
  constexpr int maxDevices = 64;
  // Never destroyed: other libraries may be gone by then.
  static auto &devices = *new std::array<Device, maxDevices>;
  if (device < 0 || device >= maxDevices)
    throw Failure{KILN_UNSUPPORTED, "there are too many GPUs"};
  Lease lease = {nullptr, std::unique_lock(devices[device].mutex)};
  if (!devices[device].handle && isCaptured)
    throw Failure{KILN_UNSUPPORTED, "the stream is being captured, and cuDNN has not been used "
                                    "before; run the model once with the same sizes"};
  if (!devices[device].handle)
    check(cudnnCreate(&devices[device].handle), "cudnnCreate");
  lease.handle = devices[device].handle;
  check(cudnnSetStream(lease.handle, stream), "cudnnSetStream");
  return lease;
}

std::string Library::describe(cudnnStatus_t status) const {
  char last[512] = "";
  cudnnGetLastErrorString(last, sizeof last);
  last[sizeof last - 1] = 0;
  const char *name = cudnnGetErrorString(status);
  std::string text = name ? name : std::to_string(status);
  return *last ? text + " (" + last + ")" : text;
}

void Library::check(cudnnStatus_t status, const char *what) const {
  if (status == CUDNN_STATUS_SUCCESS)
    return;
  int32_t ours = KILN_DEVICE_ERROR;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    ours = KILN_OUT_OF_MEMORY;
  else if (status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 ||
           status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH ||
           status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED)
    ours = KILN_UNSUPPORTED;
  else if (status / 1000 == CUDNN_STATUS_BAD_PARAM / 1000)
    ours = KILN_INTERNAL;
  throw Failure{ours, "cuDNN " + getVersion() + ": " + what + ": " + describe(status)};
}
