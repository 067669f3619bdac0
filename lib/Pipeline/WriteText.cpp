// Writes text to files.
#include "WriteText.h"
#include "llvm/Support/raw_ostream.h"

using namespace kiln;

llvm::Error kiln::writeFile(llvm::StringRef path, llvm::StringRef text) {
  OutputFile file;
  if (llvm::Error error = file.create(path))
    return error;
  return writeText(file, text);
}

llvm::Error kiln::writeText(OutputFile &file, llvm::StringRef text) {
  std::error_code error;
  llvm::raw_fd_ostream stream(file.getTemporaryPath(), error);
  if (!error) {
    stream << text;
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  if (error)
    return llvm::createStringError(error, "cannot write '" + file.getFinalPath() +
                                              "': " + error.message());
  return file.keep();
}
