// The generator `cudnn`: its code is calls of libkiln_cudnn.so (runtime/cudnn).
#include "Calls.h"
#include "Generators.h"
#include "mlir/Pass/PassOptions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

namespace {

struct CuDNNOptions : PassPipelineOptions<CuDNNOptions> {
  Option<bool> finite{*this, "finite", llvm::cl::desc("no value is NaN or infinite"),
                      llvm::cl::init(false)};
  Option<bool> tf32{*this, "tf32", llvm::cl::desc("tensor cores may round operands of f32 to TF32"),
                    llvm::cl::init(false)};
  Option<int64_t> workspace{
      *this, "workspace",
      llvm::cl::desc("bytes that each call may use, beside room for a copy of its tensors"),
      llvm::cl::init(int64_t(32) << 20)};
};

constexpr Kind cudnnKinds[] = {{"attention", describeAttention},
                               {"convolution", describeConvolutionInAnyOrder}};

constexpr int64_t cudnnMaxWorkspace = int64_t(1) << 40;

llvm::Expected<std::unique_ptr<ExternGenerator>> createCuDNN(StringRef text, MLIRContext *context) {
  CuDNNOptions options;
  if (llvm::Error error = parseGeneratorOptions(options, text))
    return std::move(error);
  if (options.workspace < 0 || options.workspace > cudnnMaxWorkspace)
    return llvm::createStringError("workspace=%lld: expected 0 to %lld bytes",
                                   (long long)options.workspace, (long long)cudnnMaxWorkspace);
  Settings settings = {options.finite, /*hasF16=*/true, /*hasBF16=*/true, /*isEpilogue=*/true,
                       /*hasGelu=*/false};
  Builder b(context);
  return std::make_unique<LibraryGenerator>(
      "cudnn", cudnnKinds, settings,
      Extras{options.workspace,
             /*hasCopies=*/true,
             {b.getBoolAttr(options.finite), b.getBoolAttr(options.tf32)}});
}

} // namespace

void externs::registerCuDNNGenerator() {
  registerExternGenerator({"cudnn",
                           "cuDNN: convolutions in f32, f16 and bf16, and attention in the latter "
                           "two, on GPUs",
                           createCuDNN, "cuda"});
}
