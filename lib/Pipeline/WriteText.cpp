// Writes text to files.
#include "WriteText.h"

using namespace kiln;

llvm::Error kiln::writeFile(llvm::StringRef path, llvm::StringRef text) {
  OutputFile file;
  if (llvm::Error error = file.create(path))
    return error;
  return writeText(file, text);
}

llvm::Error kiln::writeText(OutputFile &file, llvm::StringRef text) {
  if (llvm::Error error = file.write(text))
    return error;
  return file.keep();
}
