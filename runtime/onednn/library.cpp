// libkiln_onednn.so, which models load that were compiled with --extern=onednn: each call becomes a
// primitive of oneDNN's when the sizes of a run are known.
#include "ExternFailure.h"
#include "Primitive.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <kiln-c/model.h>

using namespace kiln;
using namespace kiln::externs;
using dnnl::memory;

/// A build of oneDNN for SYCL finds CPUs through OpenCL, whose driver for them lies beside it.
static void chooseDriver() {
  if (dnnl_version()->cpu_runtime != DNNL_RUNTIME_SYCL || getenv("OCL_ICD_FILENAMES"))
    return;
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void *>(&dnnl_version), &info) || !info.dli_fname)
    return;
  std::string path = info.dli_fname;
  path = path.substr(0, path.rfind('/') + 1) + "libintelocl.so";
  if (FILE *file = fopen(path.c_str(), "r")) {
    fclose(file);
    setenv("OCL_ICD_FILENAMES", path.c_str(), 1);
  }
}

// A function of the OpenMP that oneDNN is linked with, if it is.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);
extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace {
/// The number of threads of what this thread starts, for as long as this lives. 0: as it is.
class Threads {
public:
  explicit Threads(int32_t wanted) {
    if (wanted <= 0 || !omp_set_num_threads || !omp_get_max_threads)
      return;
    before = omp_get_max_threads();
    omp_set_num_threads(wanted);
  }
  ~Threads() {
    if (before)
      omp_set_num_threads(before);
  }
  Threads(const Threads &) = delete;
  Threads &operator=(const Threads &) = delete;

private:
  int before = 0;
};
} // namespace

dnnl::engine &kiln::getEngine() {
  // Never destroyed: other libraries may be gone by then.
  static auto *engine = [] {
    chooseDriver();
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *engine;
}

/// `guard`, for errors of oneDNN, too.
template <typename Body> static int32_t guardLibrary(char *message, size_t size, Body body) {
  return guard(message, size, [&] {
    try {
      body();
    } catch (const dnnl::error &error) {
      const dnnl_version_t *version = dnnl_version();
      throw Failure{error.status == dnnl_out_of_memory ? KILN_OUT_OF_MEMORY : KILN_UNSUPPORTED,
                    "oneDNN " + std::to_string(version->major) + "." +
                        std::to_string(version->minor) + ": " + error.message +
                        (error.status == dnnl_unimplemented
                             ? " (it has no code for this CPU or these sizes)"
                             : "")};
    }
  });
}

/// The oneDNN that is loaded is no older than the one whose headers this was compiled with.
extern "C" __attribute__((visibility("default"))) int32_t kiln_check_onednn(char *message,
                                                                            size_t size) {
  const dnnl_version_t *version = dnnl_version();
  if (std::pair(version->major, version->minor) >=
      std::pair(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR))
    return KILN_OK;
  snprintf(message, size,
           "oneDNN %d.%d is too old: libkiln_onednn.so was built with %d.%d (install that one, as "
           "with pip install --upgrade onednn, or build Kiln again)",
           version->major, version->minor, DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
  return KILN_UNSUPPORTED;
}

static int32_t prepare(const kiln_extern_call *call, void **prepared, char *message, size_t size) {
  if (int32_t status = kiln_check_onednn(message, size))
    return status;
  return guardLibrary(message, size, [&] {
    getEngine();
    std::unique_ptr<Operation> operation = makeOperation(*call);
    if (!operation)
      throw Failure{KILN_UNSUPPORTED, "libkiln_onednn.so has no such operation"};
    *prepared = operation.release();
  });
}

static void release(void *prepared) { delete static_cast<Operation *>(prepared); }

static int32_t run(void *prepared, void **, void *const *buffers, const int64_t *numbers,
                   int32_t threads, char *message, size_t size) {
  return guardLibrary(message, size, [&] {
    auto &operation = *static_cast<Operation *>(prepared);
    // oneDNN has no primitives of nothing; there is nothing to write either.
    if (operation.isEmpty(numbers))
      return;
    // A primitive is made for a number of threads, too.
    Threads limit(threads);
    std::shared_ptr<const Primitive> made = operation.get(numbers);
    std::unordered_map<int, memory> arguments;
    for (size_t i = 0; i < made->tensors.size(); ++i) {
      auto [argument, tensor] = made->tensors[i];
      arguments.emplace(argument, memory(made->descriptions[i], getEngine(), buffers[tensor]));
    }
    if (made->scratchpad.get_size())
      arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(made->scratchpad, getEngine()));
    thread_local dnnl::stream stream(getEngine());
    made->primitive.execute(stream, arguments);
    stream.wait();
  });
}

static void drop(void *) {}

extern "C" __attribute__((visibility("default"))) const kiln_extern_library *
kiln_get_extern_library(uint32_t abi) {
  static const kiln_extern_library library = {prepare, release, run,    drop,
                                              nullptr, nullptr, nullptr};
  return abi == KILN_EXTERN_ABI ? &library : nullptr;
}
