#include "TransposePlan.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Threads of a block where there is something to do for them.
static constexpr int64_t usualThreads = 256;
/// Bytes of a tile of the widest elements: two accesses of 16 bytes for each thread.
static constexpr int64_t tileBytes = 2 * usualThreads * vectorBytes;
static constexpr int64_t maxTileElements = 4096, maxWrittenSide = 1024;
/// Shared memory that all tiles of a block may have, so that four blocks have room.
static constexpr int64_t maxSharedBytes = 48 << 10;
/// Fewer elements do not fill a GPU with tiles.
static constexpr int64_t fewElements = 1 << 15;
/// A written loop this short leaves whole runs of what is read to the threads of a block; tiles of
/// fewer elements do not.
static constexpr int64_t shortLoop = 8, minTileElements = 1024;
static constexpr int64_t lineBytes = 128; // of all banks of shared memory, and of a cache

/// The dim by which a loop's neighbours differ.
static sym::Expr stepDim(const cpu::DimGroup &group) {
  for (unsigned i = group.count; i-- > 0;)
    if (!group.extents[i].isConstant(1))
      return sym::Expr::dim(group.first + i);
  return group.lastDim();
}

static int64_t getBytes(Value tensor) {
  return wrapper::getElementBytes(cast<RankedTensorType>(tensor.getType()).getElementType());
}

/// Whether `value` follows from the dims alone.
static bool isOfDims(Value value) {
  Operation *op = value.getDefiningOp();
  return op && !isa<kernel::ReadOp>(op) && !op->getNumRegions() &&
         llvm::all_of(op->getOperands(), isOfDims);
}

static bool dependsOn(Value value, const cpu::DimGroup &group) {
  Operation *op = value.getDefiningOp();
  if (auto map = op->getAttrOfType<sym::MapAttr>("map"))
    for (sym::Expr expr : map.getResults())
      for (unsigned i = 0; i < group.count; ++i)
        if (expr.dependsOn(sym::Expr::dim(group.first + i)))
          return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOn(operand, group); });
}

static sym::Expr getOffset(kernel::ReadOp read) {
  return sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor()));
}

void TransposePlan::findStaged(kernel::MapOp map, const MapDims &dims) {
  sym::Expr written = stepDim(dims.rows.back());
  SmallVector<SmallVector<StagedRead>> candidates(dims.rows.size());
  for (auto read : map.getBody().front().getOps<kernel::ReadOp>()) {
    sym::Expr offset = getOffset(read);
    if (!read.getValues().empty() || (read.getMask() && !isOfDims(read.getMask())) ||
        (read.getOther() && !isOfDims(read.getOther())) ||
        cpu::classify(offset, written) != cpu::Walk::Strided)
      continue;
    for (auto [i, group] : llvm::enumerate(ArrayRef(dims.rows).drop_back()))
      if (cpu::classify(offset, stepDim(group)) == cpu::Walk::Consecutive)
        candidates[i].push_back({read, getBytes(read.getTensor()), 1});
  }
  int64_t most = 0;
  for (auto [i, reads] : llvm::enumerate(candidates)) {
    int64_t bytes = 0;
    for (const StagedRead &read : reads)
      bytes += read.bytes;
    if (bytes <= most)
      continue;
    most = bytes;
    along = i;
    staged = reads;
  }
}

/// Of neighbours those are taken at once that begin at a multiple of as many bytes, wherever the
/// others are.
void TransposePlan::findVectors(kernel::MapOp map, const MapDims &dims) {
  for (Value result : map.getResults())
    resultBytes = std::max(resultBytes, getBytes(result));
  if (!map->getParentOp()->hasAttr(alignedAttrName))
    return;
  sym::Assumptions assumptions = kernel::getAssumptions(&map.getBody());
  auto widest = [&](int64_t bytes, sym::Expr extent, sym::Expr rest) {
    int64_t vector = std::max<int64_t>(1, vectorBytes / bytes);
    while (vector > 1 &&
           !(assumptions.isMultipleOf(extent, vector) && assumptions.isMultipleOf(rest, vector)))
      vector /= 2;
    return vector;
  };
  const cpu::DimGroup &group = dims.rows[along];
  for (StagedRead &staged : staged) {
    auto read = staged.value.getDefiningOp<kernel::ReadOp>();
    if (read.getMask() && dependsOn(read.getMask(), group))
      continue;
    sym::Expr rest = getOffset(read).substitute([&](sym::Expr leaf) {
      bool isAlong = leaf.kind() == sym::Kind::Dim && leaf.dimIndex() >= group.first &&
                     leaf.dimIndex() < group.first + group.count;
      return isAlong ? std::optional(sym::Expr(0)) : std::nullopt;
    });
    staged.vector = widest(staged.bytes, group.extent, rest);
  }
  auto isStaged = [&](Operation *op) {
    return llvm::any_of(
        staged, [&](const StagedRead &staged) { return staged.value.getDefiningOp() == op; });
  };
  // Where others do not have these neighbours, lanes that are neighbours should have elements that
  // are.
  sym::Expr written = stepDim(dims.rows.back());
  for (const cpu::Access &access : cpu::collectAccesses(map.getBody()))
    if (cpu::Walk walk = cpu::classify(access.expr, written);
        access.isOffset && !isStaged(access.op) && walk != cpu::Walk::Uniform &&
        walk != cpu::Walk::Consecutive)
      return;
  vector = widest(resultBytes, dims.rows.back().extent, 0);
}

void TransposePlan::chooseTile(const MapDims &dims) {
  int64_t bytes = widestBytes(), shared = 0;
  for (const StagedRead &read : staged)
    shared += read.bytes;
  int64_t elements = std::min(tileBytes / bytes, maxTileElements);
  while (elements > minTileElements && 2 * elements * shared > maxSharedBytes)
    elements /= 2;
  auto clip = [](sym::Expr extent, int64_t side) {
    return std::min(side, std::max<int64_t>(1, extent.constant().value_or(side)));
  };
  sym::Expr read = dims.rows[along].extent, written = dims.rows.back().extent;
  writtenSide = clip(written, bytes <= 4 ? 64 : 32);
  auto rest = [&](int64_t side) { return elements / (int64_t)llvm::PowerOf2Ceil(side); };
  readSide = clip(read, rest(writtenSide));
  writtenSide = clip(written, std::min(rest(readSide), maxWrittenSide));
}

/// Lanes write 128 bytes side by side, if a tile is that wide.
void TransposePlan::findLanes() {
  lanesAlong = std::min(warpSize, std::max<int64_t>(1, lineBytes / (vector * resultBytes)));
  lanesAlong = std::min<int64_t>(lanesAlong, llvm::bit_floor<uint64_t>(writtenSide / vector));
}

std::optional<TransposePlan> TransposePlan::find(kernel::MapOp map, const MapDims &dims) {
  TransposePlan plan;
  if (dims.reduced || dims.rows.size() < 2)
    return std::nullopt;
  plan.findStaged(map, dims);
  if (plan.staged.empty())
    return std::nullopt;
  plan.findVectors(map, dims);
  return plan;
}

std::optional<TransposePlan> TransposePlan::choose(kernel::MapOp map, const MapDims &dims) {
  auto isShort = [](sym::Expr extent, int64_t least) {
    return extent.isConstant() && *extent.constant() < least;
  };
  std::optional<TransposePlan> plan = find(map, dims);
  if (!plan || isShort(dims.rows.back().extent, shortLoop) ||
      isShort(sym::product(dims.rowExtents()), fewElements))
    return std::nullopt;
  plan->chooseTile(dims);
  int64_t elements = plan->readSide * plan->writtenSide;
  bool isSmall = elements < minTileElements && elements * plan->widestBytes() < tileBytes;
  if (isSmall || plan->sharedBytes() > maxSharedBytes)
    return std::nullopt;
  int64_t accesses = elements / plan->vector;
  for (const StagedRead &read : plan->staged)
    accesses = std::max(accesses, elements / read.vector);
  plan->threads = std::clamp<int64_t>(llvm::bit_floor<uint64_t>(accesses), warpSize, usualThreads);
  return plan;
}

std::optional<TransposePlan> TransposePlan::make(kernel::MapOp map, const MapDims &dims,
                                                 kernel::ScheduleAttr schedule) {
  std::optional<TransposePlan> plan = find(map, dims);
  if (!plan)
    return std::nullopt;
  plan->readSide = schedule.getTile()[0];
  plan->writtenSide = schedule.getTile()[1];
  plan->threads = schedule.getBlock()[0];
  int64_t lanes = schedule.getLanes();
  if (plan->vector % lanes || plan->writtenSide % lanes || plan->sharedBytes() > maxSharedBytes)
    return std::nullopt;
  plan->vector = lanes;
  for (StagedRead &read : plan->staged)
    while (plan->readSide % read.vector)
      read.vector /= 2;
  plan->findLanes();
  return plan;
}

int64_t TransposePlan::widestBytes() const {
  int64_t bytes = resultBytes;
  for (const StagedRead &read : staged)
    bytes = std::max(bytes, read.bytes);
  return bytes;
}

int64_t TransposePlan::sharedBytes() const {
  int64_t bytes = 0;
  for (const StagedRead &read : staged)
    bytes += llvm::alignTo(llvm::PowerOf2Ceil(readSide) * writtenSide * read.bytes, lineBytes);
  return bytes;
}

FailureOr<KernelPlan> cuda::planTransposedMap(kernel::FuncOp func, const MapDims &dims,
                                              kernel::ScheduleAttr schedule) {
  ArrayRef<int64_t> tile = schedule.getTile(), block = schedule.getBlock();
  if (tile.size() != 2 || tile[0] < 1 || tile[1] < 1 || block.size() != 1 ||
      !llvm::isPowerOf2_64(block[0]) || block[0] < warpSize || block[0] > 1024 ||
      schedule.getLanes() < 1)
    return func.emitError(
        "a map's schedule that stages reads needs tile = [elements read, elements "
        "written] and block = [threads], a power of two, 32 to 1024");
  auto plan = TransposePlan::make(cast<kernel::MapOp>(func.getRoot()), dims, schedule);
  if (!plan)
    return func.emitError("a map's schedule stages reads, but the tile fits none that goes along "
                          "another loop than the result");
  return KernelPlan{schedule, plan->grid(dims), plan->threads};
}

kernel::ScheduleAttr TransposePlan::schedule(MLIRContext *context) const {
  return kernel::ScheduleAttr::get(context, {readSide, writtenSide}, {threads}, vector,
                                   /*stage=*/true);
}

sym::Expr TransposePlan::grid(const MapDims &dims) const {
  sym::Expr blocks = 1;
  for (auto [i, group] : llvm::enumerate(dims.rows))
    blocks = blocks * (i == along                  ? group.extent.ceilDiv(readSide)
                       : i + 1 == dims.rows.size() ? group.extent.ceilDiv(writtenSide)
                                                   : group.extent);
  return blocks;
}
