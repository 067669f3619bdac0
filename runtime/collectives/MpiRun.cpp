// Collectives by Open MPI. Data go through memory of this library's, piece by piece: what a process
// waits for in vain may still be written when the model's memory has other uses.
#include "MpiRun.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace kiln::collectives;

/// A size that fits a CPU's caches, and is more than what starting a collective costs.
static constexpr uint64_t pieceBytes = uint64_t(2) << 20;

MpiRun::MpiRun(const Call &call, const kiln_extern_host &host)
    : call(call), mpi(Mpi::get(host.timeout)), group(MpiCommunicator::get(call, host)),
      timeout(host.timeout) {
  if (call.reduction != Reduction::None)
    reduction = getReduction(call);
}

void MpiRun::run(const char *input, char *result, const Sizes &sizes) {
  std::lock_guard<std::mutex> lock(group->mutex);
  // Sizes that are the same in every run are compared once.
  if (!hasAgreed)
    group->agree(call, sizes, timeout);
  hasAgreed = call.isStatic;
  switch (call.kind) {
  case Kind::AllReduce:
    return allReduce(input, result, sizes.input);
  case Kind::ReduceScatter:
    return reduceScatter(input, result, sizes.result);
  case Kind::AllGather:
    return allGather(input, result, sizes.input);
  case Kind::AllToAll:
    return exchange(input, result, sizes);
  case Kind::Broadcast:
    return broadcast(input, result, sizes.input);
  }
}

template <typename Body> void MpiRun::forPieces(uint64_t count, uint64_t ranks, Body body) {
  uint64_t piece = std::max<uint64_t>(1, pieceBytes / call.itemBytes / ranks);
  for (uint64_t first = 0; first < count; first += piece)
    body(first, static_cast<int>(std::min(piece, count - first)));
}

void MpiRun::finish(char *data, char *result, uint64_t count) {
  if (call.reduction == Reduction::Average)
    divide(call, data, count);
  memcpy(result, data, count * call.itemBytes);
}

void MpiRun::allReduce(const char *input, char *result, uint64_t count) {
  forPieces(count, 1, [&](uint64_t first, int size) {
    size_t at = first * call.itemBytes, bytes = size * call.itemBytes;
    char *data = group->reserve(bytes);
    memcpy(data, input + at, bytes);
    group->run("MPI_Iallreduce", timeout, [&](MPI_Comm comm, MPI_Request *request) {
      return mpi.Iallreduce(inPlace, data, size, reduction.type, reduction.op, comm, request);
    });
    finish(data, result + at, size);
  });
}

void MpiRun::reduceScatter(const char *input, char *result, uint64_t count) {
  forPieces(count, call.ranks, [&](uint64_t first, int size) {
    size_t at = first * call.itemBytes, bytes = size * call.itemBytes;
    char *data = group->reserve(bytes * call.ranks);
    for (int64_t rank = 0; rank < call.ranks; ++rank)
      memcpy(data + rank * bytes, input + rank * count * call.itemBytes + at, bytes);
    group->run("MPI_Ireduce_scatter_block", timeout, [&](MPI_Comm comm, MPI_Request *request) {
      return mpi.Ireduce_scatter_block(inPlace, data, size, reduction.type, reduction.op, comm,
                                       request);
    });
    finish(data, result + at, size);
  });
}

void MpiRun::allGather(const char *input, char *result, uint64_t count) {
  forPieces(count, call.ranks, [&](uint64_t first, int size) {
    size_t at = first * call.itemBytes, bytes = size * call.itemBytes;
    char *data = group->reserve(bytes * call.ranks);
    memcpy(data + group->rank * bytes, input + at, bytes);
    group->run("MPI_Iallgather", timeout, [&](MPI_Comm comm, MPI_Request *request) {
      return mpi.Iallgather(inPlace, 0, mpi.byte, data, static_cast<int>(bytes), mpi.byte, comm,
                            request);
    });
    for (int64_t rank = 0; rank < call.ranks; ++rank)
      memcpy(result + rank * count * call.itemBytes + at, data + rank * bytes, bytes);
  });
}

void MpiRun::broadcast(const char *input, char *result, uint64_t count) {
  forPieces(count, 1, [&](uint64_t first, int size) {
    size_t at = first * call.itemBytes, bytes = size * call.itemBytes;
    char *data = group->reserve(bytes);
    memcpy(data, input + at, bytes);
    group->run("MPI_Ibcast", timeout, [&](MPI_Comm comm, MPI_Request *request) {
      return mpi.Ibcast(data, static_cast<int>(bytes), mpi.byte, call.root, comm, request);
    });
    memcpy(result + at, data, bytes);
  });
}

/// Writes the counts and the places of the parts, in bytes.
static void place(const std::vector<uint64_t> &parts, size_t itemBytes, int *counts, int *places) {
  uint64_t at = 0;
  for (uint64_t part : parts) {
    *places++ = static_cast<int>(at);
    *counts++ = static_cast<int>(part * itemBytes);
    at += part * itemBytes;
  }
}

void MpiRun::exchange(const char *input, char *result, const Sizes &sizes) {
  size_t inBytes = sizes.input * call.itemBytes, outBytes = sizes.result * call.itemBytes;
  if (std::max(inBytes, outBytes) > static_cast<size_t>(std::numeric_limits<int>::max()))
    throw Failure{KILN_UNSUPPORTED, "a process sends or receives more than 2 GiB at once"};
  // All that MPI reads until it is over.
  size_t ranks = call.ranks;
  char *memory = group->reserve(4 * ranks * sizeof(int) + inBytes + outBytes);
  auto *counts = reinterpret_cast<int *>(memory);
  int *places = counts + ranks, *taken = places + ranks, *targets = taken + ranks;
  place(sizes.send, call.itemBytes, counts, places);
  place(sizes.receive, call.itemBytes, taken, targets);
  char *data = memory + 4 * ranks * sizeof(int);
  memcpy(data, input, inBytes);
  group->run("MPI_Ialltoallv", timeout, [&](MPI_Comm comm, MPI_Request *request) {
    return mpi.Ialltoallv(data, counts, places, mpi.byte, data + inBytes, taken, targets, mpi.byte,
                          comm, request);
  });
  memcpy(result, data + inBytes, outBytes);
}
