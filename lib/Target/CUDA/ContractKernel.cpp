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
