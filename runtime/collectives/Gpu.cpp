// Primary contexts: the ones that models, NCCL and PyTorch use.
#include "Gpu.h"

#include <map>
#include <mutex>

using namespace kiln;
using namespace kiln::collectives;

static constexpr int relaxedCapture = 2; // CU_STREAM_CAPTURE_MODE_RELAXED

const Driver &Driver::get() {
  static const Driver driver = [] {
    Driver found = {};
#define KILN_FIND(name) externs::findInDriver(found.name, #name)
    KILN_FIND(cuDeviceGet);
    KILN_FIND(cuDevicePrimaryCtxRetain);
    KILN_FIND(cuCtxPushCurrent_v2);
    KILN_FIND(cuCtxPopCurrent_v2);
    KILN_FIND(cuThreadExchangeStreamCaptureMode);
    KILN_FIND(cuMemAlloc_v2);
    KILN_FIND(cuMemFree_v2);
    KILN_FIND(cuMemcpyHtoDAsync_v2);
    KILN_FIND(cuMemcpyDtoHAsync_v2);
    KILN_FIND(cuStreamSynchronize);
    KILN_FIND(cuEventCreate);
    KILN_FIND(cuEventDestroy_v2);
    KILN_FIND(cuEventRecord);
    KILN_FIND(cuEventQuery);
#undef KILN_FIND
    return found;
  }();
  return driver;
}

void Driver::check(int result, const char *what) {
  if (result)
    throw Failure{result == 2 ? KILN_OUT_OF_MEMORY : KILN_DEVICE_ERROR,
                  std::string(what) + " (CUDA error " + std::to_string(result) + ")"};
}

/// Never released: threads that look after communicators use it as long as the process lives.
static void *getContext(int ordinal) {
  static std::mutex mutex;
  static auto *known = new std::map<int, void *>;
  std::lock_guard<std::mutex> lock(mutex);
  void *&context = (*known)[ordinal];
  if (!context) {
    const Driver &driver = Driver::get();
    int device = 0;
    Driver::check(driver.cuDeviceGet(&device, ordinal), "there is no such GPU");
    Driver::check(driver.cuDevicePrimaryCtxRetain(&context, device), "no context of the GPU");
  }
  return context;
}

Entered::Entered(int ordinal) : mode(relaxedCapture) {
  const Driver &driver = Driver::get();
  Driver::check(driver.cuCtxPushCurrent_v2(getContext(ordinal)),
                "cannot make the GPU's context current");
  driver.cuThreadExchangeStreamCaptureMode(&mode);
}

Entered::~Entered() {
  const Driver &driver = Driver::get();
  void *context = nullptr;
  driver.cuThreadExchangeStreamCaptureMode(&mode);
  driver.cuCtxPopCurrent_v2(&context);
}
