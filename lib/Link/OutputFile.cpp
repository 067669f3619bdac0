//===- OutputFile.cpp - A file that appears when it is complete -----------===//
#include "kiln/Link/OutputFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"

using namespace llvm;
using namespace kiln;

OutputFile::~OutputFile() {
  if (temporary.empty())
    return;
  [[maybe_unused]] std::error_code ignored = sys::fs::remove(temporary);
  sys::DontRemoveFileOnSignal(temporary);
}

Error OutputFile::create(StringRef path) {
  finalPath = path.str();
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && status.type() != sys::fs::file_type::regular_file)
    return createStringError("cannot write '" + path + "': not a regular file");
  if (std::error_code error = sys::fs::createUniqueFile(path + ".tmp-%%%%%%%%", temporary)) {
    temporary.clear();
    return createStringError(error, "cannot write '" + path + "': " + error.message());
  }
  sys::RemoveFileOnSignal(temporary);
  return Error::success();
}

Error OutputFile::keep() {
  if (std::error_code error = sys::fs::rename(temporary, finalPath))
    return createStringError(error, "cannot write '" + finalPath + "': " + error.message());
  sys::DontRemoveFileOnSignal(temporary);
  temporary.clear();
  return Error::success();
}
