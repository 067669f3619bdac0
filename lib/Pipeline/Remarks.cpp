// Remarks of passes as lines that people read, or as YAML.
#include "Remarks.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Remark/RemarkStreamer.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Regex.h"
#include <mutex>

using namespace mlir;
using namespace kiln;

namespace {

using Streamer = remark::detail::MLIRRemarkStreamerBase;

StringRef getArgument(const remark::detail::Remark &remark, StringRef key) {
  for (const auto &arg : remark.getArgs())
    if (arg.key == key)
      return arg.val;
  return "";
}

/// Hands over each remark as a line, once: a pass may run several times.
class LineStreamer : public Streamer {
public:
  explicit LineStreamer(std::function<void(StringRef)> onLine) : onLine(std::move(onLine)) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    StringRef reason = getArgument(remark, remarkReasonKey),
              cycles = getArgument(remark, remarkCyclesKey);
    std::string line =
        (getArgument(remark, remarkWhereKey) + ": " + getArgument(remark, remarkTextKey)).str();
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

/// Keeps all remarks for a report, and hands on those of the passes that `filter` names. Passes may
/// run on several threads.
class ReportStreamer : public Streamer {
public:
  ReportStreamer(report::Report &report, std::unique_ptr<Streamer> next, StringRef filter)
      : report(report), next(std::move(next)), filter(("^(" + filter + ")$").str()) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    std::lock_guard<std::mutex> lock(mutex);
    report::Remark kept{remark.getCategoryName().str(),
                        remark.getRemarkName().str(),
                        remark.getFunction().str(),
                        getArgument(remark, remarkWhereKey).str(),
                        getArgument(remark, remarkTextKey).str(),
                        getArgument(remark, remarkReasonKey).str(),
                        std::nullopt,
                        remark.getRemarkType() == llvm::remarks::Type::Missed,
                        remark.getLocation()};
    if (double cycles; !getArgument(remark, remarkCyclesKey).getAsDouble(cycles))
      kept.cycles = cycles;
    report.addRemark(std::move(kept));
    if (next && filter.match(remark.getCategoryName()))
      next->streamOptimizationRemark(remark);
  }

  void finalize() override {
    if (next)
      next->finalize();
  }

private:
  std::mutex mutex;
  report::Report &report;
  std::unique_ptr<Streamer> next;
  llvm::Regex filter;
};

} // namespace

llvm::Error kiln::enableRemarks(MLIRContext &context, const RemarkOptions &options,
                                report::Report *report) {
  std::unique_ptr<Streamer> streamer;
  if (options.onLine) {
    streamer = std::make_unique<LineStreamer>(options.onLine);
  } else if (!options.file.empty()) {
    auto created =
        remark::detail::LLVMRemarkStreamer::createToFile(options.file, llvm::remarks::Format::YAML);
    if (failed(created))
      return llvm::createStringError("cannot write '" + options.file + "'");
    streamer = std::move(*created);
  }
  if (!streamer && !report)
    return llvm::Error::success();
  if (streamer)
    context.disableMultithreading();
  std::string filter = options.filter;
  if (report) {
    streamer = std::make_unique<ReportStreamer>(*report, std::move(streamer), filter);
    filter = ".*";
  }
  remark::RemarkCategories categories;
  // `all` adds to the others, and does nothing where they are not set.
  categories.passed = categories.missed = categories.analysis = filter;
  if (failed(remark::enableOptimizationRemarks(context, std::move(streamer),
                                               std::make_unique<remark::RemarkEmittingPolicyAll>(),
                                               categories)))
    return llvm::createStringError("remarks cannot be reported");
  return llvm::Error::success();
}
