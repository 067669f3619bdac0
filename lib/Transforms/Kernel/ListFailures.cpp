// Gives each distinct message of `kernel.expect` a number that kernels can report.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELLISTFAILURES
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct ListFailures : kiln::impl::KernelListFailuresBase<ListFailures> {
  void runOnOperation() override {
    llvm::SetVector<Attribute> messages;
    getOperation()->walk([&](ExpectOp expect) {
      if (expect.getCode())
        return; // an index
      messages.insert(expect.getMessageAttr());
      auto *place = llvm::find(messages, expect.getMessageAttr());
      expect.setCode(static_cast<int32_t>(place - messages.begin()) + firstFailureCode);
    });
    if (!messages.empty())
      getOperation()->setAttr(failuresAttrName,
                              ArrayAttr::get(&getContext(), messages.getArrayRef()));
  }
};

} // namespace
