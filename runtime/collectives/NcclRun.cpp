// Collectives by NCCL, on the stream of a run.
#include "NcclRun.h"

#include <map>

using namespace kiln::collectives;

/// What NCCL combines; it has no integers of 16 bits.
static ncclDataType_t findType(const Call &call) {
  static const std::map<std::pair<int, int>, ncclDataType_t> types = {
      {{kDLInt, 8}, ncclInt8},         {{kDLUInt, 8}, ncclUint8},     {{kDLInt, 32}, ncclInt32},
      {{kDLUInt, 32}, ncclUint32},     {{kDLInt, 64}, ncclInt64},     {{kDLUInt, 64}, ncclUint64},
      {{kDLFloat, 16}, ncclFloat16},   {{kDLFloat, 32}, ncclFloat32}, {{kDLFloat, 64}, ncclFloat64},
      {{kDLBfloat, 16}, ncclBfloat16}, {{kDLBool, 8}, ncclUint8}};
  auto found = types.find({call.type.code, call.type.bits});
  if (found == types.end())
    throw Failure{KILN_UNSUPPORTED, std::string("NCCL does not combine ") +
                                        (call.type.code == kDLInt ? "int" : "uint") +
                                        std::to_string(call.type.bits) +
                                        ": cast it to int32 before"};
  return found->second;
}

/// Of bytes that are 0 or 1, too.
static ncclRedOp_t findOp(const Call &call) {
  bool isBool = call.type.code == kDLBool;
  switch (call.reduction) {
  case Reduction::Average:
    return ncclAvg;
  case Reduction::Min:
    return ncclMin;
  case Reduction::Max:
    return ncclMax;
  case Reduction::Product:
    return isBool ? ncclMin : ncclProd;
  default:
    return isBool ? ncclMax : ncclSum;
  }
}

NcclRun::NcclRun(const Call &call, const kiln_extern_host &host)
    : call(call), nccl(Nccl::get()), timeout(host.timeout) {
  if (call.reduction != Reduction::None) {
    type = findType(call);
    op = findOp(call);
  }
  group = NcclCommunicator::get(call, host);
}

void NcclRun::run(const kiln_extern_device &device, const char *input, char *result,
                  const Sizes &sizes) {
  std::lock_guard<std::mutex> lock(group->mutex);
  // Sizes that are the same in every run are compared once. A captured run cannot wait.
  if (!hasAgreed && !device.is_captured) {
    group->agree(call, sizes, device, timeout);
    hasAgreed = call.isStatic;
  }
  group->run(call.name.c_str(), device, timeout,
             [&](ncclComm_t comm) { return start(comm, device.stream, input, result, sizes); });
}

ncclResult_t NcclRun::start(ncclComm_t comm, void *stream, const char *input, char *result,
                            const Sizes &sizes) const {
  switch (call.kind) {
  case Kind::AllReduce:
    return nccl.ncclAllReduce(input, result, sizes.input, type, op, comm, stream);
  case Kind::ReduceScatter:
    return nccl.ncclReduceScatter(input, result, sizes.result, type, op, comm, stream);
  case Kind::AllGather:
    return nccl.ncclAllGather(input, result, sizes.input * call.itemBytes, type, comm, stream);
  case Kind::Broadcast:
    return nccl.ncclBroadcast(input, result, sizes.input * call.itemBytes, type, call.root, comm,
                              stream);
  case Kind::AllToAll:
    return exchange(comm, stream, input, result, sizes);
  }
  return ncclInternalError;
}

/// Parts that are empty in one process are so in the other one.
ncclResult_t NcclRun::exchange(ncclComm_t comm, void *stream, const char *input, char *result,
                               const Sizes &sizes) const {
  ncclResult_t status = nccl.ncclGroupStart();
  for (int peer = 0; peer < call.ranks && status == ncclSuccess; ++peer) {
    size_t sent = sizes.send[peer] * call.itemBytes, taken = sizes.receive[peer] * call.itemBytes;
    if (sent)
      status = nccl.ncclSend(input, sent, type, peer, comm, stream);
    if (taken && status == ncclSuccess)
      status = nccl.ncclRecv(result, taken, type, peer, comm, stream);
    input += sent;
    result += taken;
  }
  ncclResult_t end = nccl.ncclGroupEnd();
  return status == ncclSuccess ? end : status;
}
