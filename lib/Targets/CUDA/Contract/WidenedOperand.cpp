// Widens operands of small integers, some neighbours at a time.
#include "CUDA/Contract/WidenedOperand.h"
#include "CUDA/Contract/AsyncCopy.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "cuda-choose-schedule"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Steps of a chunk: 16 bytes of f16 or bf16.
static constexpr int64_t chunkSteps = 8;
static_assert(chunkSteps == wordSteps);

/// One element for all of a chunk along `along` (1), neighbours at a multiple of as many (chunkSteps), or nothing of these (0).
static int64_t countElements(kernel::ReadOp read, ArrayRef<sym::Expr> extents, unsigned along,
                             const sym::Assumptions &known) {
  if (llvm::all_of(read.getMap().getResults(), [&](sym::Expr expr) {
        return kernel::isSameInGroups(extents, expr, along, chunkSteps, known);
      }))
    return 1;
  sym::Expr offset =
      known.simplify(sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor())));
  auto linear = sym::splitLinear(offset, sym::Expr::dim(along));
  bool areNeighbours =
      linear && linear->coefficient.isConstant(1) && known.isMultipleOf(linear->rest, chunkSteps);
  return areNeighbours ? chunkSteps : 0;
}

static std::nullopt_t refuse(Operation *op, const char *reason) {
  LDBG() << "no operand is widened of " << op->getLoc() << ": " << reason;
  return std::nullopt;
}

std::optional<WidenedOperand> WidenedOperand::find(kernel::FuncOp func, kernel::ContractOp op,
                                                   const ContractDims &dims) {
  if (op.getNumK() == 1 && !op.getPanel() && !dims.rhsAlongN && isWide(func, dims, Side::Right))
    return find(op.getRhs(), op.getExtents().size() - 1);
  return refuse(op, "its steps do not come 16 bytes at a time");
}

std::optional<WidenedOperand> WidenedOperand::find(Region &region, unsigned along) {
  WidenedOperand result(region.front().getTerminator()->getOperand(0));
  Type type = result.element.getType();
  SmallVector<sym::Expr> extents = kernel::getDimExtents(&region);
  sym::Assumptions known = kernel::getAssumptions(&region);
  if (!(type.isF16() || type.isBF16()) || !known.isMultipleOf(extents[along], chunkSteps)) {
    return refuse(region.getParentOp(), "it is no operand of f16 or bf16 in whole chunks");
  }
  sym::Expr step = sym::Expr::dim(along);
  bool areSmall = false;
  for (auto number : region.getOps<arith::BitcastOp>())
    if (std::optional<FourBits> four = matchFourBits(number, step, known)) {
      areSmall = true;
      result.fours.push_back(*four);
    }
  for (Operation &operation : region.front().without_terminator()) {
    bool isFour = llvm::any_of(
        result.fours, [&](FourBits &four) { return four.place.getOperation() == &operation; });
    auto read = dyn_cast<kernel::ReadOp>(operation);
    if (operation.getNumRegions() != 0 || (!read && !isFour && kernel::getIndexMap(&operation)) ||
        (read && (read.getMask() || !read.getValues().empty()))) {
      return refuse(region.getParentOp(),
                    "it is computed of more than what is read at constant distances");
    }
    if (!read || llvm::none_of(read.getMap().getResults(),
                               [&](sym::Expr expr) { return expr.dependsOn(step); }))
      continue;
    auto tensor = cast<RankedTensorType>(read.getTensor().getType());
    Read own{read, codegen::getStorageType(tensor.getElementType()),
             countElements(read, extents, along, known)};
    bool isNumber = own.type.isIntOrFloat() && !read.getType().isInteger(1) && own.count != 0;
    constexpr int64_t least = 4;
    if (!isNumber || own.size() > vectorBytes ||
        (own.size() < least &&
         !known.isMultipleOf(sym::product(sym::getShape(read.getTensor())), least / own.size()))) {
      return refuse(region.getParentOp(), "a chunk reads neither one element nor neighbours");
    }
    areSmall |= own.count > 1 && own.type.isInteger(8);
    result.reads.push_back(own);
  }
  if (!areSmall) {
    return refuse(region.getParentOp(), "it has no small integers");
  }
  return result;
}

int64_t WidenedOperand::bytes() const {
  int64_t bytes = 0;
  for (Read read : reads)
    bytes += read.copied();
  return bytes;
}

sym::Expr WidenedOperand::getOffset(DeviceFrame &frame, Read read,
                                    ArrayRef<sym::Expr> position) const {
  return frame.assumptions.simplify(
      sym::linearize(read.read.getMap().getResults(), sym::getShape(read.read.getTensor()))
          .substituteDims(position));
}

/// The place of this thread's bytes among those of all threads.
static Value getSlot(DeviceFrame &frame, WidenedOperand::Place place, int64_t before,
                     int64_t bytes) {
  OpBuilder &b = frame.builder;
  Value offset = arith::AddIOp::create(
      b, frame.loc, arith::MulIOp::create(b, frame.loc, place.thread, frame.constant(bytes)),
      frame.constant(before * place.threads));
  return frame.gep(place.memory, b.getI8Type(), offset);
}

void WidenedOperand::copy(DeviceFrame &frame, ArrayRef<sym::Expr> position, Value memory,
                          Value thread, int64_t threads) const {
  int64_t before = 0;
  for (Read read : reads) {
    Value slot = getSlot(frame, Place{memory, thread, threads}, before, read.copied());
    // Fewer bytes come with their neighbours.
    sym::Expr offset = getOffset(frame, read, position).floorDiv(read.copied() / read.size());
    Type type = frame.builder.getIntegerType(8 * read.copied() / read.count);
    emitCopy(frame, frame.buffer(read.read.getTensor()), type, frame.assumptions.simplify(offset),
             slot, Value(), read.copied());
    before += read.copied();
  }
}

Value WidenedOperand::load(DeviceFrame &frame, Read read, sym::Expr offset, Value slot) const {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  Type type = read.type;
  if (read.count > 1)
    type = VectorType::get(read.count, type);
  if (!slot)
    slot = frame.gep(frame.buffer(read.read.getTensor()), read.type, frame.emit(offset));
  else if (read.size() < read.copied()) {
    int64_t together = read.copied() / read.size();
    slot = frame.gep(slot, read.type, frame.simplifyAndEmit(offset.mod(together)));
  }
  return LLVM::LoadOp::create(b, loc, type, slot, /*alignment=*/read.size());
}

Value WidenedOperand::widen(DeviceFrame &frame, codegen::BodyEmitter &body,
                            ArrayRef<sym::Expr> position, Place from) const {
  codegen::BodyEmitter::Scope scope(body);
  body.setLanes(chunkSteps);
  int64_t before = 0;
  for (Read read : reads) {
    Value slot = from.memory ? getSlot(frame, from, before, read.copied()) : Value();
    body.setValue(read.read, load(frame, read, getOffset(frame, read, position), slot));
    before += read.copied();
  }
  for (FourBits four : fours)
    body.setValue(four.number, widenWord(frame.builder, frame.loc, body.emitValue(four.word),
                                         cast<FloatType>(four.number.getType())));
  return body.splat(body.emitValue(element));
}
