// Memory, clocks and the name of a GPU.
//
// Marks are events on the stream of the kernels. In front of the first one the GPU has something to
// do for as long as the host takes to put some kernels on the stream, so that it need not wait for
// the host between them.
#include "Gpu.h"
extern "C" {
#include "../../runtime/cuda/driver.h"
}
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Errno.h"
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;
using namespace kiln::tune;

namespace {

class Gpu : public Machine {
public:
  static Expected<std::unique_ptr<Gpu>> open() {
    std::unique_ptr<Gpu> gpu(new Gpu());
    if (Error error = gpu->load())
      return error;
    return gpu;
  }

  Expected<GpuModel> describe() {
    char name[128] = "";
    int major = 0, minor = 0;
    if (Error error = joinErrors(
            check(driver.cuDeviceGetName(name, sizeof(name), device), "the name of the GPU"),
            joinErrors(check(driver.cuDeviceGetAttribute(
                                 &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                             "the kind of the GPU"),
                       check(driver.cuDeviceGetAttribute(
                                 &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
                             "the kind of the GPU"))))
      return error;
    return GpuModel{"sm_" + utostr(10 * unsigned(major) + unsigned(minor)), name};
  }

  /// The context of this thread from now on: models on this GPU have the same.
  Error enter() {
    CUcontext context;
    if (Error error = check(driver.cuDevicePrimaryCtxRetain(&context, device), "its context"))
      return error;
    if (Error error = check(driver.cuCtxPushCurrent_v2(context), "its context"))
      return error;
    // More than the cache, if there is one: clearing it takes some hundred thousand cycles.
    int cache = 0;
    if (driver.cuDeviceGetAttribute(&cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device) !=
        CUDA_SUCCESS)
      cache = 0;
    busyBytes = static_cast<size_t>(cache) * 2;
    if (busyBytes && driver.cuMemAlloc_v2(&busyMemory, busyBytes) != CUDA_SUCCESS)
      busyMemory = 0;
    return Error::success();
  }

  DLDevice getDevice() const override { return {kDLCUDA, 0}; }
  bool isDevice() const override { return true; }

  void *allocate(size_t bytes) override {
    CUdeviceptr memory = 0;
    // None is no address.
    if (driver.cuMemAlloc_v2(&memory, std::max<size_t>(bytes, 1)) != CUDA_SUCCESS)
      return nullptr;
    return llvm::bit_cast<void *>(memory);
  }
  void release(void *memory) override { driver.cuMemFree_v2(getAddress(memory)); }
  void write(void *to, const void *from, size_t bytes) override {
    if (bytes)
      driver.cuMemcpyHtoD_v2(getAddress(to), from, bytes);
  }
  void read(void *to, const void *from, size_t bytes) override {
    if (bytes)
      driver.cuMemcpyDtoHAsync_v2(to, getAddress(from), bytes, nullptr);
    driver.cuStreamSynchronize(nullptr);
  }
  bool isBroken() override { return driver.cuCtxSynchronize() != CUDA_SUCCESS; }

  void start() override {
    used = 0;
    if (busyMemory)
      driver.cuMemsetD32Async(busyMemory, 0, busyBytes / 4, nullptr);
  }
  void mark() override {
    if (used == events.size()) {
      CUevent event = nullptr;
      driver.cuEventCreate(&event, 0);
      events.push_back(event);
    }
    driver.cuEventRecord(events[used++], nullptr);
  }
  std::vector<double> finish() override {
    std::vector<double> times;
    driver.cuEventSynchronize(events[used - 1]);
    for (size_t i = 1; i < used; ++i) {
      float milliseconds = 0;
      driver.cuEventElapsedTime(&milliseconds, events[i - 1], events[i]);
      // Clocks of GPUs have steps.
      times.push_back(std::max(double(milliseconds), 1e-4) / 1e3);
    }
    return times;
  }

private:
  static CUdeviceptr getAddress(const void *memory) {
    return static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(memory));
  }

  Error check(CUresult result, const char *what) const {
    if (result == CUDA_SUCCESS)
      return Error::success();
    const char *reason = nullptr;
    if (driver.cuGetErrorString(result, &reason) != CUDA_SUCCESS || !reason)
      reason = "unknown error";
    return createStringError(std::string("cannot use ") + what + ": " + reason);
  }

  Error load() {
    // As the runtime looks for it.
    const char *given = std::getenv("KILN_CUDA_DRIVER");
    const char *path = given && *given ? given : "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return createStringError(std::string("no NVIDIA driver: ") + dlerror());
    const char *missing = nullptr;
#define KILN_TUNE_FIND(name, parameters)                                                           \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #name));                    \
  missing = driver.name || missing ? missing : #name;
    KILN_CUDA_FUNCTIONS(KILN_TUNE_FIND)
#undef KILN_TUNE_FIND
    if (missing)
      return createStringError(std::string("the NVIDIA driver is too old: it has no ") + missing);
    int count = 0;
    if (Error error = check(driver.cuInit(0), "the NVIDIA driver"))
      return error;
    if (Error error = check(driver.cuDeviceGetCount(&count), "the NVIDIA driver"))
      return error;
    if (count < 1)
      return createStringError("there is no GPU");
    return check(driver.cuDeviceGet(&device, 0), "the first GPU");
  }

  kiln_cuda_driver driver = {};
  CUdevice device = 0;
  CUdeviceptr busyMemory = 0;
  size_t busyBytes = 0;
  std::vector<CUevent> events;
  size_t used = 0;
};

} // namespace

Expected<std::unique_ptr<Machine>> kiln::tune::openGpu() {
  Expected<std::unique_ptr<Gpu>> gpu = Gpu::open();
  if (!gpu)
    return gpu.takeError();
  if (Error error = (*gpu)->enter())
    return error;
  return std::move(*gpu);
}

/// "+sm_90 NAME", or "-" and an error.
static std::string findDescription() {
  Expected<std::unique_ptr<Gpu>> gpu = Gpu::open();
  Expected<GpuModel> model = gpu ? (*gpu)->describe() : Expected<GpuModel>(gpu.takeError());
  return model ? "+" + model->architecture + " " + model->name : "-" + toString(model.takeError());
}

Expected<GpuModel> kiln::tune::describeGpu() {
  int ends[2];
  if (pipe(ends) != 0)
    return createStringError(errnoAsErrorCode(), "cannot make a pipe");
  fflush(nullptr);
  pid_t child = fork();
  if (child < 0)
    return createStringError(errnoAsErrorCode(), "cannot start a process");
  if (child == 0) {
    std::string text = findDescription();
    for (size_t at = 0; at < text.size();) {
      ssize_t written = ::write(ends[1], text.data() + at, text.size() - at);
      if (written <= 0)
        break;
      at += static_cast<size_t>(written);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char block[512];
  for (ssize_t got;
       (got = ::read(ends[0], block, sizeof(block))) > 0 || (got < 0 && errno == EINTR);)
    text.append(block, got < 0 ? 0 : static_cast<size_t>(got));
  close(ends[0]);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  StringRef found = text;
  if (!found.consume_front("+"))
    return createStringError(found.empty() ? "the NVIDIA driver ends the process"
                                           : found.drop_front().str());
  auto [architecture, name] = found.split(' ');
  return GpuModel{architecture.str(), name.str()};
}
