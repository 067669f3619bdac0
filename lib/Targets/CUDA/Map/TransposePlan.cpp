// Finds maps that read along another dim than they write, and chooses the tiles that bring such
// reads through shared memory.
#include "CUDA/Map/TransposePlan.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Bytes of a tile of the widest elements: two accesses of 16 bytes for each thread.
static constexpr int64_t tileBytes = 2 * usualThreads * vectorBytes;
static constexpr int64_t maxTileElements = 4096, usualSide = 64, maxWrittenSide = 1024;
/// Shared memory that all tiles of a block may have, so that four blocks have room.
static constexpr int64_t maxSharedBytes = 48 << 10;
/// A written loop this short leaves whole runs of what is read to the threads of a block; tiles of
/// fewer elements do not.
static constexpr int64_t shortLoop = 8, minTileElements = 512;
/// The line of all banks of shared memory, and of a cache; and the least that memory moves.
static constexpr int64_t lineBytes = 128, sectorBytes = 32;

/// The dim by which a loop's neighbours differ.
static sym::Expr stepDim(const codegen::DimGroup &group) {
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

static bool dependsOn(Value value, const codegen::DimGroup &group) {
  Operation *op = value.getDefiningOp();
  if (auto map = kernel::getIndexMap(op))
    for (sym::Expr expr : map.getResults())
      for (unsigned i = 0; i < group.count; ++i)
        if (expr.dependsOn(sym::Expr::dim(group.first + i)))
          return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOn(operand, group); });
}

static sym::Expr getOffset(kernel::ReadOp read) {
  return sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor()));
}

void TransposePlan::findReads(kernel::MapOp map) {
  sym::Expr written = stepDim(loops.back());
  // The loop along which each read could be staged.
  SmallVector<std::pair<Read, std::optional<unsigned>>> reads;
  SmallVector<int64_t> bytesAlong(loops.size());
  for (auto read : map.getBody().front().getOps<kernel::ReadOp>()) {
    if (!read.getValues().empty() || (read.getMask() && !isOfDims(read.getMask())) ||
        (read.getOther() && !isOfDims(read.getOther())))
      continue;
    sym::Expr offset = getOffset(read);
    std::optional<unsigned> loop;
    if (codegen::classify(offset, written) == codegen::Walk::Strided)
      for (auto [i, group] : llvm::enumerate(ArrayRef(loops).drop_back()))
        if (codegen::classify(offset, stepDim(group)) == codegen::Walk::Consecutive)
          loop = i;
    int64_t bytes = getBytes(read.getTensor());
    reads.push_back({{read, bytes, 1}, loop});
    if (loop)
      bytesAlong[*loop] += bytes;
  }
  along = std::distance(bytesAlong.begin(), llvm::max_element(bytesAlong));
  for (auto [read, loop] : reads)
    (loop == along ? staged : direct).push_back(read);
}

/// Neighbours are taken at once that begin at a multiple of as many bytes, wherever the others are.
void TransposePlan::findVectors(kernel::MapOp map) {
  for (Value result : map.getResults())
    resultBytes = std::max(resultBytes, getBytes(result));
  if (!map->getParentOfType<kernel::FuncOp>().getAligned())
    return;
  sym::Assumptions assumptions = kernel::getAssumptions(&map.getBody());
  auto widest = [&](int64_t bytes, sym::Expr extent, sym::Expr rest) {
    int64_t vector = std::max<int64_t>(1, vectorBytes / bytes);
    while (vector > 1 &&
           !(assumptions.isMultipleOf(extent, vector) && assumptions.isMultipleOf(rest, vector)))
      vector /= 2;
    return vector;
  };
  for (Read &staged : staged) {
    auto read = staged.value.getDefiningOp<kernel::ReadOp>();
    if (read.getMask() && dependsOn(read.getMask(), readLoop()))
      continue;
    sym::Expr rest = getOffset(read).substitute([&](sym::Expr leaf) {
      bool isAlong = leaf.kind() == sym::Kind::Dim && leaf.dimIndex() >= readLoop().first &&
                     leaf.dimIndex() < readLoop().first + readLoop().count;
      return isAlong ? std::optional(sym::Expr(0)) : std::nullopt;
    });
    staged.vector = widest(staged.bytes, readLoop().extent, rest);
  }
  auto isStaged = [&](Operation *op) {
    return llvm::any_of(staged,
                        [&](const Read &staged) { return staged.value.getDefiningOp() == op; });
  };
  // Lanes that are neighbours should have elements that are, unless others have these neighbours.
  sym::Expr written = stepDim(loops.back());
  for (const codegen::Access &access : codegen::collectAccesses(map.getBody()))
    if (codegen::Walk walk = codegen::classify(access.expr, written);
        access.isOffset && !isStaged(access.op) && walk != codegen::Walk::Uniform &&
        walk != codegen::Walk::Consecutive)
      return;
  vector = widest(resultBytes, loops.back().extent, 0);
}

/// The most elements that a loop of this extent may have, as far as it is known.
static int64_t findMost(sym::Expr extent, const sym::Assumptions &assumptions) {
  return assumptions.rangeOf(extent).max.value_or(std::numeric_limits<int64_t>::max());
}

/// At most `most` elements of a loop of `extent`, a multiple of `step`: all parts of a known extent
/// are alike, if that leaves none over or less to do for nobody.
static int64_t divide(sym::Expr extent, const sym::Assumptions &assumptions, int64_t most,
                      int64_t step) {
  std::optional<int64_t> known = extent.constant();
  if (!known) {
    int64_t bound = std::clamp<int64_t>(findMost(extent, assumptions), 1, most);
    return std::min<int64_t>(most, llvm::PowerOf2Ceil(bound));
  }
  int64_t size = std::max<int64_t>(1, *known), parts = llvm::divideCeil(size, most);
  int64_t even = llvm::alignTo(llvm::divideCeil(size, parts), step);
  bool isWasteful = 4 * (parts * most - size) > size;
  return even * parts == size || isWasteful ? std::min(most, even) : most;
}

/// A written loop that is shorter than a line goes on in those around it, as the result does.
void TransposePlan::joinLoops() {
  while (loops.size() > along + 2 && loops.back().extent.isConstant() &&
         *loops.back().extent.constant() < usualSide) {
    codegen::DimGroup inner = loops.pop_back_val();
    codegen::DimGroup &outer = loops.back();
    outer.count += inner.count;
    outer.extent = outer.extent * inner.extent;
    llvm::append_range(outer.extents, inner.extents);
  }
}

void TransposePlan::chooseTile(const sym::Assumptions &assumptions) {
  int64_t shared = 0, step = 1;
  for (const Read &read : staged) {
    shared += read.bytes;
    step = std::max(step, read.vector);
  }
  int64_t elements = std::min(tileBytes / widestBytes(), maxTileElements);
  while (elements > 2 * minTileElements && 2 * elements * shared > maxSharedBytes)
    elements /= 2;
  auto part = [&](const codegen::DimGroup &loop, int64_t most, int64_t multiple) {
    return divide(loop.extent, assumptions, most, multiple);
  };
  auto rest = [&](int64_t side) { return elements / (int64_t)llvm::PowerOf2Ceil(side); };
  writtenSide = part(writtenLoop(), widestBytes() <= 4 ? usualSide : usualSide / 2, vector);
  readSide = part(readLoop(), rest(writtenSide), step);
  writtenSide = part(writtenLoop(), std::min(rest(readSide), maxWrittenSide), vector);
}

/// As many as divide a tile's accesses evenly, if there are.
void TransposePlan::chooseThreads() {
  int64_t elements = readSide * writtenSide, fewest = elements / vector, most = fewest;
  for (const Read &read : staged) {
    fewest = std::min(fewest, elements / read.vector);
    most = std::max(most, elements / read.vector);
  }
  threads = std::clamp<int64_t>(llvm::bit_floor<uint64_t>(most), warpSize, usualThreads);
  for (int64_t even = threads; even >= usualThreads / 4; even /= 2)
    if (fewest % even == 0) {
      threads = even;
      return;
    }
}

/// Lanes write 128 bytes side by side, or what of that divides a line of the tile, or all of it.
void TransposePlan::findLanes() {
  int64_t vectors = writtenSide / vector, even = vectors & -vectors;
  lanesAlong = std::clamp<int64_t>(lineBytes / (vector * resultBytes), 1, warpSize);
  if (vectors <= lanesAlong)
    lanesAlong = vectors;
  else if (even * vector * resultBytes >= sectorBytes)
    lanesAlong = std::min(lanesAlong, even);
}

std::optional<TransposePlan> TransposePlan::find(kernel::MapOp map, const MapDims &dims) {
  TransposePlan plan;
  if (dims.reduced || dims.rows.size() < 2)
    return std::nullopt;
  plan.loops = dims.rows;
  plan.findReads(map);
  if (plan.staged.empty())
    return std::nullopt;
  plan.findVectors(map);
  plan.joinLoops();
  return plan;
}

std::optional<TransposePlan> TransposePlan::choose(kernel::MapOp map, const MapDims &dims) {
  sym::Assumptions assumptions = kernel::getAssumptions(&map.getBody());
  std::optional<TransposePlan> plan = find(map, dims);
  // Fewer elements do not fill a GPU with tiles.
  if (!plan || findMost(plan->writtenLoop().extent, assumptions) < shortLoop ||
      findMost(sym::product(dims.rowExtents()), assumptions) <
          usualThreads * getTarget(map).getBusyBlocks())
    return std::nullopt;
  plan->chooseTile(assumptions);
  int64_t elements = plan->readSide * plan->writtenSide;
  bool isSmall = elements < minTileElements && elements * plan->widestBytes() < tileBytes / 2;
  if (isSmall || plan->sharedBytes() > maxSharedBytes)
    return std::nullopt;
  plan->chooseThreads();
  return plan;
}

std::optional<TransposePlan> TransposePlan::make(kernel::MapOp map, const MapDims &dims,
                                                 TransposedMapScheduleAttr schedule) {
  std::optional<TransposePlan> plan = find(map, dims);
  if (!plan)
    return std::nullopt;
  plan->readSide = schedule.getRead();
  plan->writtenSide = schedule.getWritten();
  plan->threads = schedule.getThreads();
  if (plan->vector % schedule.getVector() || plan->sharedBytes() > maxSharedBytes)
    return std::nullopt;
  plan->vector = schedule.getVector();
  for (Read &read : plan->staged)
    while (plan->readSide % read.vector)
      read.vector /= 2;
  plan->findLanes();
  return plan;
}

int64_t TransposePlan::widestBytes() const {
  int64_t bytes = resultBytes;
  for (const Read &read : staged)
    bytes = std::max(bytes, read.bytes);
  return bytes;
}

int64_t TransposePlan::sharedBytes() const {
  int64_t bytes = 0;
  for (const Read &read : staged)
    bytes += llvm::alignTo(llvm::PowerOf2Ceil(readSide) * writtenSide * read.bytes, lineBytes);
  return bytes;
}

FailureOr<KernelPlan> cuda::planTransposedMap(kernel::FuncOp func, const MapDims &dims,
                                              TransposedMapScheduleAttr schedule,
                                              StringRef reason) {
  auto plan = TransposePlan::make(cast<kernel::MapOp>(func.getRoot()), dims, schedule);
  if (!plan)
    return func.emitError("a tile of ")
           << schedule.getRead() << " x " << schedule.getWritten()
           << " elements fits no read that goes along another loop than the result";
  return KernelPlan{schedule, sym::product(plan->tiles()), plan->threads, reason};
}

TransposedMapScheduleAttr TransposePlan::schedule(MLIRContext *context) const {
  return TransposedMapScheduleAttr::get(context, threads, readSide, writtenSide, vector);
}

SmallVector<sym::Expr> TransposePlan::tiles() const {
  auto tiles =
      llvm::map_to_vector(loops, [](const codegen::DimGroup &loop) { return loop.extent; });
  tiles[along] = tiles[along].ceilDiv(readSide);
  tiles.back() = tiles.back().ceilDiv(writtenSide);
  return tiles;
}
