// Communicators of Open MPI: found or copied, and waited for with a deadline.
#include "MpiCommunicator.h"

#include "Agreement.h"

#include <chrono>
#include <map>
#include <sched.h>
#include <thread>

using namespace kiln;
using namespace kiln::collectives;

/// Starts something and waits for its end.
static void wait(const Mpi &mpi, const MpiCommunicator::Start &start, MPI_Comm comm,
                 const char *what, int64_t timeout) {
  checkLost();
  constexpr int spins = 1000, yields = 2000;
  MPI_Request request = nullptr;
  auto begin = std::chrono::steady_clock::now();
  int code = start(comm, &request), isOver = 0;
  for (int i = 0; code == success; ++i) {
    code = mpi.Test(&request, &isOver, nullptr);
    if (isOver || code != success)
      break;
    if (i < spins)
      continue;
    if (i < yields) // there may be more processes than CPUs
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(timeout))
      throw lose(timeout);
  }
  try {
    mpi.check(code, what);
  } catch (const Failure &) {
    lose(timeout);
    throw;
  }
}

MpiCommunicator::MpiCommunicator(MPI_Comm comm) : mpi(Mpi::get(/*timeout=*/0)), comm(comm) {
  mpi.check(mpi.Comm_set_errhandler(comm, mpi.errorsReturn), "MPI_Comm_set_errhandler");
  mpi.check(mpi.Comm_size(comm, &size), "MPI_Comm_size");
  mpi.check(mpi.Comm_rank(comm, &rank), "MPI_Comm_rank");
}

MpiCommunicator::~MpiCommunicator() {
  if (isAnyLost())
    memory.release(); // it may still be written
}

std::shared_ptr<MpiCommunicator> MpiCommunicator::get(const Call &call,
                                                      const kiln_extern_host &host) {
  static std::mutex mutex;
  // The host's live as long as a model that uses them; after that another may have the address.
  static auto *known = new std::map<MPI_Comm, std::weak_ptr<MpiCommunicator>>;
  // Never destroyed: models come and go, in an order that processes need not have in common.
  static auto *made = new std::shared_ptr<MpiCommunicator>;
  const Mpi &mpi = Mpi::get(host.timeout);
  mpi.checkThread();
  MPI_Comm given = host.communicator
                       ? host.communicator(host.communicator_ctx, call.group.c_str(), call.ranks)
                       : nullptr;
  int size = 0;
  mpi.check(mpi.Comm_size(given ? given : mpi.world, &size), "MPI_Comm_size");
  if (size != call.ranks)
    throw Failure{KILN_INVALID_ARGUMENT,
                  "the program is for a group '" + call.group + "' of " +
                      std::to_string(call.ranks) + " processes, and " +
                      (given ? "the host's communicator" : std::string("MPI_COMM_WORLD")) +
                      " has " + std::to_string(size) +
                      (given ? ""
                             : ": mpirun -n " + std::to_string(call.ranks) +
                                   " starts as many, and "
                                   "kiln_options.communicator gives one for each group")};
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<MpiCommunicator> found = given ? (*known)[given].lock() : *made;
  if (found)
    return found;
  // The host may use MPI_COMM_WORLD, too. What is not over when the time is may still be written.
  static MPI_Comm copy;
  if (!given)
    wait(mpi, Start([&](MPI_Comm from, MPI_Request *request) {
           return mpi.Comm_idup(from, &copy, request);
         }),
         mpi.world, "MPI_Comm_idup", host.timeout);
  found.reset(new MpiCommunicator(given ? given : copy));
  if (given)
    (*known)[given] = found;
  else
    *made = found;
  return found;
}

void MpiCommunicator::run(const char *what, int64_t timeout, const Start &start) {
  mpi.checkThread();
  wait(mpi, start, comm, what, timeout);
}

char *MpiCommunicator::reserve(size_t bytes) {
  checkLost(); // else it may still be written
  if (bytes > memoryBytes) {
    memory.reset(); // first, so that both are never there together
    memoryBytes = 0;
    memory.reset(new char[bytes]);
    memoryBytes = bytes;
  }
  return memory.get();
}

void MpiCommunicator::agree(const Call &call, const Sizes &sizes, int64_t timeout) {
  auto gather = [&](char *data, size_t bytes) {
    run("MPI_Iallgather", timeout, [&](MPI_Comm comm, MPI_Request *request) {
      return mpi.Iallgather(inPlace, 0, mpi.byte, data, static_cast<int>(bytes), mpi.byte, comm,
                            request);
    });
  };
  collectives::agree(call, sizes, rank, reserve(getAgreementBytes(call)), gather);
}
