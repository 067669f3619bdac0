// Threads that reduce together: exchanges within a warp and between the warps of a block.
#include "CUDA/Map/ThreadTeam.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

ThreadTeam::ThreadTeam(DeviceFrame &frame, int64_t threads, int64_t across)
    : frame(frame), across(across) {
  size = threads;
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  if (across > 1) {
    rank = arith::DivUIOp::create(b, loc, frame.thread, frame.constant(across));
    number = arith::RemUIOp::create(b, loc, frame.thread, frame.constant(across));
  } else if (size == frame.numThreads) {
    rank = frame.thread;
    number = frame.constant(0);
  } else {
    rank = arith::RemUIOp::create(b, loc, frame.thread, frame.constant(size));
    number = arith::DivUIOp::create(b, loc, frame.thread, frame.constant(size));
  }
}

Value ThreadTeam::shuffle(Value value, int64_t distance) {
  return shuffle(value,
                 arith::ConstantIntOp::create(frame.builder, frame.loc, distance, 32).getResult(),
                 NVVM::ShflKind::bfly);
}

Value ThreadTeam::shuffleFrom(Value value, Value lane) {
  return shuffle(value, lane, NVVM::ShflKind::idx);
}

/// The instruction moves 32 bits.
Value ThreadTeam::shuffle(Value value, Value from, NVVM::ShflKind kind) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  Type type = value.getType(), i32 = b.getI32Type(), i64 = b.getI64Type();
  auto i32Constant = [&](int64_t number) -> Value {
    return arith::ConstantIntOp::create(b, loc, number, 32);
  };
  if (auto complex = dyn_cast<ComplexType>(type)) {
    Type part = complex.getElementType();
    Value re = shuffle(complex::ReOp::create(b, loc, part, value), from, kind);
    Value im = shuffle(complex::ImOp::create(b, loc, part, value), from, kind);
    return complex::CreateOp::create(b, loc, complex, re, im);
  }
  unsigned width = type.getIntOrFloatBitWidth();
  if (isa<FloatType>(type)) {
    Type bits = b.getIntegerType(width);
    Value moved = shuffle(arith::BitcastOp::create(b, loc, bits, value), from, kind);
    return arith::BitcastOp::create(b, loc, type, moved);
  }
  if (width < 32) {
    Value moved = shuffle(arith::ExtUIOp::create(b, loc, i32, value), from, kind);
    return arith::TruncIOp::create(b, loc, type, moved);
  }
  if (width == 64) {
    Value shift = arith::ConstantIntOp::create(b, loc, 32, 64);
    Value low = arith::TruncIOp::create(b, loc, i32, value);
    Value high = arith::TruncIOp::create(b, loc, i32, arith::ShRUIOp::create(b, loc, value, shift));
    low = arith::ExtUIOp::create(b, loc, i64, shuffle(low, from, kind));
    high = arith::ExtUIOp::create(b, loc, i64, shuffle(high, from, kind));
    return arith::OrIOp::create(b, loc, low, arith::ShLIOp::create(b, loc, high, shift));
  }
  return NVVM::ShflOp::create(b, loc, i32, i32Constant(-1), value, from, i32Constant(warpSize - 1),
                              kind, UnitAttr());
}

SmallVector<Value> ThreadTeam::combineLanes(ValueRange mine, int64_t lanes, Combine combine) {
  SmallVector<Value> values(mine);
  for (int64_t distance = lanes / 2; distance; distance /= 2) {
    SmallVector<Value> others;
    for (Value value : values)
      others.push_back(shuffle(value, distance));
    values = combine(values, others);
  }
  return values;
}

SmallVector<Value> ThreadTeam::allocate(ValueRange values, int64_t count) {
  SmallVector<Value> places;
  for (Value value : values) {
    Type type = value.getType();
    int64_t bits = isa<ComplexType>(type)
                       ? 2 * cast<ComplexType>(type).getElementType().getIntOrFloatBitWidth()
                       : std::max(8u, type.getIntOrFloatBitWidth());
    places.push_back(frame.allocateShared(count * bits / 8));
  }
  return places;
}

/// Every thread reads what all of its team have written, and combines it for itself: neighbours of
/// neighbours, then of these, so that few steps wait for each other. The memory is used once, as in
/// combineAll.
SmallVector<Value> ThreadTeam::combineAcross(ValueRange mine, Combine combine) {
  SmallVector<Value> places = allocate(mine, frame.numThreads);
  Region none; // an emitter for its memory accesses alone
  codegen::BodyEmitter memory(frame, none);
  memory.setLanes(1);
  sym::Expr thread = frame.addVariable(frame.thread, frame.numThreads);
  for (auto [place, value] : llvm::zip(places, mine))
    memory.store(place, value.getType(), thread, value);
  frame.emitBarrier();
  sym::Expr row = frame.addVariable(number, across);
  SmallVector<SmallVector<Value>> parts(size);
  for (auto [i, part] : llvm::enumerate(parts))
    for (auto [place, value] : llvm::zip(places, mine))
      part.push_back(memory.load(place, value.getType(), across * static_cast<int64_t>(i) + row));
  while (parts.size() > 1) {
    for (size_t i = 0; i < parts.size() / 2; ++i)
      parts[i] = combine(parts[2 * i], parts[2 * i + 1]);
    parts.resize(parts.size() / 2);
  }
  return parts.front();
}

SmallVector<Value> ThreadTeam::combineAll(codegen::KernelFrame &, ValueRange mine,
                                          Combine combine) {
  if (size == 1)
    return SmallVector<Value>(mine);
  if (across > 1)
    return combineAcross(mine, combine);
  SmallVector<Value> values = combineLanes(mine, warpSize, combine);
  int64_t numWarps = size / warpSize;
  if (numWarps == 1)
    return values;
  // Every warp reads what all have written and combines it for itself. The memory is used once: no
  // barrier need keep the next reduction from it.
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  Value lane = arith::RemUIOp::create(b, loc, frame.thread, frame.constant(warpSize));
  Value warp = arith::DivUIOp::create(b, loc, frame.thread, frame.constant(warpSize));
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, frame.constant(0));
  SmallVector<Value> places = allocate(values, numWarps);
  Region none; // an emitter for its memory accesses alone
  codegen::BodyEmitter memory(frame, none);
  memory.setLanes(1);
  sym::Expr warpNumber = frame.addVariable(warp, numWarps);
  frame.emitIf(isFirst, [&] {
    for (auto [place, value] : llvm::zip(places, values))
      memory.store(place, value.getType(), warpNumber, value);
  });
  frame.emitBarrier();
  Value source = arith::RemUIOp::create(b, loc, lane, frame.constant(numWarps));
  sym::Expr sourceNumber = frame.addVariable(source, numWarps);
  SmallVector<Value> partial;
  for (auto [place, value] : llvm::zip(places, values))
    partial.push_back(memory.load(place, value.getType(), sourceNumber));
  return combineLanes(partial, numWarps, combine);
}
