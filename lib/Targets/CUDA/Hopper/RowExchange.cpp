// Exchanges sums between the lanes of a warp through shared memory, so that rows are written whole.
#include "CUDA/Hopper/RowExchange.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// A piece is 16 lines that go through all banks once. There are two: lanes write one while others
/// still read the other.
static constexpr int64_t exchangeLine = 128, numLines = 16, pieceBytes = numLines * exchangeLine;
static_assert(2 * pieceBytes == RowExchange::warpBytes);

bool RowExchange::isValid(Type type, int64_t columns) {
  int64_t bits = type.getIntOrFloatBitWidth(), most = exchangeLine * 8 / bits;
  return (isa<FloatType>(type) || type.isInteger(32)) && (bits == 16 || bits == 32) &&
         (columns % most == 0 || columns == most / 2);
}

RowExchange::RowExchange(DeviceFrame &frame, Type type, int64_t columns, int64_t run, int64_t warps)
    : frame(frame), b(frame.builder), loc(frame.loc), type(type),
      piece(std::min(columns, exchangeLine / elementBytes())), run(run),
      shared(frame.allocateShared(warps * warpBytes, exchangeLine)) {
  assert(isValid(type, columns) && "no exchange of so many columns");
}

void RowExchange::begin(sym::Expr warp, sym::Expr lane) {
  memory = frame.gep(shared, b.getI8Type(), frame.simplifyAndEmit(warpBytes * warp));
  sym::Expr group = frame.named(lane.floorDiv(4), 8), pair = frame.named(lane.mod(4), 4);
  lines.clear();
  sources.clear();
  // Two neighbours are four bytes of a chunk of 16, or half of one.
  int64_t pairs = vectorBytes / (2 * elementBytes());
  writeChunk = arith::XOrIOp::create(b, loc, frame.simplifyAndEmit(pair.floorDiv(pairs)),
                                     key(frame.emit(group)));
  writeRest = frame.simplifyAndEmit(group * exchangeLine + pair.mod(pairs) * (vectorBytes / pairs));
  int64_t inLine = piece / run, chunksOfRun = run * elementBytes() / vectorBytes;
  for (int64_t i = 0; i < numLines * inLine / warpSize; ++i) {
    sym::Expr at = lane + i * warpSize;
    sym::Expr line = frame.named(at.floorDiv(inLine), numLines);
    sym::Expr first = frame.named(at.mod(inLine), inLine);
    lines.push_back({line, run * first});
    sources.push_back({frame.simplifyAndEmit(first * chunksOfRun), key(frame.emit(line)),
                       frame.simplifyAndEmit(line * exchangeLine)});
  }
}

/// Lanes that write at the same time are those of four or eight lines, that read, those of one or
/// two.
Value RowExchange::key(Value line) {
  auto number = [&](int64_t value) { return frame.constant(value); };
  if (elementBytes() == 2)
    return arith::AndIOp::create(b, loc, line, number(7));
  Value twice =
      arith::MulIOp::create(b, loc, arith::AndIOp::create(b, loc, line, number(3)), number(2));
  return arith::OrIOp::create(b, loc, twice, arith::AndIOp::create(b, loc, line, number(1)));
}

Value RowExchange::address(sym::Expr number, Value chunk, Value rest) {
  Value offset = arith::AddIOp::create(
      b, loc, arith::MulIOp::create(b, loc, chunk, frame.constant(vectorBytes)), rest);
  Value begin = frame.gep(memory, b.getI8Type(), offset);
  return frame.gep(begin, b.getI8Type(), frame.simplifyAndEmit(pieceBytes * number.mod(2)));
}

void RowExchange::put(sym::Expr number, int64_t j, int64_t below, ValueRange neighbours) {
  int64_t chunks = 8 * elementBytes() / vectorBytes;
  Value chunk = arith::XOrIOp::create(b, loc, writeChunk, frame.constant(j * chunks));
  Value to = frame.gep(address(number, chunk, writeRest), b.getI8Type(),
                       frame.constant(below * 8 * exchangeLine));
  Value vector = vector::FromElementsOp::create(b, loc, VectorType::get(2, type), neighbours);
  LLVM::StoreOp::create(b, loc, vector, to, /*alignment=*/2 * elementBytes());
}

void RowExchange::meet() {
  NVVM::SyncWarpOp::create(b, loc, arith::ConstantIntOp::create(b, loc, -1, 32));
}

SmallVector<Value> RowExchange::get(sym::Expr number, int64_t i) {
  const Source &source = sources[i];
  int64_t inChunk = vectorBytes / elementBytes();
  SmallVector<Value> values;
  for (int64_t k = 0; k < run / inChunk; ++k) {
    Value chunk = arith::AddIOp::create(b, loc, source.chunk, frame.constant(k));
    chunk = arith::XOrIOp::create(b, loc, chunk, source.key);
    Value vector =
        LLVM::LoadOp::create(b, loc, VectorType::get(inChunk, type),
                             address(number, chunk, source.rest), /*alignment=*/vectorBytes);
    llvm::append_range(values, vector::ToElementsOp::create(b, loc, vector).getResults());
  }
  return values;
}
