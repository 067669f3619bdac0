#include "ContractKernel.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

ContractKernel::ContractKernel(DeviceFrame &frame, kernel::ContractOp op)
    : frame(frame), b(frame.builder), loc(frame.loc), op(op), dims(op),
      epilogue(frame, op.getEpilogue()), position(op.getExtents().size()) {}

void ContractKernel::bind(cpu::BodyEmitter &body, ArrayRef<cpu::DimGroup> groups, sym::Expr linear,
                          bool isNamed) {
  auto extents = llvm::map_to_vector(groups, [](const cpu::DimGroup &g) { return g.extent; });
  for (auto [group, value] : llvm::zip(groups, sym::delinearize(linear, extents))) {
    sym::Expr variable =
        isNamed ? frame.named(value, group.extent) : frame.assumptions.simplify(value);
    for (auto [i, index] : llvm::enumerate(group.delinearize(variable)))
      position[group.first + i] = frame.assumptions.simplify(index);
    group.bind(body, variable);
  }
}

void ContractKernel::storeElement(Value value) {
  SmallVector<sym::Expr> index;
  for (int64_t dim : op.getResultDims())
    index.push_back(position[dim]);
  auto type = cast<RankedTensorType>(op.getType());
  epilogue.store(frame.resultBuffer(0), type.getElementType(),
                 sym::linearize(index, sym::getShape(op.getResult())), value);
}

void ContractKernel::storeRows(ArrayRef<ContractTile::Row> rows, ValueRange sums, sym::Expr firstM,
                               sym::Expr firstN) {
  for (const ContractTile::Row &line : rows) {
    sym::Expr m = firstM + line.row;
    frame.emitIf(frame.emitLess(m, dims.m), [&] {
      cpu::BodyEmitter::Scope scope(epilogue);
      bind(epilogue, dims.mGroups, frame.named(m, dims.m), /*isNamed=*/true);
      epilogue.emitAvailable();
      for (auto [column, number] : line.columns) {
        sym::Expr n = firstN + column;
        frame.emitIf(frame.emitLess(n, dims.n), [&, number = number] {
          cpu::BodyEmitter::Scope scope(epilogue);
          bind(epilogue, dims.nGroups, frame.named(n, dims.n), /*isNamed=*/true);
          epilogue.setArgument(0, sums[number]);
          storeElement(epilogue.emitYield().front());
        });
      }
    });
  }
}
