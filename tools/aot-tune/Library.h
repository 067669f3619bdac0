// A loaded bundle: kernels that are run by their names.
#ifndef KILN_AOT_TUNE_LIBRARY_H
#define KILN_AOT_TUNE_LIBRARY_H

#include "kiln-c/model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace kiln::tune {

/// It stays loaded until the process ends.
class Library {
public:
  static llvm::Expected<Library> load(const std::string &path, int threads);

  llvm::Expected<int32_t> find(const std::string &step) const;
  /// Runs a step once; `tensors` are its operands, then its results. On a device it may still be
  /// running then.
  llvm::Error run(int32_t step, llvm::ArrayRef<const DLTensor *> tensors,
                  llvm::ArrayRef<int64_t> symbols) const;

  /// Waits for a device; an error is that of a step.
  llvm::Error wait() const;

  /// The thread that calls `run` does all of the work.
  bool isAlone() const { return threads == 1; }

private:
  using FindFn = int32_t (*)(const char *);
  using RunFn = int32_t (*)(kiln_model *, int32_t, const DLTensor *const *, size_t, const int64_t *,
                            size_t);
  FindFn findStep = nullptr;
  RunFn runStep = nullptr;
  int32_t (*waitSteps)(kiln_model *) = nullptr;
  kiln_last_error_fn lastError = nullptr;
  kiln_model *model = nullptr;
  int threads = 0;
};

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_LIBRARY_H
