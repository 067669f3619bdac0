// Finds ptxas and makes cubins of PTX with it.
#include "CUDA/Binary/Assemble.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace kiln::cuda;

namespace {
/// A file that goes when it is no longer needed.
struct TemporaryFile {
  explicit TemporaryFile(StringRef suffix) {
    error = sys::fs::createTemporaryFile("kiln", suffix, path);
    remover.setFile(path);
    sys::RemoveFileOnSignal(path);
  }
  ~TemporaryFile() { sys::DontRemoveFileOnSignal(path); }
  SmallString<128> path;
  std::error_code error;
  FileRemover remover;
};
} // namespace

static Error cannotCreate(std::error_code error) {
  return createStringError(error, "cannot create a temporary file: " + error.message());
}

static std::string read(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer =
      MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

/// Tells if a report of `ptxas -v`, on one function or more, has spills.
static bool hasSpills(StringRef report) {
  return Regex("[1-9][0-9]* bytes spill stores").match(report);
}

Expected<std::string> kiln::cuda::assemble(StringRef ptxas, const Architecture &architecture,
                                           StringRef ptx, std::string &report) {
  TemporaryFile input("ptx"), output("cubin");
  for (const TemporaryFile *file : {&input, &output})
    if (file->error)
      return cannotCreate(file->error);
  {
    std::error_code error;
    raw_fd_ostream stream(input.path, error);
    if (!error) {
      stream << ptx;
      stream.close();
      error = stream.error();
      stream.clear_error();
    }
    if (error)
      return createStringError(error, "cannot write '" + input.path + "': " + error.message());
  }
  auto run = [&](ArrayRef<StringRef> more) -> Expected<std::string> {
    TemporaryFile messages("txt");
    if (messages.error)
      return cannotCreate(messages.error);
    std::string arch = "-arch=" + architecture.name;
    SmallVector<StringRef> arguments = {ptxas, arch, "-O3", "-v", input.path, "-o", output.path};
    append_range(arguments, more);
    std::optional<StringRef> redirects[] = {StringRef(), messages.path.str(), messages.path.str()};
    std::string problem;
    int status = sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, /*SecondsToWait=*/0,
                                     /*MemoryLimit=*/0, &problem);
    std::string text = read(messages.path);
    if (status != 0)
      return createStringError("%s failed for %s: %s", ptxas.str().c_str(),
                               architecture.name.c_str(),
                               (problem.empty() ? StringRef(text).trim().str() : problem).c_str());
    if (more.empty() || !hasSpills(text))
      report = text;
    return read(output.path);
  };
  Expected<std::string> cubin = run({});
  // By itself ptxas spills a few values where one more block fits in a multiprocessor then.
  const StringRef more[] = {"--register-usage-level=8", "--minnctapersm=1"};
  for (size_t count = 1; cubin && hasSpills(report) && count <= std::size(more); ++count) {
    Expected<std::string> other = run(ArrayRef(more).take_front(count));
    if (!other)
      consumeError(other.takeError()); // an older one, without this option
    else if (!hasSpills(report))
      cubin = std::move(other);
  }
  return cubin;
}
