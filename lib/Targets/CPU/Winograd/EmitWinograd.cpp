// Writes the function of a kernel.winograd:
//
//   for tile of the task
//     for vector of channels
//       read a square D of the image, store Bᵀ D B
//   for panel of features
//     for point of the square
//       for a few tiles
//         microkernel, store sums
//     for tile of the task
//       for vector of features
//         load a square M of sums, Aᵀ M A
//         epilogue, store
#include "CPU/Contract/ContractStaging.h"
#include "CPU/Contract/VariableTile.h"
#include "kiln/Dialect/Kernel/Winograd.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "kiln/Targets/CPU/WinogradLayout.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

class WinogradEmitter {
public:
  WinogradEmitter(KernelFrame &frame, kernel::WinogradOp op, const WinogradLayout &layout)
      : frame(frame), b(frame.builder), loc(frame.loc), op(op), layout(layout),
        lhs(frame, op.getLhs()), epilogue(frame, op.getEpilogue()), f32(b.getF32Type()) {}

  void emit() {
    SmallVector<sym::Expr> sizes = layout.gridSizes();
    sym::Expr number = frame.addVariable(frame.task, sym::product(sizes));
    SmallVector<sym::Expr> values = sym::delinearize(number, sizes);
    for (auto [value, size] : llvm::zip(values, sizes))
      value = frame.named(value, size);
    batch.assign(values.begin(), values.end() - 1);
    for (auto [i, value] : llvm::enumerate(batch)) {
      lhs.setDim(i, value);
      epilogue.setDim(i, value);
    }
    firstTile = frame.named(values.back() * layout.tiles, layout.numTiles());
    sym::Expr left =
        frame.assumptions.simplify(sym::Expr::min(layout.tiles, layout.numTiles() - firstTile));
    numTiles = frame.named(left, layout.tiles + 1);
    emitRange(frame, 0, numTiles, layout.tiles, [&](sym::Expr tile) { emitInput(tile); });
    int64_t whole = layout.features / layout.panel, rest = layout.features % layout.panel;
    if (whole != 0)
      emitRange(frame, 0, whole, whole,
                [&](sym::Expr panel) { emitPanel(panel, layout.vectors()); });
    if (rest != 0)
      emitPanel(whole, llvm::divideCeilSigned(rest, layout.lanes));
  }

private:
  Type vectorType() { return VectorType::get(layout.lanes, f32); }

  /// The first row and column of a tile of the task.
  std::pair<sym::Expr, sym::Expr> getPixel(sym::Expr tile) {
    sym::Expr number = frame.named(firstTile + tile, layout.numTiles());
    sym::Expr y = frame.named(number.floorDiv(layout.tilesX()), layout.tilesY());
    sym::Expr x = frame.named(number - y * layout.tilesX(), layout.tilesX());
    return {y * layout.tile, x * layout.tile};
  }

  //===-- Transforms -------------------------------------------------------------------------===//

  using Values = SmallVector<Value>;

  Value splat(double value) {
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(VectorType::get(layout.lanes, f32), float(value)));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value subtract(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  /// x + factor * y.
  Value addTimes(Value x, double factor, Value y) {
    if (factor == 1 || factor == -1)
      return factor == 1 ? add(x, y) : subtract(x, y);
    return vector::FMAOp::create(b, loc, splat(factor), y, x);
  }
  Value times(double factor, Value x) {
    return factor == 1 ? x : arith::MulFOp::create(b, loc, splat(factor), x).getResult();
  }

  /// Bᵀ d. The rows of a pair have what they differ in and what they do not in common.
  Values transformInput(const Values &d) {
    ArrayRef<double> pairs = kernel::getWinogradPairs(layout.tile);
    // x² - p² over all pairs, as a polynomial of x²: the row of 0, and, times x, that of infinity.
    auto whole = [&](size_t first) {
      if (pairs.size() == 1)
        return addTimes(d[first + 2], -pairs[0] * pairs[0], d[first]);
      double p = pairs[0] * pairs[0], q = pairs[1] * pairs[1];
      return addTimes(addTimes(d[first + 4], -(p + q), d[first + 2]), p * q, d[first]);
    };
    Values result{whole(0)};
    for (size_t i = 0; i < pairs.size(); ++i) {
      // x (x + p) times x² - q² of the other pair, if there is one: even powers, and p times the odd ones.
      Value even = d[2], odd = d[1];
      if (pairs.size() == 2) {
        double q = pairs[1 - i] * pairs[1 - i];
        even = addTimes(d[4], -q, d[2]);
        odd = addTimes(d[3], -q, d[1]);
      }
      result.push_back(addTimes(even, pairs[i], odd));
      result.push_back(addTimes(even, -pairs[i], odd));
    }
    result.push_back(whole(1));
    return result;
  }

  /// Aᵀ m.
  Values transformOutput(const Values &m) {
    ArrayRef<double> pairs = kernel::getWinogradPairs(layout.tile);
    Values even, odd;
    for (size_t i = 0; i < pairs.size(); ++i) {
      even.push_back(add(m[1 + 2 * i], m[2 + 2 * i]));
      odd.push_back(subtract(m[1 + 2 * i], m[2 + 2 * i]));
    }
    Values result;
    SmallVector<double> powers(pairs.size(), 1);
    for (int64_t row = 0; row < layout.tile; ++row) {
      const Values &terms = row % 2 == 0 ? even : odd;
      Value sum = row == 0                 ? add(m.front(), terms.front())
                  : row + 1 == layout.tile ? addTimes(m.back(), powers.front(), terms.front())
                                           : times(powers.front(), terms.front());
      for (size_t i = 1; i < pairs.size(); ++i)
        sum = addTimes(sum, powers[i], terms[i]);
      result.push_back(sum);
      for (size_t i = 0; i < pairs.size(); ++i)
        powers[i] *= pairs[i];
    }
    return result;
  }

  /// `transform` of the columns of a square, then of the rows of what comes of them; squares are by rows.
  Values transformSquare(const Values &square, function_ref<Values(const Values &)> transform) {
    int64_t size = layout.points;
    SmallVector<Values> columns;
    for (int64_t j = 0; j < size; ++j) {
      Values column;
      for (int64_t i = 0; i < size; ++i)
        column.push_back(square[i * size + j]);
      columns.push_back(transform(column));
    }
    Values result;
    for (size_t i = 0; i < columns.front().size(); ++i) {
      Values row;
      for (const Values &column : columns)
        row.push_back(column[i]);
      llvm::append_range(result, transform(row));
    }
    return result;
  }

  //===-- Input ------------------------------------------------------------------------------===//

  /// Places `first`, first + 1, … of an image's dim; those behind the last, which only tiles over the edge have, are the last.
  SmallVector<sym::Expr> getPlaces(sym::Expr first, unsigned dim) {
    SmallVector<sym::Expr> places;
    sym::Expr end = layout.extent(dim) + (kernel::winogradWindow - 1);
    for (int64_t i = 0; i < layout.points; ++i) {
      sym::Expr place = frame.assumptions.simplify(first + i);
      if (!frame.assumptions.isLess(place, end))
        place = frame.named(sym::Expr::min(place, end - 1), end);
      places.push_back(place);
    }
    return places;
  }

  void emitInput(sym::Expr tile) {
    auto [y, x] = getPixel(tile);
    SmallVector<sym::Expr> rows = getPlaces(y, 0), columns = getPlaces(x, 1);
    emitVectors(
        frame, layout.channels, layout.channels, layout.lanes, [&](sym::Expr first, Value mask) {
          Values square;
          for (sym::Expr row : rows)
            for (sym::Expr column : columns) {
              BodyEmitter::Scope scope(lhs);
              lhs.setDim(op.imageDim(), row);
              lhs.setDim(op.imageDim() + 1, column);
              lhs.setDim(op.cDim(), first + lhs.setLanes(layout.lanes, mask));
              square.push_back(lhs.splat(lhs.emitYield().front()));
            }
          square = transformSquare(square, [&](const Values &d) { return transformInput(d); });
          for (auto [point, value] : llvm::enumerate(square)) {
            sym::Expr offset =
                (static_cast<int64_t>(point) * layout.tiles + tile) * layout.channelStride + first;
            Value address = frame.gep(frame.scratch, f32, frame.simplifyAndEmit(offset));
            LLVM::StoreOp::create(b, loc, value, address, /*alignment=*/4);
          }
        });
  }

  //===-- Products ---------------------------------------------------------------------------===//

  Value sumAddress(sym::Expr point, sym::Expr tile, int64_t vector) {
    sym::Expr offset = (point * layout.tiles + tile) * layout.panel + vector * layout.lanes;
    Value sums = frame.gep(frame.scratch, b.getI8Type(), frame.constant(layout.inputBytes()));
    return frame.gep(sums, f32, frame.simplifyAndEmit(offset));
  }

  void emitProducts(sym::Expr panel, int64_t vectors) {
    MicrokernelShape shape;
    shape.lhsType = shape.rhsType = shape.sumType = f32;
    shape.vectors = vectors;
    shape.lanes = layout.lanes;
    shape.loops.push_back({layout.channels, 1, layout.panel});
    for (int64_t row = 0; row < layout.tileRows; ++row)
      shape.rowOffsets.push_back(row * layout.channelStride);
    auto read = cast<kernel::ReadOp>(op.getRhs().front().front());
    sym::Expr blocks = frame.assumptions.simplify(numTiles.ceilDiv(layout.tileRows));
    int64_t mostBlocks = layout.tiles / layout.tileRows, numPoints = layout.numPoints();
    emitRange(frame, 0, numPoints, numPoints, [&](sym::Expr point) {
      sym::Expr row = (panel * numPoints + point) * layout.channels;
      Value right =
          frame.gep(frame.buffer(read.getTensor()), f32, frame.simplifyAndEmit(row * layout.panel));
      emitRange(frame, 0, blocks, mostBlocks, [&](sym::Expr block) {
        sym::Expr tile = block * layout.tileRows;
        sym::Expr offset = (point * layout.tiles + tile) * layout.channelStride;
        Value left = frame.gep(frame.scratch, f32, frame.simplifyAndEmit(offset));
        SmallVector<Value> sums = emitMicrokernel(frame, shape, left, right, {}, Prefetch());
        storeSums(frame, shape, sums, sumAddress(point, tile, 0), layout.panel);
      });
    });
  }

  //===-- Output -----------------------------------------------------------------------------===//

  void emitPanel(sym::Expr panel, int64_t vectors) {
    emitProducts(panel, vectors);
    emitRange(frame, 0, numTiles, layout.tiles, [&](sym::Expr tile) {
      auto [y, x] = getPixel(tile);
      for (int64_t v = 0; v < vectors; ++v)
        emitOutput(panel * layout.panel + v * layout.lanes, tile, v, y, x);
    });
  }

  void emitOutput(sym::Expr first, sym::Expr tile, int64_t v, sym::Expr y, sym::Expr x) {
    Values square;
    for (int64_t point = 0; point < layout.numPoints(); ++point)
      square.push_back(
          LLVM::LoadOp::create(b, loc, vectorType(), sumAddress(point, tile, v), /*alignment=*/4));
    square = transformSquare(square, [&](const Values &m) { return transformOutput(m); });
    BodyEmitter::Scope scope(epilogue);
    Value mask = emitTailMask(frame, first, layout.features, layout.lanes);
    feature = first + epilogue.setLanes(layout.lanes, mask);
    epilogue.setDim(op.nDim(), feature);
    epilogue.emitAvailable();
    for (int64_t i = 0; i < layout.tile; ++i)
      ifInside(y + i, layout.extent(0), [&](sym::Expr row) {
        for (int64_t j = 0; j < layout.tile; ++j)
          ifInside(x + j, layout.extent(1), [&](sym::Expr column) {
            emitElement(row, column, square[i * layout.tile + j]);
          });
      });
  }

  /// `body` at a place that may lie behind the last one, if it does not.
  void ifInside(sym::Expr place, sym::Expr extent, function_ref<void(sym::Expr)> body) {
    place = frame.assumptions.simplify(place);
    if (frame.assumptions.isLess(place, extent))
      return body(place);
    Value isInside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, frame.emit(place),
                                           frame.emit(extent));
    auto branch = scf::IfOp::create(b, loc, isInside, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    body(frame.addVariable(frame.emit(place), extent));
  }

  void emitElement(sym::Expr row, sym::Expr column, Value sum) {
    BodyEmitter::Scope scope(epilogue);
    epilogue.setDim(op.yDim(), row);
    epilogue.setDim(op.yDim() + 1, column);
    epilogue.setArgument(0, sum);
    Value value = epilogue.emitYield().front();
    SmallVector<sym::Expr> index(batch);
    index.append({row, column, feature});
    auto type = cast<RankedTensorType>(op.getResult().getType());
    epilogue.store(frame.resultBuffer(0), type.getElementType(),
                   frame.assumptions.simplify(sym::linearize(index, sym::getShape(type))), value);
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::WinogradOp op;
  WinogradLayout layout;
  BodyEmitter lhs, epilogue;
  Type f32;
  SmallVector<sym::Expr> batch;
  /// The task's first tile, and how many it has.
  sym::Expr firstTile, numTiles;
  sym::Expr feature;
};

} // namespace

LogicalResult cpu::emitWinograd(KernelFrame &frame, kernel::WinogradOp op) {
  FailureOr<WinogradLayout> layout =
      getScheduledLayout(op, getSchedule<WinogradAttr>(frame.func), frame.target);
  if (failed(layout))
    return failure();
  WinogradEmitter(frame, op, *layout).emit();
  return success();
}
