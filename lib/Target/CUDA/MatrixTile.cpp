// A product on tensor cores: mma.sync of 16 x 8 x 16 elements of two bytes, summed in f32.
//
// Lane 4*g + t of a warp holds, of the left operand, rows g and g + 8 at steps 2t, 2t + 1, 2t + 8
// and 2t + 9; of the right one, column g at the same steps; and of the sums, rows g and g + 8 at
// columns 2t and 2t + 1. Steps lie next to each other in shared memory, so that a register is one
// load; rows are 4 words apart modulo 32 (the padding), so that the lanes' loads are in different
// banks.
#include "ContractTile.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
constexpr int64_t mmaM = 16, mmaN = 8, mmaK = 16;

class MatrixTile : public ContractTile {
public:
  MatrixTile(DeviceFrame &frame, const ContractPlan &plan, const ContractDims &dims)
      : frame(frame), b(frame.builder), loc(frame.loc), plan(plan), operandType(dims.operandType),
        rowProducts(plan.tileM / mmaM), columnProducts(plan.tileN / mmaN) {
    auto part = [&](int64_t divisor, int64_t modulus) {
      Value value = arith::DivUIOp::create(b, loc, frame.thread, frame.constant(divisor));
      value = arith::RemUIOp::create(b, loc, value, frame.constant(modulus));
      return frame.addVariable(value, modulus);
    };
    step = part(1, 4);
    group = part(4, 8);
    warpColumn = part(warpSize, plan.columnTiles());
    warpRow = part(warpSize * plan.columnTiles(), plan.rowTiles());
  }

  sym::Expr offset(sym::Expr row, sym::Expr k, int64_t) const override { return row * pitch() + k; }
  int64_t size(int64_t extent) const override { return extent * pitch(); }
  bool isAlongSteps() const override { return true; }
  size_t numSums() const override { return 4 * rowProducts * columnProducts; }

  SmallVector<Value> multiply(Value lhs, Value rhs, ValueRange sums) override {
    SmallVector<Value> next(sums);
    for (int64_t k = 0; k < plan.blockK; k += mmaK) {
      SmallVector<Value> right;
      for (int64_t j = 0; j < columnProducts; ++j)
        for (int64_t half : {0, 8})
          right.push_back(load(rhs, columnOf(j, group), k + half));
      for (int64_t i = 0; i < rowProducts; ++i) {
        SmallVector<Value> left;
        for (int64_t half : {0, 8})
          for (int64_t below : {0, 8})
            left.push_back(load(lhs, rowOf(i, below), k + half));
        for (int64_t j = 0; j < columnProducts; ++j) {
          MutableArrayRef<Value> tile =
              MutableArrayRef(next).slice(4 * (i * columnProducts + j), 4);
          multiplyAdd(left, ArrayRef(right).slice(2 * j, 2), tile);
        }
      }
    }
    return next;
  }

  SmallVector<Row> rows() const override {
    SmallVector<Row> result;
    for (int64_t i = 0; i < rowProducts; ++i)
      for (int64_t below : {0, 1}) {
        Row &line = result.emplace_back();
        line.row = rowOf(i, 8 * below);
        for (int64_t j = 0; j < columnProducts; ++j)
          for (int64_t right : {0, 1})
            line.columns.push_back(
                {columnOf(j, 2 * step + right), 4 * (i * columnProducts + j) + 2 * below + right});
      }
    return result;
  }

private:
  int64_t pitch() const { return plan.blockK + 8; }
  sym::Expr rowOf(int64_t product, int64_t below) const {
    return warpRow * plan.tileM + product * mmaM + group + below;
  }
  sym::Expr columnOf(int64_t product, sym::Expr column) const {
    return warpColumn * plan.tileN + product * mmaN + column;
  }

  /// Two elements, at steps `k` + 2t and the next.
  Value load(Value memory, sym::Expr row, int64_t k) {
    sym::Expr at = row * pitch() + 2 * step + k;
    Value address = frame.gep(memory, operandType, frame.simplifyAndEmit(at));
    Type pair = operandType.isF16() ? Type(VectorType::get(2, operandType)) : b.getI32Type();
    return LLVM::LoadOp::create(b, loc, pair, address, /*alignment=*/4);
  }

  void multiplyAdd(ValueRange left, ValueRange right, MutableArrayRef<Value> sums) {
    Type f32 = b.getF32Type();
    auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
    auto element = operandType.isF16() ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
    std::array<NVVM::MMATypes, 2> types = {element, element};
    std::array<NVVM::MMALayout, 2> layouts = {NVVM::MMALayout::row, NVVM::MMALayout::col};
    Value product = NVVM::MmaOp::create(b, loc, type, left, right, ValueRange(sums),
                                        ArrayRef<int64_t>{mmaM, mmaN, mmaK}, std::nullopt,
                                        std::nullopt, types, layouts);
    for (auto [i, sum] : llvm::enumerate(sums))
      sum = LLVM::ExtractValueOp::create(b, loc, product, i);
  }

  DeviceFrame &frame;
  OpBuilder &b;
  Location loc;
  ContractPlan plan;
  Type operandType;
  int64_t rowProducts, columnProducts;
  sym::Expr step = 0, group = 0, warpRow = 0, warpColumn = 0;
};
} // namespace

std::unique_ptr<ContractTile> cuda::makeMatrixTile(DeviceFrame &frame, const ContractPlan &plan,
                                                   const ContractDims &dims) {
  return std::make_unique<MatrixTile>(frame, plan, dims);
}
