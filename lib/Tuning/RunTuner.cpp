// Runs aot-tune and reads its results.
#include "RunTuner.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

using namespace llvm;
using namespace kiln;
using namespace kiln::tuning;

Error tuning::createTemporary(StringRef suffix, SmallString<128> &path) {
  if (std::error_code error = sys::fs::createTemporaryFile("kiln-tune", suffix, path))
    return createStringError(error, "cannot create a temporary file: " + error.message());
  sys::RemoveFileOnSignal(path);
  return Error::success();
}

Expected<Results> tuning::runTuner(const Options &options, StringRef input, double seconds,
                                   ArrayRef<std::string> more) {
  SmallString<128> output, messages;
  if (Error error =
          joinErrors(createTemporary("results", output), createTemporary("txt", messages)))
    return error;
  FileRemover removeOutput(output), removeMessages(messages);
  std::string limit = formatv("--seconds={0}", seconds);
  SmallVector<StringRef> arguments = {options.tuner, input, "-o", output, "--quiet", limit};
  append_range(arguments, more);
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(""), StringRef(messages)};
  std::string problem;
  int status = sys::ExecuteAndWait(options.tuner, arguments, std::nullopt, redirects,
                                   /*SecondsToWait=*/0, /*MemoryLimit=*/0, &problem);
  if (status == 0)
    return readResults(output);
  if (auto text = MemoryBuffer::getFile(messages); text && (*text)->getBufferSize())
    problem = (*text)->getBuffer().split('\n').first;
  return createStringError("--autotune: cannot measure with '" + options.tuner + "': " + problem);
}
