// Loads a bundle and runs its kernels, as FX modules run those of theirs (runtime/steps.c).
#include "Library.h"
#include <dlfcn.h>

using namespace llvm;
using namespace kiln::tune;

Expected<Library> Library::load(const std::string &path, int threads) {
  // A name without a slash would be looked for elsewhere.
  std::string file = StringRef(path).contains('/') ? path : "./" + path;
  void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return createStringError(std::string("cannot load it: ") + dlerror());
  Library library;
  bool isWhole = true;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
    isWhole &= function != nullptr;
  };
  kiln_model_create_fn create;
  find(create, "kiln_model_create");
  find(library.lastError, "kiln_last_error");
  find(library.findStep, "kiln_steps_find");
  find(library.runStep, "kiln_steps_run");
  find(library.waitSteps, "kiln_steps_wait");
  if (!isWhole)
    return createStringError("it is no library of kernels");
  kiln_options options = {};
  options.struct_size = sizeof(options);
  options.num_threads = library.threads = threads;
  if (create(&options, &library.model) != KILN_OK)
    return createStringError(library.lastError());
  return library;
}

Expected<int32_t> Library::find(const std::string &step) const {
  int32_t number = findStep(step.c_str());
  if (number < 0)
    return createStringError("it has no kernel '" + step + "'");
  return number;
}

Error Library::run(int32_t step, ArrayRef<const DLTensor *> tensors,
                   ArrayRef<int64_t> symbols) const {
  if (runStep(model, step, tensors.data(), tensors.size(), symbols.data(), symbols.size()) !=
      KILN_OK)
    return createStringError(lastError());
  return Error::success();
}

Error Library::wait() const {
  return waitSteps(model) == KILN_OK ? Error::success() : createStringError(lastError());
}
