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

/// The first line of what the tuner writes to its outputs; an error if it fails.
static Expected<std::string> run(const Options &options, ArrayRef<StringRef> arguments) {
  SmallString<128> messages, errors;
  if (Error error = joinErrors(createTemporary("txt", messages), createTemporary("txt", errors)))
    return error;
  FileRemover removeMessages(messages), removeErrors(errors);
  auto readLine = [](StringRef path) {
    auto text = MemoryBuffer::getFile(path);
    return text ? (*text)->getBuffer().split('\n').first.str() : std::string();
  };
  SmallVector<StringRef> command = {options.tuner};
  append_range(command, arguments);
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(messages), StringRef(errors)};
  std::string problem;
  int status = sys::ExecuteAndWait(options.tuner, command, std::nullopt, redirects,
                                   /*SecondsToWait=*/0, /*MemoryLimit=*/0, &problem);
  if (status == 0)
    return readLine(messages);
  std::string line = readLine(errors);
  return createStringError(line.empty() ? problem : line);
}

Expected<Results> tuning::runTuner(const Options &options, StringRef input, double seconds,
                                   ArrayRef<std::string> more) {
  SmallString<128> output;
  if (Error error = createTemporary("results", output))
    return error;
  FileRemover removeOutput(output);
  std::string limit = formatv("--seconds={0}", seconds);
  SmallVector<StringRef> arguments = {input, "-o", output, "--quiet", limit};
  append_range(arguments, more);
  Expected<std::string> line = run(options, arguments);
  if (!line)
    return createStringError("--autotune: cannot measure with '" + options.tuner +
                             "': " + toString(line.takeError()));
  return readResults(output);
}

Expected<std::pair<std::string, std::string>> tuning::findGpu(const Options &options) {
  Expected<std::string> line = run(options, {"--gpu"});
  if (!line) {
    std::string problem = toString(line.takeError());
    StringRef reason = problem;
    reason.consume_front("aot-tune: error: ");
    return createStringError(reason);
  }
  auto [architecture, name] = StringRef(*line).split(' ');
  return std::pair(architecture.str(), name.str());
}
