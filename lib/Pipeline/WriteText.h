// Text in files that appear when they are complete.
#ifndef KILN_LIB_PIPELINE_WRITETEXT_H
#define KILN_LIB_PIPELINE_WRITETEXT_H

#include "kiln/Link/OutputFile.h"

namespace kiln {

llvm::Error writeFile(llvm::StringRef path, llvm::StringRef text);
/// The same of a file that has been created.
llvm::Error writeText(OutputFile &file, llvm::StringRef text);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_WRITETEXT_H
