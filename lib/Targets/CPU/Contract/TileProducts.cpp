// Products in the registers for tiles: their configuration, the loops over the sum, and the sums in
// memory.
#include "CPU/Contract/TileProducts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static constexpr int64_t wordBytes = 4, tileRowBytes = 64, tileWords = 16;
/// Numbers of registers: sums are from 0 on, two for each tile of rows.
static constexpr int64_t firstLeft = 4, firstRight = 6;

TileSteps::TileSteps(int64_t sum) {
  constexpr int64_t fewest = 8; // shorter tiles than these take longer than vectors for the rest
  words = std::min(sum, tileWords);
  for (int64_t even = tileWords; even >= fewest; --even)
    if (sum % even == 0) {
      words = even;
      break;
    }
  count = sum / words;
  rest = sum % words;
}

static void call(KernelFrame &frame, StringRef name, ValueRange operands) {
  LLVM::CallIntrinsicOp::create(frame.builder, frame.loc,
                                frame.builder.getStringAttr("llvm.x86." + name), operands);
}

/// The number of a register.
static Value tile(KernelFrame &frame, int64_t number) {
  return LLVM::ConstantOp::create(frame.builder, frame.loc,
                                  frame.builder.getI8IntegerAttr(static_cast<int8_t>(number)));
}

//===-- Configuration ------------------------------------------------------------------------===//

void cpu::emitTileConfig(KernelFrame &frame, Value memory, Value rows, const TileSteps &steps) {
  OpBuilder &b = frame.builder;
  auto store = [&](int64_t offset, Value value) {
    Value address = frame.gep(memory, b.getI8Type(), frame.constant(offset));
    LLVM::StoreOp::create(b, frame.loc, value, address, /*alignment=*/8);
  };
  // A byte for each tile, from the first on.
  auto bytesOf = [&](Value value, int64_t mask) {
    return arith::MulIOp::create(b, frame.loc, value, frame.constant(mask)).getResult();
  };
  store(0, frame.constant(1)); // palette 1, from row 0 on
  store(8, frame.constant(0));
  store(16, frame.constant(0x0040'0040'0040'0040)); // bytes of a row: the sums'
  int64_t left = steps.words * wordBytes;
  store(24, frame.constant(left | left << 16 | tileRowBytes << 32 | tileRowBytes << 48));
  store(32, frame.constant(0));
  store(40, frame.constant(0));
  int64_t ofRight = (steps.words | steps.words << 8) << (8 * firstRight);
  store(48, arith::OrIOp::create(b, frame.loc, bytesOf(rows, 0x0101'0101'0101),
                                 frame.constant(ofRight)));
  store(56, frame.constant(0));
  call(frame, "ldtilecfg", memory);
}

void cpu::emitTileRelease(KernelFrame &frame) { call(frame, "tilerelease", {}); }

//===-- Products -----------------------------------------------------------------------------===//

namespace {

class TileEmitter {
public:
  TileEmitter(KernelFrame &frame, const TileProduct &product)
      : frame(frame), b(frame.builder), product(product),
        panelBytes(frame.constant(product.panel * wordBytes)) {}

  /// `rowTiles` tiles of rows, the second one `second` rows (i64) from the first.
  void emit(int64_t rowTiles, Value second) {
    this->rowTiles = rowTiles;
    Value lhs = product.lhs;
    if (rowTiles == 2)
      secondBytes = product.secondBytes ? product.secondBytes : multiply(second, product.rowBytes);
    int64_t tiles = llvm::divideCeilSigned(product.columns, tileColumns);
    for (int64_t first = 0; first < tiles; first += 2) {
      columnTiles = std::min<int64_t>(tiles - first, 2);
      forEachSum(
          [&](int64_t number, int64_t, int64_t) { call(frame, "tilezero", tile(frame, number)); });
      isFetching = first == 0 && product.prefetch.pointer;
      emitLoops(0, lhs, advance(product.rhs, frame.constant(first * tileRowBytes)),
                product.prefetch.pointer);
      forEachSum([&](int64_t number, int64_t row, int64_t column) {
        Value address = advance(product.sums, frame.constant((first + column) * tileRowBytes));
        if (row == 1)
          address = advance(address, multiply(second, panelBytes));
        call(frame, "tilestored64", {tile(frame, number), address, panelBytes});
      });
    }
  }

private:
  Value advance(Value pointer, Value bytes) { return frame.gep(pointer, b.getI8Type(), bytes); }
  Value multiply(Value x, Value y) { return arith::MulIOp::create(b, frame.loc, x, y); }

  void forEachSum(function_ref<void(int64_t number, int64_t row, int64_t column)> body) {
    for (int64_t row = 0; row < rowTiles; ++row)
      for (int64_t column = 0; column < columnTiles; ++column)
        body(2 * row + column, row, column);
  }

  /// `words` of the panel's rows belong to a step of the loop.
  void emitLoop(Value extent, Value lhs, Value lhsBytes, Value rhs, Value words, Value ahead,
                function_ref<void(Value, Value, Value)> body) {
    auto loop = scf::ForOp::create(b, frame.loc, frame.constant(0), extent, frame.constant(1));
    keepLoop(loop);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar(), done = multiply(step, words);
    if (isFetching)
      ahead = advance(ahead, multiply(done, product.prefetch.stride));
    body(advance(lhs, multiply(step, lhsBytes)), advance(rhs, multiply(done, panelBytes)), ahead);
  }

  void emitLoops(size_t level, Value lhs, Value rhs, Value ahead) {
    if (level < product.loops.size()) {
      const SumLoop &loop = product.loops[level];
      emitLoop(frame.emit(loop.extent), lhs, frame.emit(loop.lhsStride * product.lhsElementBytes),
               rhs, frame.simplifyAndEmit(loop.rhsStride.floorDiv(product.panel)), ahead,
               [&](Value l, Value r, Value a) { emitLoops(level + 1, l, r, a); });
      return;
    }
    const TileSteps &steps = product.steps;
    emitLoop(frame.constant(steps.count), lhs, frame.constant(steps.words * wordBytes), rhs,
             frame.constant(steps.words), ahead,
             [&](Value l, Value r, Value a) { emitStep(l, r, a); });
  }

  /// Each operand is loaded when its first product needs it, while the products before are at work.
  void emitStep(Value lhs, Value rhs, Value ahead) {
    auto load = [&](int64_t number, Value address, Value stride) {
      call(frame, "tileloadd64", {tile(frame, number), address, stride});
    };
    forEachSum([&](int64_t number, int64_t row, int64_t column) {
      if (column == 0)
        load(firstLeft + row, row == 0 ? lhs : advance(lhs, secondBytes), product.rowBytes);
      if (row == 0)
        load(firstRight + column, advance(rhs, frame.constant(column * tileRowBytes)), panelBytes);
      call(frame, product.isPairs ? "tdpbf16ps" : "tdpbusd",
           {tile(frame, number), tile(frame, firstLeft + row), tile(frame, firstRight + column)});
      if (row == 0 && column == 0 && isFetching)
        emitFetches(ahead);
    });
  }

  /// Asks for the lines of a step.
  void emitFetches(Value ahead) {
    Value bytes = multiply(frame.constant(product.steps.words), product.prefetch.stride);
    auto loop =
        scf::ForOp::create(b, frame.loc, frame.constant(0), bytes, frame.constant(tileRowBytes));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    LLVM::Prefetch::create(b, frame.loc, advance(ahead, loop.getInductionVar()), /*rw=*/0,
                           product.prefetch.locality, /*cache=*/1);
  }

  KernelFrame &frame;
  OpBuilder &b;
  const TileProduct &product;
  Value panelBytes, secondBytes;
  int64_t rowTiles = 1, columnTiles = 1;
  bool isFetching = false;
};

} // namespace

void cpu::emitTileProduct(KernelFrame &frame, const TileProduct &product, Value height,
                          int64_t most) {
  TileEmitter emitter(frame, product);
  if (most <= product.registerRows)
    return emitter.emit(1, {});
  OpBuilder &b = frame.builder;
  Value second = arith::SubIOp::create(b, frame.loc, height, frame.constant(product.registerRows));
  if (height.getDefiningOp<arith::ConstantOp>())
    return emitter.emit(2, second);
  Value isTall =
      arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::sgt, second, frame.constant(0));
  auto branch = scf::IfOp::create(b, frame.loc, isTall, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emitter.emit(2, second);
  b.setInsertionPointToStart(branch.elseBlock());
  emitter.emit(1, {});
}
