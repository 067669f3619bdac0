// cuda-narrow-operands: products of bytes that a program widens before it multiplies them have bytes as operands.
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "cuda-narrow-operands"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDANARROWOPERANDS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// The conversion of a signed byte to i32 that a region yields; null: it yields another number.
static arith::ExtSIOp findWidening(Region &region) {
  auto widening = region.front().getTerminator()->getOperand(0).getDefiningOp<arith::ExtSIOp>();
  bool isWidening =
      widening && widening.getIn().getType().isInteger(8) && widening.getType().isInteger(32);
  return isWidening ? widening : arith::ExtSIOp();
}

/// The map that widens what an operand reads, and does nothing else; null: there is none.
static MapOp findWideningMap(Region &operand) {
  auto read = operand.front().getTerminator()->getOperand(0).getDefiningOp<ReadOp>();
  auto map = read && !read.getMask() ? read.getTensor().getDefiningOp<MapOp>() : MapOp();
  if (!map || map->getNumResults() != 1 || !canInline(read, map))
    return {};
  constexpr size_t length = 3; // a read, its conversion, and the yield
  arith::ExtSIOp widening = findWidening(map.getBody());
  bool isAlone = widening && widening.getIn().getDefiningOp<ReadOp>() &&
                 map.getBody().front().getOperations().size() == length;
  return isAlone ? map : MapOp();
}

/// Null, or why the operands stay as they are.
static const char *whyNot(ContractOp contract) {
  if (contract.getBytes() || !contract.getEpilogue().getArgument(0).getType().isInteger(32))
    return "sums are not those of numbers in i32";
  for (Region *operand : {&contract.getLhs(), &contract.getRhs()})
    if (!findWidening(*operand) && !findWideningMap(*operand))
      return "an operand is no signed byte";
  return nullptr;
}

namespace {

struct NarrowOperands : kiln::cuda::impl::CudaNarrowOperandsBase<NarrowOperands> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    llvm::SetVector<Operation *> maps;
    getOperation().walk([&](ContractOp contract) {
      if (const char *reason = whyNot(contract)) {
        LDBG() << "operands of " << contract.getLoc() << " are kept: " << reason;
        return;
      }
      for (Region *operand : {&contract.getLhs(), &contract.getRhs()}) {
        Operation *yield = operand->front().getTerminator();
        if (MapOp map = findWideningMap(*operand)) {
          maps.insert(map);
          inlineRead(rewriter, yield->getOperand(0).getDefiningOp<ReadOp>(), map);
        }
        yield->setOperand(0, findWidening(*operand).getIn());
        eraseUnused(operand->front());
      }
    });
    eraseUnused(rewriter, std::move(maps));
  }
};

} // namespace
