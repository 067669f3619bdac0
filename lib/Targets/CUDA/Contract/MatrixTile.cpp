// A product on tensor cores: of elements of two bytes, or of f32 rounded to TF32, or cut in two
// numbers of it, summed in f32; of signed bytes, summed in i32.
//
// An operand's part lies in shared memory the way it does in the GPU's: steps of a row next to each
// other, or rows of a step. ldmatrix reads either; only TF32 of the latter kind is read element by
// element. ldmatrix transposes no bytes: their steps always lie next to each other.
#include "CUDA/Contract/ContractTile.h"
#include "CUDA/Contract/MatrixFragments.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
class MatrixTile : public ContractTile {
public:
  MatrixTile(DeviceFrame &frame, MmaScheduleAttr schedule, const ContractDims &dims)
      : frame(&frame), block(ContractBlock::of(schedule)), tile(schedule.getWarp()),
        splits(schedule.getProducts() == 3), fragments(frame, dims.operandType, splits),
        leftAlongSteps(dims.areBytes() || !dims.lhsAlongM),
        rightAlongSteps(dims.areBytes() || !dims.rhsAlongN),
        keepsLeft(leftAlongSteps != dims.lhsAlongM), keepsRight(rightAlongSteps != dims.rhsAlongN),
        left(makeMatrix(block.m, leftAlongSteps, dims)),
        right(makeMatrix(block.n, rightAlongSteps, dims)), rowProducts(tile.m / mmaM),
        columnProducts(tile.n / mmaN) {
    sym::Expr thread = frame.addVariable(frame.thread, frame.numThreads);
    sym::Expr warp = frame.named(thread.floorDiv(warpSize), frame.numThreads / warpSize);
    int64_t rowTiles = block.m / tile.m, columnTiles = block.n / tile.n;
    warpColumn = frame.named(warp.mod(columnTiles), columnTiles);
    warpRow = frame.named(warp.floorDiv(columnTiles), rowTiles);
  }

  int64_t size(Side side) const override { return matrix(side).size(); }
  Value address(Value memory, Side side, sym::Expr row, sym::Expr k) override {
    bool alongSteps = side == Side::Left ? leftAlongSteps : rightAlongSteps;
    return matrix(side).address(*frame, memory, alongSteps ? row : k, alongSteps ? k : row);
  }
  bool keepsNeighbours(Side side) const override {
    return side == Side::Left ? keepsLeft : keepsRight;
  }
  size_t numSums() const override { return 4 * rowProducts * columnProducts; }

  SmallVector<Value> multiply(Value lhs, Value rhs, ValueRange sums) override {
    SmallVector<Value> next(sums);
    for (int64_t k = 0; k < block.k; k += fragments.steps()) {
      SmallVector<Value> columns;
      for (int64_t j = 0; j < columnProducts; j += 2)
        llvm::append_range(columns, fragments.loadRight(right, rightAlongSteps, rhs,
                                                        warpColumn * tile.n + j * mmaN, k,
                                                        std::min<int64_t>(2, columnProducts - j)));
      for (int64_t i = 0; i < rowProducts; ++i) {
        SmallVector<Value> row =
            fragments.loadLeft(left, leftAlongSteps, lhs, warpRow * tile.m + i * mmaM, k);
        auto multiplyAll = [&](ArrayRef<Value> row, ArrayRef<Value> columns) {
          for (int64_t j = 0; j < columnProducts; ++j)
            fragments.multiplyAdd(row, columns.slice(2 * j, 2),
                                  MutableArrayRef(next).slice(4 * (i * columnProducts + j), 4));
        };
        if (!splits) {
          multiplyAll(row, columns);
          continue;
        }
        // Without the product of what is left of both, which is too small to matter.
        MatrixFragments::Split rows = fragments.split(row), others = fragments.split(columns);
        multiplyAll(rows.low, others.finite);
        multiplyAll(rows.finite, others.low);
        multiplyAll(rows.high, others.high);
      }
    }
    return next;
  }

  int64_t numBands() const override { return rowProducts; }
  SmallVector<Row> rows(sym::Expr band) const override {
    SmallVector<Row> result;
    for (int64_t below : {0, 1}) {
      Row &line = result.emplace_back();
      line.neighbours = 2;
      line.row = warpRow * tile.m + band * mmaM + fragments.group + 8 * below;
      for (int64_t j = 0; j < columnProducts; ++j)
        for (int64_t next : {0, 1})
          line.columns.push_back({warpColumn * tile.n + j * mmaN + 2 * fragments.step + next,
                                  4 * j + 2 * below + next});
    }
    return result;
  }

private:
  SharedMatrix makeMatrix(int64_t extent, bool alongSteps, const ContractDims &dims) const {
    if (alongSteps)
      return {dims.operandType, extent, block.k};
    return {dims.operandType, block.k, extent, /*isPadded=*/dims.operandType.isF32()};
  }
  const SharedMatrix &matrix(Side side) const { return side == Side::Left ? left : right; }

  DeviceFrame *frame;
  ContractBlock block;
  TileShape tile; // of a warp
  bool splits;    // f32 into two numbers of TF32
  MatrixFragments fragments;
  bool leftAlongSteps, rightAlongSteps; // a line has the steps of a row
  bool keepsLeft, keepsRight;           // as the operand has them
  SharedMatrix left, right;
  int64_t rowProducts, columnProducts;
  sym::Expr warpRow = 0, warpColumn = 0;
};
} // namespace

std::unique_ptr<ContractTile> cuda::makeMatrixTile(DeviceFrame &frame, MmaScheduleAttr schedule,
                                                   const ContractDims &dims) {
  return std::make_unique<MatrixTile>(frame, schedule, dims);
}
