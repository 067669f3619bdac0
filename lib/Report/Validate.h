// Checks of files that are read: another report, and a profile.
#ifndef KILN_LIB_REPORT_VALIDATE_H
#define KILN_LIB_REPORT_VALIDATE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace kiln::report {

/// The version of reports that this compiler writes, and reads.
inline constexpr int64_t reportVersion = 1;

/// A value that the page's scripts can draw: of the right version, every field of its kind and every
/// number of a node, kernel or step in its range.
llvm::Error validateReport(const llvm::json::Value &report);

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readBounded(llvm::StringRef path);
/// JSON of bounded depth; an error names the file.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text, llvm::StringRef path);

} // namespace kiln::report

#endif // KILN_LIB_REPORT_VALIDATE_H
