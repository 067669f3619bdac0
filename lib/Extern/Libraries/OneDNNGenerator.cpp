// The generator `onednn`: its code is calls of libkiln_onednn.so (runtime/onednn).
#include "Calls.h"
#include "Generators.h"
#include "mlir/Pass/PassOptions.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

namespace {

struct OneDNNOptions : PassPipelineOptions<OneDNNOptions> {
  Option<bool> bf16{
      *this, "bf16",
      llvm::cl::desc("products and convolutions in bf16 as well, on CPUs with AVX-512"),
      llvm::cl::init(false)};
  Option<bool> elsewhere{*this, "elsewhere",
                         llvm::cl::desc("the library is on the machine that runs the model"),
                         llvm::cl::init(false)};
  Option<bool> finite{*this, "finite", llvm::cl::desc("no value is NaN or infinite"),
                      llvm::cl::init(false)};
};

template <Describe describe> FailureOr<Call> inSingle(Operation *root, const Settings &settings) {
  Settings single = settings;
  single.hasBF16 = false;
  return describe(root, single);
}

/// In bf16 oneDNN multiplies pairs, of which one may lie beside the window and be zero: infinity becomes NaN.
FailureOr<Call> describeFiniteConvolution(Operation *root, const Settings &settings) {
  Settings own = settings;
  own.hasBF16 &= settings.finite;
  return describeConvolution(root, own);
}

constexpr Kind onednnKinds[] = {{"matmul", describeMatmul},
                                {"convolution", describeFiniteConvolution},
                                {"batch_norm", inSingle<describeBatchNorm>},
                                {"layer_norm", inSingle<describeLayerNorm>},
                                {"pooling", inSingle<describePooling>}};

/// $KILN_ONEDNN_LIBRARY, or the folder lib beside that of this program.
std::string getLibraryPath() {
  if (const char *given = getenv("KILN_ONEDNN_LIBRARY"); given && *given)
    return given;
  static int anchor;
  SmallString<256> path(llvm::sys::fs::getMainExecutable(nullptr, &anchor));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "..", "lib", "libkiln_onednn.so");
  return path.str().str();
}

/// The library can be loaded, and so can the oneDNN that it was built with.
llvm::Error checkLibrary() {
  std::string path = getLibraryPath();
  constexpr StringLiteral advice =
      "; install oneDNN (Debian's libdnnl-dev, or pip install onednn onednn-devel) and build Kiln "
      "again, or set KILN_ONEDNN_LIBRARY to the library's path; onednn{elsewhere=true} compiles "
      "for "
      "a machine that has it";
  if (!llvm::sys::fs::exists(path))
    return llvm::createStringError("there is no libkiln_onednn.so" + advice);
  std::string reason;
  auto library = llvm::sys::DynamicLibrary::getPermanentLibrary(path.c_str(), &reason);
  if (!library.isValid())
    return llvm::createStringError("cannot load libkiln_onednn.so: " + reason + advice);
  auto check = reinterpret_cast<int32_t (*)(char *, size_t)>(
      library.getAddressOfSymbol("kiln_check_onednn"));
  char message[256] = "libkiln_onednn.so is of another version of Kiln";
  if (!check || check(message, sizeof message))
    return llvm::createStringError(message);
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<ExternGenerator>> createOneDNN(StringRef text, MLIRContext *) {
  OneDNNOptions options;
  if (llvm::Error error = parseGeneratorOptions(options, text))
    return std::move(error);
  if (!options.elsewhere)
    if (llvm::Error error = checkLibrary())
      return std::move(error);
  return std::make_unique<LibraryGenerator>(
      "onednn", onednnKinds, Settings{options.finite, /*hasF16=*/false, options.bf16});
}

} // namespace

void externs::registerOneDNNGenerator() {
  registerExternGenerator({"onednn",
                           "oneDNN: products, convolutions, pooling and normalisation in f32",
                           createOneDNN, "cpu"});
}
