// The generator `cublas`: its code is calls of libkiln_cublas.so (runtime/cublas).
#include "Calls.h"
#include "Generators.h"
#include "mlir/Pass/PassOptions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

namespace {

struct CuBLASOptions : PassPipelineOptions<CuBLASOptions> {
  Option<bool> finite{*this, "finite", llvm::cl::desc("no value is NaN or infinite"),
                      llvm::cl::init(false)};
  Option<int64_t> search{*this, "search",
                         llvm::cl::desc("how many algorithms are timed, the first time that sizes "
                                        "come; 1: none, the heuristic's first one is taken"),
                         llvm::cl::init(1)};
  Option<int64_t> workspace{*this, "workspace", llvm::cl::desc("bytes that each product may use"),
                            llvm::cl::init(int64_t(32) << 20)};
};

constexpr Kind cublasKinds[] = {{"matmul", describeMatmul}};

/// cuBLASLt takes no more from its heuristic in any reasonable time.
constexpr int64_t maxSearch = 64;
constexpr int64_t cublasMaxWorkspace = int64_t(1) << 30;

llvm::Expected<std::unique_ptr<ExternGenerator>> createCuBLAS(StringRef text,
                                                              MLIRContext *context) {
  CuBLASOptions options;
  if (llvm::Error error = parseGeneratorOptions(options, text))
    return std::move(error);
  if (options.search < 1 || options.search > maxSearch)
    return llvm::createStringError("search=%lld: expected 1 to %lld algorithms",
                                   (long long)options.search, (long long)maxSearch);
  if (options.workspace < 0 || options.workspace > cublasMaxWorkspace)
    return llvm::createStringError("workspace=%lld: expected 0 to %lld bytes",
                                   (long long)options.workspace, (long long)cublasMaxWorkspace);
  Settings settings = {options.finite, /*hasF16=*/true, /*hasBF16=*/true, /*isEpilogue=*/true};
  return std::make_unique<LibraryGenerator>(
      "cublas", cublasKinds, settings,
      Extras{options.workspace, false, {Builder(context).getI64IntegerAttr(options.search)}});
}

} // namespace

void externs::registerCuBLASGenerator() {
  registerExternGenerator(
      {"cublas", "cuBLASLt: products in f32, f16 and bf16, on GPUs", createCuBLAS, "cuda"});
}
