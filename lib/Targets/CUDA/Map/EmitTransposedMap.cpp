// Writes the function of a kernel.map some of whose reads have other neighbours in memory than its
// result (TransposePlan.h): a transposed copy, a permutation with what is computed before and
// after.
//
// A block has a tile: elements of the loop along which those reads have their neighbours by
// elements of the loop along which the result has its own. Threads read along the one, neighbouring
// lanes neighbouring memory, all they read before the first wait, and put it in shared memory; they
// meet; and then they compute the elements along the other. What else the map reads it reads there,
// as any map does.
#include "CUDA/Contract/SwizzledTile.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// More operations than this are a loop.
static constexpr int64_t muchCode = 512;
/// The most that a thread reads before the threads meet and keeps until it computes with it.
static constexpr int64_t maxBytesAhead = 128;

namespace {
class TransposedMapEmitter {
public:
  TransposedMapEmitter(DeviceFrame &frame, kernel::MapOp map)
      : frame(frame), map(map), body(frame, map.getBody()),
        plan(*TransposePlan::make(map, MapDims(map),
                                  getSchedule<TransposedMapScheduleAttr>(frame.func))),
        domain(map.getExtents()), position(domain.size()) {}

  void emit() {
    body.setLanes(1);
    for (auto [i, extent] : llvm::enumerate(domain))
      if (extent.isConstant(1))
        body.setDim(i, 0);
    for (const TransposePlan::Read &read : plan.staged)
      tiles.emplace_back(frame, plan, read);
    findTile();
    thread = frame.addVariable(frame.thread, frame.numThreads);
    body.emitAvailable();
    Value isWhole = frame.both(
        frame.emitLess(firstRead + (plan.readSide - 1), plan.readLoop().extent),
        frame.emitLess(firstWritten + (plan.writtenSide - 1), plan.writtenLoop().extent));
    frame.emitIf(isWhole, [&] { emitTile(/*isWhole=*/true); });
    if (!isWhole)
      return;
    Value one = arith::ConstantIntOp::create(frame.builder, frame.loc, 1, 1);
    frame.emitIf(arith::XOrIOp::create(frame.builder, frame.loc, isWhole, one),
                 [&] { emitTile(/*isWhole=*/false); });
  }

private:
  void bind(const codegen::DimGroup &group, sym::Expr variable) {
    for (auto [i, index] : llvm::enumerate(group.delinearize(variable)))
      position[group.first + i] = frame.assumptions.simplify(index);
    group.bind(body, variable);
  }

  /// Which tile the block has; the loops that are not the tile's are where it is.
  void findTile() {
    SmallVector<sym::Expr> extents = plan.tiles();
    sym::Expr block = frame.addVariable(frame.block, sym::product(extents));
    for (auto [i, number] : llvm::enumerate(sym::delinearize(block, extents))) {
      sym::Expr name = frame.named(number, extents[i]);
      if (i == plan.along)
        firstRead = plan.readSide * name;
      else if (i + 1 == extents.size())
        firstWritten = plan.writtenSide * name;
      else
        bind(plan.loops[i], name);
    }
  }

  /// The work of all threads: `total` accesses, of which a thread has every `numThreads`th.
  struct Share {
    sym::Expr number;
    Value exists; // null: it does
  };
  SmallVector<Share> getShares(int64_t total) {
    SmallVector<Share> shares;
    for (int64_t first = 0; first < total; first += frame.numThreads) {
      sym::Expr number = thread + first;
      shares.push_back({number, frame.emitLess(number, total)});
    }
    return shares;
  }

  /// Whether the element at these places of the tile is one of the map's.
  Value isInside(sym::Expr read, sym::Expr written, bool isWhole) {
    if (isWhole)
      return {};
    return frame.both(frame.emitLess(firstRead + read, plan.readLoop().extent),
                      frame.emitLess(firstWritten + written, plan.writtenLoop().extent));
  }

  void emitTile(bool isWhole) {
    SmallVector<Arrival> arrivals = readTiles(isWhole);
    int64_t total = plan.readSide * plan.writtenSide / plan.vector;
    SmallVector<Share> shares = getShares(total);
    bool isLoop = countWork() * plan.vector * (int64_t)shares.size() > muchCode;
    SmallVector<SmallVector<Known>> ahead(shares.size());
    if (isWhole && !isLoop)
      for (auto [share, known] : llvm::zip(shares, ahead))
        known = readAhead(share, shares.size());
    for (const Arrival &arrival : arrivals)
      frame.emitIf(arrival.exists,
                   [&] { arrival.tile->put(arrival.line, arrival.inLine, arrival.values); });
    frame.emitBarrier();
    if (!isLoop) {
      for (auto [share, known] : llvm::zip(shares, ahead))
        emitElements(share, known, isWhole);
      return;
    }
    frame.emitLoop(frame.constant(0), frame.constant(shares.size()), 1, {},
                   [&](Value i, ValueRange) -> SmallVector<Value> {
                     sym::Expr step = frame.addVariable(i, shares.size());
                     sym::Expr number = frame.numThreads * step + thread;
                     emitElements({number, frame.emitLess(number, total)}, {}, isWhole);
                     return {};
                   });
  }

  int64_t countWork() {
    int64_t work = 0;
    map.walk([&](Operation *op) { work += isa<math::MathDialect>(op->getDialect()) ? 20 : 1; });
    return work;
  }

  /// A value that is to be put into a tile.
  struct Arrival {
    SwizzledTile *tile;
    Value exists;
    sym::Expr line, inLine;
    SmallVector<Value> values;
  };

  /// All that threads read is under way before the first of it is put where others find it.
  SmallVector<Arrival> readTiles(bool isWhole) {
    SmallVector<Arrival> arrivals;
    for (auto [read, tile] : llvm::zip(plan.staged, tiles)) {
      int64_t accesses = plan.readSide / read.vector;
      for (const Share &share : getShares(accesses * plan.writtenSide)) {
        sym::Expr line = frame.assumptions.simplify(share.number.floorDiv(accesses));
        sym::Expr inLine = frame.assumptions.simplify(read.vector * share.number.mod(accesses));
        Value condition = frame.both(share.exists, isInside(inLine, line, isWhole));
        SmallVector<Value> zeros(
            read.vector, kernel::createZero(frame.builder, frame.loc, read.value.getType()));
        SmallVector<Value> values =
            frame.emitWhere(condition, zeros, [&] { return emitReads(read, line, inLine); });
        arrivals.push_back({&tile, share.exists, line, inLine, values});
      }
    }
    return arrivals;
  }

  SmallVector<Value> emitReads(const TransposePlan::Read &read, sym::Expr line, sym::Expr inLine) {
    codegen::BodyEmitter::Scope scope(body);
    bind(plan.writtenLoop(), firstWritten + line);
    SmallVector<Value> values;
    for (int64_t i = 0; i < read.vector; ++i) {
      codegen::BodyEmitter::Scope scope(body);
      bind(plan.readLoop(), firstRead + inLine + i);
      values.push_back(body.emitValue(read.value));
    }
    return values;
  }

  /// The place in the tile of the neighbours that a thread computes. Lanes go along the written
  /// loop as far as they write 128 bytes, then along the other.
  struct Place {
    sym::Expr read, written;
  };
  Place getPlace(const Share &share) {
    int64_t vectors = plan.writtenSide / plan.vector;
    int64_t lanes = vectors % plan.lanesAlong ? vectors : plan.lanesAlong;
    sym::Expr row = share.number.floorDiv(lanes);
    sym::Expr column = row.floorDiv(plan.readSide) * lanes + share.number.mod(lanes);
    // Parts that are no bits of a thread's number are computed once.
    auto name = [&](sym::Expr expr, int64_t extent) {
      return llvm::isPowerOf2_64(plan.readSide) && llvm::isPowerOf2_64(lanes)
                 ? frame.assumptions.simplify(expr)
                 : frame.named(expr, extent);
    };
    return {name(row.mod(plan.readSide), plan.readSide), plan.vector * name(column, vectors)};
  }

  /// Values of one of a thread's neighbours that are there already.
  using Known = SmallVector<std::pair<Value, Value>>;

  /// Elements that are read as they come are asked for before the threads meet, if they are not too
  /// many to keep.
  SmallVector<Known> readAhead(const Share &share, int64_t numShares) {
    int64_t bytes = 0;
    for (const TransposePlan::Read &read : plan.direct)
      bytes += read.bytes;
    if (share.exists || bytes * plan.vector * numShares > maxBytesAhead)
      return {};
    Place place = getPlace(share);
    codegen::BodyEmitter::Scope scope(body);
    bind(plan.readLoop(), firstRead + place.read);
    SmallVector<Known> known(plan.vector);
    for (int64_t i = 0; i < plan.vector; ++i) {
      codegen::BodyEmitter::Scope scope(body);
      bind(plan.writtenLoop(), firstWritten + place.written + i);
      for (const TransposePlan::Read &read : plan.direct)
        known[i].push_back({read.value, body.emitValue(read.value)});
    }
    return known;
  }

  /// A thread's neighbours, all computed before the first is stored.
  void emitElements(const Share &share, ArrayRef<Known> ahead, bool isWhole) {
    Place place = getPlace(share);
    frame.emitIf(frame.both(share.exists, isInside(place.read, place.written, isWhole)), [&] {
      codegen::BodyEmitter::Scope scope(body);
      bind(plan.readLoop(), firstRead + place.read);
      SmallVector<SmallVector<Value>> staged;
      for (SwizzledTile &tile : tiles)
        staged.push_back(tile.get(place.written, place.read));
      SmallVector<sym::Expr> offsets;
      SmallVector<SmallVector<Value>> elements;
      for (int64_t i = 0; i < plan.vector; ++i) {
        codegen::BodyEmitter::Scope scope(body);
        bind(plan.writtenLoop(), firstWritten + place.written + i);
        for (auto [source, values] : llvm::zip(plan.staged, staged))
          body.setValue(source.value, values[i]);
        if (!ahead.empty())
          for (auto [value, emitted] : ahead[i])
            body.setValue(value, emitted);
        elements.push_back(body.emitYield());
        offsets.push_back(frame.assumptions.simplify(sym::linearize(position, domain)));
      }
      for (auto [offset, values] : llvm::zip(offsets, elements))
        storeResults(frame, map, body, offset, values);
    });
  }

  DeviceFrame &frame;
  kernel::MapOp map;
  codegen::BodyEmitter body;
  TransposePlan plan;
  SmallVector<sym::Expr> domain, position;
  SmallVector<SwizzledTile> tiles;
  sym::Expr firstRead, firstWritten, thread;
};
} // namespace

void cuda::emitTransposedMap(DeviceFrame &frame, kernel::MapOp map) {
  TransposedMapEmitter(frame, map).emit();
}
