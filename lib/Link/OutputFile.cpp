//===- OutputFile.cpp - A file that appears when it is complete -----------===//
#include "kiln/Link/OutputFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"
#include <unistd.h>

using namespace llvm;
using namespace kiln;

OutputFile::~OutputFile() {
  if (temporary.empty())
    return;
  [[maybe_unused]] std::error_code ignored = sys::fs::remove(temporary);
  sys::DontRemoveFileOnSignal(temporary);
}

Error OutputFile::create(StringRef path, unsigned mode) {
  finalPath = path.str();
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && status.type() != sys::fs::file_type::regular_file)
    return createStringError("cannot write '" + path + "': not a regular file");
  std::error_code error;
  do {
    sys::fs::createUniquePath(path + ".tmp-%%%%%%%%", temporary, /*MakeAbsolute=*/false);
    // Before it exists: what a signal finds between the two would stay.
    sys::RemoveFileOnSignal(temporary);
    int descriptor;
    error = sys::fs::openFileForWrite(temporary, descriptor, sys::fs::CD_CreateNew,
                                      sys::fs::OF_None, mode);
    if (!error) {
      close(descriptor);
      return Error::success();
    }
    sys::DontRemoveFileOnSignal(temporary);
  } while (error == std::errc::file_exists);
  temporary.clear();
  return createStringError(error, "cannot write '" + path + "': " + error.message());
}

Error OutputFile::write(StringRef contents) {
  std::error_code error;
  raw_fd_ostream stream(temporary, error);
  if (!error) {
    stream << contents;
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  return error ? createStringError(error, "cannot write '" + finalPath + "': " + error.message())
               : Error::success();
}

Error OutputFile::keep() {
  if (std::error_code error = sys::fs::rename(temporary, finalPath))
    return createStringError(error, "cannot write '" + finalPath + "': " + error.message());
  sys::DontRemoveFileOnSignal(temporary);
  temporary.clear();
  return Error::success();
}
