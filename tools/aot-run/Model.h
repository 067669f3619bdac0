//===- Model.h - A loaded model and its description -------------*- C++ -*-===//
#ifndef KILN_AOT_RUN_MODEL_H
#define KILN_AOT_RUN_MODEL_H

#include "Array.h"
#include "Profile.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include <vector>

namespace kiln::run {

/// A size as the description gives it: a number, or an expression.
struct Size {
  int64_t number = 0;
  std::string expression; // empty: a number
};

struct TensorInfo {
  std::string name;
  const DType *dtype = nullptr;
  std::vector<Size> shape;
  bool mutated = false;
};

struct SymbolInfo {
  std::string name;
  std::optional<int64_t> min, max;
};

/// The parts of kiln_model_info that a run needs.
struct ModelInfo {
  std::string target;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<SymbolInfo> symbols;

  /// For the entry with this name, or of the default one if it is empty.
  static llvm::Expected<ModelInfo> parse(const llvm::json::Value &json, llvm::StringRef entry);
};

/// A tensor that a run allocated.
struct DeleteOutput {
  void operator()(DLManagedTensorVersioned *tensor) const {
    if (tensor->deleter)
      tensor->deleter(tensor);
  }
};
using Output = std::unique_ptr<DLManagedTensorVersioned, DeleteOutput>;

/// A shared object, used through its C ABI alone. It stays loaded until the
/// process ends, so that outputs may outlive this.
class Model {
public:
  /// Loads the shared object; an error names what it lacks.
  static llvm::Expected<Model> load(const std::string &path);

  Model(Model &&other)
      : library(other.library), handle(std::exchange(other.handle, nullptr)),
        session(std::exchange(other.session, nullptr)), entry(other.entry) {}
  ~Model() {
    if (session)
      library.destroySession(session);
    if (handle)
      library.destroy(handle);
  }

  /// The text of kiln_model_info.
  llvm::StringRef infoText() const { return library.info(); }

  /// `profile` is told of runs; null: nobody is.
  llvm::Error create(int threads, Profile *profile);

  /// Runs are of this entry from now on.
  llvm::Error enter(const std::string &name);

  /// Runs once; the outputs are newly allocated, null where they are None.
  llvm::Error run(llvm::ArrayRef<DLTensor> inputs, llvm::MutableArrayRef<Output> outputs);

private:
  struct Library {
    kiln_abi_version_fn version;
    kiln_model_info_fn info;
    kiln_model_create_fn create;
    kiln_model_run_fn run;
    kiln_model_destroy_fn destroy;
    kiln_last_error_fn lastError;
    // From version 2 on.
    kiln_model_find_entry_fn findEntry = nullptr;
    kiln_session_create_fn createSession = nullptr;
    kiln_session_run_fn runSession = nullptr;
    kiln_session_destroy_fn destroySession = nullptr;
  };
  explicit Model(const Library &library) : library(library) {}

  Library library;
  kiln_model *handle = nullptr;
  kiln_session *session = nullptr; // of runs of an entry
  uint32_t entry = 0;
};

} // namespace kiln::run

#endif // KILN_AOT_RUN_MODEL_H
