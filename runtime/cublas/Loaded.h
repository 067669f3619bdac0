// cuBLASLt and what is used of the driver, found by name.
#ifndef KILN_RUNTIME_CUBLAS_LOADED_H
#define KILN_RUNTIME_CUBLAS_LOADED_H

#include "ExternFailure.h"
#include "cublaslt.h"

#include <string>

namespace kiln::cublas {

using externs::Failure;

struct Library {
#define KILN_CUBLASLT_POINTER(result, name, parameters) result(*name) parameters;
  KILN_CUBLASLT_FUNCTIONS(KILN_CUBLASLT_POINTER)
#undef KILN_CUBLASLT_POINTER

  /// Loaded when it is first asked for. Throws a Failure: it is missing, or too old.
  static const Library &get();
  /// "12.4"
  std::string getVersion() const;
  /// A handle of a device, whose context is current.
  cublasLtHandle_t getHandle(int device) const;
  /// Throws unless `status` is success.
  void check(cublasStatus_t status, const char *what) const;
};

/// Two marks on a stream, and the time between them.
class Stopwatch {
public:
  explicit Stopwatch(void *stream);
  ~Stopwatch();
  Stopwatch(const Stopwatch &) = delete;
  Stopwatch &operator=(const Stopwatch &) = delete;
  void start() { record(begin); }
  /// Milliseconds since `start`, when the stream has come here.
  float stop();

private:
  void record(void *event);

  int (*destroy)(void *event);
  void *stream, *begin = nullptr, *end = nullptr;
};

} // namespace kiln::cublas

#endif // KILN_RUNTIME_CUBLAS_LOADED_H
