// The parts that all kernels of attention on GPUs share: blocks, operands, masks, results.
#include "CUDA/Attention/AttentionKernel.h"
#include "CUDA/NeighbourLoads.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

Type cuda::getSumType(kernel::AttentionOp op) {
  Type type = op.getQ().front().getTerminator()->getOperand(0).getType();
  return type.getIntOrFloatBitWidth() < 32 ? Float32Type::get(type.getContext()) : type;
}

AttentionKernel::AttentionKernel(DeviceFrame &frame, kernel::AttentionOp op)
    : frame(frame), b(frame.builder), loc(frame.loc), op(op), q(frame, op.getQ()),
      k(frame, op.getK()), v(frame, op.getV()), bias(frame, op.getBias()), warp(frame, warpSize),
      depth(*op.getD().getValue().constant()), valueDepth(*op.getDv().getValue().constant()),
      m(op.getM().getValue()), n(op.getN().getValue()), numBatch(op.getNumBatch()),
      scale(op.getScale().convertToDouble()),
      unit(std::numbers::log2e * (op.getBias().empty() && scale > 0 ? scale : 1)),
      position(numBatch + 4), sumType(getSumType(op)) {}

sym::Expr cuda::getGrid(kernel::AttentionOp op, int64_t blockRows) {
  return sym::product(op.getBatch().getSizes()) * op.getM().getValue().ceilDiv(blockRows) *
         op.getNumParts().value_or(1);
}

void AttentionKernel::bindBlock(int64_t blockRows) {
  ArrayRef<sym::Expr> extents = op.getBatch().getSizes();
  sym::Expr blocks = m.ceilDiv(blockRows), total = sym::product(extents);
  sym::Expr block = frame.addVariable(frame.block, getGrid(op, blockRows));
  block = takePart(block, total * blocks);
  firstQuery = blockRows * frame.named(block.mod(blocks), blocks);
  sym::Expr batch = frame.named(block.floorDiv(blocks), total);
  for (auto [i, value] : llvm::enumerate(sym::delinearize(batch, extents)))
    position[i] = frame.named(value, extents[i]);
  SmallVector<codegen::BodyEmitter *> bodies = {&q, &k, &v};
  if (hasBias())
    bodies.push_back(&bias);
  for (codegen::BodyEmitter *body : bodies) {
    body->setLanes(1);
    for (unsigned i = 0; i < numBatch; ++i)
      body->setDim(i, position[i]);
    body->emitAvailable();
  }
  lane = frame.addVariable(warp.rank, warpSize);
  warpNumber = frame.addVariable(warp.number, frame.numThreads / warpSize);
}

sym::Expr AttentionKernel::takePart(sym::Expr block, sym::Expr ofPart) {
  if (!isPart())
    return block;
  partNumber = frame.named(block.floorDiv(ofPart), *op.getNumParts());
  return frame.named(block.mod(ofPart), ofPart);
}

sym::Expr AttentionKernel::firstBlock(int64_t keyBlock) {
  if (!isPart())
    return 0;
  return frame.assumptions.simplify(op.getPartAttr().getValue().floorDiv(keyBlock) * partNumber);
}

sym::Expr AttentionKernel::endBlock(sym::Expr block, int64_t keyBlock) {
  if (isPart())
    block = sym::Expr::min(block,
                           firstBlock(keyBlock) + op.getPartAttr().getValue().floorDiv(keyBlock));
  return frame.assumptions.simplify(block);
}

Value AttentionKernel::number(double value) {
  return arith::ConstantOp::create(b, loc, b.getFloatAttr(sumType, value));
}
Value AttentionKernel::add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
Value AttentionKernel::sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
Value AttentionKernel::mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
Value AttentionKernel::max(Value x, Value y) { return arith::MaximumFOp::create(b, loc, x, y); }

Value AttentionKernel::widen(Value value) {
  return value.getType() == sumType ? value
                                    : arith::ExtFOp::create(b, loc, sumType, value).getResult();
}

Value AttentionKernel::exp2(Value value) {
  return LLVM::CallIntrinsicOp::create(b, loc, b.getF32Type(),
                                       b.getStringAttr("llvm.nvvm.ex2.approx.ftz"), value)
      .getResult(0);
}

Value AttentionKernel::packPair(Type type, Value first, Value second) {
  auto pairType = VectorType::get(2, type);
  Value pair;
  if (type.isF16()) {
    auto wide = VectorType::get(2, b.getF32Type());
    pair = arith::TruncFOp::create(
        b, loc, pairType, vector::FromElementsOp::create(b, loc, wide, ValueRange{first, second}));
  } else {
    pair =
        LLVM::CallIntrinsicOp::create(b, loc, pairType, b.getStringAttr("llvm.nvvm.ff2bf16x2.rn"),
                                      ValueRange{second, first})
            .getResult(0);
  }
  return LLVM::BitcastOp::create(b, loc, b.getI32Type(), pair);
}

std::pair<Value, Value> AttentionKernel::unpackPair(Type type, Value word) {
  if (type.isBF16()) {
    // Without arithmetic of bf16, for which ptxas has products of warpgroups wait for each other.
    auto bits = [&](int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); };
    auto wide = [&](Value value) -> Value {
      return arith::BitcastOp::create(b, loc, b.getF32Type(), value);
    };
    return {wide(arith::ShLIOp::create(b, loc, word, bits(16))),
            wide(arith::AndIOp::create(b, loc, word, bits(0xffff0000)))};
  }
  Value pair = LLVM::BitcastOp::create(b, loc, VectorType::get(2, type), word);
  auto element = [&](int64_t i) { return widen(vector::ExtractOp::create(b, loc, pair, i)); };
  return {element(0), element(1)};
}

Value AttentionKernel::finite(Value maximum) {
  Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, maximum, minusInfinity());
  return arith::SelectOp::create(b, loc, none, number(0), maximum);
}

Value AttentionKernel::divisor(Value sum) {
  Value none = op.getNan()
                   ? frame.isZero(op.getN().getValue())
                   : arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, sum, number(0));
  return none ? arith::SelectOp::create(b, loc, none, number(1), sum) : sum;
}

Value AttentionKernel::emitWhere(Value condition, function_ref<Value()> value, double otherwise) {
  return condition ? frame.emitWhere(condition, number(otherwise),
                                     [&] { return SmallVector<Value>{value()}; })[0]
                   : value();
}

Value AttentionKernel::isSeen(sym::Expr query, sym::Expr key) {
  Value inside = frame.emitLess(key, n);
  return op.getCausal() ? frame.both(inside, frame.emitLess(key, query + 1)) : inside;
}

Value AttentionKernel::emitBias(sym::Expr query, sym::Expr key) {
  codegen::BodyEmitter::Scope scope(bias);
  bias.setDim(numBatch, frame.named(query, m));
  bias.setDim(numBatch + 1, frame.named(key, n));
  return widen(bias.emitYield().front());
}

sym::Expr AttentionKernel::inside(sym::Expr value, sym::Expr extent) {
  if (frame.assumptions.isLess(value, extent))
    return frame.assumptions.simplify(value);
  return frame.addVariable(arith::MinSIOp::create(b, loc, frame.simplifyAndEmit(value),
                                                  frame.simplifyAndEmit(extent - 1)),
                           extent);
}

SmallVector<Value> AttentionKernel::emitBiasPairs(sym::Expr query, sym::Expr key, int64_t count,
                                                  int64_t distance, bool mayBeOutside) {
  SmallVector<Value> words;
  codegen::BodyEmitter::Scope row(bias);
  bias.setDim(numBatch, query);
  bias.emitAvailable();
  // Keys that come in pairs stay that: neighbours in memory.
  bool inPairs = frame.assumptions.isMultipleOf(n, 2) && frame.assumptions.isMultipleOf(key, 2);
  for (int64_t i = 0; i < count; ++i) {
    sym::Expr first = key + i * distance, pair = first;
    if (mayBeOutside && inPairs)
      pair = 2 * inside(frame.assumptions.simplify(first.floorDiv(2)), n.floorDiv(2));
    SmallVector<SmallVector<sym::Expr>> places(2);
    for (int64_t next : {0, 1}) {
      places[next].assign(position.begin(), position.begin() + numBatch);
      places[next].append(
          {query, mayBeOutside && !inPairs ? inside(first + next, n) : pair + next});
    }
    NeighbourLoads loads(frame, op.getBias(), places);
    SmallVector<Value> values;
    for (int64_t next : {0, 1}) {
      codegen::BodyEmitter::Scope column(bias);
      bias.setDim(numBatch + 1, places[next].back());
      loads.set(bias, next);
      values.push_back(bias.emitYield().front());
    }
    Value both = vector::FromElementsOp::create(
        b, loc, VectorType::get(2, values.front().getType()), values);
    words.push_back(LLVM::BitcastOp::create(b, loc, b.getI32Type(), both));
  }
  return words;
}

Value AttentionKernel::finishScore(Value score, Value bias) {
  if (bias)
    return math::FmaOp::create(b, loc, score, number(scale), bias);
  return scale > 0 ? score : mul(score, number(scale));
}

Value AttentionKernel::emitShift(Value maximum) {
  return mul(arith::NegFOp::create(b, loc, finite(maximum)), number(unit));
}

Value AttentionKernel::emitExponent(Value score, Value shift) {
  return math::FmaOp::create(b, loc, score, number(unit), shift);
}

void AttentionKernel::storeResult(sym::Expr query, sym::Expr feature, Value value) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  // The result's dims are of batch, m and dv.
  SmallVector<sym::Expr> index;
  if (isPart())
    index.push_back(partNumber);
  for (int64_t dim : op.getResultDims())
    index.push_back(dim < numBatch    ? position[dim]
                    : dim == numBatch ? frame.named(query, m)
                                      : frame.named(feature, valueDepth));
  if (type.getElementType() != sumType)
    value = arith::TruncFOp::create(b, loc, type.getElementType(), value);
  q.store(frame.resultBuffer(0), type.getElementType(),
          sym::linearize(index, sym::getShape(op.getResult())), value);
}

void AttentionKernel::storeState(sym::Expr query, Value maximum, Value sum) {
  SmallVector<sym::Expr> index = {partNumber};
  index.append(position.begin(), position.begin() + numBatch);
  index.push_back(frame.named(query, m));
  sym::Expr offset = sym::linearize(index, sym::getShape(op.getState().front()));
  q.store(frame.resultBuffer(1), sumType, offset, maximum);
  q.store(frame.resultBuffer(2), sumType, offset, sum);
}
