// Finds Open MPI, and initialises it where the host has not.
#include "Mpi.h"
#include "ExternLibrary.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

using namespace kiln::collectives;

static constexpr const char *world = "ompi_mpi_comm_world";

static std::atomic<bool> isLost;

Failure kiln::collectives::lose(int64_t timeout) {
  isLost = true;
  return {KILN_DEVICE_ERROR, "not all processes came within " + std::to_string(timeout) +
                                 " ms (collective_timeout): one has ended or failed, or runs "
                                 "another program"};
}

bool kiln::collectives::isAnyLost() { return isLost; }

void kiln::collectives::checkLost() {
  if (isLost)
    throw Failure{KILN_DEVICE_ERROR, "the processes have lost each other before"};
}

static void *open() {
  // A host that is linked with another MPI would not find its processes in this one.
  if (dlsym(RTLD_DEFAULT, "MPI_Init") && !dlsym(RTLD_DEFAULT, world))
    throw Failure{KILN_UNSUPPORTED, "the host uses another MPI than Open MPI"};
  static const kiln::externs::LibraryName name = {
      "Open MPI", {"libmpi.so.40", "libmpi.so"}, "KILN_MPI_LIBRARY", "openmpi-bin"};
  // Its plug-ins look for its symbols among those of the process.
  void *handle = kiln::externs::openLibrary(name, RTLD_GLOBAL);
  if (dlsym(handle, world))
    return handle;
  dlclose(handle);
  throw Failure{KILN_UNSUPPORTED, "the MPI that is found is not Open MPI (MPICH's handles are "
                                  "numbers): install Open MPI (openmpi-bin); KILN_MPI_LIBRARY "
                                  "says where it is"};
}

static const Mpi *initialized;

/// Only if this library has initialised it. It would wait for processes that are lost.
static void finalize() {
  int isOver = 0;
  if (!isLost && initialized->Finalized(&isOver) == success && !isOver)
    initialized->Finalize();
}

/// Waits for all processes; a thread does, since nothing can interrupt it. Returns its level.
static int initialize(const Mpi &mpi, int64_t timeout) {
  struct State {
    std::mutex mutex;
    std::condition_variable isOver;
    int code = -1, level = 0;
  };
  auto state = std::make_shared<State>();
  std::thread([state, init = mpi.Init_thread] {
    int level = 0, code = init(nullptr, nullptr, threadMultiple, &level);
    std::lock_guard<std::mutex> lock(state->mutex);
    state->code = code;
    state->level = level;
    state->isOver.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(state->mutex);
  if (!state->isOver.wait_for(lock, std::chrono::milliseconds(timeout),
                              [&] { return state->code != -1; }))
    throw lose(timeout);
  mpi.check(state->code, "MPI_Init_thread");
  return state->level;
}

static Mpi load(int64_t timeout) {
  checkLost();
  Mpi mpi = {};
  mpi.handle = open();
#define KILN_MPI_FIND(name, parameters)                                                            \
  mpi.name = reinterpret_cast<int(*) parameters>(mpi.find("MPI_" #name));
  KILN_MPI_FUNCTIONS(KILN_MPI_FIND)
#undef KILN_MPI_FIND
  mpi.world = mpi.find(world);
  mpi.byte = mpi.find("ompi_mpi_byte");
  mpi.errorsReturn = mpi.find("ompi_mpi_errors_return");
  int flag = 0, level = 0;
  mpi.check(mpi.Finalized(&flag), "MPI_Finalized");
  if (flag)
    throw Failure{KILN_INVALID_ARGUMENT, "the host has finalised MPI"};
  mpi.check(mpi.Initialized(&flag), "MPI_Initialized");
  if (flag) {
    mpi.check(mpi.Query_thread(&level), "MPI_Query_thread");
  } else {
    level = initialize(mpi, timeout);
    static const Mpi copy = mpi;
    initialized = &copy;
    atexit(finalize);
  }
  mpi.isSerial = level < threadSerialized;
  return mpi;
}

const Mpi &Mpi::get(int64_t timeout) {
  // If it throws, the next call tries again.
  static const Mpi mpi = load(timeout);
  return mpi;
}

void *Mpi::find(const char *symbol) const {
  if (void *found = dlsym(handle, symbol))
    return found;
  throw Failure{KILN_UNSUPPORTED, "Open MPI has no " + std::string(symbol)};
}

void Mpi::check(int code, const char *what) const {
  if (code == success)
    return;
  char text[512] = {}; // more than MPI_MAX_ERROR_STRING
  int length = 0;
  Error_string(code, text, &length);
  throw Failure{KILN_DEVICE_ERROR, std::string(what) + ": " + text};
}

void Mpi::checkThread() const {
  int isMain = 1;
  if (isSerial)
    check(Is_thread_main(&isMain), "MPI_Is_thread_main");
  if (!isMain)
    throw Failure{KILN_INVALID_ARGUMENT, "the host has initialised MPI for its first thread alone, "
                                         "and this is another one: use MPI_Init_thread"};
}
