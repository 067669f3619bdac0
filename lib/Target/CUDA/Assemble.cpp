#include "Assemble.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace kiln::cuda;

namespace {
/// A file that goes when it is no longer needed.
struct TemporaryFile {
  explicit TemporaryFile(StringRef suffix) {
    error = sys::fs::createTemporaryFile("kiln", suffix, path);
    remover.setFile(path);
  }
  SmallString<128> path;
  std::error_code error;
  FileRemover remover;
};
} // namespace

static std::string read(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer =
      MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

Expected<std::string> kiln::cuda::assemble(StringRef ptxas, const Architecture &architecture,
                                           StringRef ptx, std::string &report) {
  TemporaryFile input("ptx"), output("cubin"), messages("txt");
  for (const TemporaryFile *file : {&input, &output, &messages})
    if (file->error)
      return createStringError(file->error,
                               "cannot create a temporary file: " + file->error.message());
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
  std::string arch = "-arch=" + architecture.name;
  StringRef arguments[] = {ptxas, arch, "-O3", "-v", input.path, "-o", output.path};
  std::optional<StringRef> redirects[] = {StringRef(), messages.path.str(), messages.path.str()};
  std::string problem;
  int status = sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects, /*SecondsToWait=*/0,
                                   /*MemoryLimit=*/0, &problem);
  report = read(messages.path);
  if (status != 0)
    return createStringError("%s failed for %s: %s", ptxas.str().c_str(), architecture.name.c_str(),
                             (problem.empty() ? StringRef(report).trim().str() : problem).c_str());
  return read(output.path);
}
