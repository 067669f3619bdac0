// The generator `onednn`: its code is calls of libkiln_onednn.so (runtime/onednn).
#include "OneDNNGenerator.h"
#include "Calls.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Pass/PassOptions.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::onednn;

namespace {

struct Options : PassPipelineOptions<Options> {
  Option<bool> elsewhere{*this, "elsewhere",
                         llvm::cl::desc("the library is on the machine that runs the model"),
                         llvm::cl::init(false)};
  Option<bool> finite{*this, "finite", llvm::cl::desc("no value is NaN or infinite"),
                      llvm::cl::init(false)};
};

struct Kind {
  StringRef pattern;
  Describe describe;
};
constexpr Kind kinds[] = {{"matmul", describeMatmul},
                          {"convolution", describeConvolution},
                          {"batch_norm", describeBatchNorm},
                          {"layer_norm", describeLayerNorm},
                          {"pooling", describePooling}};

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

class OneDNNGenerator : public ExternGenerator {
public:
  explicit OneDNNGenerator(Settings given) : settings(given) {
    for (const Kind &kind : kinds)
      patterns.push_back(
          {kind.pattern.str(), [&kind, given](Operation *root) -> FailureOr<ExternMatch> {
             FailureOr<Call> call = kind.describe(root, given);
             if (failed(call))
               return failure();
             return ExternMatch{call->ops, {call->result}};
           }});
  }

  static llvm::Expected<std::unique_ptr<ExternGenerator>> create(StringRef text, MLIRContext *) {
    Options options;
    std::string message;
    llvm::raw_string_ostream stream(message);
    if (failed(options.parseFromString(text, stream)))
      return llvm::createStringError(StringRef(message).trim());
    if (!options.elsewhere)
      if (llvm::Error error = checkLibrary())
        return std::move(error);
    return std::make_unique<OneDNNGenerator>(Settings{options.finite});
  }

  StringRef getName() const override { return "onednn"; }
  ArrayRef<ExternPattern> getPatterns() const override { return patterns; }

  LogicalResult generate(ModuleOp, ArrayRef<func::FuncOp> functions) const override {
    for (func::FuncOp function : functions) {
      auto mark = function->getAttrOfType<DictionaryAttr>(markAttrName);
      auto pattern = mark.getAs<StringAttr>("pattern");
      const Kind *kind =
          llvm::find_if(kinds, [&](const Kind &known) { return known.pattern == pattern; });
      Operation *end = function.getBody().front().getTerminator();
      FailureOr<Call> call = failure();
      if (kind != std::end(kinds))
        call = kind->describe(end->getOperand(0).getDefiningOp(), settings);
      if (succeeded(call))
        function->setAttr(codeAttrName, makeCode(*call));
    }
    return success();
  }

private:
  static kernel::ExternCodeAttr makeCode(const Call &call) {
    MLIRContext *context = call.result.getContext();
    SmallVector<Attribute> args;
    for (const auto &argument : call.arguments) {
      const Value *tensor = std::get_if<Value>(&argument);
      if (!tensor)
        args.push_back(std::get<Attribute>(argument));
      else if (*tensor)
        args.push_back(sym::ArgAttr::get(context, cast<BlockArgument>(*tensor).getArgNumber()));
      else
        args.push_back(UnitAttr::get(context));
    }
    return kernel::ExternCodeAttr::get(context, "onednn", call.callee,
                                       ArrayAttr::get(context, args), sym::ExprAttr(),
                                       DenseI64ArrayAttr());
  }

  Settings settings;
  std::vector<ExternPattern> patterns;
};

} // namespace

void externs::registerOneDNNGenerator() {
  registerExternGenerator({"onednn",
                           "oneDNN: products, convolutions, pooling and normalisation in f32",
                           &OneDNNGenerator::create});
}
