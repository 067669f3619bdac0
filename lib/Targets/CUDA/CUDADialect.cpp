// The cuda dialect: the schedules' assembly, and what no schedule may say.
#include "kiln/Targets/CUDA/CUDADialect.h"
#include "CUDA/Contract/MatrixFragments.h"
#include "CUDA/Hopper/WarpgroupProduct.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Elements of a block's tile along a dim.
static constexpr int64_t maxTileSide = 4096;

#include "kiln/Targets/CUDA/CUDADialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Targets/CUDA/CUDAAttributes.cpp.inc"

void CUDADialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Targets/CUDA/CUDAAttributes.cpp.inc"
      >();
}

FailureOr<std::pair<int64_t, int64_t>> cuda::parsePair(AsmParser &parser) {
  std::pair<int64_t, int64_t> pair;
  if (parser.parseLSquare() || parser.parseInteger(pair.first) || parser.parseComma() ||
      parser.parseInteger(pair.second) || parser.parseRSquare())
    return failure();
  return pair;
}

using EmitError = function_ref<InFlightDiagnostic()>;

/// The numbers are `first` to `last`.
static LogicalResult verifyRange(EmitError emitError, StringRef name, int64_t value, int64_t first,
                                 int64_t last) {
  if (value >= first && value <= last)
    return success();
  return emitError() << name << " = " << value << ", which has to be " << first << " to " << last;
}

/// Powers of two from 1 to `last`.
static LogicalResult verifyPower(EmitError emitError, StringRef name, int64_t value, int64_t last) {
  if (value >= 1 && value <= last && llvm::isPowerOf2_64(value))
    return success();
  return emitError() << name << " = " << value << ", which has to be a power of two up to " << last;
}

static LogicalResult verifyThreads(EmitError emitError, int64_t threads) {
  if (threads >= warpSize && threads <= maxThreads && threads % warpSize == 0)
    return success();
  return emitError() << "a block of " << threads
                     << " threads, which have to be whole warps of 32, up to 1024";
}

/// Powers of two, for what goes from lane to lane and warp to warp.
static LogicalResult verifyThreadsOfTeam(EmitError emitError, int64_t threads) {
  if (failed(verifyThreads(emitError, threads)))
    return failure();
  return verifyPower(emitError, "threads", threads, maxThreads);
}

std::optional<unsigned> cuda::getVariantArchitecture(Attribute schedule) {
  if (isa_and_present<WgmmaScheduleAttr, WgmmaAttentionScheduleAttr>(schedule))
    return hopper;
  if (isa_and_present<Tcgen05ScheduleAttr>(schedule))
    return blackwell;
  return std::nullopt;
}

LogicalResult CUDADialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == targetAttrName &&
      !(isa<ModuleOp>(op) && isa<TargetAttr>(attribute.getValue())))
    return op->emitOpError() << targetAttrName << " is a #cuda.target of a module";
  if (attribute.getName() == variantScheduleAttrName &&
      !(isa<kernel::FuncOp>(op) && getVariantArchitecture(attribute.getValue())))
    return op->emitOpError() << variantScheduleAttrName
                             << " is a #cuda.wgmma, #cuda.wgmma_attention or #cuda.tcgen05 of a "
                                "kernel";
  return success();
}

//===-- Maps --------------------------------------------------------------------------------===//

LogicalResult MapScheduleAttr::verify(EmitError emitError, int64_t threads, int64_t team,
                                      int64_t across, int64_t steps, int64_t vector, int64_t keep) {
  if (failed(verifyThreadsOfTeam(emitError, threads)) ||
      failed(verifyPower(emitError, "across", across, maxThreads)) ||
      failed(verifyRange(emitError, "steps", steps, 1, 16)) ||
      failed(verifyPower(emitError, "vector", vector, vectorBytes)) ||
      failed(verifyRange(emitError, "keep", keep, 0, maxRegisters)))
    return failure();
  if (across > 1) {
    if (across < warpSize || team < 2 || team * across != threads)
      return emitError() << "across = " << across << " rows with a team of " << team << " each, of "
                         << threads << " threads: a block has all of them, of at least two for a "
                         << "row and a warp of rows";
    if (vector > 1)
      return emitError() << "vector = " << vector
                         << " of rows whose neighbours are neighbours in memory";
  } else if (!llvm::is_contained({int64_t(1), warpSize, threads}, team))
    return emitError() << "a team of " << team << " of " << threads
                       << " threads, which has to be one, a warp, or all of them";
  if (team > 1 && steps > 1)
    return emitError() << "steps = " << steps << " of a team: these are of threads by themselves";
  if (team == 1 && keep > 0)
    return emitError() << "keep = " << keep << " without a team: nobody shares a row";
  return success();
}

LogicalResult TransposedMapScheduleAttr::verify(EmitError emitError, int64_t threads, int64_t read,
                                                int64_t written, int64_t vector) {
  if (failed(verifyThreadsOfTeam(emitError, threads)) ||
      failed(verifyRange(emitError, "read", read, 1, maxTileSide)) ||
      failed(verifyRange(emitError, "written", written, 1, maxTileSide)) ||
      failed(verifyPower(emitError, "vector", vector, vectorBytes)))
    return failure();
  if (written % vector)
    return emitError() << "a tile of written = " << written << " elements, which is no multiple of "
                       << "vector = " << vector;
  return success();
}

//===-- Products ----------------------------------------------------------------------------===//

LogicalResult DotScheduleAttr::verify(EmitError emitError, int64_t threads, int64_t rows,
                                      int64_t columns, int64_t vector, int64_t ahead) {
  if (failed(verifyThreads(emitError, threads)) ||
      failed(verifyRange(emitError, "rows", rows, 1, 8)) ||
      failed(verifyRange(emitError, "columns", columns, 1, 8)) ||
      failed(verifyPower(emitError, "vector", vector, vectorBytes)))
    return failure();
  return verifyRange(emitError, "ahead", ahead, 1, 16);
}

/// A block's m x n elements, k steps at a time, in tiles of threads or warps; `perTile` threads
/// have a tile.
static LogicalResult verifyBlock(EmitError emitError, int64_t m, int64_t n, int64_t k,
                                 TileShape tile, int64_t perTile) {
  for (auto [name, value] : {std::pair("m", m), {"n", n}, {"k", k}})
    if (failed(verifyRange(emitError, name, value, 1, maxTileSide)))
      return failure();
  if (tile.m < 1 || tile.n < 1 || m % tile.m || n % tile.n)
    return emitError() << "a block of " << m << " x " << n << " is not made of tiles of " << tile.m
                       << " x " << tile.n;
  int64_t threads = (m / tile.m) * (n / tile.n) * perTile;
  if (failed(verifyThreads(emitError, threads)))
    return failure();
  if (m * k % threads || n * k % threads)
    return emitError() << "a block's " << m << " rows and " << n << " columns of " << k
                       << " steps, which are not divided evenly among " << threads << " threads";
  return success();
}

LogicalResult FmaScheduleAttr::verify(EmitError emitError, int64_t m, int64_t n, int64_t k,
                                      TileShape thread, int64_t stages) {
  if (failed(verifyRange(emitError, "stages", stages, 2, 8)))
    return failure();
  return verifyBlock(emitError, m, n, k, thread, /*perTile=*/1);
}

LogicalResult MmaScheduleAttr::verify(EmitError emitError, int64_t m, int64_t n, int64_t k,
                                      TileShape warp, int64_t step, int64_t stages,
                                      int64_t products) {
  if (failed(verifyBlock(emitError, m, n, k, warp, warpSize)) ||
      failed(verifyRange(emitError, "stages", stages, 2, 8)))
    return failure();
  if (step != 8 && step != 16 && step != 32)
    return emitError() << "step = " << step << ", which has to be 16, 8 of f32, or 32 of bytes";
  if (products != 1 && (products != 3 || step != 8))
    return emitError() << "products = " << products << ", which has to be 1, or 3 of f32";
  if (warp.m % mmaM || warp.n % mmaN || k % step)
    return emitError() << "a warp's tile of " << warp.m << " x " << warp.n << " and " << k
                       << " steps, which are not made of instructions of " << mmaM << " x " << mmaN
                       << " x " << step;
  // A line of an operand's part is a whole number of 16 bytes.
  int64_t elements = vectorBytes * step / mmaStepBytes;
  for (auto [name, value] : {std::pair("m", m), {"n", n}, {"k", k}})
    if (!llvm::isPowerOf2_64(value) || value < elements)
      return emitError() << name << " = " << value
                         << ", which has to be a power of two of at least " << elements;
  return success();
}

int64_t FmaScheduleAttr::getThreads() const {
  return (getM() / getThread().m) * (getN() / getThread().n);
}

int64_t MmaScheduleAttr::getThreads() const {
  return (getM() / getWarp().m) * (getN() / getWarp().n) * warpSize;
}

//===-- Warpgroups --------------------------------------------------------------------------===//

/// The block starts with an equal share for each thread, a multiple of 8; nothing comes to it.
static LogicalResult verifyRegisters(EmitError emitError, int64_t consumers,
                                     std::optional<WarpgroupRegisters> registers) {
  if (!registers)
    return success();
  for (int64_t number : {registers->copying, registers->multiplying})
    if (number < 24 || number > 256 || number % 8)
      return emitError() << "registers = " << *registers
                         << ", which have to be multiples of 8, from 24 to 256";
  int64_t threads = (1 + consumers) * warpgroupSize;
  int64_t all = (1 + consumers) * llvm::alignDown(registersOfBlock / threads, 8);
  if (registers->copying + consumers * registers->multiplying > all)
    return emitError() << "registers = " << *registers << " of a warpgroup that copies and of "
                       << consumers << " that multiply: these start with " << all << " together";
  return success();
}

LogicalResult WgmmaScheduleAttr::verify(EmitError emitError, int64_t m, int64_t n, int64_t stages,
                                        std::optional<WarpgroupRegisters> registers,
                                        TileShape cluster, SharingCost sharing) {
  if (m != wgmmaM && m != consumers * wgmmaM)
    return emitError() << "m = " << m << ", which has to be 64, or 128 for two warpgroups together";
  if (n < 8 || n > 256 || n % 8)
    return emitError() << "n = " << n << ", which has to be a multiple of 8 up to 256";
  if (cluster.m < 1 || cluster.n < 1 || cluster.count() > 2)
    return emitError() << "cluster = " << cluster << ", which has to be of two blocks at most";
  if (sharing.leave < 0 || sharing.add < 0)
    return emitError() << "sharing = " << sharing << ", which have to be numbers of steps";
  if (failed(verifyRange(emitError, "stages", stages, 2, maxStages)))
    return failure();
  return verifyRegisters(emitError, consumers, registers);
}

int64_t WgmmaScheduleAttr::getThreads() const { return (1 + consumers) * warpgroupSize; }

LogicalResult Tcgen05ScheduleAttr::verify(EmitError emitError, int64_t n, int64_t stages,
                                          std::optional<WarpgroupRegisters> registers) {
  if (n < 16 || n > 256 || n % 16)
    return emitError() << "n = " << n << ", which has to be a multiple of 16 up to 256";
  if (failed(verifyRange(emitError, "stages", stages, 2, 8)))
    return failure();
  return verifyRegisters(emitError, consumers, registers);
}

int64_t Tcgen05ScheduleAttr::getThreads() const { return (1 + consumers) * warpgroupSize; }

//===-- Attention ---------------------------------------------------------------------------===//

LogicalResult ScalarAttentionScheduleAttr::verify(EmitError emitError, int64_t warps,
                                                  int64_t rows) {
  if (failed(verifyRange(emitError, "warps", warps, 1, maxThreads / warpSize)))
    return failure();
  return verifyRange(emitError, "rows", rows, 1, 16);
}

LogicalResult MmaAttentionScheduleAttr::verify(EmitError emitError, int64_t warps, int64_t rows,
                                               int64_t keys) {
  if (failed(verifyPower(emitError, "warps", warps, 4)))
    return failure();
  if (rows != mmaM && rows != 2 * mmaM)
    return emitError() << "rows = " << rows << ", which have to be 16 or 32";
  if (keys != 16 && keys != 32 && keys != 64)
    return emitError() << "keys = " << keys << ", which have to be 16, 32 or 64";
  return success();
}

LogicalResult WgmmaAttentionScheduleAttr::verify(EmitError emitError, int64_t consumers,
                                                 int64_t keys, int64_t stages,
                                                 std::optional<WarpgroupRegisters> registers,
                                                 int64_t cached, bool ordered) {
  if (cached < 0)
    return emitError() << "cached = " << cached << " bytes";
  if (ordered && consumers != 2)
    return emitError() << "ordered, with consumers = " << consumers << ", which have to be 2";
  if (failed(verifyRange(emitError, "consumers", consumers, 1, 2)) ||
      failed(verifyRange(emitError, "stages", stages, 2, 8)))
    return failure();
  if (keys < wgmmaK || keys > 256 || keys % wgmmaK)
    return emitError() << "keys = " << keys << ", which have to be a multiple of 16 up to 256";
  return verifyRegisters(emitError, consumers, registers);
}

int64_t ScalarAttentionScheduleAttr::getThreads() const { return getWarps() * warpSize; }
int64_t MmaAttentionScheduleAttr::getThreads() const { return getWarps() * warpSize; }
int64_t WgmmaAttentionScheduleAttr::getThreads() const {
  return (1 + getConsumers()) * warpgroupSize;
}

//===-- What has an order -------------------------------------------------------------------===//

LogicalResult ScanScheduleAttr::verify(EmitError emitError, int64_t threads, int64_t elements,
                                       bool) {
  if (failed(verifyThreadsOfTeam(emitError, threads)))
    return failure();
  return verifyRange(emitError, "elements", elements, 1, 16);
}

LogicalResult SortScheduleAttr::verify(EmitError emitError, int64_t threads, int64_t places) {
  if (failed(verifyThreads(emitError, threads)))
    return failure();
  if (places == 0)
    return success();
  return verifyPower(emitError, "places", places, 4096);
}

LogicalResult MergeScheduleAttr::verify(EmitError emitError, int64_t threads, int64_t elements) {
  if (failed(verifyThreadsOfTeam(emitError, threads)))
    return failure();
  return verifyPower(emitError, "elements", elements, 32);
}

LogicalResult ScatterScheduleAttr::verify(EmitError emitError, int64_t threads, int64_t places,
                                          int64_t batch) {
  constexpr int64_t most = 1024;
  if (failed(verifyThreads(emitError, threads)) ||
      failed(verifyPower(emitError, "places", places, most)) ||
      failed(verifyPower(emitError, "batch", batch, most)))
    return failure();
  int64_t elements = places * batch;
  if (elements % threads || elements > 16 * threads)
    return emitError() << "places = " << places << " times batch = " << batch
                       << " have to be 1 to 16 elements for each of " << threads << " threads";
  return success();
}

LogicalResult GroupScheduleAttr::verify(EmitError emitError, int64_t threads) {
  return verifyThreads(emitError, threads);
}

LogicalResult TasksScheduleAttr::verify(EmitError emitError, int64_t threads) {
  return verifyThreads(emitError, threads);
}
