// Tells lowering how int4 weights lie in the archive.
#include "Int4Layout.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Lowering/Int4.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace kiln;

/// A weight that another machine may have packed.
static void warnOfInt4Layout(ModuleOp module, const CompileOptions &options, StringRef layout) {
  auto isPackedHere = [](Value packed) {
    auto pack = packed.getDefiningOp<torch::CallOp>();
    return pack && pack.getTarget() == "aten._convert_weight_to_int4pack_for_cpu.default";
  };
  module.walk([&](torch::CallOp call) {
    if (call.getTarget() != "aten._weight_int4pack_mm_for_cpu.default" ||
        isPackedHere(call->getOperand(1)))
      return WalkResult::advance();
    if (options.onWarning)
      options.onWarning(
          (torch::describe(call.getLoc()) +
           ": the archive does not say on which CPU its int4 weight was packed: taken to be '" +
           layout + "' as here (--int4-layout)")
              .str());
    return WalkResult::interrupt();
  });
}

void kiln::setInt4Layout(ModuleOp module, const CompileOptions &options) {
  std::string layout = options.int4Layout;
  if (layout == "native") {
    // PyTorch packs by the real CPU, even if `native` is something else to a test.
    llvm::StringMap<bool> has = llvm::sys::getHostCPUFeatures();
    auto hasAll = [&](ArrayRef<StringRef> sets) {
      return llvm::all_of(sets, [&](StringRef set) { return has.lookup(set); });
    };
    layout = hasAll({"avx512f", "avx512bw", "avx512dq", "avx512vl"}) ? "avx512"
             : hasAll({"avx2", "fma"})                               ? "avx2"
                                                                     : "none";
    warnOfInt4Layout(module, options, layout);
  }
  if (layout != "avx512") // the default
    module->setAttr(lowering::int4LayoutAttrName, StringAttr::get(module.getContext(), layout));
}
