// The places where a model spends what it might not have to: copies, loops without vectors, calls of
// libraries, fusion and packing that did not happen, and why, as the passes have said it.
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Report/Report.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::report;
using namespace kiln::wrapper;
using llvm::json::Array;
using llvm::json::Object;

/// The kind of finding that a remark is; empty if it is none.
static StringRef classify(const Remark &remark) {
  if (remark.name == "Sharing")
    return StringRef(remark.text).contains(" copies ") ? "copy" : "";
  if (!remark.isMissed)
    return "";
  return llvm::StringSwitch<StringRef>(remark.name)
      .Case("NotFused", "fusion")
      .Case("NotPacked", "packing")
      .Case("NotFolded", "folding")
      .Case("NoVariant", "instruction")
      .Default("other");
}

/// The body of a map that gives elements of its operands as they are, at places that no data says.
static bool onlyMoves(kernel::MapOp map) {
  return map.getBody()
             .walk([](Operation *op) {
               if (auto read = dyn_cast<kernel::ReadOp>(op))
                 return read.getValues().empty() ? WalkResult::advance() : WalkResult::interrupt();
               bool isPlain =
                   isa<kernel::YieldOp, kernel::InsideOp, arith::ConstantOp, arith::SelectOp>(op);
               return isPlain ? WalkResult::advance() : WalkResult::interrupt();
             })
             .wasInterrupted() == false;
}

static bool reads(kernel::MapOp map) {
  return map.getBody()
      .walk([](kernel::ReadOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Elements that are computed together, as the schedule says: 1 if it has words for it and none.
static std::optional<int64_t> getLanes(kernel::FuncOp kernel) {
  std::string text;
  llvm::raw_string_ostream(text) << kernel.getScheduleAttr();
  StringRef lanes = StringRef(text).split("lanes = ").second;
  if (int64_t number; !lanes.consumeInteger(10, number))
    return number;
  return StringRef(text).starts_with("#cpu.map") ? std::optional<int64_t>(1) : std::nullopt;
}

/// The reason why a body is computed one element at a time.
static StringRef whyScalar(kernel::FuncOp kernel) {
  Operation *root = kernel.getRoot();
  auto holds = [&](auto test) {
    return root
        ->walk([&](Operation *op) {
          return test(op) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  };
  if (holds([](Operation *op) {
        return llvm::any_of(op->getResultTypes(), [](Type type) { return isa<ComplexType>(type); });
      }))
    return "registers hold no vectors of complex numbers";
  if (holds([](Operation *op) { return isa<kernel::IterateOp>(op); }))
    return "data says how many steps each element takes";
  if (!isa<kernel::MapOp>(root))
    return "one element follows from the one before";
  return "by its estimate no dim is faster in vectors";
}

void Report::addFindings(ModuleOp module) {
  Array findings;
  auto add = [&](StringRef kind, StringRef text, StringRef reason, Location location) -> Object & {
    Object finding{{"kind", kind.str()}, {"text", text.str()}};
    if (!reason.empty())
      finding["reason"] = reason.str();
    if (SmallVector<int64_t> found = findNodes(location); !found.empty())
      finding["node"] = found.front();
    findings.push_back(std::move(finding));
    return *findings.back().getAsObject();
  };

  llvm::StringSet<> done;
  for (const Remark &remark : remarks)
    if (!remark.isMissed)
      done.insert(remark.where + ": " + remark.text);
  for (const Remark &remark : remarks) {
    StringRef kind = classify(remark);
    // A later run of the pass may have done it.
    bool isDone = StringRef(remark.text).starts_with("not ") &&
                  done.contains(remark.where + ": " + remark.text.substr(4));
    if (!kind.empty() && !isDone)
      add(kind, remark.text, remark.reason, remark.location)["pass"] = remark.pass;
  }

  SymbolTable symbols(module);
  llvm::StringSet<> seen;
  module.walk([&](Operation *op) {
    if (auto call = dyn_cast<ExternCallOp>(op)) {
      add("call", (call.getCallee() + " is computed by the library " + call.getLibrary()).str(), "",
          op->getLoc());
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      add("copy", "the host copies " + copy.getSource().getType().getBytes().str() + " bytes", "",
          op->getLoc());
    } else if (auto launch = dyn_cast<LaunchOp>(op);
               launch && seen.insert(launch.getKernel()).second) {
      auto kernel = symbols.lookup<kernel::FuncOp>(launch.getKernel());
      int64_t number = kernelNumbers.lookup(launch.getKernel());
      auto map = dyn_cast<kernel::MapOp>(kernel.getRoot());
      if (map && onlyMoves(map) && reads(map))
        add("copy", ("kernel @" + launch.getKernel() + " only moves data").str(), "",
            op->getLoc())["kernel"] = number;
      if (kernel::isGroup(kernel))
        return;
      sym::Expr elements =
          sym::product(cast<kernel::StructuredOpInterface>(kernel.getRoot()).getExtents());
      if (getLanes(kernel) == 1 && codegen::estimate(elements) > 1)
        add("scalar", ("kernel @" + launch.getKernel() + " computes one element at a time").str(),
            whyScalar(kernel), op->getLoc())["kernel"] = number;
    }
  });
  result["findings"] = std::move(findings);
}
