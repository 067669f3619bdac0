// Functions for tiles whose height is known in a run only, which all kernels of a model share.
#include "CPU/Contract/VariableTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

//===-- Sums in memory -----------------------------------------------------------------------===//

static unsigned sumBytes(const MicrokernelShape &shape) {
  return shape.sumType.getIntOrFloatBitWidth() / 8;
}

/// Addresses of a tile's sums, row by row.
static SmallVector<Value> sumAddresses(KernelFrame &frame, const MicrokernelShape &shape,
                                       Value base, int64_t stride, Value moved) {
  Value last = base;
  if (moved) {
    Value offset = arith::MulIOp::create(frame.builder, frame.loc, moved, frame.constant(stride));
    last = frame.gep(base, shape.sumType, offset);
  }
  SmallVector<Value> addresses;
  auto rows = static_cast<int64_t>(shape.rowOffsets.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t v = 0; v < shape.vectors; ++v)
      addresses.push_back(frame.gep(row + shape.numMoved < rows ? base : last, shape.sumType,
                                    frame.constant(row * stride + v * shape.lanes)));
  return addresses;
}

SmallVector<Value> cpu::loadSums(KernelFrame &frame, const MicrokernelShape &shape, Value base,
                                 int64_t stride, Value moved) {
  Type type = shape.lanes == 1 ? shape.sumType : VectorType::get(shape.lanes, shape.sumType);
  SmallVector<Value> sums;
  for (Value address : sumAddresses(frame, shape, base, stride, moved))
    sums.push_back(LLVM::LoadOp::create(frame.builder, frame.loc, type, address, sumBytes(shape)));
  return sums;
}

void cpu::storeSums(KernelFrame &frame, const MicrokernelShape &shape, ValueRange sums, Value base,
                    int64_t stride, Value moved) {
  for (auto [sum, address] : llvm::zip(sums, sumAddresses(frame, shape, base, stride, moved)))
    LLVM::StoreOp::create(frame.builder, frame.loc, sum, address, sumBytes(shape));
}

//===-- Heights ------------------------------------------------------------------------------===//

/// `body(height)` for the least of `heights` that `steps` does not pass, the last one otherwise.
static void emitHeights(KernelFrame &frame, Value steps, ArrayRef<int64_t> heights,
                        function_ref<void(int64_t)> body) {
  if (heights.size() == 1)
    return body(heights.front());
  OpBuilder &b = frame.builder;
  size_t half = heights.size() / 2;
  Value isSmall = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::sle, steps,
                                        frame.constant(heights[half - 1]));
  auto branch = scf::IfOp::create(b, frame.loc, isSmall, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emitHeights(frame, steps, heights.take_front(half), body);
  b.setInsertionPointToStart(branch.elseBlock());
  emitHeights(frame, steps, heights.drop_front(half), body);
}

void cpu::emitVariableTile(KernelFrame &frame, const VariableTile &tile) {
  OpBuilder &b = frame.builder;
  emitHeights(frame, tile.steps, tile.heights, [&](int64_t height) {
    MicrokernelShape shape = tile.shape;
    shape.rowOffsets.truncate(height * tile.stepRows);
    Value movedRows;
    if (height > 1) {
      // One step short of `height`, the last one is computed twice.
      Value moved = arith::SubIOp::create(b, frame.loc, tile.steps, frame.constant(height));
      shape.moved = arith::MulIOp::create(b, frame.loc, moved, tile.stepStride);
      shape.numMoved = tile.stepRows;
      movedRows = arith::MulIOp::create(b, frame.loc, moved, frame.constant(tile.stepRows));
    }
    SmallVector<Value> init;
    if (tile.isAdded)
      init = loadSums(frame, shape, tile.sums, tile.sumStride, movedRows);
    SmallVector<Value> sums =
        emitMicrokernel(frame, shape, tile.lhs, tile.rhs, init, tile.prefetch);
    storeSums(frame, shape, sums, tile.sums, tile.sumStride, movedRows);
  });
}

//===-- Shared code --------------------------------------------------------------------------===//

/// All that the code depends on. Fewer loops are the inner ones of two; without a prefetch, what is
/// being read is asked for.
static std::string nameOf(const VariableTile &tile) {
  const MicrokernelShape &shape = tile.shape;
  std::string name;
  llvm::raw_string_ostream(name) << "tile_" << tile.heights.back() << 'x' << shape.vectors << 'x'
                                 << shape.lanes << '_' << shape.lhsType << '_' << shape.rhsType
                                 << '_' << shape.sumType << '_' << shape.loops.size()
                                 << "loops_stride" << tile.sumStride
                                 << (shape.bytes != 0 ? "_bytes" : "")
                                 << (tile.isAdded ? "_added" : "");
  if (shape.rhsSteps != 1)
    name += "_by" + std::to_string(shape.rhsSteps);
  name += shape.pairs ? "_pairs" : shape.rhsUnsigned ? "_unsigned" : "";
  if (shape.scales)
    llvm::raw_string_ostream(name) << "_scaled_" << shape.scaleType;
  if (shape.groupWords != 0)
    name += "_groups" + std::to_string(shape.groupWords);
  if (shape.stepsAtOnce != 1)
    name += "_by" + std::to_string(shape.stepsAtOnce) + "steps";
  if (shape.offsets)
    name += shape.subtractsFirst ? "_zero" : "_offset";
  return name;
}

void cpu::callVariableTile(KernelFrame &frame, VariableTile tile) {
  if (!tile.prefetch.pointer)
    tile.prefetch = {tile.rhs, frame.constant(0)};
  tile.prefetch.locality = 2;
  // A tile alone fetches all of the next panel.
  tile.prefetch.lines = llvm::divideCeilSigned(tile.shape.vectors * tile.shape.lanes *
                                                   tile.shape.rhsType.getIntOrFloatBitWidth(),
                                               512 * tile.shape.rhsSteps);
  if (tile.shape.loops.size() < 2)
    tile.shape.loops.insert(tile.shape.loops.begin(), SumLoop{1, 0, 0});
  const SumLoop &last = tile.shape.loops.back();
  if (tile.shape.rhsSteps == 1 && last.lhsStride.isConstant(1) &&
      frame.assumptions.isMultipleOf(last.extent, maxStepsAtOnce))
    tile.shape.stepsAtOnce = maxStepsAtOnce;
  SmallVector<Value> arguments{
      tile.steps,          tile.lhs, tile.stepStride, tile.rhs, tile.sums, tile.prefetch.pointer,
      tile.prefetch.stride};
  for (const SumLoop &loop : tile.shape.loops)
    llvm::append_values(arguments, frame.emit(loop.extent), frame.emit(loop.lhsStride));
  for (Value value : {tile.shape.scales, tile.shape.offsets, tile.shape.zeroAt})
    if (value)
      arguments.push_back(value);
  frame.call(nameOf(tile), arguments, [caller = tile](KernelFrame &function) {
    auto next = function.function.getArguments().begin();
    VariableTile tile = caller;
    tile.steps = *next++;
    tile.lhs = *next++;
    tile.stepStride = tile.shape.rowStride = *next++;
    tile.rhs = *next++;
    tile.sums = *next++;
    tile.prefetch.pointer = *next++;
    tile.prefetch.stride = *next++;
    for (auto [row, offset] : llvm::enumerate(tile.shape.rowOffsets))
      offset = row;
    for (SumLoop &loop : tile.shape.loops) {
      loop.extent = function.addVariable(*next++, sym::Range{0, std::nullopt});
      loop.lhsStride = function.addVariable(*next++, sym::Range());
    }
    if (tile.shape.stepsAtOnce != 1)
      tile.shape.loops.back().lhsStride = 1;
    for (Value *value : {&tile.shape.scales, &tile.shape.offsets, &tile.shape.zeroAt})
      if (*value)
        *value = *next++;
    emitVariableTile(function, tile);
  });
}
