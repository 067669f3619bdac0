// A product with ordinary multiplications. The rows of a step lie next to each other in shared
// memory, steps behind each other: a thread reads 16 bytes of neighbouring rows at once. 16 bytes
// behind each step keep neighbouring steps of a row in different banks when they are written.
//
// A thread's rows are runs of neighbours, and so are its columns. Neighbouring threads have
// neighbouring runs, such that a warp reads runs that lie side by side. A warp's threads are 4 rows
// by 8 columns. Numbers of lanes:
//
//         columns ->
//    rows  0  2  4  6  8 10 12 14
//      |   1  3  5  7  9 11 13 15
//      v  16 18 20 22 24 26 28 30
//         17 19 21 23 25 27 29 31
//
// The GPU reads 16 bytes for a quarter of a warp at a time, and for two quarters where every two
// neighbouring lanes, or lanes that are 2 apart, read the same 16 bytes. Both operands need fewer
// passes in this order than in that of rows.
#include "CUDA/Contract/ContractTile.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Threads of a warp: rows by columns.
static constexpr int64_t warpRows = 4, warpColumns = 8;

namespace {
class ScalarTile : public ContractTile {
public:
  ScalarTile(DeviceFrame &frame, FmaScheduleAttr schedule, const ContractDims &dims)
      : frame(frame), b(frame.builder), loc(frame.loc), block(ContractBlock::of(schedule)),
        tile(schedule.getThread()), operandType(dims.operandType), sumType(dims.sumType),
        alongRows{dims.lhsAlongM, dims.rhsAlongN} {
    // Registers that two blocks have on a multiprocessor hold so many sums, and what is multiplied.
    constexpr int64_t manySums = 64;
    if (numSums() >= manySums && frame.numThreads == 256)
      frame.function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(2));
    rowRun = findRun(tile.m);
    columnRun = findRun(tile.n);
    sym::Expr thread = frame.addVariable(frame.thread, frame.numThreads);
    if (rowTiles() % warpRows || columnTiles() % warpColumns) {
      row = frame.named(thread.floorDiv(columnTiles()), rowTiles());
      column = frame.named(thread.mod(columnTiles()), columnTiles());
      return;
    }
    sym::Expr lane = frame.named(thread.mod(warpSize), warpSize);
    sym::Expr warp = frame.named(thread.floorDiv(warpSize), frame.numThreads / warpSize);
    int64_t warps = columnTiles() / warpColumns;
    row = warpRows * warp.floorDiv(warps) + 2 * lane.floorDiv(2 * warpColumns) + lane.mod(2);
    column = warpColumns * warp.mod(warps) + lane.floorDiv(2).mod(warpColumns);
    row = frame.named(row, rowTiles());
    column = frame.named(column, columnTiles());
  }

  int64_t size(Side side) const override { return block.k * pitch(side); }
  Value address(Value memory, Side side, sym::Expr row, sym::Expr k) override {
    return frame.gep(memory, operandType, frame.simplifyAndEmit(k * pitch(side) + row));
  }
  bool keepsNeighbours(Side side) const override { return alongRows[side == Side::Right]; }
  size_t numSums() const override { return tile.m * tile.n; }

  SmallVector<Value> multiply(Value lhs, Value rhs, ValueRange sums) override {
    SmallVector<Value> next(sums);
    for (int64_t k = 0; k < block.k; ++k) {
      SmallVector<Value> left, right;
      for (int64_t i = 0; i < tile.m; i += rowRun)
        load(address(lhs, Side::Left, rowOf(i), k), rowRun, left);
      for (int64_t j = 0; j < tile.n; j += columnRun)
        load(address(rhs, Side::Right, columnOf(j), k), columnRun, right);
      for (auto [i, x] : llvm::enumerate(left))
        for (auto [j, y] : llvm::enumerate(right))
          next[i * tile.n + j] = multiplyAdd(x, y, next[i * tile.n + j]);
    }
    return next;
  }

  SmallVector<Row> rows(sym::Expr) const override {
    SmallVector<Row> result;
    for (int64_t i = 0; i < tile.m; ++i) {
      Row &line = result.emplace_back();
      line.row = rowOf(i);
      line.neighbours = columnRun;
      for (int64_t j = 0; j < tile.n; ++j)
        line.columns.push_back({columnOf(j), i * tile.n + j});
    }
    return result;
  }

private:
  int64_t rowTiles() const { return block.m / tile.m; }
  int64_t columnTiles() const { return block.n / tile.n; }
  int64_t elementBytes() const {
    return std::max<int64_t>(1, operandType.getIntOrFloatBitWidth() / 8);
  }
  int64_t pitch(Side side) const {
    return (side == Side::Left ? block.m : block.n) + vectorBytes / elementBytes();
  }
  /// Neighbours that a thread reads at once.
  int64_t findRun(int64_t extent) const { return std::gcd(extent, vectorBytes / elementBytes()); }
  sym::Expr rowOf(int64_t i) const {
    return rowRun * row + (i / rowRun * rowRun * rowTiles() + i % rowRun);
  }
  sym::Expr columnOf(int64_t j) const {
    return columnRun * column + (j / columnRun * columnRun * columnTiles() + j % columnRun);
  }

  /// Appends `count` neighbours, as what is summed.
  void load(Value address, int64_t count, SmallVector<Value> &values) {
    Value vector = LLVM::LoadOp::create(b, loc, VectorType::get(count, operandType), address,
                                        /*alignment=*/count * elementBytes());
    for (Value value : vector::ToElementsOp::create(b, loc, vector).getResults()) {
      if (operandType != sumType)
        value = isa<FloatType>(sumType)
                    ? arith::ExtFOp::create(b, loc, sumType, value).getResult()
                    : arith::ExtSIOp::create(b, loc, sumType, value).getResult();
      values.push_back(value);
    }
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
  bool alongRows[2]; // of the left operand and the right one: rows of a step are neighbours
  int64_t rowRun, columnRun;
  sym::Expr row = 0, column = 0; // of this thread's runs
};
} // namespace

std::unique_ptr<ContractTile> cuda::makeScalarTile(DeviceFrame &frame, FmaScheduleAttr schedule,
                                                   const ContractDims &dims) {
  return std::make_unique<ScalarTile>(frame, schedule, dims);
}
