// The parts that all kernels of products on GPUs share: tiles, blocks, results.
#include "CUDA/Contract/ContractKernel.h"
#include "CUDA/Hopper/TensorMap.h"
#include "CUDA/NeighbourLoads.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

ContractKernel::ContractKernel(DeviceFrame &frame, kernel::ContractOp op)
    : frame(frame), b(frame.builder), loc(frame.loc), op(op), dims(op),
      epilogue(frame, op.getEpilogue()), position(op.getExtents().size()) {}

SmallVector<sym::Expr> cuda::splitGroups(DeviceFrame &frame, ArrayRef<codegen::DimGroup> groups,
                                         sym::Expr linear, bool isNamed) {
  auto extents = llvm::map_to_vector(groups, [](const codegen::DimGroup &g) { return g.extent; });
  SmallVector<sym::Expr> values = sym::delinearize(linear, extents);
  for (auto [group, value] : llvm::zip(groups, values))
    value = isNamed ? frame.named(value, group.extent) : frame.assumptions.simplify(value);
  return values;
}

void cuda::bindGroups(DeviceFrame &frame, codegen::BodyEmitter *body,
                      ArrayRef<codegen::DimGroup> groups, ArrayRef<sym::Expr> values,
                      MutableArrayRef<sym::Expr> position) {
  for (auto [group, value] : llvm::zip(groups, values)) {
    for (auto [i, index] : llvm::enumerate(group.delinearize(value)))
      position[group.first + i] = frame.assumptions.simplify(index);
    if (body)
      group.bind(*body, value);
  }
}

void ContractKernel::bind(codegen::BodyEmitter &body, ArrayRef<codegen::DimGroup> groups,
                          sym::Expr linear, bool isNamed) {
  bindGroups(frame, &body, groups, splitGroups(frame, groups, linear, isNamed), position);
}

sym::Expr ContractKernel::resultOffset() {
  SmallVector<sym::Expr> index;
  if (op.getPart())
    index.push_back(partNumber);
  for (int64_t dim : op.getResultDims())
    index.push_back(position[dim]);
  return sym::linearize(index, sym::getShape(op.getResult()));
}

void ContractKernel::storeElement(Value value) {
  auto type = cast<RankedTensorType>(op.getType());
  epilogue.store(frame.resultBuffer(0), type.getElementType(), resultOffset(), value);
}

SmallVector<Value> ContractKernel::evaluate(sym::Expr n, ValueRange sums) {
  SmallVector<SmallVector<sym::Expr>> places;
  for (size_t i = 0; i < sums.size(); ++i) {
    codegen::BodyEmitter::Scope scope(epilogue);
    bind(epilogue, dims.nGroups, n + static_cast<int64_t>(i), /*isNamed=*/false);
    places.push_back(position);
  }
  NeighbourLoads loads(frame, op.getEpilogue(), places);
  SmallVector<Value> values;
  for (auto [i, sum] : llvm::enumerate(sums)) {
    codegen::BodyEmitter::Scope scope(epilogue);
    bind(epilogue, dims.nGroups, n + static_cast<int64_t>(i), /*isNamed=*/false);
    epilogue.setArgument(0, sum);
    loads.set(epilogue, i);
    values.push_back(epilogue.emitYield().front());
  }
  return values;
}

void ContractKernel::storeValues(sym::Expr n, ValueRange values) {
  auto type = cast<RankedTensorType>(op.getType()).getElementType();
  int64_t count = values.size();
  SmallVector<sym::Expr> offsets;
  for (int64_t i = 0; i < count; ++i) {
    codegen::BodyEmitter::Scope scope(epilogue);
    bind(epilogue, dims.nGroups, n + i, /*isNamed=*/false);
    offsets.push_back(frame.assumptions.simplify(resultOffset()));
  }
  bool areOne = isa<FloatType>(type) && frame.func.getAligned() &&
                frame.assumptions.isMultipleOf(offsets[0], count);
  for (int64_t i = 1; i < count; ++i)
    areOne &= frame.assumptions.simplify(offsets[i] - offsets[0]).isConstant(i);
  if (!areOne) {
    for (auto [offset, value] : llvm::zip(offsets, values))
      epilogue.store(frame.resultBuffer(0), type, offset, value);
    return;
  }
  Value address = frame.gep(frame.resultBuffer(0), type, frame.emit(offsets[0]));
  Value vector = vector::FromElementsOp::create(b, loc, VectorType::get(count, type), values);
  LLVM::StoreOp::create(b, loc, vector, address,
                        /*alignment=*/count * type.getIntOrFloatBitWidth() / 8);
}

bool ContractKernel::hasRuns(int64_t count) {
  const sym::Assumptions &assumptions = frame.assumptions;
  if (!frame.func.getAligned() || dims.nGroups.empty() ||
      !assumptions.isMultipleOf(dims.nGroups.back().extent, count))
    return false;
  SmallVector<sym::Expr> index;
  for (int64_t dim : op.getResultDims())
    index.push_back(sym::Expr::dim(dim));
  SmallVector<sym::Expr> shape = sym::getShape(op.getResult());
  sym::Expr offset = sym::linearize(index, ArrayRef(shape).take_back(index.size()));
  auto fits = [&](const codegen::DimGroup &group) {
    auto stride = findStride(group, offset, assumptions);
    return stride && (&group == &dims.nGroups.back() ? stride->isConstant(1)
                                                     : assumptions.isMultipleOf(*stride, count));
  };
  return llvm::all_of(dims.batchGroups, fits) && llvm::all_of(dims.mGroups, fits) &&
         llvm::all_of(dims.nGroups, fits);
}

bool cuda::readsElements(kernel::ContractOp op) {
  unsigned firstM = op.getBatch().getSizes().size(), firstN = firstM + op.getM().getSizes().size();
  auto dependsOn = [](sym::Expr expr, unsigned first, unsigned end) {
    for (unsigned dim = first; dim < end; ++dim)
      if (expr.dependsOn(sym::Expr::dim(dim)))
        return true;
    return false;
  };
  return llvm::any_of(codegen::collectAccesses(op.getEpilogue()),
                      [&](const codegen::Access &access) {
                        return access.isOffset && dependsOn(access.expr, firstM, firstN) &&
                               dependsOn(access.expr, firstN, firstN + op.getN().getSizes().size());
                      });
}

/// Whether there are functions that the hardware has no instruction for.
static bool computesFunctions(Region &region) {
  return region
      .walk([](Operation *op) {
        bool isFunction = isa_and_nonnull<math::MathDialect>(op->getDialect()) &&
                          !isa<math::AbsFOp, math::CopySignOp, math::FmaOp, math::SqrtOp>(op);
        return isFunction ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// A function of each of many sums is long code, of which ptxas would compute more at a time than
/// there are registers for: that is a loop.
void ContractKernel::forEachBand(int64_t count, ValueRange sums,
                                 function_ref<void(sym::Expr, ValueRange)> body) {
  constexpr size_t manySums = 64;
  size_t ofBand = sums.size() / count;
  if (count == 1 || sums.size() < manySums || !computesFunctions(op.getEpilogue())) {
    for (int64_t band = 0; band < count; ++band)
      body(band, sums.slice(band * ofBand, ofBand));
    return;
  }
  frame.emitLoop(frame.constant(0), frame.constant(count), 1, sums, [&](Value iv, ValueRange left) {
    body(frame.addVariable(iv, count), left.take_front(ofBand));
    // The next band's come first; the last ones just stay.
    SmallVector<Value> next(left.drop_front(ofBand));
    llvm::append_range(next, left.take_back(ofBand));
    return next;
  });
}

void ContractKernel::storeRows(ArrayRef<ContractTile::Row> rows, ValueRange sums, sym::Expr firstM,
                               sym::Expr firstN) {
  for (const ContractTile::Row &line : rows) {
    sym::Expr m = firstM + line.row;
    // All neighbours are inside or none.
    int64_t step = frame.assumptions.isMultipleOf(dims.n, line.neighbours) ? line.neighbours : 1;
    frame.emitIf(frame.emitLess(m, dims.m), [&] {
      codegen::BodyEmitter::Scope scope(epilogue);
      bind(epilogue, dims.mGroups, frame.named(m, dims.m), /*isNamed=*/true);
      epilogue.emitAvailable();
      for (size_t i = 0; i < line.columns.size(); i += step) {
        SmallVector<Value> run;
        for (auto [column, number] : ArrayRef(line.columns).slice(i, step))
          run.push_back(sums[number]);
        sym::Expr n = firstN + line.columns[i].first;
        frame.emitIf(frame.emitLess(n, dims.n), [&] {
          if (step > 1)
            return storeValues(n, evaluate(n, run));
          codegen::BodyEmitter::Scope scope(epilogue);
          bind(epilogue, dims.nGroups, frame.named(n, dims.n), /*isNamed=*/true);
          epilogue.setArgument(0, run.front());
          storeElement(epilogue.emitYield().front());
        });
      }
    });
  }
}
