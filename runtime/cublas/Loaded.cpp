// Finds cuBLASLt: the loader's, of a version that is new enough.
#include "Loaded.h"
#include "ExternLibrary.h"

#include <array>
#include <mutex>

using namespace kiln;
using namespace kiln::cublas;

/// The oldest one.
static constexpr size_t minVersion = 120000;

static const externs::LibraryName name = {
    "cuBLASLt",
    {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
    "KILN_CUBLASLT_LIBRARY",
    "pip install nvidia-cublas, or the CUDA toolkit"};

/// Versions before 12 have one digit less.
static std::string format(size_t version) {
  size_t major = version < 100000 ? version / 1000 : version / 10000,
         minor = version < 100000 ? version / 100 % 10 : version / 100 % 100;
  return std::to_string(major) + "." + std::to_string(minor);
}

static Library load() {
  void *handle = externs::openLibrary(name);
  Library library = {};
  const char *missing = nullptr;
#define KILN_CUBLASLT_FIND(result, name, parameters)                                               \
  library.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name));                     \
  missing = missing ? missing : library.name ? nullptr : #name;
  KILN_CUBLASLT_FUNCTIONS(KILN_CUBLASLT_FIND)
#undef KILN_CUBLASLT_FIND
  size_t version = library.cublasLtGetVersion ? library.cublasLtGetVersion() : 0;
  if (version && version < minVersion)
    throw Failure{KILN_UNSUPPORTED, "cuBLASLt " + format(version) + " is too old: this needs " +
                                        format(minVersion) +
                                        " or newer (pip install --upgrade nvidia-cublas)"};
  if (missing)
    throw Failure{KILN_UNSUPPORTED, "cuBLASLt has no function " + std::string(missing)};
  return library;
}

const Library &Library::get() {
  // If it throws, the next call tries again.
  static const Library library = load();
  return library;
}

std::string Library::getVersion() const { return format(cublasLtGetVersion()); }

cublasLtHandle_t Library::getHandle(int device) const {
  constexpr int maxDevices = 64;
  static std::mutex mutex;
  static std::array<cublasLtHandle_t, maxDevices> handles;
  if (device < 0 || device >= maxDevices)
    throw Failure{KILN_UNSUPPORTED, "there are too many GPUs"};
  std::lock_guard<std::mutex> lock(mutex);
  // Never destroyed: other libraries may be gone by then.
  if (!handles[device])
    check(cublasLtCreate(&handles[device]), "cublasLtCreate");
  return handles[device];
}

static const char *describe(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "it is not initialised";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "out of memory";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "an argument is not valid";
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return "it has no code for this GPU";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "the GPU has failed";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "it has no code for these sizes";
  default:
    return "internal error";
  }
}

void Library::check(cublasStatus_t status, const char *what) const {
  if (status == CUBLAS_STATUS_SUCCESS)
    return;
  int32_t ours = status == CUBLAS_STATUS_ALLOC_FAILED ? KILN_OUT_OF_MEMORY
                 : status == CUBLAS_STATUS_ARCH_MISMATCH || status == CUBLAS_STATUS_NOT_SUPPORTED
                     ? KILN_UNSUPPORTED
                     : KILN_DEVICE_ERROR;
  throw Failure{ours, "cuBLASLt " + getVersion() + ": " + what + ": " + describe(status) +
                          " (status " + std::to_string(status) + ")"};
}

//===-- Time ----------------------------------------------------------------------------------===//

namespace {

/// The driver's, which the model has loaded.
struct Events {
  int (*create)(void **event, unsigned flags);
  int (*destroy)(void *event);
  int (*record)(void *event, void *stream);
  int (*synchronize)(void *event);
  int (*elapsed)(float *milliseconds, void *begin, void *end);
};

const Events &getEvents() {
  static const Events events = [] {
    Events found = {};
    externs::findInDriver(found.create, "cuEventCreate");
    externs::findInDriver(found.destroy, "cuEventDestroy_v2");
    externs::findInDriver(found.record, "cuEventRecord");
    externs::findInDriver(found.synchronize, "cuEventSynchronize");
    externs::findInDriver(found.elapsed, "cuEventElapsedTime");
    return found;
  }();
  return events;
}

void checkEvent(int result) {
  if (result)
    throw Failure{KILN_DEVICE_ERROR,
                  "cannot time an algorithm (CUDA error " + std::to_string(result) + ")"};
}

} // namespace

Stopwatch::Stopwatch(void *stream) : stream(stream) {
  const Events &events = getEvents();
  destroy = events.destroy;
  checkEvent(events.create(&begin, 0));
  if (int result = events.create(&end, 0)) {
    events.destroy(begin);
    checkEvent(result);
  }
}

Stopwatch::~Stopwatch() {
  destroy(begin);
  destroy(end);
}

void Stopwatch::record(void *event) { checkEvent(getEvents().record(event, stream)); }

float Stopwatch::stop() {
  float milliseconds = 0;
  record(end);
  checkEvent(getEvents().synchronize(end));
  checkEvent(getEvents().elapsed(&milliseconds, begin, end));
  return milliseconds;
}
