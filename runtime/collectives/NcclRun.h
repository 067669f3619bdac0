// Collectives of tensors in a GPU's memory.
#ifndef KILN_RUNTIME_COLLECTIVES_NCCLRUN_H
#define KILN_RUNTIME_COLLECTIVES_NCCLRUN_H

#include "NcclCommunicator.h"

#include <atomic>

namespace kiln::collectives {

class NcclRun {
public:
  /// Throws a Failure.
  NcclRun(const Call &call, const kiln_extern_host &host);
  /// Puts it on the device's stream, which is waited for only if sizes have to be compared.
  void run(const kiln_extern_device &device, const char *input, char *result, const Sizes &sizes);
  /// Throws a Failure if something that has been put on a stream was given up.
  void check() { group->check(); }

private:
  ncclResult_t start(ncclComm_t comm, void *stream, const char *input, char *result,
                     const Sizes &sizes) const;
  ncclResult_t exchange(ncclComm_t comm, void *stream, const char *input, char *result,
                        const Sizes &sizes) const;

  const Call &call;
  const Nccl &nccl;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  std::shared_ptr<NcclCommunicator> group;
  int64_t timeout;
  std::atomic<bool> hasAgreed = false;
};

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_NCCLRUN_H
