// Own code or that of an external generator: whichever is faster here.
#ifndef KILN_LIB_PIPELINE_CHOOSEEXTERN_H
#define KILN_LIB_PIPELINE_CHOOSEEXTERN_H

#include "kiln/Extern/ExternGenerator.h"
#include "kiln/Pipeline/Compile.h"

namespace kiln {

/// Has `session` leave each function to its generator only where that is faster than own code, both
/// compiled and measured alone with the sizes of the first call.
void chooseByTime(externs::ExternSession &session, const CompileOptions &options);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_CHOOSEEXTERN_H
