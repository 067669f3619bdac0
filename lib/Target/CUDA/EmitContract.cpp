// Writes the function of a kernel.contract.
//
// While a block multiplies one part of the operands out of shared memory, its threads hold the next
// part in registers, loaded before the multiplication began. The parts take turns in two places of
// shared memory, so that one barrier an iteration is enough: who writes a place has passed the
// barrier that comes after everybody's last use of it.
//
// Where both operands are memory as it is and tensor cores multiply, the parts come by asynchronous
// copies instead (cp.async), four places deep: registers are for the sums alone, and copies for
// three iterations ahead are under way.
#include "AsyncCopy.h"
#include "ContractKernel.h"
#include "WarpgroupPlan.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
/// An operand, and its part in shared memory.
struct Operand {
  Operand(DeviceFrame &frame, Region &region, Side side)
      : region(region), side(side), body(frame, region) {}

  Region &region;
  Side side;
  cpu::BodyEmitter body;
  int64_t extent; // of m or n in a block
  bool alongK;    // neighbouring threads load neighbours along k
  ArrayRef<cpu::DimGroup> rowGroups;
  sym::Expr firstRow = 0, numRows = 0;
  Value memory;
  /// Neighbours that are loaded together: all inside or none.
  int64_t vector = 1;
  /// What this thread loads of a part, the first of each `vector`: row and k inside the part.
  SmallVector<std::pair<sym::Expr, sym::Expr>> places;
};

class ContractEmitter : ContractKernel {
public:
  ContractEmitter(DeviceFrame &frame, kernel::ContractOp op)
      : ContractKernel(frame, op), plan(readContractPlan(frame.func.getScheduleAttr())),
        tile(plan.depth == 1 ? makeScalarTile(frame, plan, dims)
                             : makeMatrixTile(frame, plan, dims)),
        lhs(frame, op.getLhs(), Side::Left), rhs(frame, op.getRhs(), Side::Right) {}

  void emit() {
    bindBlock();
    prepare(lhs, plan.blockM, !dims.lhsAlongM, dims.mGroups, firstM, dims.m);
    prepare(rhs, plan.blockN, !dims.rhsAlongN, dims.nGroups, firstN, dims.n);

    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(dims.sumType));
    SmallVector<Value> sums(tile->numSums(), zero);
    steps = frame.assumptions.simplify(dims.k.ceilDiv(plan.blockK));
    sums = isCopied() ? runCopies(sums) : runLoads(sums);
    storeRows(tile->rows(), sums, firstM, firstN);
  }

private:
  static constexpr int64_t loadPlaces = 2, copyPlaces = 4;

  SmallVector<Value> runLoads(ArrayRef<Value> sums) {
    allocate(loadPlaces);
    SmallVector<Value> carried = load(lhs, 0);
    size_t numLhs = carried.size();
    llvm::append_range(carried, load(rhs, 0));
    size_t numLoaded = carried.size();
    llvm::append_range(carried, sums);
    auto results = frame.emitLoop(
        frame.constant(0), frame.emit(steps), 1, carried, [&](Value iv, ValueRange values) {
          Value place = arith::RemUIOp::create(b, loc, iv, frame.constant(loadPlaces));
          store(lhs, place, values.take_front(numLhs));
          store(rhs, place, values.slice(numLhs, numLoaded - numLhs));
          frame.emitBarrier();
          sym::Expr next = plan.blockK * (frame.addVariable(iv, steps) + 1);
          SmallVector<Value> results = load(lhs, next);
          llvm::append_range(results, load(rhs, next));
          llvm::append_range(results, tile->multiply(part(lhs, place), part(rhs, place),
                                                     values.drop_front(numLoaded)));
          return results;
        });
    return SmallVector<Value>(ArrayRef(results).drop_front(numLoaded));
  }

  SmallVector<Value> runCopies(ArrayRef<Value> sums) {
    allocate(copyPlaces);
    for (int64_t i = 0; i < copyPlaces - 1; ++i)
      copy(i * plan.blockK, frame.constant(i));
    auto results = frame.emitLoop(
        frame.constant(0), frame.emit(steps), 1, sums, [&](Value iv, ValueRange values) {
          emitCopiesWait(frame, copyPlaces - 2);
          frame.emitBarrier();
          Value ahead = arith::AddIOp::create(b, loc, iv, frame.constant(copyPlaces - 1));
          Value places = frame.constant(copyPlaces);
          copy(plan.blockK * (frame.addVariable(iv, steps) + copyPlaces - 1),
               arith::RemUIOp::create(b, loc, ahead, places));
          Value place = arith::RemUIOp::create(b, loc, iv, places);
          return tile->multiply(part(lhs, place), part(rhs, place), values);
        });
    return results;
  }

  /// Which block this is, and what of the bodies depends on the batch alone.
  void bindBlock() {
    sym::Expr blocksM = dims.m.ceilDiv(plan.blockM), blocksN = dims.n.ceilDiv(plan.blockN);
    sym::Expr block = frame.addVariable(frame.block, plan.grid(dims));
    sym::Expr part = frame.named(block.mod(blocksM * blocksN), blocksM * blocksN);
    sym::Expr batch = frame.named(block.floorDiv(blocksM * blocksN), dims.numBatch);
    // Neighbouring blocks share rows of the left operand.
    firstM = plan.blockM * frame.named(part.floorDiv(blocksN), blocksM);
    firstN = plan.blockN * frame.named(part.mod(blocksN), blocksN);
    for (cpu::BodyEmitter *body : {&lhs.body, &rhs.body, &epilogue}) {
      body->setLanes(1);
      bind(*body, dims.batchGroups, batch, /*isNamed=*/true);
      body->emitAvailable();
    }
  }

  void prepare(Operand &operand, int64_t extent, bool alongK, ArrayRef<cpu::DimGroup> groups,
               sym::Expr first, sym::Expr numRows) {
    operand.extent = extent;
    operand.alongK = alongK;
    operand.rowGroups = groups;
    operand.firstRow = first;
    operand.numRows = numRows;
    operand.vector = findVector(operand);
    int64_t count = extent * plan.blockK / frame.numThreads / operand.vector;
    sym::Expr thread = frame.addVariable(frame.thread, frame.numThreads);
    for (int64_t i = 0; i < count; ++i) {
      sym::Expr chunk = thread + i * frame.numThreads;
      int64_t inner = (alongK ? plan.blockK : extent) / operand.vector;
      sym::Expr slow = frame.named(chunk.floorDiv(inner), alongK ? extent : plan.blockK);
      sym::Expr fast = operand.vector * frame.named(chunk.mod(inner), inner);
      operand.places.push_back(alongK ? std::pair(slow, fast) : std::pair(fast, slow));
    }
  }

  /// Elements of 16 bytes, if the innermost loop along which they lie is a multiple of that.
  int64_t findVector(const Operand &operand) {
    auto groups = alongGroups(operand);
    int64_t elements = vectorBytes / (dims.operandType.getIntOrFloatBitWidth() / 8);
    bool fits = frame.func->hasAttr(alignedAttrName) && !groups.empty() &&
                frame.assumptions.isMultipleOf(groups.back().extent, elements) &&
                (operand.alongK ? plan.blockK : operand.extent) % elements == 0 &&
                operand.extent * plan.blockK % (frame.numThreads * elements) == 0;
    return fits ? elements : 1;
  }

  void allocate(int64_t places) {
    int64_t bytes = dims.operandType.getIntOrFloatBitWidth() / 8;
    for (Operand *operand : {&lhs, &rhs})
      operand->memory = frame.allocateShared(places * tile->size(operand->side) * bytes);
  }

  ArrayRef<cpu::DimGroup> alongGroups(const Operand &operand) const {
    return operand.alongK ? ArrayRef(dims.kGroups) : operand.rowGroups;
  }

  /// What is copied, if it is memory as it is.
  kernel::ReadOp getCopied(const Operand &operand) {
    return operand.vector == 1
               ? kernel::ReadOp()
               : findPlainRead(operand.region, alongGroups(operand).back().lastDim(),
                               operand.vector);
  }

  bool isCopied() {
    return llvm::all_of(std::array{&lhs, &rhs}, [&](Operand *operand) {
      return tile->keepsNeighbours(operand->side) && getCopied(*operand);
    });
  }

  /// Starts the copies of both operands' parts that begin at `firstK`, as one group.
  void copy(sym::Expr firstK, Value place) {
    copyPart(lhs, firstK, place);
    copyPart(rhs, firstK, place);
    emitCopiesEnd(frame);
  }

  void copyPart(Operand &operand, sym::Expr firstK, Value place) {
    kernel::ReadOp read = getCopied(operand);
    Value memory = part(operand, place);
    for (auto [row, k] : operand.places) {
      sym::Expr atRow = operand.firstRow + row, atK = firstK + k;
      Value inside =
          frame.both(frame.emitLess(atRow, operand.numRows), frame.emitLess(atK, dims.k));
      // Nothing is read from where there is nothing, and zeros are written: the address need only
      // be valid.
      auto clamp = [&](sym::Expr value, sym::Expr limit) {
        return frame.assumptions.isLess(value, limit)
                   ? value
                   : frame.addVariable(arith::MinSIOp::create(b, loc, frame.simplifyAndEmit(value),
                                                              frame.simplifyAndEmit(limit - 1)),
                                       limit);
      };
      bindChunk(operand, clamp(atRow, operand.numRows), clamp(atK, dims.k), 0);
      sym::Expr offset = sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor()))
                             .substituteDims(position);
      emitCopy(frame, read, dims.operandType, offset, tile->address(memory, operand.side, row, k),
               inside);
    }
  }

  /// Binds the operand's dims to element `i` of the neighbours that begin at (row, k).
  void bindChunk(Operand &operand, sym::Expr row, sym::Expr k, int64_t i) {
    auto along = [&](sym::Expr first, sym::Expr extent) {
      // A multiple stays one, from which it is seen that neighbours are neighbours.
      if (operand.vector == 1)
        return frame.named(first, extent);
      return operand.vector *
                 frame.named(first.floorDiv(operand.vector), extent.floorDiv(operand.vector)) +
             i;
    };
    bind(operand.body, operand.rowGroups,
         operand.alongK ? frame.named(row, operand.numRows) : along(row, operand.numRows),
         operand.alongK || operand.vector == 1);
    bind(operand.body, dims.kGroups, operand.alongK ? along(k, dims.k) : frame.named(k, dims.k),
         !operand.alongK || operand.vector == 1);
  }

  /// This thread's elements of the part that begins at `firstK`; zero where there are none.
  SmallVector<Value> load(Operand &operand, sym::Expr firstK) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(dims.operandType));
    SmallVector<Value> values, zeros(operand.vector, zero);
    for (auto [row, k] : operand.places) {
      sym::Expr atRow = operand.firstRow + row, atK = firstK + k;
      auto evaluate = [&] {
        SmallVector<Value> chunk;
        for (int64_t i = 0; i < operand.vector; ++i) {
          cpu::BodyEmitter::Scope scope(operand.body);
          bindChunk(operand, atRow, atK, i);
          chunk.push_back(operand.body.emitYield().front());
        }
        return chunk;
      };
      Value inside =
          frame.both(frame.emitLess(atRow, operand.numRows), frame.emitLess(atK, dims.k));
      llvm::append_range(values, frame.emitWhere(inside, zeros, evaluate));
    }
    return values;
  }

  /// The address of an operand's place of this number.
  Value part(const Operand &operand, Value place) {
    Value offset = arith::MulIOp::create(b, loc, place, frame.constant(tile->size(operand.side)));
    return frame.gep(operand.memory, dims.operandType, offset);
  }

  void store(Operand &operand, Value place, ValueRange values) {
    Value memory = part(operand, place);
    for (auto [chunk, at] : llvm::enumerate(operand.places)) {
      ValueRange elements = values.slice(chunk * operand.vector, operand.vector);
      if (operand.vector > 1 && tile->keepsNeighbours(operand.side)) {
        auto type = VectorType::get(operand.vector, dims.operandType);
        Value vector = vector::FromElementsOp::create(b, loc, type, elements);
        Value address = tile->address(memory, operand.side, at.first, at.second);
        LLVM::StoreOp::create(b, loc, vector, address, /*alignment=*/vectorBytes);
        continue;
      }
      for (auto [i, element] : llvm::enumerate(elements)) {
        sym::Expr next = static_cast<int64_t>(i);
        Value address = tile->address(memory, operand.side, at.first + (operand.alongK ? 0 : next),
                                      at.second + (operand.alongK ? next : 0));
        operand.body.store(address, dims.operandType, 0, element);
      }
    }
  }

  ContractPlan plan;
  std::unique_ptr<ContractTile> tile;
  Operand lhs, rhs;
  sym::Expr firstM = 0, firstN = 0, steps = 0;
};
} // namespace

LogicalResult cuda::emitContract(DeviceFrame &frame, kernel::ContractOp contract) {
  if (frame.func->hasAttr(variantAttrName))
    return emitWarpgroupContract(frame, contract);
  if (frame.func.getScheduleAttr().getTile().size() == 1)
    emitDot(frame, contract);
  else
    ContractEmitter(frame, contract).emit();
  return success();
}
