// NCCL, found by name.
#ifndef KILN_RUNTIME_COLLECTIVES_NCCLLIBRARY_H
#define KILN_RUNTIME_COLLECTIVES_NCCLLIBRARY_H

#include "ExternFailure.h"
#include "nccl.h"

namespace kiln::collectives {

using externs::Failure;

struct Nccl {
#define KILN_NCCL_POINTER(result, name, parameters) result(*name) parameters;
  KILN_NCCL_FUNCTIONS(KILN_NCCL_POINTER)
#undef KILN_NCCL_POINTER

  /// Loaded when it is first asked for. Throws a Failure: it is missing, or too old.
  static const Nccl &get();
  /// "2.21.5"
  std::string getVersion() const;
  /// The failure that a result of a call is. The communicator may be null.
  Failure fail(ncclResult_t result, const char *what, ncclComm_t comm) const;
  /// Throws it unless `result` is success.
  void check(ncclResult_t result, const char *what, ncclComm_t comm = nullptr) const;
};

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_NCCLLIBRARY_H
