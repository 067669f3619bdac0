// cuda-narrow-operands: products of bytes that a program widens before it multiplies them have bytes as operands, and
// those of floats of eight bits f16, which all of them are numbers of.
#include "CUDA/Contract/ContractPlan.h"
#include "CUDA/Contract/Float8Operand.h"
#include "kiln/Dialect/Kernel/Builder/Float8.h"
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

namespace {

struct NarrowOperands : kiln::cuda::impl::CudaNarrowOperandsBase<NarrowOperands> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    llvm::SetVector<Operation *> maps;
    getOperation().walk([&](ContractOp contract) {
      if (const char *reason = narrow(contract, rewriter, maps))
        LDBG() << "operands of " << contract.getLoc() << " are kept: " << reason;
    });
    eraseUnused(rewriter, std::move(maps));
  }

private:
  /// Null, or why the operands stay as they are.
  static const char *narrow(ContractOp contract, IRRewriter &rewriter,
                            llvm::SetVector<Operation *> &maps) {
    Type sum = contract.getEpilogue().getArgument(0).getType();
    Region &left = contract.getLhs(), &right = contract.getRhs();
    if (contract.getBytes() || !(sum.isInteger(32) || sum.isF32()))
      return "sums are not those of numbers in i32 or f32";
    if (sum.isInteger(32)) {
      for (Region *operand : {&left, &right})
        if (!findWidening(*operand) && !findWideningMap(*operand))
          return "an operand is no signed byte that is widened";
      yieldByte(left, rewriter, maps);
      yieldByte(right, rewriter, maps);
      return nullptr;
    }
    FloatType leftType = kiln::cuda::findFloat8(left),
              rightType = leftType ? kiln::cuda::findFloat8(right) : FloatType();
    if (!rightType)
      return "an operand is no float of eight bits";
    if (kiln::cuda::isDot(kiln::cuda::ContractDims(contract)))
      return "rows are few, and their products wait for memory";
    yieldHalf(left, leftType, rewriter);
    yieldHalf(right, rightType, rewriter);
    return nullptr;
  }

  static void yieldByte(Region &operand, IRRewriter &rewriter, llvm::SetVector<Operation *> &maps) {
    Operation *yield = operand.front().getTerminator();
    if (MapOp map = findWideningMap(operand)) {
      maps.insert(map);
      inlineRead(rewriter, yield->getOperand(0).getDefiningOp<ReadOp>(), map);
    }
    yield->setOperand(0, findWidening(operand).getIn());
    eraseUnused(operand.front());
  }

  static void yieldHalf(Region &operand, FloatType type, IRRewriter &rewriter) {
    Operation *yield = operand.front().getTerminator();
    rewriter.setInsertionPoint(yield);
    ImplicitLocOpBuilder b(yield->getLoc(), rewriter);
    Element bits(b, *operand.front().getOps<ReadOp>().begin(), type);
    yield->setOperand(0, decodeFloat8ToHalf(bits).value());
    eraseUnused(operand.front());
  }
};

} // namespace
