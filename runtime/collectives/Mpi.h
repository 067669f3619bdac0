// Open MPI, found by name. Its handles are pointers; those of MPICH and what is made of it are numbers.
#ifndef KILN_RUNTIME_COLLECTIVES_MPI_H
#define KILN_RUNTIME_COLLECTIVES_MPI_H

#include "ExternFailure.h"

#include <string>

namespace kiln::collectives {

using externs::Failure;

using MPI_Comm = void *;
using MPI_Datatype = void *;
using MPI_Op = void *;
using MPI_Errhandler = void *;
using MPI_Request = void *;
using MPI_User_function = void(void *in, void *inout, int *count, MPI_Datatype *type);

/// `MPI_IN_PLACE`, `MPI_SUCCESS` and the levels of threads of Open MPI.
inline void *const inPlace = reinterpret_cast<void *>(1);
constexpr int success = 0, threadSerialized = 2, threadMultiple = 3;

// MPI_Status is not looked at: a null pointer is MPI_STATUS_IGNORE.
#define KILN_MPI_FUNCTIONS(X)                                                                      \
  X(Initialized, (int *flag))                                                                      \
  X(Finalized, (int *flag))                                                                        \
  X(Init_thread, (int *argc, char ***argv, int required, int *provided))                           \
  X(Query_thread, (int *provided))                                                                 \
  X(Is_thread_main, (int *flag))                                                                   \
  X(Finalize, ())                                                                                  \
  X(Comm_size, (MPI_Comm comm, int *size))                                                         \
  X(Comm_rank, (MPI_Comm comm, int *rank))                                                         \
  X(Comm_idup, (MPI_Comm comm, MPI_Comm * made, MPI_Request * request))                            \
  X(Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler))                                  \
  X(Error_string, (int code, char *text, int *length))                                             \
  X(Op_create, (MPI_User_function * function, int commutes, MPI_Op *made))                         \
  X(Test, (MPI_Request * request, int *flag, void *status))                                        \
  X(Iallreduce, (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,               \
                 MPI_Comm comm, MPI_Request *request))                                             \
  X(Ireduce_scatter_block, (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,    \
                            MPI_Comm comm, MPI_Request *request))                                  \
  X(Iallgather, (const void *in, int inCount, MPI_Datatype inType, void *out, int outCount,        \
                 MPI_Datatype outType, MPI_Comm comm, MPI_Request *request))                       \
  X(Ialltoallv, (const void *in, const int *inCounts, const int *inPlaces, MPI_Datatype inType,    \
                 void *out, const int *outCounts, const int *outPlaces, MPI_Datatype outType,      \
                 MPI_Comm comm, MPI_Request *request))                                             \
  X(Ibcast,                                                                                        \
    (void *data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request))

struct Mpi {
#define KILN_MPI_POINTER(name, parameters) int(*name) parameters;
  KILN_MPI_FUNCTIONS(KILN_MPI_POINTER)
#undef KILN_MPI_POINTER
  void *handle; // of dlopen
  MPI_Comm world;
  MPI_Datatype byte;
  MPI_Errhandler errorsReturn;
  bool isSerial; // only one thread, the first one, may call it

  /// Loaded and initialised when it is first asked for, which takes all processes: they have this
  /// many milliseconds. Throws a Failure.
  static const Mpi &get(int64_t timeout);
  /// A constant of Open MPI's, `ompi_mpi_float`. Throws a Failure.
  void *find(const char *symbol) const;
  /// Throws a Failure unless `code` is success.
  void check(int code, const char *what) const;
  /// Throws a Failure if this thread may not call it.
  void checkThread() const;
};

/// Some process did not come in time: what was begun may go on behind this one's back, so nothing
/// else is begun. Returns what to throw.
Failure lose(int64_t timeout);
/// That has happened.
bool isAnyLost();
/// Throws a Failure if it has.
void checkLost();

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_MPI_H
