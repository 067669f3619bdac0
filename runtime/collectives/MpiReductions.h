// The types and operations of reductions.
#ifndef KILN_RUNTIME_COLLECTIVES_MPIREDUCTIONS_H
#define KILN_RUNTIME_COLLECTIVES_MPIREDUCTIONS_H

#include "Call.h"
#include "Mpi.h"

namespace kiln::collectives {

struct MpiReduction {
  MPI_Datatype type;
  MPI_Op op;
};

/// The operation of a call that combines tensors. An average is a sum here. Throws a Failure.
MpiReduction getReduction(const Call &call);

/// Divides by the number of processes: what is left of an average.
void divide(const Call &call, char *data, uint64_t count);

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_MPIREDUCTIONS_H
