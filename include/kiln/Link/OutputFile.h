//===- OutputFile.h - A file that appears when it is complete ---*- C++ -*-===//
#ifndef KILN_LINK_OUTPUTFILE_H
#define KILN_LINK_OUTPUTFILE_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include <string>

namespace kiln {

/// A temporary file in the directory of its final place. Removed, also when a
/// signal ends the process, unless `keep` gave it its name.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile();

  /// Creates the temporary file, empty, with the permissions of `mode` that the
  /// process' mask leaves. Refuses a path that is a directory or a device: a
  /// rename would replace it.
  llvm::Error create(llvm::StringRef finalPath, unsigned mode = 0666);

  /// Writes all that the file, which is empty, is to have.
  llvm::Error write(llvm::StringRef contents);

  /// Renames the file to its final path.
  llvm::Error keep();

  llvm::StringRef getTemporaryPath() const { return temporary; }
  llvm::StringRef getFinalPath() const { return finalPath; }

private:
  llvm::SmallString<256> temporary;
  std::string finalPath;
};

} // namespace kiln

#endif // KILN_LINK_OUTPUTFILE_H
