// NumPy's .npy files (format 1.0 to 3.0), C order, little endian.
#ifndef KILN_TEST_TOOLS_NPY_H
#define KILN_TEST_TOOLS_NPY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

struct NpyArray {
  /// Without the byte order: f4, i8, b1, c8; bf16 is V2.
  std::string type;
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

llvm::Expected<NpyArray> readNpy(llvm::StringRef path);
llvm::Error writeNpy(llvm::StringRef path, const NpyArray &array);

#endif // KILN_TEST_TOOLS_NPY_H
