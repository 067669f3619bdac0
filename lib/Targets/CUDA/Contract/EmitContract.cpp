// Writes the function of a kernel.contract.
//
// While a block multiplies one part of the operands out of shared memory, the next parts are on
// their way, for each operand in the way that suits it. What is memory as it is, in order or seen
// through a window with zeros around, comes by asynchronous copies (cp.async): the schedule's
// `stages` places deep, so that copies for one iteration less ahead are under way. So does what small integers
// are widened of, which each thread then reads, widens and writes to one of two places before the multiplication. Anything else a
// thread evaluates before the multiplication begins, holds in registers, and writes to one
// of two places behind it. One barrier an iteration is enough: who writes a place has passed the
// barrier that comes after everybody's last use of it.
#include "CUDA/Contract/ContractKernel.h"
#include "CUDA/Contract/OperandLoad.h"
#include "CUDA/Hopper/WarpgroupPlan.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
/// An operand's places in shared memory, and what brings its parts there.
struct Operand {
  OperandLoad load;
  int64_t places;
  int64_t size; // elements of a place
  Value memory;
  /// Places for what it is widened of, and bytes of one; null: there are none.
  Value sources;
  int64_t sourceBytes;
  bool arrives() const { return load.isCopied() || sources; }
};

class ContractEmitter : ContractKernel {
public:
  ContractEmitter(DeviceFrame &frame, kernel::ContractOp op, FmaScheduleAttr schedule)
      : ContractEmitter(frame, op, ContractBlock::of(schedule), schedule.getStages(),
                        [&] { return makeScalarTile(frame, schedule, dims); }) {}
  ContractEmitter(DeviceFrame &frame, kernel::ContractOp op, MmaScheduleAttr schedule)
      : ContractEmitter(frame, op, ContractBlock::of(schedule), schedule.getStages(),
                        [&] { return makeMatrixTile(frame, schedule, dims); }) {}

  void emit() {
    bindBlock();
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(dims.sumType));
    SmallVector<Value> sums(tile->numSums(), zero);
    steps = frame.assumptions.simplify((endK - firstK).ceilDiv(block.k));
    lhs.load.emitTile(batch, firstM,
                      [&] { rhs.load.emitTile(batch, firstN, [&] { sums = run(sums); }); });
    finish(sums);
  }

private:
  /// Tiles that are copied asynchronously have `stages` places.
  ContractEmitter(DeviceFrame &frame, kernel::ContractOp op, ContractBlock block, int64_t stages,
                  function_ref<std::unique_ptr<ContractTile>()> makeTile)
      : ContractKernel(frame, op), block(block), stages(stages), tile(makeTile()),
        thread(frame.addVariable(frame.thread, frame.numThreads)),
        lhs(makeOperand(Side::Left, block.m)), rhs(makeOperand(Side::Right, block.n)) {}

  Operand makeOperand(Side side, int64_t rows) {
    OperandPart part{side,
                     rows,
                     block.k,
                     [this, side](Value memory, sym::Expr row, sym::Expr k) {
                       return tile->address(memory, side, row, k);
                     },
                     tile->keepsNeighbours(side),
                     /*copiesElements=*/isa<FmaScheduleAttr>(frame.func.getScheduleAttr())};
    Operand operand{OperandLoad(frame, op, dims, part, thread, frame.numThreads),
                    evaluatedPlaces,
                    tile->size(side),
                    Value(),
                    Value(),
                    0};
    if (operand.load.isCopied())
      operand.places = stages;
    operand.sourceBytes = operand.load.sourceBytes();
    if (operand.sourceBytes > 0)
      operand.sources = frame.allocateShared(stages * operand.sourceBytes);
    int64_t bytes = dims.operandType.getIntOrFloatBitWidth() / 8;
    operand.memory = frame.allocateShared(operand.places * operand.size * bytes);
    return operand;
  }

  /// Gives the sums.
  SmallVector<Value> run(ArrayRef<Value> sums) {
    int64_t ahead = stages - 1;
    bool copies = lhs.arrives() || rhs.arrives();
    if (copies)
      for (int64_t i = 0; i < ahead; ++i)
        copy(firstK + i * block.k, frame.constant(i));
    SmallVector<Value> carried = evaluate(lhs, firstK);
    size_t numLhs = carried.size();
    llvm::append_range(carried, evaluate(rhs, firstK));
    size_t numLoaded = carried.size();
    llvm::append_range(carried, sums);
    auto results = frame.emitLoop(
        frame.constant(0), frame.emit(steps), 1, carried, [&](Value iv, ValueRange values) {
          sym::Expr step = frame.addVariable(iv, steps);
          store(lhs, iv, values.take_front(numLhs));
          store(rhs, iv, values.slice(numLhs, numLoaded - numLhs));
          if (copies)
            emitCopiesWait(frame, ahead - 1);
          for (Operand *operand : {&lhs, &rhs})
            if (operand->sources)
              store(*operand, iv,
                    operand->load.evaluateSource(firstK + block.k * step, source(*operand, iv)));
          frame.emitBarrier();
          if (copies)
            copy(firstK + block.k * (step + ahead),
                 arith::AddIOp::create(b, loc, iv, frame.constant(ahead)));
          sym::Expr next = firstK + block.k * (step + 1);
          SmallVector<Value> results = evaluate(lhs, next);
          llvm::append_range(results, evaluate(rhs, next));
          llvm::append_range(results, tile->multiply(place(lhs, iv), place(rhs, iv),
                                                     values.drop_front(numLoaded)));
          return results;
        });
    return SmallVector<Value>(ArrayRef(results).drop_front(numLoaded));
  }

  void finish(ValueRange sums) {
    forEachBand(tile->numBands(), sums, [&](sym::Expr band, ValueRange ofBand) {
      storeRows(tile->rows(band), ofBand, firstM, firstN);
    });
  }

  /// Which block this is, and what of the epilogue depends on the batch alone.
  void bindBlock() {
    sym::Expr blocksM = dims.m.ceilDiv(block.m), blocksN = dims.n.ceilDiv(block.n);
    sym::Expr number = frame.addVariable(frame.block, block.grid(dims));
    endK = dims.k;
    if (op.getPart()) {
      sym::Expr ofPart = dims.numBatch * blocksM * blocksN;
      partNumber = frame.named(number.floorDiv(ofPart), dims.numParts);
      number = frame.named(number.mod(ofPart), ofPart);
      firstK = frame.assumptions.simplify(dims.part * partNumber);
      endK = frame.named(sym::Expr::min(dims.k, firstK + dims.part), dims.k + 1);
    }
    sym::Expr part = frame.named(number.mod(blocksM * blocksN), blocksM * blocksN);
    batch = frame.named(number.floorDiv(blocksM * blocksN), dims.numBatch);
    // Neighbouring blocks share rows of the left operand.
    firstM = block.m * frame.named(part.floorDiv(blocksN), blocksM);
    firstN = block.n * frame.named(part.mod(blocksN), blocksN);
    epilogue.setLanes(1);
    bind(epilogue, dims.batchGroups, batch, /*isNamed=*/true);
    epilogue.emitAvailable();
  }

  /// Starts the copies of the parts that begin at step `first`, as one group, to the operands'
  /// places for step number `step`.
  void copy(sym::Expr first, Value step) {
    for (Operand *operand : {&lhs, &rhs})
      if (operand->load.isCopied())
        operand->load.copy(first, endK, place(*operand, step));
      else if (operand->sources)
        operand->load.copySource(first, source(*operand, step));
    emitCopiesEnd(frame);
  }

  /// This thread's elements of the part that begins at step `first`.
  SmallVector<Value> evaluate(Operand &operand, sym::Expr first) {
    if (operand.arrives())
      return {};
    return operand.load.evaluate(first, endK, 0, operand.load.numChunks());
  }

  void store(Operand &operand, Value step, ValueRange values) {
    if (!values.empty())
      operand.load.store(values, place(operand, step), 0, operand.load.numChunks());
  }

  /// The address of what an operand is widened of for this step's part.
  Value source(const Operand &operand, Value step) {
    Value number = arith::RemUIOp::create(b, loc, step, frame.constant(stages));
    Value offset = arith::MulIOp::create(b, loc, number, frame.constant(operand.sourceBytes));
    return frame.gep(operand.sources, b.getI8Type(), offset);
  }

  /// The address of an operand's place for this step's part.
  Value place(const Operand &operand, Value step) {
    Value number = arith::RemUIOp::create(b, loc, step, frame.constant(operand.places));
    Value offset = arith::MulIOp::create(b, loc, number, frame.constant(operand.size));
    return frame.gep(operand.memory, dims.operandType, offset);
  }

  ContractBlock block;
  int64_t stages;
  std::unique_ptr<ContractTile> tile;
  sym::Expr thread;
  Operand lhs, rhs;
  sym::Expr batch = 0, firstM = 0, firstN = 0;
  /// The steps of this block's part.
  sym::Expr firstK = 0, endK = 0, steps = 0;
};
} // namespace

LogicalResult cuda::emitContract(DeviceFrame &frame, kernel::ContractOp contract) {
  return llvm::TypeSwitch<Attribute, LogicalResult>(frame.func.getScheduleAttr())
      .Case([&](WgmmaScheduleAttr) { return emitWarpgroupContract(frame, contract); })
      .Case([&](Tcgen05ScheduleAttr) { return emitTensorMemoryContract(frame, contract); })
      .Case([&](DotScheduleAttr) {
        emitDot(frame, contract);
        return success();
      })
      .Case<FmaScheduleAttr, MmaScheduleAttr>([&](auto schedule) {
        ContractEmitter(frame, contract, schedule).emit();
        return success();
      })
      .Default([&](Attribute) { return emitUnknownSchedule(frame.func); });
}
