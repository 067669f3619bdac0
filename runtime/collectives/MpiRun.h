// Collectives of tensors in the host's memory.
#ifndef KILN_RUNTIME_COLLECTIVES_MPIRUN_H
#define KILN_RUNTIME_COLLECTIVES_MPIRUN_H

#include "MpiCommunicator.h"
#include "MpiReductions.h"

#include <atomic>

namespace kiln::collectives {

class MpiRun {
public:
  /// Throws a Failure.
  MpiRun(const Call &call, const kiln_extern_host &host);
  void run(const char *input, char *result, const Sizes &sizes);

private:
  void allReduce(const char *input, char *result, uint64_t count);
  void reduceScatter(const char *input, char *result, uint64_t count);
  void allGather(const char *input, char *result, uint64_t count);
  void broadcast(const char *input, char *result, uint64_t count);
  void exchange(const char *input, char *result, const Sizes &sizes);
  /// Elements that have been combined become the result's.
  void finish(char *data, char *result, uint64_t count);
  /// Calls body(first element, number of elements) for pieces of `count` elements of each rank.
  template <typename Body> void forPieces(uint64_t count, uint64_t ranks, Body body);

  const Call &call;
  const Mpi &mpi;
  std::shared_ptr<MpiCommunicator> group;
  int64_t timeout;
  MpiReduction reduction = {};
  std::atomic<bool> hasAgreed = false;
};

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_MPIRUN_H
