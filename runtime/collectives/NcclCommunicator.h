// A communicator of NCCL's, and a thread that looks after what it has under way on streams.
#ifndef KILN_RUNTIME_COLLECTIVES_NCCLCOMMUNICATOR_H
#define KILN_RUNTIME_COLLECTIVES_NCCLCOMMUNICATOR_H

#include "Call.h"
#include "NcclLibrary.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace kiln::collectives {

class NcclCommunicator {
public:
  /// That of the call's group, on the model's GPU. Waits for all processes of a group that the host
  /// has no communicator for. Throws a Failure.
  static std::shared_ptr<NcclCommunicator> get(const Call &call, const kiln_extern_host &host);
  ~NcclCommunicator();

  /// All processes have to say the same of the call. Waits for them and for the stream. Throws a
  /// Failure, in all of them, if they do not.
  void agree(const Call &call, const Sizes &sizes, const kiln_extern_device &device,
             int64_t timeout);

  using Start = std::function<ncclResult_t(ncclComm_t comm)>;
  /// Puts a collective on the stream. If it has not ended in time, the communicator is lost. Throws
  /// a Failure.
  void run(const char *what, const kiln_extern_device &device, int64_t timeout, const Start &start);

  /// Throws a Failure if the communicator has been lost.
  void check();

  /// Held by the thread whose collective it is.
  std::mutex mutex;

private:
  using Time = std::chrono::steady_clock::time_point;
  /// A mark on a stream behind a collective.
  struct Mark {
    void *event;
    Time deadline;
    int64_t timeout;
  };

  NcclCommunicator(ncclComm_t comm, int ordinal);
  NcclCommunicator(const NcclCommunicator &) = delete;
  /// Waits while NCCL is at work on a call.
  ncclResult_t settle(ncclResult_t result, Time deadline);
  /// Ends all that is under way; nothing is begun any more.
  void lose(const Failure &failure);
  void mark(const kiln_extern_device &device, int64_t timeout);
  void watch();
  /// Looks at the oldest mark.
  void look(std::unique_lock<std::mutex> &lock);

  const Nccl &nccl;
  int rank = 0, size = 0, ordinal;

  std::mutex calls; // of NCCL: held during each
  ncclComm_t comm;  // null: aborted

  std::mutex state; // of what follows
  std::condition_variable changed;
  std::deque<Mark> marks;
  std::deque<void *> events; // to be used again
  std::optional<Failure> lost;
  bool isOver = false;

  uint64_t memory = 0; // the GPU's, for agreements
  size_t memoryBytes = 0;
  std::thread watcher;
};

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_NCCLCOMMUNICATOR_H
