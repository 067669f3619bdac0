// Remarks of passes as lines that people read, or as YAML.
#include "Remarks.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Remark/RemarkStreamer.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace kiln;

namespace {

/// Hands over each remark as a line, once: a pass may run several times.
class LineStreamer : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit LineStreamer(std::function<void(StringRef)> onLine) : onLine(std::move(onLine)) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    auto get = [&](StringRef key) -> StringRef {
      auto *arg = llvm::find_if(remark.getArgs(), [&](const auto &arg) { return arg.key == key; });
      return arg == remark.getArgs().end() ? "" : StringRef(arg->val);
    };
    StringRef reason = get(remarkReasonKey), cycles = get(remarkCyclesKey);
    std::string line = (get(remarkWhereKey) + ": " + get(remarkTextKey)).str();
    if (!cycles.empty())
      line += (", about " + cycles + " cycles").str();
    if (!reason.empty())
      line += (": " + reason).str();
    line += (" [" + remark.getCategoryName() + "]").str();
    if (seen.insert(line).second)
      onLine(line);
  }

private:
  std::function<void(StringRef)> onLine;
  llvm::StringSet<> seen;
};

} // namespace

llvm::Error kiln::enableRemarks(MLIRContext &context, const RemarkOptions &options) {
  if (!options.onLine && options.file.empty())
    return llvm::Error::success();
  context.disableMultithreading();
  std::unique_ptr<remark::detail::MLIRRemarkStreamerBase> streamer;
  if (options.onLine) {
    streamer = std::make_unique<LineStreamer>(options.onLine);
  } else {
    auto created =
        remark::detail::LLVMRemarkStreamer::createToFile(options.file, llvm::remarks::Format::YAML);
    if (failed(created))
      return llvm::createStringError("cannot write '" + options.file + "'");
    streamer = std::move(*created);
  }
  remark::RemarkCategories categories;
  // `all` adds to the others, and does nothing where they are not set.
  categories.passed = categories.missed = categories.analysis = options.filter;
  if (failed(remark::enableOptimizationRemarks(context, std::move(streamer),
                                               std::make_unique<remark::RemarkEmittingPolicyAll>(),
                                               categories)))
    return llvm::createStringError("remarks cannot be reported");
  return llvm::Error::success();
}
