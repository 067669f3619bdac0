// Tiles in shared memory whose rows are permuted so that a warp's accesses meet different banks.
#include "CUDA/Contract/SwizzledTile.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t bankBytes = 128; // of all banks

SwizzledTile::SwizzledTile(DeviceFrame &frame, const TransposePlan &plan,
                           const TransposePlan::Read &read)
    : frame(frame), type(read.value.getType()), bytes(read.bytes), vector(plan.vector),
      pitch(llvm::PowerOf2Ceil(plan.readSide) * read.bytes) {
  granule = std::max<int64_t>(bankBytes / llvm::PowerOf2Ceil(plan.lanesAlong), bytes);
  int64_t lanes = bankBytes / granule;
  // Several short lines lie in the same 128 bytes: lanes that read those are in different banks
  // already, and it is the others whose keys have to differ.
  int64_t linesTogether = std::max<int64_t>(1, bankBytes / pitch);
  linesOfKey = std::max(vector, linesTogether);
  keys = std::max<int64_t>(1, lanes * vector / linesOfKey);
  memory = frame.allocateShared(plan.writtenSide * pitch, bankBytes);
}

Value SwizzledTile::key(sym::Expr line) {
  return frame.simplifyAndEmit(line.floorDiv(linesOfKey).mod(keys) * granule);
}

void SwizzledTile::put(sym::Expr line, sym::Expr position, ValueRange values) {
  OpBuilder &b = frame.builder;
  Value change = key(line);
  int64_t together = std::min<int64_t>(values.size(), granule / bytes);
  for (int64_t i = 0; i < (int64_t)values.size(); i += together) {
    Value offset = frame.simplifyAndEmit(line * pitch + (position + i) * bytes);
    offset = arith::XOrIOp::create(b, frame.loc, offset, change);
    Value place = frame.gep(memory, b.getI8Type(), offset);
    store(place, values.slice(i, together));
  }
}

void SwizzledTile::store(Value place, ValueRange values) {
  OpBuilder &b = frame.builder;
  SmallVector<Value> parts;
  for (Value value : values) {
    if (auto complex = dyn_cast<ComplexType>(type)) {
      parts.push_back(complex::ReOp::create(b, frame.loc, complex.getElementType(), value));
      parts.push_back(complex::ImOp::create(b, frame.loc, complex.getElementType(), value));
    } else {
      parts.push_back(type.isInteger(1) ? arith::ExtUIOp::create(b, frame.loc, b.getI8Type(), value)
                                        : value);
    }
  }
  auto vector = VectorType::get(parts.size(), parts.front().getType());
  Value all = vector::FromElementsOp::create(b, frame.loc, vector, parts);
  LLVM::StoreOp::create(b, frame.loc, all, place, values.size() * bytes);
}

Value SwizzledTile::load(Value place) {
  OpBuilder &b = frame.builder;
  if (auto complex = dyn_cast<ComplexType>(type)) {
    auto parts = VectorType::get(2, complex.getElementType());
    Value pair = LLVM::LoadOp::create(b, frame.loc, parts, place, bytes);
    auto elements = vector::ToElementsOp::create(b, frame.loc, pair);
    return complex::CreateOp::create(b, frame.loc, complex, elements.getResult(0),
                                     elements.getResult(1));
  }
  if (!type.isInteger(1))
    return LLVM::LoadOp::create(b, frame.loc, type, place, bytes);
  Value byte = LLVM::LoadOp::create(b, frame.loc, b.getI8Type(), place, bytes);
  return arith::TruncIOp::create(b, frame.loc, type, byte);
}

SmallVector<Value> SwizzledTile::get(sym::Expr first, sym::Expr position) {
  OpBuilder &b = frame.builder;
  SmallVector<Value> values;
  Value place;
  for (int64_t i = 0; i < vector; ++i) {
    // Lines of the same key that are a multiple of all banks apart: an offset from the first one.
    if (i && pitch % bankBytes == 0) {
      Value next = frame.gep(place, b.getI8Type(), frame.constant(i * pitch));
      values.push_back(load(next));
      continue;
    }
    Value offset = frame.simplifyAndEmit((first + i) * pitch + position * bytes);
    offset = arith::XOrIOp::create(b, frame.loc, offset, key(first + i));
    place = frame.gep(memory, b.getI8Type(), offset);
    values.push_back(load(place));
  }
  return values;
}
