// A collective as the program makes it, and the sizes of one run of it.
#ifndef KILN_RUNTIME_COLLECTIVES_CALL_H
#define KILN_RUNTIME_COLLECTIVES_CALL_H

#include "ExternFailure.h"
#include "extern.h"

#include <string>
#include <vector>

namespace kiln::collectives {

using externs::Failure;

enum class Kind { AllReduce, ReduceScatter, AllGather, AllToAll, Broadcast };
enum class Reduction { None, Sum, Average, Min, Max, Product };

/// The arguments of `kernel.collective`.
struct Call {
  explicit Call(const kiln_extern_call &call);

  Kind kind;
  std::string name; // "all_reduce"
  std::string group;
  int64_t ranks;
  bool isStatic; // all sizes are those of every run
  Reduction reduction = Reduction::None;
  int root = 0;
  kiln_extern_tensor type;
  size_t itemBytes;
  uint64_t program = 0; // kiln_extern_host's
  uint32_t number = 0;

private:
  friend struct Sizes;
  bool hasParts = false;
};

/// The sizes that a run gives to a call. Counts are elements.
struct Sizes {
  /// `numbers` as runtime/extern.h has them. Throws a Failure.
  Sizes(const Call &call, const int64_t *numbers);

  uint64_t input = 1, result = 1;
  std::vector<uint64_t> send, receive; // of an exchange, for each rank
};

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_CALL_H
