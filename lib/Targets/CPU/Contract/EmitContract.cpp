// Writes the function of a kernel.contract:
//
//   for part of the task                        usually one
//     for block of the sum                      usually one
//       stage the left operand                  if it cannot be read as it is
//       for panel of columns
//         stage the panel                       if it has not been packed, and is not read as it is
//         for tile of rows
//           microkernel
//           epilogue, store
//
// The panel stays in level 2 cache, or level 1 if it is short, while the rows go by. While tile i
// of a panel is at work, the i-th part of the next panel is fetched, and so is what the tile's own
// epilogue will read beside each sum.
#include "CPU/Contract/ContractStaging.h"
#include "CPU/Contract/Pairs.h"
#include "CPU/Contract/TileProducts.h"
#include "CPU/Contract/TurnedSums.h"
#include "CPU/Contract/VariableTile.h"
#include "CPU/Contract/VectorRows.h"
#include "CPU/Contract/WidenPanels.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

/// A tile: which steps of the tiled axis, and the values of all row axes at its first row.
struct Tile {
  int64_t size; // the most, of one whose size is known at run time
  SmallVector<sym::Expr> position;
  // At run time.
  std::optional<sym::Expr> steps = std::nullopt;
  SmallVector<int64_t> heights = {};
};

class ContractEmitter {
public:
  ContractEmitter(KernelFrame &frame, kernel::ContractOp op, ContractLayout contractLayout)
      : frame(frame), b(frame.builder), loc(frame.loc), op(op), layout(std::move(contractLayout)),
        epilogue(frame, op.getEpilogue()) {}

  void emit() {
    nameRuns();
    bool hasTiles = layout.unit == ProductUnit::Tiles;
    if (hasTiles) {
      sym::Expr rows = layout.tileInner != 1
                           ? layout.tileInner
                           : sym::Expr::min(layout.rows[layout.tileAxis].extent, tileRegisterRows);
      emitTileConfig(frame, scratchAt(layout.tileConfigOffset()), frame.simplifyAndEmit(rows),
                     tileSteps());
    }
    sym::Expr parts = layout.numParts();
    sym::Expr number = frame.addVariable(frame.task, layout.numTasks());
    if (layout.parts == 1) {
      emitPart(number);
    } else {
      sym::Expr first = number * layout.parts;
      emitRange(frame, first, namedEnd(first, layout.parts, parts), parts,
                [&](sym::Expr part) { emitPart(part); });
    }
    if (hasTiles)
      emitTileRelease(frame);
  }

private:
  void emitPart(sym::Expr part) {
    BodyEmitter::Scope scope(epilogue);
    bindPart(part);
    task.bindBatch(epilogue);
    epilogue.emitAvailable();
    sym::Expr blocks = layout.numSumBlocks(), extent = layout.sums.front().extent;
    if (layout.epilogueInMemory && !blocks.isConstant(1))
      clearSums();
    if (layout.isStaged() && !layout.stagesPerSumBlock() && !layout.depthwise) {
      task.numSums = extent;
      emitLhsStage(frame, layout, task, frame.scratch);
    }
    emitRange(frame, 0, blocks, blocks, [&](sym::Expr block) {
      task.firstSum = block * layout.blockSums;
      sym::Expr left = extent - task.firstSum;
      task.numSums = frame.assumptions.simplify(sym::Expr::min(left, layout.blockSums));
      isLastSumBlock = Value();
      if (!blocks.isConstant(1))
        isLastSumBlock = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, frame.emit(block),
                                               frame.emit(blocks - 1));
      if (layout.stagesPerSumBlock())
        emitLhsStage(frame, layout, task, frame.scratch);
      if (layout.widened && layout.unit == ProductUnit::Tiles)
        emitByRows();
      else
        emitPanels([&](sym::Expr panel, int64_t vectors) { emitPanel(panel, vectors); });
    });
  }

  //===-- The task ---------------------------------------------------------------------------===//

  /// Gives names to what the model's sizes say about the tiles: expressions of a tile's place stay
  /// short, in proofs and in the code.
  void nameRuns() {
    if (!layout.hasVariableTiles())
      return;
    // There is a row: no task of a contract without any is run.
    RowRun &whole = layout.runs.front(), &last = layout.runs.back();
    auto name = [&](sym::Expr &expr, sym::Range range) {
      expr = frame.addVariable(frame.simplifyAndEmit(expr), range);
    };
    sym::Expr extent = layout.rows[layout.tileAxis].extent;
    sym::Expr tiles = extent.ceilDiv(last.size);
    name(tiles, {1, {}});
    whole.count = sym::Expr::max(tiles - 2, 0);
    name(whole.count, {0, {}});
    last.firstTile = whole.count;
    last.begin = whole.count * whole.size;
    last.count = tiles - whole.count;
    name(last.count, {1, 2});
    last.steps = extent - last.begin;
    name(last.steps, {1, 2 * last.size});
    last.share = RowRun::shareOf(last.steps, last.count, last.hasEvenShares);
    name(last.share, {1, last.size});
  }

  void bindPart(sym::Expr part) {
    SmallVector<sym::Expr> sizes = layout.gridSizes();
    SmallVector<sym::Expr> values = sym::delinearize(part, sizes);
    for (auto [value, size] : llvm::zip(values, sizes))
      value = frame.named(value, size);
    size_t numBatch = layout.numOuterBatch();
    task.batch.assign(values.begin(), values.begin() + numBatch);
    task.outerRows.assign(values.begin() + numBatch, values.end() - 2);
    sym::Expr units = layout.numUnits(), panels = layout.numPanels();
    sym::Expr row = values[values.size() - 2] * layout.blockUnits;
    task.firstUnit = frame.named(row, units);
    task.endUnit = namedEnd(task.firstUnit, layout.blockUnits, units);
    sym::Expr steps = layout.rows[layout.blockAxis].extent;
    task.firstStep = frame.named(layout.unitBegin(task.firstUnit), steps + 1);
    task.endStep = frame.named(layout.unitBegin(task.endUnit), steps + 1);
    task.firstPanel = frame.named(values.back() * layout.blockPanels, panels);
    task.endPanel = namedEnd(task.firstPanel, layout.blockPanels, panels);
    if (layout.prefetch != PrefetchCache::None)
      namePrefetchStride();
  }

  /// Keeps the sum `first + count` where it is known not to pass the end.
  sym::Expr namedEnd(sym::Expr first, int64_t count, sym::Expr extent) {
    sym::Expr end = frame.assumptions.simplify(sym::Expr::min(first + count, extent));
    return end.kind() == sym::Kind::Min ? frame.named(end, extent + 1) : end;
  }

  Value scratchAt(int64_t bytes) {
    return bytes == 0 ? frame.scratch
                      : frame.gep(frame.scratch, b.getI8Type(), frame.constant(bytes));
  }

  void clearSums() {
    Value bytes = frame.constant(layout.sumScratchBytes());
    Value zero = arith::ConstantIntOp::create(b, loc, b.getI8Type(), 0);
    LLVM::MemsetOp::create(b, loc, scratchAt(layout.sumScratchOffset()), zero, bytes,
                           /*isVolatile=*/false);
  }

  //===-- Columns ----------------------------------------------------------------------------===//

  void emitPanels(function_ref<void(sym::Expr panel, int64_t vectors)> emit) {
    sym::Expr panels = layout.numPanels(), columns = layout.columns.extent;
    std::optional<int64_t> count = columns.constant();
    // The last panel has its own code if it is narrower by a vector or more, or needs masks.
    sym::Expr whole = columns.floorDiv(layout.panel());
    if (!count || *count % layout.panel() == 0) {
      emitRange(frame, task.firstPanel, task.endPanel, panels,
                [&](sym::Expr panel) { emit(panel, layout.vectors); });
      return;
    }
    if (!whole.isConstant(0)) {
      sym::Expr end = frame.assumptions.simplify(sym::Expr::min(task.endPanel, whole));
      emitRange(frame, task.firstPanel, end, whole,
                [&](sym::Expr panel) { emit(panel, layout.vectors); });
    }
    int64_t rest = *count % layout.panel();
    int64_t vectors = (rest + layout.lanes - 1) / layout.lanes;
    if (frame.assumptions.isLessOrEqual(panels, task.endPanel))
      return emit(whole, vectors);
    Value reached = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                          frame.emit(task.endPanel), frame.emit(panels));
    auto branch = scf::IfOp::create(b, loc, reached, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    emit(whole, vectors);
  }

  /// Widens all panels of the task before any rows are multiplied. What tiles read of the rows, which may come from
  /// level 3 cache, is read once for all of them.
  void emitByRows() {
    auto at = [&](sym::Expr panel) {
      return frame.gep(
          scratchAt(layout.rhsScratchOffset()), b.getI8Type(),
          frame.simplifyAndEmit((panel - task.firstPanel) * layout.panelScratchBytes()));
    };
    emitPanels([&](sym::Expr panel, int64_t vectors) {
      rhs = at(panel);
      emitWidened(panel, vectors);
    });
    emitRows([&](const Tile &tile, sym::Expr number) {
      emitPanels([&](sym::Expr panel, int64_t vectors) {
        rhs = at(panel);
        emitTile(panel, vectors, tile, number);
      });
    });
  }

  void emitPanel(sym::Expr panel, int64_t vectors) {
    if (layout.widened) {
      rhs = scratchAt(layout.rhsScratchOffset());
      emitWidened(panel, vectors);
    } else if (layout.packed) {
      sym::Expr inner = layout.sumInner().floorDiv(layout.rhsSteps);
      rhs = addressOfRow(layout.rhsTensor, layout.rhsType, layout.rhsBase,
                         panel * layout.sums.front().extent * inner + task.firstSum * inner);
      bindScales(panel * layout.sums.front().extent + task.firstSum);
    } else if (layout.rhs == RightOperand::Direct) {
      bindDirectRhs(panel, vectors);
    } else if (layout.turn != Turn::Sums) {
      rhs = scratchAt(layout.rhsScratchOffset());
      emitRhsStage(frame, layout, task, panel, vectors, rhs);
    }
    if (layout.isStaged() && layout.depthwise)
      emitLhsStage(frame, layout, task, frame.scratch, panel, vectors);
    emitRows([&](const Tile &tile, sym::Expr number) { emitTile(panel, vectors, tile, number); });
  }

  /// All tiles of the task's rows, which are numbered from 0 on.
  void emitRows(function_ref<void(const Tile &, sym::Expr number)> emit) {
    SmallVector<sym::Expr> position(task.outerRows);
    if (layout.blockAxis == layout.tileAxis) {
      emitTiles(position, task.firstUnit, task.endUnit, task.firstUnit, emit);
      return;
    }
    sym::Expr extent = layout.rows[layout.blockAxis].extent;
    emitRange(frame, task.firstUnit, task.endUnit, extent, [&](sym::Expr step) {
      SmallVector<sym::Expr> inside(position);
      inside.push_back(step);
      sym::Expr tiles = layout.numTiles();
      emitTiles(inside, 0, tiles, -((step - task.firstUnit) * tiles), emit);
    });
  }

  void emitWidened(sym::Expr panel, int64_t vectors) {
    const ContractLayout::Widened &widened = *layout.widened;
    int64_t steps = *layout.sumExtent().constant();
    int64_t groups = widened.group == 0 ? 1 : steps / widened.group;
    bindScales(panel * groups);
    emitWidenedPanel(frame, layout, vectors,
                     addressOfRow(layout.rhsTensor, widened.type, layout.rhsBase,
                                  panel * (steps / widened.steps)),
                     scales, offsets, rhs);
    scales = offsets = Value(); // what is multiplied has none
  }

  /// The address of a row of panels in a packed operand, or in its scales; null if there are none.
  Value addressOfRow(Value tensor, Type type, sym::Expr base, sym::Expr row) {
    sym::Expr offset = base.substituteDims(task.batch) + row * layout.panel();
    return tensor ? frame.gep(frame.buffer(tensor), type, frame.simplifyAndEmit(offset)) : Value();
  }

  /// Scales and offsets of a packed operand, from row `row` on.
  void bindScales(sym::Expr row) {
    scales = addressOfRow(layout.scaleTensor, layout.scaleType(), layout.scaleBase, row);
    offsets = addressOfRow(layout.offsetTensor, layout.sumType, layout.scaleBase, row);
  }

  /// The panel where it is in the operand; its last columns may be the operand's.
  void bindDirectRhs(sym::Expr panel, int64_t vectors) {
    sym::Expr first = panel * layout.panel();
    sym::Expr offset = layout.rhsBase.substituteDims(task.batch) + first +
                       task.firstSum * layout.rhsStrides.front();
    rhs = frame.gep(frame.buffer(layout.rhsTensor), layout.rhsType, frame.simplifyAndEmit(offset));
    rhsMasks.clear();
    for (int64_t v = 0; v < vectors; ++v)
      rhsMasks.push_back(
          emitTailMask(frame, first + v * layout.lanes, layout.columns.extent, layout.lanes));
  }

  //===-- Rows -------------------------------------------------------------------------------===//

  /// Tiles [begin, end) of the tiled axis; `zero` is the number of the task's first tile, before
  /// which there was none.
  void emitTiles(ArrayRef<sym::Expr> position, sym::Expr begin, sym::Expr end, sym::Expr zero,
                 function_ref<void(const Tile &, sym::Expr number)> emit) {
    auto emitAt = [&](Tile &&tile, sym::Expr start, sym::Expr number) {
      tile.position.push_back(frame.named(start, layout.rows[layout.tileAxis].extent));
      if (layout.tileAxis + 1 < layout.rows.size())
        tile.position.push_back(0);
      emit(tile, number - zero);
    };
    if (layout.tilesShareCode) {
      const RowRun &whole = layout.runs.front(), &last = layout.runs.back();
      emitRange(frame, begin, end, layout.numTiles(), [&](sym::Expr number) {
        sym::Expr before = last.share * sym::Expr::max(number - whole.count, 0);
        Value left = frame.emit(sym::Expr::min(last.share, last.steps - before));
        Value isWhole = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, frame.emit(number),
                                              frame.emit(whole.count));
        Value steps = arith::SelectOp::create(b, loc, isWhole, frame.constant(whole.size), left);
        emitAt({last.size, SmallVector<sym::Expr>(position),
                frame.addVariable(steps, sym::Range{1, last.size}), last.heights()},
               whole.size * sym::Expr::min(number, whole.count) + before, number);
      });
      return;
    }
    for (const RowRun &run : layout.runs) {
      sym::Expr first = sym::Expr::max(begin, run.firstTile);
      sym::Expr last = sym::Expr::min(end, run.firstTile + run.count);
      emitRange(frame, first, last, layout.numTiles(), [&](sym::Expr number) {
        Tile tile{run.size, SmallVector<sym::Expr>(position)};
        sym::Expr before = (run.isVariable ? run.share : run.size) * (number - run.firstTile);
        sym::Expr start = run.begin + before;
        if (run.isVariable) {
          tile.steps = frame.addVariable(
              frame.simplifyAndEmit(sym::Expr::min(run.share, run.steps - before)),
              sym::Range{1, run.size});
          tile.heights = run.heights();
        }
        emitAt(std::move(tile), start, number);
      });
    }
  }

  /// Offset of a tile's first row in the left operand, or in its copy.
  sym::Expr lhsOffset(sym::Expr panel, const Tile &tile) {
    sym::Expr offset = 0;
    for (auto [i, axis] : llvm::enumerate(layout.rows)) {
      sym::Expr value = tile.position[i];
      if (layout.isStaged())
        value = i < layout.blockAxis    ? sym::Expr(0)
                : i == layout.blockAxis ? value - task.firstStep
                                        : value;
      offset = offset + value * axis.lhsStride;
    }
    // A copy that holds one block of the sum begins with it.
    if (!layout.stagesPerSumBlock())
      offset = offset + task.firstSum * layout.sums.front().lhsStride;
    if (layout.isStaged())
      return offset;
    SmallVector<sym::Expr> dims(task.batch);
    if (layout.depthwise)
      dims.push_back(panel * layout.panel());
    return offset + layout.lhsBase.substituteDims(dims);
  }

  MicrokernelShape getShape(int64_t size, int64_t vectors) {
    MicrokernelShape shape;
    shape.lhsType = layout.lhsType;
    shape.rhsType = layout.rhsType;
    shape.sumType = layout.sumType;
    shape.vectors = vectors;
    shape.lanes = layout.columnLanes();
    shape.lhsHasColumns = layout.depthwise;
    shape.bytes = static_cast<int64_t>(kernel::ContractOp(layout.op).getBytes().value_or(0));
    shape.isNarrow = kernel::ContractOp(layout.op).getNarrow();
    shape.unroll = layout.unroll;
    shape.rhsUnsigned = layout.rhsUnsigned;
    shape.rhsSteps = layout.rhsSteps;
    shape.pairs = layout.multipliesPairs() && multipliesPairs(frame.target, shape.lanes);
    shape.scales = scales;
    shape.offsets = offsets;
    shape.scaleType = layout.scaleType();
    shape.subtractsFirst = layout.subtractsFirst;
    shape.scaleStride = layout.panel();
    if (layout.inGroups) {
      shape.groupWords = *layout.sums[1].extent.constant();
      shape.hasBlockFloats = layout.unit == ProductUnit::Digits;
      if (!isa<FloatType>(layout.lhsType))
        shape.zeroAt = frame.simplifyAndEmit((layout.sums.front().extent - task.firstSum) *
                                             layout.sums.front().lhsStride);
    }
    const ContractAxis &axis = layout.rows[layout.tileAxis];
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < layout.tileInner; ++j) {
        int64_t offset = i * axis.lhsStride.constant().value_or(0);
        if (j != 0)
          offset += j * *layout.rows.back().lhsStride.constant();
        shape.rowOffsets.push_back(offset);
      }
    if (layout.rhs == RightOperand::Direct) {
      shape.rhsMasks = rhsMasks;
      for (auto [i, sum, stride] : llvm::enumerate(layout.sums, layout.rhsStrides))
        shape.loops.push_back({i == 0 ? task.numSums : sum.extent, sum.lhsStride, stride});
      return shape;
    }
    for (auto [i, sum] : llvm::enumerate(layout.sums)) {
      bool isOfElement = layout.rhsSteps != 1 && i + 1 == layout.sums.size();
      shape.loops.push_back({i == 0 ? task.numSums : sum.extent, sum.lhsStride,
                             isOfElement ? sym::Expr(0) : sym::Expr(layout.panel())});
      for (SumLoop &outer : MutableArrayRef(shape.loops).drop_back())
        if (!isOfElement)
          outer.rhsStride = outer.rhsStride * sum.extent;
    }
    return shape;
  }

  void emitTile(sym::Expr panel, int64_t vectors, const Tile &tile, sym::Expr number) {
    Value base = layout.isStaged() ? frame.scratch : frame.buffer(layout.lhsTensor);
    Value lhs = frame.gep(base, layout.lhsType, frame.simplifyAndEmit(lhsOffset(panel, tile)));
    Prefetch prefetch = makePrefetch(number);
    bool inMemory = layout.epilogueInMemory || tile.steps;
    Value sumBase = inMemory ? sumAddress(panel, tile) : Value();
    fetchEpilogue(panel, vectors, tile);
    if (layout.unit == ProductUnit::Tiles) {
      emitInTiles(vectors, tile, lhs, sumBase, prefetch);
      return emitEpilogueInMemory(panel, vectors, tile, sumBase);
    }
    MicrokernelShape shape = getShape(tile.size, vectors);
    if (tile.steps) {
      VariableTile variable;
      bool isShared = layout.tileInner == 1 && !layout.depthwise;
      // One narrow panel among many can do what it need not, and spares code of its own.
      constexpr int64_t manyPanels = 8;
      if (isShared && layout.packed && layout.numPanels().constant().value_or(1) >= manyPanels)
        shape.vectors = layout.vectors;
      variable.shape = std::move(shape);
      variable.heights = tile.heights;
      variable.stepRows = layout.tileInner;
      variable.stepStride = frame.emit(layout.rows[layout.tileAxis].lhsStride);
      variable.steps = frame.leafValue(*tile.steps);
      variable.lhs = lhs;
      variable.rhs = rhs;
      variable.sums = sumBase;
      variable.sumStride = layout.panel();
      variable.isAdded = isLastSumBlock != nullptr;
      variable.prefetch = prefetch;
      isShared ? callVariableTile(frame, variable) : emitVariableTile(frame, variable);
    } else {
      if (layout.vectorRows != 1)
        return emitVectorRowsEpilogue(tile,
                                      emitVectorRows(frame, shape, layout.vectorRows, lhs, rhs));
      SmallVector<Value> init;
      if (isLastSumBlock)
        init = loadSums(frame, shape, sumBase, layout.panel());
      SmallVector<Value> sums = layout.turn == Turn::Sums
                                    ? emitTurned(panel, shape, lhs, init)
                                    : emitMicrokernel(frame, shape, lhs, rhs, init, prefetch);
      if (!inMemory)
        return emitEpilogueOnRegisters(panel, vectors, tile, sums);
      storeSums(frame, shape, sums, sumBase, layout.panel());
    }
    if (!isLastSumBlock)
      return emitEpilogueInMemory(panel, vectors, tile, sumBase);
    auto branch = scf::IfOp::create(b, loc, isLastSumBlock, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    emitEpilogueInMemory(panel, vectors, tile, sumBase);
  }

  //===-- Tiles of sums ----------------------------------------------------------------------===//

  TileSteps tileSteps() { return TileSteps(*layout.sums[layout.wordAxis()].extent.constant()); }

  /// Multiplies in the registers for tiles; few rows of integers, if their number is not known, in
  /// vectors. Floats are summed in another order there, and a row has the same bits in every batch.
  void emitInTiles(int64_t vectors, const Tile &tile, Value lhs, Value sums,
                   const Prefetch &prefetch) {
    Value height =
        tile.steps ? frame.leafValue(*tile.steps) : frame.constant(tile.size * layout.tileInner);
    if (!tile.steps || layout.multipliesPairs())
      return emitTileSums(vectors, tile, height, lhs, sums, prefetch);
    int64_t fewRows = std::min(mostVectorRows, maxTileRows(frame.target, layout.vectors));
    Value isLow =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, height, frame.constant(fewRows));
    auto branch = scf::IfOp::create(b, loc, isLow, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    VariableTile low;
    low.shape = getShape(fewRows, layout.vectors);
    low.heights = RowRun{fewRows, 0, 1, 0}.heights();
    low.stepStride = frame.emit(layout.rows[layout.tileAxis].lhsStride);
    low.steps = height;
    low.lhs = lhs;
    low.rhs = rhs;
    low.sums = sums;
    low.sumStride = layout.panel();
    callVariableTile(frame, low);
    b.setInsertionPointToStart(branch.elseBlock());
    emitTileSums(vectors, tile, height, lhs, sums, prefetch);
  }

  void emitTileSums(int64_t vectors, const Tile &tile, Value height, Value lhs, Value sums,
                    const Prefetch &prefetch) {
    MicrokernelShape shape = getShape(1, vectors);
    shape.rowOffsets.assign(1, 0); // for the rest, which is multiplied row by row
    size_t word = layout.wordAxis();
    TileProduct product;
    product.isPairs = layout.multipliesPairs();
    product.lhsElementBytes = layout.lhsType.getIntOrFloatBitWidth() / 8;
    product.lhs = lhs;
    sym::Expr stepBytes = layout.rows[layout.tileAxis].lhsStride * product.lhsElementBytes;
    sym::Expr rowBytes = stepBytes;
    if (layout.tileInner != 1) {
      rowBytes = layout.rows.back().lhsStride * product.lhsElementBytes;
      product.registerRows = layout.tileInner;
      product.secondBytes = frame.simplifyAndEmit(stepBytes);
    }
    product.rowBytes = frame.simplifyAndEmit(rowBytes);
    product.rhs = rhs;
    product.panel = layout.panel();
    product.columns = vectors * layout.lanes;
    product.loops.assign(shape.loops.begin(), shape.loops.begin() + word);
    product.steps = tileSteps();
    product.prefetch = prefetch;
    if (prefetch.pointer)
      product.prefetch.stride =
          arith::MulIOp::create(b, loc, prefetch.stride, frame.constant(layout.rhsSteps));
    product.sums = sums;
    emitTileProduct(frame, product, height, tile.size * layout.tileInner);
    if (product.steps.rest == 0)
      return;
    // The rest of the sum, row by row.
    int64_t done = product.steps.words * product.steps.count;
    shape.loops[word].extent = product.steps.rest;
    Value rest = frame.gep(rhs, b.getI32Type(), frame.constant(done * product.panel));
    int64_t most = tile.size * layout.tileInner;
    sym::Expr rows = tile.steps ? *tile.steps : sym::Expr(most);
    emitRange(frame, 0, rows, most, [&](sym::Expr row) {
      sym::Expr place = row * rowBytes;
      if (layout.tileInner != 1)
        place = row.floorDiv(layout.tileInner) * stepBytes + row.mod(layout.tileInner) * rowBytes;
      Value offset = frame.simplifyAndEmit(place);
      Value left =
          frame.gep(frame.gep(lhs, b.getI8Type(), offset), b.getI32Type(), frame.constant(done));
      Value sum = frame.gep(sums, layout.sumType, frame.emit(row * product.panel));
      SmallVector<Value> all = emitMicrokernel(
          frame, shape, left, rest, loadSums(frame, shape, sum, product.panel), Prefetch());
      storeSums(frame, shape, all, sum, product.panel);
    });
  }

  SmallVector<Value> emitTurned(sym::Expr panel, const MicrokernelShape &shape, Value lhs,
                                ValueRange init) {
    SmallVector<Value> sums = emitTurnedSums(frame, layout, task, panel, lhs, shape.rowOffsets);
    for (auto [sum, before] : llvm::zip(sums, init)) // none if the sum is not cut
      sum = isa<FloatType>(layout.sumType) ? arith::AddFOp::create(b, loc, before, sum).getResult()
                                           : arith::AddIOp::create(b, loc, before, sum).getResult();
    return sums;
  }

  //===-- Prefetches -------------------------------------------------------------------------===//

  /// Bytes that a tile fetches for each step of the sum: its share, but no more than a line.
  void namePrefetchStride() {
    if (!layout.hasVariableTiles()) {
      int64_t stride = 8;
      while (stride < 64 && stride * layout.maxTiles() < layout.panelRowBytes())
        stride *= 2;
      prefetchStride = stride;
      return;
    }
    sym::Expr tiles = task.endUnit - task.firstUnit;
    if (layout.blockAxis != layout.tileAxis)
      tiles = tiles * layout.numTiles();
    sym::Expr share = sym::Expr(layout.panelRowBytes()).ceilDiv(8 * sym::Expr::max(tiles, 1));
    prefetchStride = frame.named(8 * share, layout.panelRowBytes() + 8);
  }

  /// Asks for the lines that the epilogue will read beside the tile's sums.
  void fetchEpilogue(sym::Expr panel, int64_t vectors, const Tile &tile) {
    if (layout.epiloguePrefetch == PrefetchCache::None)
      return;
    constexpr int64_t lineBytes = 64;
    for (kernel::ReadOp read : layout.epilogueTiles()) {
      int64_t bytes =
          llvm::divideCeilSigned(getStorageType(read.getType()).getIntOrFloatBitWidth(), 8);
      int64_t step = std::max<int64_t>(lineBytes / bytes, 1);
      for (int64_t first = 0; first < vectors * layout.lanes; first += step) {
        BodyEmitter::Scope scope(epilogue);
        epilogue.setLanes(1);
        bindColumns(panel * layout.panel() + first);
        forEachRow(tile, [&](sym::Expr outer, sym::Expr inner) {
          BodyEmitter::Scope row(epilogue);
          bindRow(tile, outer, inner);
          epilogue.prefetch(read, getLocality(layout.epiloguePrefetch));
        });
      }
    }
  }

  static int getLocality(PrefetchCache cache) { return cache == PrefetchCache::L1 ? 3 : 2; }

  /// Spreads the fetching of the next panel over the task's tiles.
  Prefetch makePrefetch(sym::Expr number) {
    Prefetch prefetch;
    if (layout.prefetch == PrefetchCache::None)
      return prefetch;
    prefetch.stride = frame.emit(prefetchStride);
    prefetch.locality = getLocality(layout.prefetch);
    sym::Expr sums = layout.sumExtent();
    sym::Expr offset = sums * layout.panelRowBytes() +
                       number * (layout.blockSums * layout.sumInner() * prefetchStride);
    prefetch.pointer = frame.gep(rhs, b.getI8Type(), frame.simplifyAndEmit(offset));
    return prefetch;
  }

  //===-- Sums in memory ---------------------------------------------------------------------===//

  Type vectorType() {
    int64_t lanes = layout.columnLanes();
    return lanes == 1 ? layout.sumType : VectorType::get(lanes, layout.sumType);
  }

  /// The address of a tile's sums: with a cut sum, all of the task's are kept, panel by panel.
  Value sumAddress(sym::Expr panel, const Tile &tile) {
    sym::Expr offset = 0;
    if (isLastSumBlock) {
      sym::Expr row = 0;
      for (size_t i = layout.blockAxis; i < layout.rows.size(); ++i)
        row = row * (i == layout.blockAxis ? sym::Expr(1) : layout.rows[i].extent) +
              (i == layout.blockAxis ? tile.position[i] - task.firstStep : tile.position[i]);
      offset = ((panel - task.firstPanel) * layout.maxBlockRows() + row) * layout.panel();
    }
    return frame.gep(scratchAt(layout.sumScratchOffset()), layout.sumType,
                     frame.simplifyAndEmit(offset));
  }

  unsigned sumBytes() { return layout.sumType.getIntOrFloatBitWidth() / 8; }

  //===-- Epilogue ---------------------------------------------------------------------------===//

  /// Binds the columns of vector `v` of a panel.
  void bindColumns(sym::Expr panel, int64_t v) {
    sym::Expr first = panel * layout.panel() + v * layout.lanes;
    int64_t lanes = layout.columnLanes();
    Value mask = emitTailMask(frame, first, layout.columns.extent, lanes);
    bindColumns(first + epilogue.setLanes(lanes, mask));
    epilogue.emitAvailable();
  }

  void bindColumns(sym::Expr first) {
    column = first;
    layout.columns.bind(epilogue, column);
    if (layout.depthwise) // One n.
      for (unsigned i = 0; i < op.getNumN(); ++i)
        epilogue.setDim(op.getNumBatch() + op.getNumM() + i, 0);
  }

  /// Binds the row that is `outer` steps of the tiled axis and `inner` of the one inside it; returns
  /// the values of all dims but the columns.
  SmallVector<sym::Expr> bindRow(const Tile &tile, sym::Expr outer, sym::Expr inner) {
    SmallVector<sym::Expr> dims(op.getExtents().size(), 0);
    llvm::copy(task.batch, dims.begin());
    for (auto [i, axis] : llvm::enumerate(layout.rows)) {
      sym::Expr value = tile.position[i];
      if (i == layout.tileAxis)
        value = value + outer;
      else if (i > layout.tileAxis)
        value = inner;
      for (auto [j, dimValue] : llvm::enumerate(axis.delinearize(value))) {
        epilogue.setDim(axis.first + j, dimValue);
        dims[axis.first + j] = dimValue;
      }
    }
    return dims;
  }

  void emitElement(const Tile &tile, sym::Expr outer, sym::Expr inner, Value sum) {
    BodyEmitter::Scope scope(epilogue);
    SmallVector<sym::Expr> dims = bindRow(tile, outer, inner);
    llvm::copy(layout.columns.delinearize(column), dims.begin() + layout.columns.first);
    epilogue.setArgument(0, sum);
    Value value = epilogue.emitYield().front();
    SmallVector<sym::Expr> index;
    for (int64_t resultDim : op.getResultDims())
      index.push_back(dims[resultDim]);
    auto type = cast<RankedTensorType>(op.getResult().getType());
    epilogue.store(frame.resultBuffer(0), type.getElementType(),
                   frame.assumptions.simplify(sym::linearize(index, sym::getShape(type))), value);
  }

  void emitEpilogueOnRegisters(sym::Expr panel, int64_t vectors, const Tile &tile,
                               ArrayRef<Value> sums) {
    for (int64_t v = 0; v < vectors; ++v) {
      BodyEmitter::Scope scope(epilogue);
      bindColumns(panel, v);
      for (int64_t row = 0; row < tile.size * layout.tileInner; ++row)
        emitElement(tile, row / layout.tileInner, row % layout.tileInner, sums[row * vectors + v]);
    }
  }

  /// The epilogue on sums of several rows each.
  void emitVectorRowsEpilogue(const Tile &tile, ArrayRef<Value> sums) {
    BodyEmitter::Scope scope(epilogue);
    sym::Expr lane = epilogue.setLanes(layout.vectorRows * layout.lanes);
    bindColumns(lane.mod(layout.lanes));
    for (auto [i, sum] : llvm::enumerate(sums))
      emitElement(tile, static_cast<int64_t>(i) * layout.vectorRows + lane.floorDiv(layout.lanes),
                  0, sum);
  }

  /// Goes over the tile's rows, by steps of the tiled axis and of the one inside it.
  void forEachRow(const Tile &tile, function_ref<void(sym::Expr outer, sym::Expr inner)> body) {
    if (!tile.steps) {
      for (int64_t row = 0, e = tile.size * layout.tileInner; row < e; ++row)
        body(row / layout.tileInner, row % layout.tileInner);
      return;
    }
    emitRange(frame, 0, *tile.steps, tile.size, [&](sym::Expr outer) {
      for (int64_t inner = 0; inner < layout.tileInner; ++inner)
        body(outer, inner);
    });
  }

  void emitEpilogueInMemory(sym::Expr panel, int64_t vectors, const Tile &tile, Value base) {
    int64_t most = tile.size * layout.tileInner;
    sym::Expr rows = tile.steps ? *tile.steps * layout.tileInner : sym::Expr(most);
    auto emitVector = [&](sym::Expr row, int64_t v) {
      Value address =
          frame.gep(base, layout.sumType, frame.emit(row * layout.panel() + v * layout.lanes));
      Value sum = LLVM::LoadOp::create(b, loc, vectorType(), address, sumBytes());
      sym::Expr outer = row, inner = 0;
      if (layout.tileInner != 1) {
        outer = frame.named(row.floorDiv(layout.tileInner), tile.size);
        inner = frame.named(row - outer * layout.tileInner, layout.tileInner);
      }
      emitElement(tile, outer, inner, sum);
    };
    // A line of the result is written at once: it may have left the cache before its other vectors come.
    if (layout.unit == ProductUnit::Tiles) {
      emitRange(frame, 0, rows, most, [&](sym::Expr row) {
        for (int64_t v = 0; v < vectors; ++v) {
          BodyEmitter::Scope scope(epilogue);
          bindColumns(panel, v);
          emitVector(row, v);
        }
      });
      return;
    }
    for (int64_t v = 0; v < vectors; ++v) {
      BodyEmitter::Scope scope(epilogue);
      bindColumns(panel, v);
      emitRange(frame, 0, rows, most, [&](sym::Expr row) { emitVector(row, v); });
    }
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::ContractOp op;
  ContractLayout layout;
  BodyEmitter epilogue;
  ContractTask task;
  Value rhs;
  /// Rows of a packed right operand's scales and offsets; null: none.
  Value scales, offsets;
  /// For a right operand that is read where it is: the columns that each vector of the panel has.
  SmallVector<Value> rhsMasks;
  /// Null when the sum is not cut.
  Value isLastSumBlock;
  sym::Expr column;
  sym::Expr prefetchStride;
};

} // namespace

LogicalResult cpu::emitContract(KernelFrame &frame, kernel::ContractOp contract) {
  auto schedule = getSchedule<ContractAttr>(frame.func);
  FailureOr<ContractLayout> layout = getScheduledLayout(contract, schedule, frame.target);
  if (failed(layout))
    return failure();
  if (schedule.getWidenRows() == 0) {
    ContractEmitter(frame, contract, std::move(*layout)).emit();
    return success();
  }
  FailureOr<ContractLayout> widened =
      getScheduledLayout(contract, schedule, frame.target, /*isWidened=*/true);
  if (failed(widened))
    return failure();
  OpBuilder &b = frame.builder;
  Value rows = frame.emit(sym::product(contract.getM().getSizes()));
  Value areMany = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::sge, rows,
                                        frame.constant(schedule.getWidenRows()));
  auto branch = scf::IfOp::create(b, frame.loc, areMany, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  ContractEmitter(frame, contract, std::move(*widened)).emit();
  b.setInsertionPointToStart(branch.elseBlock());
  ContractEmitter(frame, contract, std::move(*layout)).emit();
  return success();
}
