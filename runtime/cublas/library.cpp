// libkiln_cublas.so, which models load that were compiled with --extern=cublas.
#include "Matmul.h"

#include <kiln-c/model.h>

using namespace kiln::cublas;
using kiln::externs::guard;

static int32_t prepare(const kiln_extern_call *call, void **prepared, char *message, size_t size) {
  return guard(message, size, [&] {
    Library::get();
    if (std::string(call->callee) != "matmul")
      throw Failure{KILN_UNSUPPORTED, "libkiln_cublas.so has no such operation"};
    *prepared = new Matmul(*call);
  });
}

static void release(void *prepared) { delete static_cast<Matmul *>(prepared); }

static void drop(void *) {}

static int32_t runOnDevice(void *prepared, const kiln_extern_device *device, void *const *buffers,
                           const int64_t *numbers, char *message, size_t size) {
  return guard(message, size,
               [&] { static_cast<Matmul *>(prepared)->run(*device, buffers, numbers); });
}

extern "C" __attribute__((visibility("default"))) const kiln_extern_library *
kiln_get_extern_library(uint32_t abi) {
  static const kiln_extern_library library = {prepare,     release, nullptr, drop,
                                              runOnDevice, nullptr, nullptr};
  return abi == KILN_EXTERN_ABI ? &library : nullptr;
}
