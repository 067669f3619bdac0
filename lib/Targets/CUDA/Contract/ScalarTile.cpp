// A product with ordinary multiplications. A row's operands lie next to each other, k by k: a
// thread reads several at once, and the padding keeps neighbouring k apart when the part is
// written.
#include "CUDA/Contract/ContractTile.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
class ScalarTile : public ContractTile {
public:
  ScalarTile(DeviceFrame &frame, FmaScheduleAttr schedule, const ContractDims &dims)
      : frame(frame), b(frame.builder), loc(frame.loc), block(ContractBlock::of(schedule)),
        tile(schedule.getThread()), operandType(dims.operandType), sumType(dims.sumType) {
    Value count = frame.constant(columnTiles());
    row = frame.addVariable(arith::DivUIOp::create(b, loc, frame.thread, count), rowTiles());
    column = frame.addVariable(arith::RemUIOp::create(b, loc, frame.thread, count), columnTiles());
  }

  int64_t size(Side side) const override { return block.k * pitch(side); }
  Value address(Value memory, Side side, sym::Expr row, sym::Expr k) override {
    return frame.gep(memory, operandType, frame.simplifyAndEmit(k * pitch(side) + row));
  }
  bool keepsNeighbours(Side) const override { return false; }
  size_t numSums() const override { return tile.m * tile.n; }

  SmallVector<Value> multiply(Value lhs, Value rhs, ValueRange sums) override {
    return frame.emitLoop(frame.constant(0), frame.constant(block.k), 1, sums,
                          [&](Value iv, ValueRange carried) {
                            sym::Expr k = frame.addVariable(iv, block.k);
                            SmallVector<Value> left, right, next;
                            for (int64_t i = 0; i < tile.m; ++i)
                              left.push_back(load(address(lhs, Side::Left, rowOf(i), k)));
                            for (int64_t j = 0; j < tile.n; ++j)
                              right.push_back(load(address(rhs, Side::Right, columnOf(j), k)));
                            for (auto [i, x] : llvm::enumerate(left))
                              for (auto [j, y] : llvm::enumerate(right))
                                next.push_back(multiplyAdd(x, y, carried[i * tile.n + j]));
                            return next;
                          });
  }

  SmallVector<Row> rows(sym::Expr) const override {
    SmallVector<Row> result;
    for (int64_t i = 0; i < tile.m; ++i) {
      Row &line = result.emplace_back();
      line.row = rowOf(i);
      for (int64_t j = 0; j < tile.n; ++j)
        line.columns.push_back({columnOf(j), i * tile.n + j});
    }
    return result;
  }

private:
  int64_t rowTiles() const { return block.m / tile.m; }
  int64_t columnTiles() const { return block.n / tile.n; }
  int64_t pitch(Side side) const { return (side == Side::Left ? block.m : block.n) + 4; }
  sym::Expr rowOf(int64_t i) const { return row * tile.m + i; }
  sym::Expr columnOf(int64_t j) const { return column + j * columnTiles(); }

  Value load(Value address) {
    Value value = LLVM::LoadOp::create(b, loc, operandType, address);
    if (operandType == sumType)
      return value;
    return isa<FloatType>(sumType) ? arith::ExtFOp::create(b, loc, sumType, value).getResult()
                                   : arith::ExtSIOp::create(b, loc, sumType, value).getResult();
  }

  Value multiplyAdd(Value x, Value y, Value sum) {
    if (isa<FloatType>(sumType))
      return math::FmaOp::create(b, loc, x, y, sum);
    return arith::AddIOp::create(b, loc, sum, arith::MulIOp::create(b, loc, x, y));
  }

  DeviceFrame &frame;
  OpBuilder &b;
  Location loc;
  ContractBlock block;
  TileShape tile;
  Type operandType, sumType;
  sym::Expr row = 0, column = 0;
};
} // namespace

std::unique_ptr<ContractTile> cuda::makeScalarTile(DeviceFrame &frame, FmaScheduleAttr schedule,
                                                   const ContractDims &dims) {
  return std::make_unique<ScalarTile>(frame, schedule, dims);
}
