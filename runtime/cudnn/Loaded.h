// cuDNN, found by name.
#ifndef KILN_RUNTIME_CUDNN_LOADED_H
#define KILN_RUNTIME_CUDNN_LOADED_H

#include "ExternFailure.h"
#include "cudnn.h"

#include <mutex>
#include <string>

namespace kiln::cudnn {

using externs::Failure;

/// A handle while nobody else uses it: it has the stream of one call.
struct Lease {
  cudnnHandle_t handle;
  std::unique_lock<std::mutex> lock;
};

struct Library {
#define KILN_CUDNN_POINTER(result, name, parameters) result(*name) parameters;
  KILN_CUDNN_FUNCTIONS(KILN_CUDNN_POINTER)
#undef KILN_CUDNN_POINTER

  /// Loaded when it is first asked for. Throws a Failure: it is missing, or of another version.
  static const Library &get();
  /// Throws if it is older than a version that `what` needs.
  void need(size_t version, const std::string &what) const;
  /// "9.10"
  std::string getVersion() const;
  /// The handle of a device, whose context is current, on a stream. `isCaptured`: the stream is, and
  /// a handle must be there.
  Lease lease(int device, void *stream, bool isCaptured) const;
  /// A failure in cuDNN's words.
  std::string describe(cudnnStatus_t status) const;
  /// Throws unless `status` is success.
  void check(cudnnStatus_t status, const char *what) const;
};

} // namespace kiln::cudnn

#endif // KILN_RUNTIME_CUDNN_LOADED_H
