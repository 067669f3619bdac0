// Finds the first pass or kernel that makes a program compute something else, with the reference interpreter as the judge.
#ifndef KILN_PIPELINE_BISECT_H
#define KILN_PIPELINE_BISECT_H

#include "kiln/Pipeline/Compile.h"

namespace kiln {

/// `passed` counts passes that changed the program and none of its results, and launches that computed what they should.
struct BisectResult {
  unsigned passes = 0, launches = 0;
  /// Launches whose kernels the interpreter cannot run, such as those with sizes that a nested graph defines.
  unsigned skipped = 0;
  /// One line about the first pass or launch that is wrong; empty if none is.
  std::string culprit;
};

/// `run` is a folder that a run of the model has left, compiled with the same options and debug level 1. The program is compiled once more,
/// up to its kernels; it is interpreted with the run's inputs after every pass that changes it, and then each kernel with
/// the operands of each of its launches. Programs that call libraries are an error.
llvm::Expected<BisectResult> bisect(CompileOptions options, const std::string &run);

} // namespace kiln

#endif // KILN_PIPELINE_BISECT_H
