// The processes of a group, and how they wait for each other: with a deadline.
#ifndef KILN_RUNTIME_COLLECTIVES_MPICOMMUNICATOR_H
#define KILN_RUNTIME_COLLECTIVES_MPICOMMUNICATOR_H

#include "Call.h"
#include "Mpi.h"

#include <functional>
#include <memory>
#include <mutex>

namespace kiln::collectives {

class MpiCommunicator {
public:
  /// The communicator of the call's group. Waits for all processes of a group that the host has no communicator
  /// for. Throws a Failure.
  static std::shared_ptr<MpiCommunicator> get(const Call &call, const kiln_extern_host &host);
  ~MpiCommunicator();
  /// All processes have to say the same of the call. Throws a Failure, in all of them, if they
  /// do not.
  void agree(const Call &call, const Sizes &sizes, int64_t timeout);

  /// The state that a collective starts with.
  using Start = std::function<int(MPI_Comm comm, MPI_Request *request)>;
  /// Starts a collective and waits until its data may be used. Throws a Failure.
  void run(const char *what, int64_t timeout, const Start &start);

  /// Memory for a collective's data, which nothing frees once a process has been lost.
  char *reserve(size_t bytes);

  int rank = 0, size = 0;
  /// Held by the thread whose collective it is.
  std::mutex mutex;

private:
  explicit MpiCommunicator(MPI_Comm comm);
  MpiCommunicator(const MpiCommunicator &) = delete;

  const Mpi &mpi;
  MPI_Comm comm;
  std::unique_ptr<char[]> memory;
  size_t memoryBytes = 0;
};

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_MPICOMMUNICATOR_H
