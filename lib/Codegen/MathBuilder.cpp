// Tables in registers.
#include "MathBuilder.h"

using namespace mlir;
using namespace kiln::codegen;

/// Lanes [first, first + lanes) of `vector`; those past its end are undefined.
static Value takeLanes(const MathBuilder &m, Value vector, int64_t first, int64_t lanes) {
  int64_t size = cast<VectorType>(vector.getType()).getNumElements();
  SmallVector<int32_t> mask;
  for (int64_t lane = first; lane < first + lanes; ++lane)
    mask.push_back(lane < size ? static_cast<int32_t>(lane) : -1);
  return LLVM::ShuffleVectorOp::create(m.b, m.loc, vector, vector, mask);
}

/// All vectors, which are alike, one behind the other. As many as a power of two.
static Value concatenate(const MathBuilder &m, SmallVector<Value> parts) {
  while (parts.size() > 1) {
    SmallVector<Value> pairs;
    for (size_t i = 0; i < parts.size(); i += 2) {
      int64_t lanes = cast<VectorType>(parts[i].getType()).getNumElements();
      auto mask = llvm::to_vector(llvm::seq<int32_t>(0, static_cast<int32_t>(2 * lanes)));
      pairs.push_back(LLVM::ShuffleVectorOp::create(m.b, m.loc, parts[i], parts[i + 1], mask));
    }
    parts = std::move(pairs);
  }
  return parts.front();
}

Value MathBuilder::lookUp(ArrayRef<float> table, Value index) const {
  bool inTwo = table.size() == 32;
  const int64_t lanes = inTwo ? 16 : 8;
  assert(table.size() == has.tables && "no such table");
  auto whole = VectorType::get(lanes, b.getF32Type());
  SmallVector<Value> parts;
  for (; !table.empty(); table = table.drop_front(lanes))
    parts.push_back(
        arith::ConstantOp::create(b, loc, DenseElementsAttr::get(whole, table.take_front(lanes))));
  auto permute = [&](Value numbers) -> Value {
    SmallVector<Value> operands{parts[0], numbers};
    if (inTwo)
      operands.push_back(parts[1]);
    StringRef name = inTwo ? "llvm.x86.avx512.vpermi2var.ps.512" : "llvm.x86.avx2.permps";
    return LLVM::CallIntrinsicOp::create(b, loc, whole, b.getStringAttr(name), operands)
        .getResult(0);
  };
  auto vector = dyn_cast<VectorType>(type);
  if (!vector) {
    Value first = LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    Value numbers =
        LLVM::PoisonOp::create(b, loc, VectorType::get(lanes, b.getI32Type())).getResult();
    numbers = LLVM::InsertElementOp::create(b, loc, numbers, index, first);
    return LLVM::ExtractElementOp::create(b, loc, permute(numbers), first);
  }
  int64_t size = vector.getNumElements();
  if (size < lanes)
    return takeLanes(*this, permute(takeLanes(*this, index, 0, lanes)), 0, size);
  SmallVector<Value> vectors;
  for (int64_t first = 0; first < size; first += lanes)
    vectors.push_back(permute(size == lanes ? index : takeLanes(*this, index, first, lanes)));
  return concatenate(*this, std::move(vectors));
}
