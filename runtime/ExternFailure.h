// Common parts of libraries that models load: failures, and what they use of the driver.
#ifndef KILN_RUNTIME_EXTERNFAILURE_H
#define KILN_RUNTIME_EXTERNFAILURE_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <kiln-c/model.h>
#include <new>
#include <stdexcept>
#include <string>

namespace kiln::externs {

/// A reason for a status of the model's.
struct Failure {
  int32_t status;
  std::string message;
};

/// Runs `body`; what it throws becomes a status and a message.
template <typename Body> int32_t guard(char *message, size_t size, Body body) {
  try {
    body();
    return KILN_OK;
  } catch (const Failure &failure) {
    snprintf(message, size, "%s", failure.message.c_str());
    return failure.status;
  } catch (const std::bad_alloc &) {
    snprintf(message, size, "out of memory");
    return KILN_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    snprintf(message, size, "%s", error.what());
    return KILN_INTERNAL;
  }
}

/// A function of the NVIDIA driver, which the model has loaded.
template <typename Function> void findInDriver(Function *&function, const char *name) {
  const char *given = getenv("KILN_CUDA_DRIVER");
  void *driver = dlopen(given && *given ? given : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  function = driver ? reinterpret_cast<Function *>(dlsym(driver, name)) : nullptr;
  if (!function)
    throw Failure{KILN_DEVICE_ERROR, "the NVIDIA driver has no function " + std::string(name)};
}

} // namespace kiln::externs

#endif // KILN_RUNTIME_EXTERNFAILURE_H
