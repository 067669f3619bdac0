// NCCL's identifier of a communicator, which one process makes and all have to know.
#ifndef KILN_RUNTIME_COLLECTIVES_UNIQUEID_H
#define KILN_RUNTIME_COLLECTIVES_UNIQUEID_H

#include "Call.h"
#include "NcclLibrary.h"

namespace kiln::collectives {

/// This process among those that were started together.
struct Member {
  int rank, size;
  ncclUniqueId id;
  std::string file; // that process 0 has written for the others; empty: none
};

/// The processes that torchrun or mpirun has started, who have to be as many as the call's group.
/// Waits for those that it takes to know the identifier. Throws a Failure.
Member findMember(const Call &call, const kiln_extern_host &host);

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_UNIQUEID_H
