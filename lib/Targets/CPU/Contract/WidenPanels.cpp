// Panels of small integers, widened to pairs of bf16 or to f32 in a task's scratch memory.
#include "CPU/Contract/WidenPanels.h"
#include "CPU/Contract/Pairs.h"
#include "CPU/Contract/SmallBits.h"
#include "CPU/Contract/SmallWeights.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

class PanelEmitter {
public:
  PanelEmitter(KernelFrame &frame, const ContractLayout &layout, int64_t vectors)
      : frame(frame), b(frame.builder), loc(frame.loc), layout(layout), vectors(vectors),
        panel(layout.panel()), isPairs(!isa<FloatType>(layout.rhsType)),
        sum(*layout.sumExtent().constant()),
        group(layout.widened->group == 0 ? sum : layout.widened->group) {}

  void emit(Value bits, Value scales, Value offsets, Value base) {
    int64_t steps = std::max(layout.widened->steps, isPairs ? pairSteps : 1), rows = group / steps;
    emitRange(frame, 0, sum / group, sum / group, [&](sym::Expr number) {
      SmallVector<Value> scale = loadRow(scales, layout.scaleType(), number),
                         offset = loadRow(offsets, b.getF32Type(), number);
      emitRange(frame, 0, rows, rows, [&](sym::Expr inner) {
        sym::Expr row = number * rows + inner;
        for (int64_t v = 0; v < vectors; ++v) {
          SmallVector<Value> values = loadSteps(bits, row, v, steps);
          for (Value &value : values)
            value = applyScale(frame, value, scale, offset, v, layout.subtractsFirst);
          if (isPairs)
            values = makePairs(values);
          auto count = static_cast<int64_t>(values.size());
          for (int64_t i = 0; i < count; ++i)
            LLVM::StoreOp::create(b, loc, values[i], at(base, layout.rhsType, row * count + i, v),
                                  /*alignment=*/4);
        }
      });
    });
  }

private:
  Type vectorOf(Type type) { return VectorType::get(layout.lanes, type); }

  Value at(Value base, Type type, sym::Expr row, int64_t v) {
    return frame.gep(base, type, frame.simplifyAndEmit(row * panel + v * layout.lanes));
  }

  Value load(Value base, Type type, sym::Expr row, int64_t v) {
    return LLVM::LoadOp::create(b, loc, vectorOf(type), at(base, type, row, v),
                                type.getIntOrFloatBitWidth() / 8);
  }

  SmallVector<Value> loadRow(Value base, Type type, sym::Expr row) {
    return loadScales(frame, base, type, frame.simplifyAndEmit(row * panel), vectors, layout.lanes);
  }

  /// The numbers of `steps` steps of the sum, as f32.
  SmallVector<Value> loadSteps(Value bits, sym::Expr row, int64_t v, int64_t steps) {
    SmallVector<Value> values;
    if (layout.widened->steps != 1) {
      Value words = load(bits, layout.widened->type, row, v);
      for (int64_t i = 0; i < steps; ++i)
        values.push_back(
            widenSmallBits(frame, words, isPairs ? *firstPairBit(i).constant() : smallBits * i));
      return values;
    }
    for (int64_t i = 0; i < steps; ++i) {
      Value number = load(bits, layout.widened->type, row * steps + i, v);
      Type f32 = vectorOf(b.getF32Type());
      values.push_back(layout.rhsUnsigned
                           ? arith::UIToFPOp::create(b, loc, f32, number).getResult()
                           : arith::SIToFPOp::create(b, loc, f32, number).getResult());
    }
    return values;
  }

  SmallVector<Value> makePairs(ArrayRef<Value> values) {
    SmallVector<Value> pairs;
    for (size_t i = 0; i < values.size(); i += pairSteps)
      pairs.push_back(makeWords(values[i], values[i + 1]));
    return pairs;
  }

  /// Words of two bf16, the first one in the lower half.
  Value makeWords(Value first, Value second) {
    int64_t lanes = layout.lanes;
    auto halves = VectorType::get(2 * lanes, b.getBF16Type());
    std::string name = "llvm.x86.avx512bf16.cvtne2ps2bf16." + std::to_string(32 * lanes);
    Value rounded = LLVM::CallIntrinsicOp::create(b, loc, halves, b.getStringAttr(name),
                                                  ValueRange{second, first})
                        .getResult(0);
    Value both =
        LLVM::BitcastOp::create(b, loc, VectorType::get(2 * lanes, b.getI16Type()), rounded);
    SmallVector<int64_t> order;
    for (int64_t lane = 0; lane < lanes; ++lane)
      order.append({lane, lanes + lane});
    Value paired = vector::ShuffleOp::create(b, loc, both, both, order);
    return vector::BitCastOp::create(b, loc, cast<VectorType>(vectorOf(b.getI32Type())), paired);
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  const ContractLayout &layout;
  int64_t vectors, panel;
  bool isPairs;
  int64_t sum, group; // steps
};

} // namespace

void cpu::emitWidenedPanel(KernelFrame &frame, const ContractLayout &layout, int64_t vectors,
                           Value bits, Value scales, Value offsets, Value base) {
  PanelEmitter(frame, layout, vectors).emit(bits, scales, offsets, base);
}
