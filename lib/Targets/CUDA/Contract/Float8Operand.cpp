// Finds operands that are floats of eight bits, by what becomes of each of these, and has them multiplied as they are.
#include "CUDA/Contract/Float8Operand.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

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

/// The only read of a region, of a byte; null: it has others.
static ReadOp findByte(Region &operand) {
  auto reads = llvm::to_vector(operand.front().getOps<ReadOp>());
  bool isOne =
      reads.size() == 1 && !reads.front().getMask() && reads.front().getType().isInteger(8);
  return isOne ? reads.front() : ReadOp();
}

FloatType cuda::findFloat8(Region &operand) {
  if (!findByte(operand))
    return {};
  SmallVector<APFloat> numbers;
  for (int64_t byte = 0; byte < 256; ++byte) {
    auto number = dyn_cast_if_present<FloatAttr>(evaluate(operand, byte));
    if (!number || !(number.getType().isF32() || number.getType().isF16()))
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
      expected.convert(number.getSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
      return number.bitwiseIsEqual(expected) || (expected.isNaN() && number.isNaN());
    };
    if (llvm::all_of(llvm::enumerate(numbers), isNumberOf))
      return type;
  }
  return {};
}

FloatType cuda::findFloat8(ContractOp contract) {
  Region &left = contract.getLhs(), &right = contract.getRhs();
  if (!left.front().getTerminator()->getOperand(0).getType().isF16())
    return {};
  FloatType type = findFloat8(left);
  bool isMultiplied = isa_and_nonnull<Float8E4M3FNType, Float8E5M2Type>(type);
  return isMultiplied && findFloat8(right) == type ? type : FloatType();
}

void cuda::yieldFloat8(ContractOp contract, FloatType type) {
  for (Region *operand : {&contract.getLhs(), &contract.getRhs()}) {
    Operation *yield = operand->front().getTerminator();
    OpBuilder builder(yield);
    yield->setOperand(0,
                      arith::BitcastOp::create(builder, yield->getLoc(), type, findByte(*operand)));
    eraseUnused(operand->front());
  }
}
