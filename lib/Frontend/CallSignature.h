// How Python calls a program, for the description of the compiled model.
#ifndef KILN_LIB_FRONTEND_CALLSIGNATURE_H
#define KILN_LIB_FRONTEND_CALLSIGNATURE_H

#include "kiln/Frontend/ExportedProgram.h"
#include <optional>
#include <string>

namespace kiln::frontend {

/// The signature as JSON, described in docs/abi.md; none if the archive does not say, or says something else than
/// its graph does.
std::optional<std::string> describeCall(const ExportedProgram &program);

} // namespace kiln::frontend

#endif // KILN_LIB_FRONTEND_CALLSIGNATURE_H
