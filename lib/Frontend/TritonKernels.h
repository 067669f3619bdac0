// Descriptions of Triton kernels, as python -m kiln.pack writes them: extra/kiln_triton.json.
#ifndef KILN_LIB_FRONTEND_TRITONKERNELS_H
#define KILN_LIB_FRONTEND_TRITONKERNELS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::frontend {

inline constexpr llvm::StringLiteral tritonMember = "extra/kiln_triton.json";

/// Code for one architecture, in the archive's member extra/FILE.
struct TritonImage {
  std::string arch, kind, file;
  int64_t shared = 0; // bytes of shared memory of a block
};

struct TritonParameter {
  std::string name, type;       // Triton's: `*fp32`, `i64`
  std::optional<int64_t> input; // of the call; none: a null pointer
};

/// The kernel as it was compiled with one set of constants.
struct TritonConfig {
  std::string function;
  int64_t warps = 0, alignment = 1;
  std::vector<int64_t> grid; // inputs of the call
  std::vector<TritonParameter> parameters;
  std::vector<TritonImage> images;
};

struct TritonKernel {
  std::vector<std::string> inputs; // names
  std::vector<TritonConfig> configs;
};

/// By the names that calls have for them.
using TritonKernels = std::map<std::string, TritonKernel>;

/// Reads them strictly: an error says where, e.g.
///   extra/kiln_triton.json: missing value at kernels.add_1f2e.configs[0].grid
llvm::Expected<TritonKernels> parseTritonKernels(llvm::StringRef json);

} // namespace kiln::frontend

#endif // KILN_LIB_FRONTEND_TRITONKERNELS_H
