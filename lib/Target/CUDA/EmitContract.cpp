// Writes the function of a kernel.contract.
//
// While a block multiplies one part of the operands out of shared memory, the next parts are on
// their way, for each operand in the way that suits it. What is memory as it is, in order or seen
// through a window with zeros around, comes by asynchronous copies (cp.async) if tensor cores
// multiply: four places deep, so that copies for three iterations ahead are under way. Anything
// else a thread evaluates before the multiplication begins, holds in registers, and writes to one
// of two places behind it. One barrier an iteration is enough: who writes a place has passed the
// barrier that comes after everybody's last use of it.
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
  /// What is copied; or its parts are evaluated and held in registers.
  std::optional<CopySource> source;
  int64_t places() const { return source ? copyPlaces : loadPlaces; }
  static constexpr int64_t loadPlaces = 2, copyPlaces = 4;
  /// What this thread loads of a part, the first of each `vector`: row and k inside the part.
  SmallVector<std::pair<sym::Expr, sym::Expr>> elements;
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
    steps = frame.assumptions.simplify((endK - firstK).ceilDiv(plan.blockK));
    storeRows(tile->rows(), run(sums), firstM, firstN);
  }

private:
  /// Gives the sums.
  SmallVector<Value> run(ArrayRef<Value> sums) {
    constexpr int64_t ahead = Operand::copyPlaces - 1;
    bool copies = lhs.source || rhs.source;
    if (copies)
      for (int64_t i = 0; i < ahead; ++i)
        copy(firstK + i * plan.blockK, frame.constant(i));
    SmallVector<Value> carried = load(lhs, firstK);
    size_t numLhs = carried.size();
    llvm::append_range(carried, load(rhs, firstK));
    size_t numLoaded = carried.size();
    llvm::append_range(carried, sums);
    auto results = frame.emitLoop(
        frame.constant(0), frame.emit(steps), 1, carried, [&](Value iv, ValueRange values) {
          store(lhs, iv, values.take_front(numLhs));
          store(rhs, iv, values.slice(numLhs, numLoaded - numLhs));
          if (copies)
            emitCopiesWait(frame, ahead - 1);
          frame.emitBarrier();
          sym::Expr step = frame.addVariable(iv, steps);
          if (copies)
            copy(firstK + plan.blockK * (step + ahead),
                 arith::AddIOp::create(b, loc, iv, frame.constant(ahead)));
          sym::Expr next = firstK + plan.blockK * (step + 1);
          SmallVector<Value> results = load(lhs, next);
          llvm::append_range(results, load(rhs, next));
          llvm::append_range(
              results, tile->multiply(part(lhs, iv), part(rhs, iv), values.drop_front(numLoaded)));
          return results;
        });
    return SmallVector<Value>(ArrayRef(results).drop_front(numLoaded));
  }

  /// Which block this is, and what of the bodies depends on the batch alone.
  void bindBlock() {
    sym::Expr blocksM = dims.m.ceilDiv(plan.blockM), blocksN = dims.n.ceilDiv(plan.blockN);
    sym::Expr block = frame.addVariable(frame.block, plan.grid(dims));
    endK = dims.k;
    if (op.getPart()) {
      sym::Expr ofPart = dims.numBatch * blocksM * blocksN;
      partNumber = frame.named(block.floorDiv(ofPart), dims.numParts);
      block = frame.named(block.mod(ofPart), ofPart);
      firstK = frame.assumptions.simplify(dims.part * partNumber);
      endK = frame.named(sym::Expr::min(dims.k, firstK + dims.part), dims.k + 1);
    }
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
    if (operand.vector > 1 && tile->keepsNeighbours(operand.side))
      operand.source =
          findCopySource(operand.region, alongGroups(operand).back().lastDim(), operand.vector);
    int64_t bytes = dims.operandType.getIntOrFloatBitWidth() / 8;
    operand.memory = frame.allocateShared(operand.places() * tile->size(operand.side) * bytes);
    int64_t count = extent * plan.blockK / frame.numThreads / operand.vector;
    sym::Expr thread = frame.addVariable(frame.thread, frame.numThreads);
    for (int64_t i = 0; i < count; ++i) {
      sym::Expr chunk = thread + i * frame.numThreads;
      int64_t inner = (alongK ? plan.blockK : extent) / operand.vector;
      sym::Expr slow = frame.named(chunk.floorDiv(inner), alongK ? extent : plan.blockK);
      sym::Expr fast = operand.vector * frame.named(chunk.mod(inner), inner);
      operand.elements.push_back(alongK ? std::pair(slow, fast) : std::pair(fast, slow));
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

  ArrayRef<cpu::DimGroup> alongGroups(const Operand &operand) const {
    return operand.alongK ? ArrayRef(dims.kGroups) : operand.rowGroups;
  }

  /// Starts the copies of the parts that begin at `first`, as one group, to the operands' places
  /// for step number `place`.
  void copy(sym::Expr first, Value place) {
    for (Operand *operand : {&lhs, &rhs})
      if (operand->source)
        copyPart(*operand, first, part(*operand, place));
    emitCopiesEnd(frame);
  }

  void copyPart(Operand &operand, sym::Expr first, Value memory) {
    for (auto [row, k] : operand.elements) {
      sym::Expr atRow = operand.firstRow + row, atK = first + k;
      Value inside = frame.both(frame.emitLess(atRow, operand.numRows), frame.emitLess(atK, endK));
      // Nothing is read from where there is nothing: the address need only be valid.
      auto clamp = [&](sym::Expr value, sym::Expr limit) {
        return frame.assumptions.isLess(value, limit)
                   ? value
                   : frame.addVariable(arith::MinSIOp::create(b, loc, frame.simplifyAndEmit(value),
                                                              frame.simplifyAndEmit(limit - 1)),
                                       limit);
      };
      bindChunk(operand, clamp(atRow, operand.numRows), clamp(atK, dims.k), 0);
      emitCopy(frame, *operand.source, dims.operandType, position,
               tile->address(memory, operand.side, row, k), inside);
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

  /// This thread's elements of the part that begins at `first`; zero where there are none.
  SmallVector<Value> load(Operand &operand, sym::Expr first) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(dims.operandType));
    SmallVector<Value> values, zeros(operand.vector, zero);
    if (operand.source)
      return values;
    for (auto [row, k] : operand.elements) {
      sym::Expr atRow = operand.firstRow + row, atK = first + k;
      auto evaluate = [&] {
        SmallVector<Value> chunk;
        for (int64_t i = 0; i < operand.vector; ++i) {
          cpu::BodyEmitter::Scope scope(operand.body);
          bindChunk(operand, atRow, atK, i);
          chunk.push_back(operand.body.emitYield().front());
        }
        return chunk;
      };
      Value inside = frame.both(frame.emitLess(atRow, operand.numRows), frame.emitLess(atK, endK));
      llvm::append_range(values, frame.emitWhere(inside, zeros, evaluate));
    }
    return values;
  }

  /// The address of an operand's place for this step's part.
  Value part(const Operand &operand, Value step) {
    Value place = arith::RemUIOp::create(b, loc, step, frame.constant(operand.places()));
    Value offset = arith::MulIOp::create(b, loc, place, frame.constant(tile->size(operand.side)));
    return frame.gep(operand.memory, dims.operandType, offset);
  }

  void store(Operand &operand, Value step, ValueRange values) {
    if (operand.source)
      return;
    Value memory = part(operand, step);
    for (auto [chunk, at] : llvm::enumerate(operand.elements)) {
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
  sym::Expr firstM = 0, firstN = 0;
  /// The steps of this block's part.
  sym::Expr firstK = 0, endK = 0, steps = 0;
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
