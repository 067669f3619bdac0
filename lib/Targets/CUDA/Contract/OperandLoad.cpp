// Brings blocks of a product's operand into shared memory.
#include "CUDA/Contract/OperandLoad.h"
#include "CUDA/Contract/ContractKernel.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Bytes of memory that are read together.
static constexpr int64_t sectorBytes = 32;

static bool hasNestedRegions(Region &region) {
  return llvm::any_of(region.front(), [](Operation &op) { return op.getNumRegions() > 0; });
}

OperandLoad::OperandLoad(DeviceFrame &frame, kernel::ContractOp op, const ContractDims &dims,
                         OperandPart part, sym::Expr thread, int64_t threads)
    : frame(frame), b(frame.builder), loc(frame.loc),
      region(part.side == Side::Left ? op.getLhs() : op.getRhs()), dims(dims),
      part(std::move(part)), alongK(!dims.isAlongRows(this->part.side)),
      rowGroups(this->part.side == Side::Left ? dims.mGroups : dims.nGroups),
      numRows(this->part.side == Side::Left ? dims.m : dims.n), thread(thread), threads(threads),
      position(op.getExtents().size()) {
  int64_t along = alongK ? this->part.steps : this->part.rows;
  int64_t bytes = std::max<int64_t>(1, dims.operandType.getIntOrFloatBitWidth() / 8);
  vector = vectorBytes / bytes;
  if (!isWide(frame.func, dims, this->part.side) || along % vector ||
      this->part.rows * this->part.steps % (threads * vector))
    vector = 1;
  if (storesVectors())
    source = findCopySource(region, alongGroups().back().lastDim(), vector);
  else if (this->part.copiesElements && (bytes == 4 || bytes == 8) && !alongGroups().empty())
    source = findCopySource(region, alongGroups().back().lastDim(), /*vector=*/1);
  if (source && !storesVectors())
    vector = 1;
  if (!source && storesVectors() && this->part.side == Side::Right)
    widened = WidenedOperand::find(frame.func, op, dims);
  evaluatesAll = !hasNestedRegions(region) && frame.assumptions.isLess(0, dims.k);
  int64_t inner = along / vector, lines = alongK ? this->part.rows : this->part.steps;
  // Elements that are copied one by one: neighbouring threads have those of a sector, and a thread
  // goes along a line first, whose elements have one address and constants.
  int64_t ofSector = std::gcd(inner, sectorBytes / bytes);
  if (source && vector == 1 && threads % ofSector == 0 && lines % (threads / ofSector) == 0)
    inner = ofSector;
  int64_t pieces = along / vector / inner;
  for (int64_t i = 0; i < this->part.rows * this->part.steps / threads / vector; ++i) {
    sym::Expr number = thread + i / pieces * threads, slow = 0;
    // Lines that are a constant further stay that: so are addresses.
    if (threads % inner == 0)
      slow = frame.named(thread.floorDiv(inner), threads / inner) + i / pieces * (threads / inner);
    else
      slow = frame.named(number.floorDiv(inner), lines);
    sym::Expr fast = vector * (frame.named(number.mod(inner), inner) + i % pieces * inner);
    Chunk &chunk = chunks.emplace_back();
    chunk.row = alongK ? slow : fast;
    chunk.k = alongK ? fast : slow;
    if (source)
      continue;
    chunk.body = std::make_unique<codegen::BodyEmitter>(frame, region);
    chunk.body->setLanes(1);
  }
}

SmallVector<sym::Expr> OperandLoad::split(ArrayRef<codegen::DimGroup> groups, sym::Expr linear,
                                          sym::Expr extent, bool isAlong, int64_t i) {
  // A multiple stays one, from which it is seen that neighbours are neighbours.
  bool isNamed = !isAlong || vector == 1;
  // Nor is a sum given a name where no loops divide it: what is constant of it stays that.
  if (isNamed && source && groups.size() == 1)
    return {frame.assumptions.simplify(linear)};
  linear = isNamed ? frame.named(linear, extent)
                   : vector * frame.named(linear.floorDiv(vector), extent.floorDiv(vector)) + i;
  return splitGroups(frame, groups, linear, isNamed);
}

void OperandLoad::bind(codegen::BodyEmitter *body, ArrayRef<codegen::DimGroup> groups,
                       ArrayRef<sym::Expr> values) {
  bindGroups(frame, body, groups, values, position);
}

/// A place beyond the limit becomes the last there is: an address has to be valid also where
/// nothing is read.
sym::Expr OperandLoad::clamp(sym::Expr value, sym::Expr limit) {
  if (frame.assumptions.isLess(value, limit))
    return value;
  return frame.addVariable(arith::MinSIOp::create(b, loc, frame.simplifyAndEmit(value),
                                                  frame.simplifyAndEmit(limit - 1)),
                           limit);
}

void OperandLoad::emitTile(sym::Expr batch, sym::Expr firstRow, function_ref<void()> body) {
  SmallVector<std::unique_ptr<codegen::BodyEmitter::Scope>> scopes;
  SmallVector<sym::Expr> values = splitGroups(frame, dims.batchGroups, batch, /*isNamed=*/true);
  bind(nullptr, dims.batchGroups, values);
  for (Chunk &chunk : chunks) {
    if (chunk.body) {
      scopes.push_back(std::make_unique<codegen::BodyEmitter::Scope>(*chunk.body));
      bind(chunk.body.get(), dims.batchGroups, values);
    }
    bindRows(chunk, firstRow);
    if (chunk.body)
      chunk.body->emitAvailable();
  }
  body();
}

void OperandLoad::bindRows(Chunk &chunk, sym::Expr firstRow) {
  sym::Expr row = firstRow + chunk.row;
  chunk.isRow = frame.emitLess(row, numRows);
  chunk.atRow = clamp(row, numRows);
  chunk.rowValues = split(rowGroups, chunk.atRow, numRows, !alongK, 0);
  // Neighbours are in different rows otherwise.
  if (chunk.body && (alongK || vector == 1))
    bind(chunk.body.get(), rowGroups, chunk.rowValues);
}

void OperandLoad::copy(sym::Expr firstK, sym::Expr endK, Value memory) {
  for (Chunk &chunk : chunks) {
    sym::Expr atK = firstK + chunk.k;
    Value inside = frame.both(chunk.isRow, frame.emitLess(atK, endK));
    bind(nullptr, rowGroups, chunk.rowValues);
    // Beyond the last step no bytes are copied, from whatever address.
    bind(nullptr, dims.kGroups, split(dims.kGroups, atK, dims.k, alongK, 0));
    emitCopy(frame, *source, dims.operandType, position, part.address(memory, chunk.row, chunk.k),
             inside, vector * dims.operandType.getIntOrFloatBitWidth() / 8);
  }
}

SmallVector<Value> OperandLoad::evaluateChunk(Chunk &chunk, sym::Expr atK, Value inside) {
  auto evaluate = [&] {
    sym::Expr k = evaluatesAll ? clamp(atK, dims.k) : atK;
    SmallVector<Value> elements;
    for (int64_t i = 0; i < vector; ++i) {
      codegen::BodyEmitter::Scope scope(*chunk.body);
      if (!alongK && vector > 1)
        bind(chunk.body.get(), rowGroups, split(rowGroups, chunk.atRow, numRows, true, i));
      bind(chunk.body.get(), dims.kGroups, split(dims.kGroups, k, dims.k, alongK, i));
      elements.push_back(chunk.body->emitYield().front());
    }
    if (storesVectors())
      elements = {vector::FromElementsOp::create(b, loc, VectorType::get(vector, dims.operandType),
                                                 elements)};
    return elements;
  };
  Type type = dims.operandType;
  if (storesVectors())
    type = VectorType::get(vector, type);
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  SmallVector<Value> zeros(storesVectors() ? 1 : vector, zero);
  if (!inside)
    return evaluate();
  if (!evaluatesAll)
    return frame.emitWhere(inside, zeros, evaluate);
  SmallVector<Value> values = evaluate();
  for (Value &value : values)
    value = arith::SelectOp::create(b, loc, inside, value, zero);
  return values;
}

SmallVector<Value> OperandLoad::evaluate(sym::Expr firstK, sym::Expr endK, size_t first,
                                         size_t count) {
  SmallVector<Value> values;
  for (Chunk &chunk : MutableArrayRef(chunks).slice(first, count)) {
    sym::Expr atK = firstK + chunk.k;
    if (widened) {
      values.push_back(widen(chunk, atK, endK));
      continue;
    }
    Value inside = frame.both(chunk.isRow, frame.emitLess(atK, endK));
    llvm::append_range(values, evaluateChunk(chunk, atK, inside));
  }
  return values;
}

void OperandLoad::bindChunk(const Chunk &chunk, sym::Expr atK) {
  bind(nullptr, rowGroups, chunk.rowValues);
  bind(nullptr, dims.kGroups, split(dims.kGroups, clamp(atK, dims.k), dims.k, true, 0));
}

/// Rows that are not there may be anything: so are their products, which nobody stores.
Value OperandLoad::widen(Chunk &chunk, sym::Expr atK, sym::Expr endK) {
  bindChunk(chunk, atK);
  Value value = widened->widen(frame, *chunk.body, position, {});
  Value inside = hasWholeParts() ? Value() : frame.emitLess(atK, endK);
  if (!inside)
    return value;
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(value.getType()));
  return arith::SelectOp::create(b, loc, inside, value, zero);
}

int64_t OperandLoad::sourceBytes() const {
  return widened && hasWholeParts()
             ? threads * widened->bytes() * static_cast<int64_t>(chunks.size())
             : 0;
}

Value OperandLoad::getSource(Value memory, int64_t i) {
  return frame.gep(memory, b.getI8Type(), frame.constant(i * threads * widened->bytes()));
}

void OperandLoad::copySource(sym::Expr firstK, Value memory) {
  for (auto [i, chunk] : llvm::enumerate(chunks)) {
    bindChunk(chunk, firstK + chunk.k);
    widened->copy(frame, position, getSource(memory, i), frame.emit(thread), threads);
  }
}

SmallVector<Value> OperandLoad::evaluateSource(sym::Expr firstK, Value memory) {
  SmallVector<Value> values;
  for (auto [i, chunk] : llvm::enumerate(chunks)) {
    bindChunk(chunk, firstK + chunk.k);
    values.push_back(widened->widen(frame, *chunk.body, position,
                                    {getSource(memory, i), frame.emit(thread), threads}));
  }
  return values;
}

void OperandLoad::store(ValueRange values, Value memory, size_t first, size_t count) {
  size_t perChunk = storesVectors() ? 1 : vector;
  for (auto [i, chunk] : llvm::enumerate(MutableArrayRef(chunks).slice(first, count))) {
    ValueRange elements = values.slice(i * perChunk, perChunk);
    if (storesVectors()) {
      LLVM::StoreOp::create(b, loc, elements.front(), part.address(memory, chunk.row, chunk.k),
                            /*alignment=*/vectorBytes);
      continue;
    }
    for (auto [j, element] : llvm::enumerate(elements)) {
      sym::Expr next = static_cast<int64_t>(j);
      Value address =
          part.address(memory, chunk.row + (alongK ? 0 : next), chunk.k + (alongK ? next : 0));
      chunk.body->store(address, dims.operandType, 0, element);
    }
  }
}
