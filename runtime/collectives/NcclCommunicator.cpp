// Communicators of NCCL: made or the host's, and given up when a process does not come.
#include "NcclCommunicator.h"

#include "Agreement.h"
#include "Gpu.h"
#include "UniqueId.h"

#include <map>
#include <unistd.h>
#include <vector>

using namespace kiln;
using namespace kiln::collectives;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

static Failure describeTimeout(int64_t timeout) {
  return {KILN_DEVICE_ERROR, "not all processes came within " + std::to_string(timeout) +
                                 " ms (collective_timeout): one has ended or failed, or runs "
                                 "another program"};
}

//===-- Making ---------------------------------------------------------------------------------===//

/// A communicator whose calls do not block, so that a process that never comes can be given up.
static ncclComm_t makeComm(const Member &member, int64_t timeout) {
  const Nccl &nccl = Nccl::get();
  ncclConfig_t config = {sizeof config, NCCL_CONFIG_MAGIC, NCCL_CONFIG_VERSION, /*blocking=*/0,
                         NCCL_CONFIG_UNDEFINED};
  ncclComm_t comm = nullptr;
  // Who has come by the end has read it.
  std::unique_ptr<const char, int (*)(const char *)> file(
      member.file.empty() ? nullptr : member.file.c_str(), unlink);
  auto deadline = steady_clock::now() + milliseconds(timeout);
  ncclResult_t result =
      nccl.ncclCommInitRankConfig(&comm, member.size, member.id, member.rank, &config);
  while (comm && (result == ncclSuccess || result == ncclInProgress)) {
    ncclResult_t asked = nccl.ncclCommGetAsyncError(comm, &result);
    result = asked == ncclSuccess ? result : asked;
    if (result == ncclSuccess)
      return comm;
    if (steady_clock::now() > deadline) {
      nccl.ncclCommAbort(comm);
      throw describeTimeout(timeout);
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  Failure failure = nccl.fail(result, "ncclCommInitRankConfig", comm);
  if (comm)
    nccl.ncclCommAbort(comm);
  throw failure;
}

static void checkGiven(int size, int device, const Call &call, int ordinal) {
  if (size != call.ranks)
    throw Failure{KILN_INVALID_ARGUMENT, "the program is for a group '" + call.group + "' of " +
                                             std::to_string(call.ranks) +
                                             " processes, and the host's communicator has " +
                                             std::to_string(size)};
  if (device != ordinal)
    throw Failure{KILN_INVALID_ARGUMENT, "the model is on cuda:" + std::to_string(ordinal) +
                                             ", and the host's communicator of the group '" +
                                             call.group + "' on cuda:" + std::to_string(device)};
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::get(const Call &call,
                                                        const kiln_extern_host &host) {
  static std::mutex mutex;
  // The host's live as long as a model that uses them; after that another may have the address.
  static auto *given = new std::map<ncclComm_t, std::weak_ptr<NcclCommunicator>>;
  // Never destroyed: models come and go, in an order that processes need not have in common.
  static auto *made = new std::map<int, std::shared_ptr<NcclCommunicator>>;
  const Nccl &nccl = Nccl::get();
  Entered entered(host.ordinal);
  auto *comm = static_cast<ncclComm_t>(
      host.communicator ? host.communicator(host.communicator_ctx, call.group.c_str(), call.ranks)
                        : nullptr);
  std::lock_guard<std::mutex> lock(mutex);
  if (comm) {
    std::weak_ptr<NcclCommunicator> &entry = (*given)[comm];
    std::shared_ptr<NcclCommunicator> known = entry.lock();
    if (known) {
      checkGiven(known->size, known->ordinal, call, host.ordinal);
      known->check();
      return known;
    }
    int size = 0, device = 0;
    nccl.check(nccl.ncclCommCount(comm, &size), "ncclCommCount", comm);
    nccl.check(nccl.ncclCommCuDevice(comm, &device), "ncclCommCuDevice", comm);
    checkGiven(size, device, call, host.ordinal);
    known.reset(new NcclCommunicator(comm, device));
    entry = known;
    return known;
  }
  std::shared_ptr<NcclCommunicator> &entry = (*made)[host.ordinal];
  if (entry && entry->size == call.ranks) {
    entry->check();
    return entry;
  }
  Member member = findMember(call, host); // which says how many there are if they are not enough
  entry.reset(new NcclCommunicator(makeComm(member, host.timeout), host.ordinal));
  return entry;
}

NcclCommunicator::NcclCommunicator(ncclComm_t comm, int ordinal)
    : nccl(Nccl::get()), ordinal(ordinal), comm(comm) {
  nccl.check(nccl.ncclCommCount(comm, &size), "ncclCommCount", comm);
  nccl.check(nccl.ncclCommUserRank(comm, &rank), "ncclCommUserRank", comm);
  watcher = std::thread([this] { watch(); });
}

NcclCommunicator::~NcclCommunicator() {
  {
    std::lock_guard<std::mutex> lock(state);
    isOver = true;
  }
  changed.notify_all();
  watcher.join();
  const Driver &driver = Driver::get();
  try {
    Entered entered(ordinal);
    for (const Mark &mark : marks)
      driver.cuEventDestroy_v2(mark.event);
    for (void *event : events)
      driver.cuEventDestroy_v2(event);
    if (memory)
      driver.cuMemFree_v2(memory);
  } catch (const Failure &) { // the driver is gone, and what it had with it
  }
}

//===-- Looking after what is under way -------------------------------------------------------===//

void NcclCommunicator::check() {
  std::lock_guard<std::mutex> lock(state);
  if (lost)
    throw *lost;
}

void NcclCommunicator::lose(const Failure &failure) {
  {
    std::lock_guard<std::mutex> lock(state);
    if (!lost)
      lost = failure;
  }
  std::lock_guard<std::mutex> lock(calls);
  if (comm)
    nccl.ncclCommAbort(comm);
  comm = nullptr;
}

void NcclCommunicator::look(std::unique_lock<std::mutex> &lock) {
  constexpr int isNotReady = 600; // CUDA_ERROR_NOT_READY
  Mark oldest = marks.front();
  bool isLost = lost.has_value();
  lock.unlock();
  std::optional<Failure> failure;
  int result = Driver::get().cuEventQuery(oldest.event);
  if (result == isNotReady && !isLost) {
    std::unique_lock<std::mutex> own(calls, std::try_to_lock);
    ncclResult_t error = ncclSuccess;
    if (own && comm && nccl.ncclCommGetAsyncError(comm, &error) == ncclSuccess &&
        error != ncclSuccess && error != ncclInProgress)
      failure = nccl.fail(error, "a collective has failed", comm);
    else if (steady_clock::now() > oldest.deadline)
      failure = describeTimeout(oldest.timeout);
  }
  if (failure)
    lose(*failure);
  lock.lock();
  if (result == isNotReady)
    return;
  // What has happened to the GPU says the stream to those that wait for it.
  marks.pop_front();
  events.push_back(oldest.event);
}

void NcclCommunicator::watch() {
  constexpr milliseconds pause(2);
  std::optional<Entered> entered;
  try {
    entered.emplace(ordinal);
  } catch (const Failure &failure) {
    return lose(failure);
  }
  std::unique_lock<std::mutex> lock(state);
  for (;;) {
    changed.wait(lock, [&] { return isOver || !marks.empty(); });
    while (!isOver && !marks.empty()) {
      size_t before = marks.size();
      look(lock);
      if (marks.size() >= before)
        changed.wait_for(lock, pause, [&] { return isOver; });
    }
    if (isOver)
      return;
  }
}

void NcclCommunicator::mark(const kiln_extern_device &device, int64_t timeout) {
  const Driver &driver = Driver::get();
  void *event = nullptr;
  std::unique_lock<std::mutex> lock(state);
  if (!events.empty()) {
    event = events.back();
    events.pop_back();
  }
  lock.unlock();
  constexpr unsigned withoutTime = 2; // CU_EVENT_DISABLE_TIMING
  if (!event)
    Driver::check(driver.cuEventCreate(&event, withoutTime), "no event");
  int result = driver.cuEventRecord(event, device.stream);
  lock.lock();
  if (result)
    events.push_back(event);
  else
    marks.push_back({event, steady_clock::now() + milliseconds(timeout), timeout});
  lock.unlock();
  changed.notify_all();
  Driver::check(result, "cannot mark a collective's end");
}

//===-- Collectives ----------------------------------------------------------------------------===//

ncclResult_t NcclCommunicator::settle(ncclResult_t result, Time deadline) {
  while (result == ncclInProgress && steady_clock::now() < deadline) {
    std::this_thread::yield();
    ncclResult_t asked = nccl.ncclCommGetAsyncError(comm, &result);
    result = asked == ncclSuccess ? result : asked;
  }
  return result;
}

void NcclCommunicator::run(const char *what, const kiln_extern_device &device, int64_t timeout,
                           const Start &start) {
  std::optional<Failure> failure;
  check();
  {
    std::lock_guard<std::mutex> lock(calls);
    if (comm) {
      ncclResult_t result = settle(start(comm), steady_clock::now() + milliseconds(timeout));
      if (result == ncclInProgress)
        failure = describeTimeout(timeout);
      else if (result != ncclSuccess)
        failure = nccl.fail(result, what, comm);
    }
  }
  if (failure)
    lose(*failure);
  check();
  // A graph that the stream becomes part of is its owner's.
  if (!device.is_captured)
    mark(device, timeout);
}

void NcclCommunicator::agree(const Call &call, const Sizes &sizes, const kiln_extern_device &device,
                             int64_t timeout) {
  const Driver &driver = Driver::get();
  size_t needed = getAgreementBytes(call);
  if (needed > memoryBytes) {
    Entered entered(ordinal);
    if (memory)
      driver.cuMemFree_v2(memory);
    memoryBytes = 0;
    memory = 0;
    Driver::check(driver.cuMemAlloc_v2(&memory, needed), "no memory on the GPU for an agreement");
    memoryBytes = needed;
  }
  std::vector<char> statements(needed);
  auto gather = [&](char *data, size_t bytes) {
    auto place = [&](size_t offset) { return reinterpret_cast<void *>(memory + offset); };
    size_t own = rank * bytes;
    Driver::check(driver.cuMemcpyHtoDAsync_v2(memory + own, data + own, bytes, device.stream),
                  "cannot copy to the GPU");
    run("ncclAllGather", device, timeout, [&](ncclComm_t comm) {
      return nccl.ncclAllGather(place(own), place(0), bytes, ncclUint8, comm, device.stream);
    });
    Driver::check(driver.cuMemcpyDtoHAsync_v2(data, memory, bytes * size, device.stream),
                  "cannot copy from the GPU");
    int result = driver.cuStreamSynchronize(device.stream);
    check();
    Driver::check(result, "the processes cannot agree");
  };
  collectives::agree(call, sizes, rank, statements.data(), gather);
}
