// Copies blocks of a product's left operand into scratch memory, computing them on the way.
#include "CPU/Contract/ContractStaging.h"
#include "CPU/Contract/BlockFloats.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

void cpu::emitRange(KernelFrame &frame, sym::Expr begin, sym::Expr end, sym::Expr extent,
                    function_ref<void(sym::Expr)> body) {
  begin = frame.assumptions.simplify(begin);
  end = frame.assumptions.simplify(end);
  if (begin.isConstant() && end == begin + 1)
    return body(begin);
  frame.emitLoop(frame.emit(begin), frame.emit(end), 1, {},
                 [&](Value iv, ValueRange) -> SmallVector<Value> {
                   body(frame.addVariable(iv, extent));
                   return {};
                 });
}

void cpu::emitVectors(KernelFrame &frame, sym::Expr end, sym::Expr extent, int64_t lanes,
                      function_ref<void(sym::Expr, Value)> body) {
  end = frame.assumptions.simplify(end);
  sym::Expr whole = frame.assumptions.simplify(end.floorDiv(lanes) * lanes);
  frame.emitLoop(frame.constant(0), frame.emit(whole), lanes, {},
                 [&](Value iv, ValueRange) -> SmallVector<Value> {
                   body(frame.addSteppedVariable(
                            iv, lanes, frame.assumptions.simplify(extent.floorDiv(lanes) * lanes)),
                        Value());
                   return {};
                 });
  if (frame.assumptions.isMultipleOf(end, lanes))
    return;
  if (whole.isConstant() && end.isConstant())
    return body(whole, emitTailMask(frame, whole, end, lanes));
  OpBuilder &b = frame.builder;
  Value some = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::ne, frame.emit(whole),
                                     frame.emit(end));
  auto branch = scf::IfOp::create(b, frame.loc, some, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  sym::Expr first = frame.addSteppedVariable(frame.emit(whole), lanes, extent);
  body(first, emitTailMask(frame, first, end, lanes));
}

SmallVector<Value> cpu::emitTranspose(KernelFrame &frame, ValueRange rows) {
  SmallVector<Value> values(rows);
  auto size = static_cast<int64_t>(values.size());
  // Exchanges the off-diagonal quarters of ever larger blocks.
  for (int64_t half = 1; half < size; half *= 2) {
    SmallVector<int64_t> upper, lower;
    for (int64_t j = 0; j < size; ++j) {
      upper.push_back((j & half) == 0 ? j : size + j - half);
      lower.push_back((j & half) == 0 ? j + half : size + j);
    }
    for (int64_t i = 0; i < size; ++i) {
      if (i & half)
        continue;
      Value a = values[i], b = values[i + half];
      values[i] = vector::ShuffleOp::create(frame.builder, frame.loc, a, b, upper);
      values[i + half] = vector::ShuffleOp::create(frame.builder, frame.loc, a, b, lower);
    }
  }
  return values;
}

//===-- Left operand -------------------------------------------------------------------------===//

namespace {

class LhsStager {
public:
  LhsStager(KernelFrame &frame, const ContractLayout &layout, const ContractTask &task, Value base,
            sym::Expr panel, int64_t vectors)
      : frame(frame), layout(layout), task(task), base(base), panel(panel), vectors(vectors),
        body(frame, kernel::ContractOp(layout.op).getLhs()), firstM(layout.rows.front().first) {}

  void emitWindow() {
    BodyEmitter::Scope scope(body);
    task.bindBatch(body);
    // Outer rows that no window slides over, such as the image.
    for (auto [axis, value] : llvm::zip(layout.rows, task.outerRows))
      if (llvm::none_of(layout.stage, [&](const StageAxis &s) { return s.rowDim == axis.first; }))
        axis.bind(body, value);
    body.emitAvailable();
    ArrayRef<StageAxis> axes(layout.stage);
    if (layout.depthwise)
      return emitWindowLoops(axes, {}, 0);
    // Innermost axes that are shorter than a vector run as one.
    size_t inner = 1;
    int64_t width = axes.back().extent;
    while (width < layout.lanes && inner < axes.size() && !isBlockAxis(axes.back()) &&
           !isBlockAxis(axes[axes.size() - inner - 1]))
      width *= axes[axes.size() - ++inner].extent;
    emitWindowLoops(axes.drop_back(inner), axes.take_back(inner), 0);
  }

  void emitMatrix() {
    BodyEmitter::Scope scope(body);
    task.bindBatch(body);
    body.emitAvailable();
    const ContractAxis &rows = layout.rows.front();
    sym::Expr count = task.endStep - task.firstStep;
    emitRange(frame, 0, count, layout.maxBlockSteps(), [&](sym::Expr row) {
      BodyEmitter::Scope scope(body);
      sym::Expr first = row + task.firstStep;
      if (!task.firstStep.isConstant())
        first = frame.addVariable(frame.emit(first), rows.extent);
      rows.bind(body, first);
      body.emitAvailable();
      emitMatrixRow(row * rows.lhsStride);
    });
  }

  void emitRowsOfBlockFloats() {
    BodyEmitter::Scope scope(body);
    task.bindBatch(body);
    body.emitAvailable();
    const ContractAxis &rows = layout.rows.front();
    SmallVector<sym::Expr> sizes;
    for (const ContractAxis &sum : layout.sums)
      sizes.push_back(sum.extent);
    sym::Expr blocks = layout.sumExtent().floorDiv(blockFloatSteps);
    emitRange(frame, task.firstStep, task.endStep, rows.extent, [&](sym::Expr row) {
      BodyEmitter::Scope scope(body);
      rows.bind(body, row);
      body.emitAvailable();
      emitRange(frame, 0, blocks, blocks, [&](sym::Expr block) {
        SmallVector<Value> numbers;
        for (int64_t first = 0; first < blockFloatSteps; first += layout.lanes) {
          BodyEmitter::Scope scope(body);
          sym::Expr step = block * blockFloatSteps + first + body.setLanes(layout.lanes);
          for (auto [sum, value] : llvm::zip(layout.sums, sym::delinearize(step, sizes)))
            sum.bind(body, value);
          numbers.push_back(body.splat(body.emitYield().front()));
        }
        sym::Expr place =
            (row - task.firstStep) * rows.lhsStride + block * countBlockFloatWords(blockFloatSteps);
        emitBlockFloats(frame, numbers,
                        frame.gep(base, layout.lhsType, frame.simplifyAndEmit(place)));
      });
    });
  }

private:
  bool isBlockAxis(const StageAxis &axis) const {
    return axis.rowDim == layout.rows[layout.blockAxis].first;
  }

  /// The beginning and the length of the task's part of a stage axis: the last block may be shorter
  /// than the others.
  std::pair<sym::Expr, sym::Expr> range(const StageAxis &axis) const {
    if (!axis.rowDim)
      return {0, axis.extent};
    unsigned row = *axis.rowDim - firstM;
    if (row < layout.blockAxis)
      return {axis.rowStep * task.outerRows[row], axis.extent};
    if (row > layout.blockAxis)
      return {0, axis.extent};
    sym::Expr missing = layout.maxBlockSteps() - (task.endStep - task.firstStep);
    return {axis.rowStep * task.firstStep, axis.extent - axis.rowStep * missing};
  }

  void bind(const StageAxis &axis, sym::Expr position) {
    if (axis.rowDim)
      body.setDim(*axis.rowDim, axis.rowBind * position);
    body.setDim(*axis.sumDim, axis.sumBind * position);
  }

  void emitWindowLoops(ArrayRef<StageAxis> loops, ArrayRef<StageAxis> inner, sym::Expr offset) {
    if (loops.empty())
      return emitWindowVectors(inner, offset);
    const StageAxis &axis = loops.front();
    auto [begin, extent] = range(axis);
    emitRange(frame, 0, extent, axis.extent, [&, begin = begin](sym::Expr i) {
      BodyEmitter::Scope scope(body);
      bind(axis, begin + i);
      body.emitAvailable();
      emitWindowLoops(loops.drop_front(), inner, offset + i * axis.stride);
    });
  }

  /// The columns of a panel, for one position of a depthwise convolution.
  void emitColumns(sym::Expr offset) {
    for (int64_t v = 0; v < vectors; ++v) {
      BodyEmitter::Scope scope(body);
      sym::Expr first = panel * layout.panel() + v * layout.lanes;
      Value mask = emitTailMask(frame, first, layout.columns.extent, layout.lanes);
      sym::Expr lane = body.setLanes(layout.lanes, mask);
      layout.columns.bind(body, first + lane);
      body.store(base, layout.lhsType, offset + v * layout.lanes + lane, body.emitYield().front());
    }
  }

  void emitWindowVectors(ArrayRef<StageAxis> axes, sym::Expr offset) {
    if (layout.depthwise)
      return emitColumns(offset);
    SmallVector<sym::Expr> extents;
    for (const StageAxis &axis : axes)
      extents.push_back(axis.extent);
    sym::Expr end = axes.size() == 1 ? range(axes.front()).second : sym::product(extents);
    emitVectors(frame, end, sym::product(extents), layout.lanes, [&](sym::Expr first, Value mask) {
      BodyEmitter::Scope scope(body);
      sym::Expr position = first + body.setLanes(layout.lanes, mask);
      for (auto [axis, value] : llvm::zip(axes, sym::delinearize(position, extents)))
        bind(axis, range(axis).first + value);
      body.store(base, layout.lhsType, offset + position, body.emitYield().front());
    });
  }

  void emitMatrixRow(sym::Expr offset) {
    const ContractAxis &sums = layout.sums.front();
    // A long innermost dim gets loops of its own around it: no division in the addresses.
    bool cut = !task.numSums.isConstant() || task.numSums != sums.extent;
    sym::Expr inner = sums.count == 0 ? sym::Expr(1) : sums.extents.back();
    if (cut || sums.count <= 1 || !frame.assumptions.isNonNegative(inner - layout.lanes)) {
      emitVectors(frame, task.numSums, layout.blockSums, layout.lanes,
                  [&](sym::Expr first, Value mask) {
                    BodyEmitter::Scope scope(body);
                    sym::Expr position = first + body.setLanes(layout.lanes, mask);
                    sums.bind(body, task.firstSum + position);
                    body.store(base, layout.lhsType, offset + position, body.emitYield().front());
                  });
      return;
    }
    sym::Expr outer = sym::product(ArrayRef(sums.extents).drop_back());
    emitRange(frame, 0, outer, outer, [&](sym::Expr i) {
      BodyEmitter::Scope scope(body);
      auto values = sym::delinearize(i, ArrayRef(sums.extents).drop_back());
      for (auto [j, value] : llvm::enumerate(values))
        body.setDim(sums.first + j, value);
      body.emitAvailable();
      emitVectors(frame, inner, inner, layout.lanes, [&](sym::Expr first, Value mask) {
        BodyEmitter::Scope scope(body);
        sym::Expr position = first + body.setLanes(layout.lanes, mask);
        body.setDim(sums.first + sums.count - 1, position);
        body.store(base, layout.lhsType, offset + i * inner + position, body.emitYield().front());
      });
    });
  }

  KernelFrame &frame;
  const ContractLayout &layout;
  const ContractTask &task;
  Value base;
  sym::Expr panel;
  int64_t vectors;
  BodyEmitter body;
  unsigned firstM;
};

} // namespace

void cpu::emitLhsStage(KernelFrame &frame, const ContractLayout &layout, const ContractTask &task,
                       Value base, sym::Expr panel, int64_t vectors) {
  LhsStager stager(frame, layout, task, base, panel, vectors);
  if (layout.unit == ProductUnit::Digits)
    stager.emitRowsOfBlockFloats();
  else if (layout.lhs == LeftOperand::Window)
    stager.emitWindow();
  else
    stager.emitMatrix();
}

//===-- Right operand ------------------------------------------------------------------------===//

bool cpu::walksAlong(Region &region, unsigned dim, unsigned other) {
  SmallVector<Access> accesses = collectAccesses(region);
  auto consecutive = [&](unsigned d) {
    return llvm::any_of(accesses, [&](const Access &access) {
      return access.isOffset && classify(access.expr, sym::Expr::dim(d)) == Walk::Consecutive;
    });
  };
  return consecutive(dim) && !consecutive(other);
}

namespace {

class PanelStager {
public:
  PanelStager(KernelFrame &frame, const PanelSource &source, int64_t lanes, int64_t width,
              Type type, Value base, function_ref<Value(Value)> convert)
      : frame(frame), source(source), body(source.body), lanes(lanes), width(width), type(type),
        base(base), convert(convert) {}

  /// One row of the panel: vectors along the columns.
  void emitRow(sym::Expr sum, sym::Expr firstColumn, int64_t vectors) {
    BodyEmitter::Scope scope(body);
    source.bindSum(sum);
    body.emitAvailable();
    for (int64_t v = 0; v < vectors; ++v) {
      Value value;
      {
        BodyEmitter::Scope scope(body);
        sym::Expr column = frame.assumptions.simplify(firstColumn + v * lanes);
        Value mask = emitTailMask(frame, column, source.columns, lanes);
        source.bindColumn(column + body.setLanes(lanes, mask));
        value = body.splat(evaluate());
      }
      // Past the last column as well: what is computed there is nobody's, but made of something.
      BodyEmitter::Scope scope(body);
      store(sum * width + v * lanes + body.setLanes(lanes), value);
    }
  }

  /// lanes x lanes elements at a time: vectors along the sum, turned in registers.
  void emitSquares(sym::Expr firstColumn, sym::Expr vector) {
    auto emitSquare = [&](sym::Expr first, Value mask) {
      SmallVector<Value> rows;
      for (int64_t i = 0; i < lanes; ++i) {
        BodyEmitter::Scope scope(body);
        source.bindSum(first + body.setLanes(lanes, mask));
        sym::Expr column = frame.assumptions.simplify(firstColumn + vector * lanes + i);
        // Past the last column: any value will do, but from inside the tensor.
        if (!frame.assumptions.isLess(column, source.columns))
          column = frame.addVariable(frame.emit(sym::Expr::min(column, source.columns - 1)),
                                     source.columns);
        source.bindColumn(column);
        rows.push_back(body.splat(evaluate()));
      }
      rows = emitTranspose(frame, rows);
      for (int64_t i = 0; i < lanes; ++i) {
        sym::Expr place = first + i;
        if (source.placeOf) {
          if (frame.assumptions.isLessOrEqual(source.numSums, place))
            break; // another place is not past the end
          place = frame.assumptions.simplify(source.placeOf(place));
        }
        BodyEmitter::Scope scope(body);
        sym::Expr lane = body.setLanes(lanes);
        store(place * width + vector * lanes + lane, rows[i]);
      }
    };
    if (source.numSums.isConstant())
      return emitVectors(frame, source.numSums, source.maxSums, lanes, emitSquare);
    // Masks cost less than a second copy of this.
    sym::Expr groups = source.numSums.ceilDiv(lanes);
    frame.emitLoop(frame.constant(0), frame.simplifyAndEmit(groups * lanes), lanes, {},
                   [&](Value iv, ValueRange) -> SmallVector<Value> {
                     sym::Expr first = frame.addSteppedVariable(iv, lanes, source.maxSums);
                     emitSquare(first, emitTailMask(frame, first, source.numSums, lanes));
                     return {};
                   });
  }

private:
  Value evaluate() {
    Value value = body.emitYield().front();
    return convert ? convert(value) : value;
  }

  void store(sym::Expr offset, Value value) { body.store(base, type, offset, value); }

  KernelFrame &frame;
  const PanelSource &source;
  BodyEmitter &body;
  int64_t lanes, width;
  Type type;
  Value base;
  function_ref<Value(Value)> convert;
};

} // namespace

void cpu::emitPanelStage(KernelFrame &frame, const PanelSource &source, sym::Expr firstColumn,
                         int64_t vectors, int64_t lanes, int64_t width, Type type, Value base,
                         function_ref<Value(Value)> convert) {
  PanelStager stager(frame, source, lanes, width, type, base, convert);
  if (source.alongSum && lanes != 1)
    emitRange(frame, 0, vectors, vectors,
              [&](sym::Expr vector) { stager.emitSquares(firstColumn, vector); });
  else
    emitRange(frame, 0, source.numSums, source.maxSums,
              [&](sym::Expr sum) { stager.emitRow(sum, firstColumn, vectors); });
}

void cpu::emitRhsStage(KernelFrame &frame, const ContractLayout &layout, const ContractTask &task,
                       sym::Expr panel, int64_t vectors, Value base) {
  kernel::ContractOp op = layout.op;
  BodyEmitter body(frame, op.getRhs());
  BodyEmitter::Scope scope(body);
  task.bindBatch(body);
  body.emitAvailable();

  SmallVector<sym::Expr> extents;
  for (const ContractAxis &axis : layout.sums)
    extents.push_back(axis.extent);
  sym::Expr inner = layout.sumInner();
  auto bindSum = [&](sym::Expr sum) {
    SmallVector<sym::Expr> values = sym::delinearize(task.firstSum * inner + sum, extents);
    for (auto [axis, value] : llvm::zip(layout.sums, values))
      axis.bind(body, frame.assumptions.simplify(value));
  };
  // In the order of memory, if all of the sum is there.
  unsigned firstK = op.getExtents().size() - op.getNumK();
  ArrayRef<sym::Expr> sizes = op.getK().getSizes();
  SmallVector<sym::Expr> sizesInMemory;
  for (unsigned dim : layout.rhsOrder)
    sizesInMemory.push_back(sizes[dim]);
  auto delinearizeInMemory = [&](sym::Expr number) {
    SmallVector<sym::Expr> values(sizes.size());
    for (auto [dim, value] : llvm::zip(layout.rhsOrder, sym::delinearize(number, sizesInMemory)))
      values[dim] = sizes[dim].isConstant(1) ? sym::Expr(0) : value;
    return values;
  };
  auto bindInMemory = [&](sym::Expr number) {
    for (auto [i, value] : llvm::enumerate(delinearizeInMemory(number)))
      body.setDim(firstK + i, frame.assumptions.simplify(value));
  };
  auto placeOf = [&](sym::Expr number) {
    return sym::linearize(delinearizeInMemory(number), sizes);
  };
  bool isInMemoryOrder =
      layout.turn == Turn::Rhs && !layout.rhsOrder.empty() && layout.numSumBlocks().isConstant(1);
  if (layout.depthwise) // One n.
    for (unsigned i = 0; i < op.getNumN(); ++i)
      body.setDim(op.getNumBatch() + op.getNumM() + i, 0);
  auto bindColumn = [&](sym::Expr column) { layout.columns.bind(body, column); };
  PanelSource source{body,
                     bindColumn,
                     bindSum,
                     layout.turn == Turn::Rhs,
                     layout.columns.extent,
                     frame.assumptions.simplify(task.numSums * inner),
                     layout.blockSums * *inner.constant()};
  if (isInMemoryOrder) {
    source.bindSum = bindInMemory;
    source.placeOf = placeOf;
  }
  emitPanelStage(frame, source, panel * layout.panel(), vectors, layout.lanes, layout.panel(),
                 layout.rhsType, base);
}
