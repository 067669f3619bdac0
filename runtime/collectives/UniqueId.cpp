// How the identifier comes to the processes: in a file, as NCCL_COMM_ID, or by MPI.
#include "UniqueId.h"

#include "MpiCommunicator.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <unistd.h>

using namespace kiln::collectives;

namespace {
/// What is in the file.
struct Letter {
  char magic[8];
  int64_t size;
  ncclUniqueId id;
};
constexpr char magic[8] = {'k', 'i', 'l', 'n', 'n', 'c', 'c', 'l'};
} // namespace

static const char *getVariable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : nullptr;
}

/// Of the environment; -1: there is none.
static int getNumber(const char *name) {
  const char *value = getVariable(name);
  if (!value)
    return -1;
  char *end = nullptr;
  long number = strtol(value, &end, 10);
  if (*end || number < 0 || number > 1 << 20)
    throw Failure{KILN_INVALID_ARGUMENT,
                  std::string(name) + "=" + value + ": expected a number of a process"};
  return static_cast<int>(number);
}

static void write(const std::string &file, const Letter &letter) {
  std::string draft = file + "." + std::to_string(getpid());
  FILE *stream = fopen(draft.c_str(), "wbe");
  bool isWritten = stream && fwrite(&letter, sizeof letter, 1, stream) == 1;
  isWritten = stream && fclose(stream) == 0 && isWritten;
  if (!isWritten || rename(draft.c_str(), file.c_str()) != 0) {
    std::string reason = strerror(errno);
    unlink(draft.c_str());
    throw Failure{KILN_INVALID_ARGUMENT, "KILN_NCCL_ID_FILE: cannot write " + file + ": " + reason};
  }
}

static ncclUniqueId read(const std::string &file, int64_t size, int64_t timeout) {
  auto begin = std::chrono::steady_clock::now();
  for (;;) {
    Letter letter;
    FILE *stream = fopen(file.c_str(), "rbe");
    bool isThere = stream && fread(&letter, sizeof letter, 1, stream) == 1;
    if (stream)
      fclose(stream);
    if (isThere && (memcmp(letter.magic, magic, sizeof magic) != 0 || letter.size != size))
      throw Failure{KILN_INVALID_ARGUMENT, "KILN_NCCL_ID_FILE: " + file +
                                               " is not that of process 0 of these: it must not "
                                               "be there when they are started"};
    if (isThere)
      return letter.id;
    if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(timeout))
      throw Failure{KILN_DEVICE_ERROR, "KILN_NCCL_ID_FILE: process 0 has not written " + file +
                                           " within " + std::to_string(timeout) +
                                           " ms (collective_timeout)"};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

static ncclUniqueId makeId() {
  ncclUniqueId id;
  Nccl::get().check(Nccl::get().ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

static Member findByMpi(const Call &call, kiln_extern_host host) {
  host.communicator = nullptr;
  std::shared_ptr<MpiCommunicator> group = MpiCommunicator::get(call, host);
  Member member = {group->rank, group->size, {}, ""};
  std::lock_guard<std::mutex> lock(group->mutex);
  char *data = group->reserve(sizeof member.id); // which may be written later if somebody is lost
  if (!member.rank) {
    member.id = makeId();
    memcpy(data, &member.id, sizeof member.id);
  }
  group->run("MPI_Ibcast", host.timeout, [&](MPI_Comm comm, MPI_Request *request) {
    const Mpi &mpi = Mpi::get(host.timeout);
    return mpi.Ibcast(data, sizeof member.id, mpi.byte, /*root=*/0, comm, request);
  });
  memcpy(&member.id, data, sizeof member.id);
  return member;
}

Member kiln::collectives::findMember(const Call &call, const kiln_extern_host &host) {
  const char *file = getVariable("KILN_NCCL_ID_FILE");
  const char *address = getVariable("NCCL_COMM_ID"); // NCCL's own: all make the same identifier
  Member member = {getNumber("RANK"), getNumber("WORLD_SIZE"), {}, ""};
  if (member.rank < 0 || member.size < 0) {
    member.rank = getNumber("OMPI_COMM_WORLD_RANK");
    member.size = getNumber("OMPI_COMM_WORLD_SIZE");
    if (!file && !address && member.size > 1)
      return findByMpi(call, host);
  }
  if (call.ranks == 1 && member.size < 0)
    member.rank = 0, member.size = 1;
  if (member.rank < 0 || member.size < 0)
    throw Failure{KILN_INVALID_ARGUMENT,
                  "the program is for a group '" + call.group + "' of " +
                      std::to_string(call.ranks) +
                      " processes, and nothing says which of them this is: start them by mpirun, "
                      "or by torchrun with KILN_NCCL_ID_FILE, or give communicators "
                      "(kiln_options.communicator)"};
  if (member.size != call.ranks || member.rank >= member.size)
    throw Failure{KILN_INVALID_ARGUMENT,
                  "the program is for a group '" + call.group + "' of " +
                      std::to_string(call.ranks) + " processes, and this is process " +
                      std::to_string(member.rank) + " of " + std::to_string(member.size) +
                      ": start as many, or give a communicator for each group "
                      "(kiln_options.communicator)"};
  if (member.size == 1 || (address && !file)) {
    member.id = makeId();
    return member;
  }
  if (!file)
    throw Failure{KILN_INVALID_ARGUMENT,
                  "the processes have no way to find each other: KILN_NCCL_ID_FILE has to name a "
                  "file that all of them reach and that is not there yet, or NCCL_COMM_ID an "
                  "address of process 0"};
  if (member.rank) {
    member.id = read(file, member.size, host.timeout);
  } else {
    Letter letter = {{}, member.size, makeId()};
    memcpy(letter.magic, magic, sizeof magic);
    write(file, letter);
    member.id = letter.id;
    member.file = file;
  }
  return member;
}
