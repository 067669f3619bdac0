// cuda-narrow-operands: products of bytes that a program widens before it multiplies them have bytes as operands, and
// those of floats of eight bits f16, which all of them are numbers of.
#include "CUDA/Contract/ContractPlan.h"
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

/// The value that a region yields if all that it reads is this byte; null: it is not known.
static Attribute evaluate(Region &region, int64_t byte) {
  llvm::DenseMap<Value, Attribute> values;
  for (Operation &op : region.front().without_terminator()) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      values[read.getResult()] = IntegerAttr::get(read.getType(), static_cast<int8_t>(byte));
      continue;
    }
    auto operands =
        llvm::map_to_vector(op.getOperands(), [&](Value v) { return values.lookup(v); });
    SmallVector<OpFoldResult> results;
    if (op.getNumResults() != 1 || !llvm::all_of(operands, [](Attribute a) { return !!a; }) ||
        failed(op.fold(operands, results)) || results.empty())
      return {};
    values[op.getResult(0)] = isa<Attribute>(results.front())
                                  ? cast<Attribute>(results.front())
                                  : values.lookup(cast<Value>(results.front()));
  }
  return values.lookup(region.front().getTerminator()->getOperand(0));
}

/// The format of floats of eight bits of which an operand yields, whatever they are, the one that it reads, in f32; null: there is none.
static FloatType findFloat8(Region &operand) {
  auto reads = llvm::to_vector(operand.front().getOps<ReadOp>());
  if (reads.size() != 1 || reads.front().getMask() || !reads.front().getType().isInteger(8))
    return {};
  SmallVector<APFloat> numbers;
  for (int64_t byte = 0; byte < 256; ++byte) {
    auto number = dyn_cast_if_present<FloatAttr>(evaluate(operand, byte));
    if (!number || !number.getType().isF32())
      return {};
    numbers.push_back(number.getValue());
  }
  MLIRContext *context = operand.getContext();
  for (FloatType type :
       {FloatType(Float8E4M3FNType::get(context)), FloatType(Float8E5M2Type::get(context)),
        FloatType(Float8E4M3FNUZType::get(context)), FloatType(Float8E5M2FNUZType::get(context))}) {
    auto isNumberOf = [&](auto numbered) {
      auto [byte, number] = numbered;
      APFloat expected(type.getFloatSemantics(), APInt(8, byte));
      bool losesInfo;
      expected.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
      return number.bitwiseIsEqual(expected) || (expected.isNaN() && number.isNaN());
    };
    if (llvm::all_of(llvm::enumerate(numbers), isNumberOf))
      return type;
  }
  return {};
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
    FloatType leftType = findFloat8(left), rightType = leftType ? findFloat8(right) : FloatType();
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
