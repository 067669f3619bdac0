// The layout of a product with a schedule put in, or why it cannot be run with that.
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// Steps of a tile whose size is known at run time: there is code for every second height.
static constexpr int64_t maxVariableTile = 32;

FailureOr<ContractLayout> cpu::getScheduledLayout(kernel::ContractOp op, ContractAttr schedule,
                                                  const codegen::CPUInfo &target, bool isWidened) {
  FailureOr<ContractLayout> layout = ContractLayout::get(op, target, schedule.getLhs(), isWidened);
  if (failed(layout))
    return failure();
  auto refuse = [&](const Twine &reason) {
    return op.emitOpError("cannot be run with ") << schedule << ": " << reason;
  };
  int64_t panel = schedule.getVectors() * schedule.getLanes();
  if (layout->packed && panel != static_cast<int64_t>(*op.getPanel()))
    return refuse("the right operand has panels of " + Twine(*op.getPanel()) + " columns");
  if (layout->depthwise && layout->lhs == LeftOperand::Direct &&
      !kernel::getAssumptions(&op.getLhs())
           .isMultipleOf(layout->columns.extent, schedule.getLanes()))
    return refuse("the columns are no multiple of the lanes");
  if (layout->packed && schedule.getTurn() != Turn::None)
    return refuse("the right operand is packed, and need not be turned");
  if (schedule.getTurn() == Turn::Sums && op.getBytes())
    return refuse("sums of bytes are not turned");
  if (schedule.getTurn() == Turn::Sums && (layout->depthwise || !layout->lhsLiesAlongSum()))
    return refuse("the left operand does not lie along the sum");
  unsigned axes = layout->numBlockAxes();
  if (schedule.getTileAxes() > axes || schedule.getBlockAxes() > axes)
    return refuse("tiles and blocks can lie on " + Twine(axes) + " axes of rows");
  std::optional<int64_t> inner = layout->rows.back().extent.constant();
  if (schedule.getTileAxes() == 2 && (!inner || *inner < 1 || *inner > schedule.getTileRows()))
    return refuse("a tile does not hold all of the last axis of rows");
  if (schedule.getUnit() == ProductUnit::Digits) {
    layout->lanes = schedule.getLanes();
    if (const char *reason = layout->whyNoBlockFloats(target))
      return refuse(reason);
  }
  if (schedule.getWidenRows() != 0 && !isWidened && !layout->canBeWidened)
    return refuse("it has no packed right operand of small integers, or rows of a known number");
  layout->apply(schedule);
  if (isWidened)
    layout->prefetch = PrefetchCache::None; // what is multiplied is in the cache
  if (layout->hasVariableTiles() && layout->maxTileSize() > maxVariableTile)
    return refuse("tiles of unknown height have up to " + Twine(maxVariableTile) + " steps");
  if (!layout->numSumBlocks().isConstant(1)) {
    if (layout->widened)
      return refuse("the sum is cut, and panels are widened as a whole");
    // The sums of all of a task's rows are kept.
    if (!layout->hasBoundedBlocks())
      return refuse("the sum is cut, and a task has rows of an unknown number");
    if (!layout->epilogueInMemory)
      return refuse("the sum is cut, and the epilogue is on registers");
  }
  if (layout->unit == ProductUnit::Tiles) {
    if (const char *reason = layout->whyNoTiles(target))
      return refuse(reason);
    if (!layout->numSumBlocks().isConstant(1))
      return refuse("the sum is cut, and tiles of sums are not added to others");
    if (!layout->fillsTiles())
      return refuse(
          layout->tileInner == 1
              ? "some of several tiles would have fewer than " + Twine(tileRegisterRows) + " rows"
              : "a tile is not one or two steps of up to " + Twine(tileRegisterRows) + " rows");
  }
  if (layout->vectorRows != 1)
    if (const char *reason = layout->whyNoVectorRows(layout->vectorRows))
      return refuse(reason);
  if (layout->tilesShareCode && !layout->hasVariableTiles())
    return refuse("there are no tiles of unknown height to share code");
  if (layout->rhs == RightOperand::Direct && layout->rhsStrides.empty())
    return refuse("the right operand is not one read whose columns lie next to each other");
  if (layout->rhs == RightOperand::Direct && layout->hasVariableTiles())
    return refuse("tiles of unknown height read the right operand in panels");
  if (layout->prefetch != PrefetchCache::None &&
      (!layout->packed || layout->widened || layout->depthwise || layout->maxTiles() < 1))
    return refuse("there are no panels to fetch ahead of use");
  if (layout->epiloguePrefetch != PrefetchCache::None && layout->epilogueTiles().empty())
    return refuse("the epilogue reads nothing of each row and column");
  return layout;
}
