// Emits the values of a region (of kernel.map, contract, attention) as scalar or vector code.
//
// Usage: bind what is known, from the outside in, and let values fall out where they belong.
//
//   BodyEmitter body(frame, map.getBody());
//   for each row {                                       // a loop written by the caller
//     BodyEmitter::Scope scope(body);                    // what is emitted inside dies with it
//     body.setDim(0, row);                               // an expression of loop variables
//     body.emitAvailable();                              // everything that depends on d0 alone
//     for each 16 columns {
//       BodyEmitter::Scope scope(body);
//       sym::Expr lane = body.setLanes(16, mask);        // mask: null when all lanes are inside
//       body.setDim(1, column + lane);
//       body.store(out, f32, row*768 + column + lane, body.emitYield()[0]);
//     }
//   }
//
// Values. What depends on the lane is a vector<lanes x T>, the rest is a scalar. bool is i1 in
// registers, a byte in memory. Floating-point adds, subtracts and multiplies may be contracted to
// FMA.
//
// Reads. The address is the linearised map with dims put in, simplified. Along the lane it is
// constant (a scalar load), consecutive (a vector load, masked by the lanes' mask) or anything else
// (a gather). An index computed from data is clamped into the tensor; when it was outside, *error
// becomes 1.
//
// Reductions. One that does not depend on the lane is a loop of its own, vectorised over its
// innermost dim, at the place where the last dim it depends on became known. Several that run over
// the same extents share the loop. One that depends on the lane keeps vector accumulators and loops
// (or is unrolled) over its dims inside the lane's loop.
//
// Iterations. Lanes go on together until each of them has finished; those that have keep their
// values.
#ifndef KILN_CODEGEN_BODYEMITTER_H
#define KILN_CODEGEN_BODYEMITTER_H

#include "kiln/Codegen/KernelFrame.h"
#include <map>

namespace kiln::codegen {

/// Threads of a device that compute the same values together and share the work of a reduction.
class Team {
public:
  virtual ~Team() = default;
  int64_t size = 1;
  mlir::Value rank; // this thread's number in the team, i64
  /// Neighbours that a thread takes at once, where a reduction's last loop is a multiple of them.
  int64_t vector = 1;

  /// Steps of a long loop that are under way together: memory is as fast as there are accesses that
  /// wait for it.
  static constexpr int64_t stepsAtOnce = 4;

  /// One of a thread's steps of a loop that the team shares.
  struct Step {
    sym::Expr number;
    /// Whether the loop has it; null: it does. If not, `number` is the loop's last one.
    mlir::Value exists;
  };
  /// All steps that a thread has of a loop of `total`, each of `vector` elements, if these are at
  /// most `maxKept`; otherwise none. The same ones every time.
  llvm::ArrayRef<Step> getSteps(KernelFrame &frame, sym::Expr total);
  /// Elements of its row that a thread's registers hold.
  int64_t maxKept = 0;

  using Combine =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange, mlir::ValueRange)>;
  /// The values of all threads put together by `combine`, in every thread.
  virtual llvm::SmallVector<mlir::Value> combineAll(KernelFrame &frame, mlir::ValueRange mine,
                                                    Combine combine) = 0;

private:
  std::map<sym::Expr, llvm::SmallVector<Step>> steps;
};

/// How a reduction that is the same for all lanes is run.
struct ReductionShape {
  /// Elements of its inner loop that are computed together.
  int64_t lanes = 1;
  /// Accumulators of each lane, which hide the latency of combining.
  int64_t copies = 1;
};
/// The shape that suits reductions that share a loop.
ReductionShape chooseReductionShape(llvm::ArrayRef<kernel::ReduceOp> group, const CPUInfo &target);

class BodyEmitter {
public:
  BodyEmitter(KernelFrame &frame, mlir::Region &region);

  /// Bindings and emitted values made during its life end with it.
  class Scope {
  public:
    explicit Scope(BodyEmitter &emitter);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    BodyEmitter &emitter;
    size_t undo;
    std::optional<sym::Expr> lane;
    int64_t lanes;
    mlir::Value mask;
  };

  /// Dim `dim` of the region is `value`, an expression over the frame's loop variables, symbols
  /// and, for the vector dim, lane().
  void setDim(unsigned dim, sym::Expr value);
  /// From here on values may be vectors of `lanes` elements; returns the lane variable, 0 <= lane <
  /// lanes. `mask` (vector<lanes x i1>) says which lanes may touch memory; null is all of them.
  /// With `lanes` == 1 everything stays scalar and the lane variable is the constant 0.
  sym::Expr setLanes(int64_t lanes, mlir::Value mask = {});
  sym::Expr getLane() const { return *lane; }
  /// Value of block argument `i` of the region (a contract epilogue's sum): a scalar, or a vector
  /// of the current number of lanes.
  void setArgument(unsigned i, mlir::Value value);
  /// The region's `value` is `emitted`, which the caller has from elsewhere.
  void setValue(mlir::Value value, mlir::Value emitted) { define(value, emitted); }

  /// Result `i` of this kernel.inside's map is known to be within its bound (until
  /// `clearCertain`): the caller has tested it for a whole loop.
  void setCertain(kernel::InsideOp inside, unsigned i) { certain.insert({inside, i}); }
  void clearCertain() { certain.clear(); }

  /// `reduce`, if it is the same for all lanes, is run like this instead of as suits it. Reductions
  /// that share a loop have the fewest lanes and copies of them.
  void setReductionShape(kernel::ReduceOp reduce, ReductionShape shape) { shapes[reduce] = shape; }

  /// Elements that `reduce` computes, a reduction of one dim that is the same for all lanes, are stored from
  /// `base` on: those that its body yields as number `result`.
  void keepElements(kernel::ReduceOp reduce, unsigned result, mlir::Value base) {
    keptElements[reduce].push_back({result, base});
  }

  /// From here on reductions are shared by the threads of `team`, all of which come here; null:
  /// each thread computes its own. Where a thread has few steps of a reduction, what it has read in
  /// them is not read again for the rest of the block that is being written.
  void setTeam(Team *threads);
  /// Emits what the team's reductions read that are not ready yet, if its steps keep it: all is
  /// under way before the first of them waits for the others.
  void readAhead();

  /// Emits at the insertion point every value of the region that what is bound so far determines.
  void emitAvailable();
  /// Emits the yielded values: all dims are bound. Vectors when there are lanes (splats if need
  /// be).
  llvm::SmallVector<mlir::Value> emitYield();
  /// The yielded values that what is bound so far determines, null for the others; scalars stay
  /// scalars.
  llvm::SmallVector<mlir::Value> emitKnown();
  /// Emits `value`, of an op directly in the region, and only what it is made of.
  mlir::Value emitValue(mlir::Value value);

  /// One step of `reduce`, whose dims are bound: what its body yields, combined with `accumulators`. The values of the region that it
  /// uses have been emitted.
  llvm::SmallVector<mlir::Value> addStep(kernel::ReduceOp reduce, mlir::ValueRange accumulators) {
    return accumulate(reduce, accumulators);
  }

  /// Memory access at `offset` elements from `base`, an expression over loop variables, symbols and
  /// the lane. `elementType` is the tensor's; values are in the register form (bool as i1). `store`
  /// takes a scalar for a vector.
  mlir::Value load(mlir::Value base, mlir::Type elementType, sym::Expr offset);
  void store(mlir::Value base, mlir::Type elementType, sym::Expr offset, mlir::Value value);

  /// `value` as a vector of the current number of lanes (itself if it is one, or if lanes is 1).
  mlir::Value splat(mlir::Value value);

  /// The offset at which `read`, one that `findGatheredRows` has found, finds its element: its dims are bound.
  sym::Expr locateRow(kernel::ReadOp read);

  /// Asks for the line in which `read` finds its element: all dims are bound, and none is data.
  /// `locality` is 3 for level 1 cache, 2 for level 2.
  void prefetch(kernel::ReadOp read, int locality);

private:
  /// The values that must be known before an op can be emitted.
  struct Needs {
    llvm::SmallVector<unsigned> dims;
    llvm::SmallVector<mlir::Value> values;
  };
  const Needs &needs(mlir::Operation *op);
  bool isReady(mlir::Operation *op);
  bool isVarying(sym::Expr expr) const;
  sym::Expr dimValue(unsigned dim) const { return frame.assumptions.simplify(dims.lookup(dim)); }
  void define(mlir::Value value, mlir::Value emitted);

  void emitBlock(mlir::Block &block);
  void emitOp(mlir::Operation *op);
  mlir::Value emitRead(kernel::ReadOp read);
  /// The offset at which `read` finds its element. Indices that are data are checked where `readMask` is set (null: always), which becomes less
  /// where there may be no element at all.
  sym::Expr locate(kernel::ReadOp read, mlir::Value &readMask);
  mlir::Value emitIndex(kernel::IndexOp index);
  mlir::Value emitInside(kernel::InsideOp inside);
  mlir::Value emitExpect(kernel::ExpectOp expect);
  /// The same op on the emitted operands, on vectors when one of them is.
  void emitElementwise(mlir::Operation *op, const llvm::DenseMap<mlir::Value, mlir::Value> &map,
                       llvm::function_ref<void(mlir::Value, mlir::Value)> result);

  // BodyIterate.cpp
  void emitIterate(kernel::IterateOp iterate);

  // BodyReduce.cpp
  void emitReduces(llvm::ArrayRef<kernel::ReduceOp> group);
  using Accumulators = llvm::SmallVector<mlir::Value>;
  class UniformReduction; // BodyReduceUniform.cpp
  Accumulators reduceUniform(llvm::ArrayRef<kernel::ReduceOp> group);
  Accumulators reduceVarying(llvm::ArrayRef<kernel::ReduceOp> group);
  Accumulators reduceTogether(llvm::ArrayRef<kernel::ReduceOp> group);
  Accumulators accumulate(llvm::ArrayRef<kernel::ReduceOp> group, mlir::ValueRange accumulators);
  Accumulators combine(llvm::ArrayRef<kernel::ReduceOp> group, mlir::ValueRange a,
                       mlir::ValueRange b);

  // BodyMemory.cpp
  /// The expressions of a map with dims and `values` put in, as they come or simplified.
  llvm::SmallVector<sym::Expr> substitute(sym::MapAttr map, mlir::ValueRange mapValues);
  llvm::SmallVector<sym::Expr> bindMap(sym::MapAttr map, mlir::ValueRange mapValues);
  mlir::Value load(mlir::Value base, mlir::Type elementType, sym::Expr offset, mlir::Value readMask,
                   mlir::Value other);
  mlir::Value loadScalar(mlir::Value base, mlir::Type elementType, mlir::Value offset);
  mlir::Value fromStorage(mlir::Value value, mlir::Type elementType);
  mlir::Value toStorage(mlir::Value value, mlir::Type elementType);
  mlir::Value checkIndex(sym::Expr index, sym::Expr size, mlir::Value readMask);
  mlir::Value gatherPointers(mlir::Value base, mlir::Type storage, sym::Expr offset);
  /// Vector code for an expression that depends on the lane, in i32 or i64.
  mlir::Value emitVector(sym::Expr expr, mlir::Type elementType);
  mlir::Value emitVectorQuotient(sym::Expr numerator, sym::Expr denominator,
                                 mlir::Type elementType);
  bool fitsIn32Bits(sym::Expr expr) const;
  mlir::VectorType vectorOf(mlir::Type type) const { return mlir::VectorType::get(lanes, type); }
  mlir::Value andMasks(mlir::Value a, mlir::Value b);
  mlir::Value allLanes();

  KernelFrame &frame;
  mlir::Region &region;
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  llvm::DenseMap<unsigned, sym::Expr> dims;
  llvm::DenseMap<mlir::Operation *, Needs> needsCache;
  llvm::DenseMap<mlir::Operation *, ReductionShape> shapes;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<std::pair<unsigned, mlir::Value>, 1>>
      keptElements;
  llvm::DenseSet<std::pair<mlir::Operation *, unsigned>> certain;
  /// Selects by a read's mask whose other value the read has given already.
  llvm::SmallPtrSet<mlir::Operation *, 4> absorbed;
  /// Loop variables that are vectors: indices computed from data.
  llvm::DenseMap<sym::Expr, mlir::Value> vectorLeaves;
  std::optional<sym::Expr> lane;
  int64_t lanes = 1;
  mlir::Value mask;
  Team *team = nullptr;
  /// The values that the team's steps have read in the block `keepingBlock`, by address.
  llvm::DenseMap<std::pair<mlir::Value, sym::Expr>, mlir::Value> kept;
  mlir::Block *keepingBlock = nullptr;
  bool isKeeping = false;

  struct Undo {
    mlir::Value value; // null: a dim
    unsigned dim;
    std::optional<sym::Expr> previous;
  };
  llvm::SmallVector<Undo> undo;
};

/// How many lanes suit the values of `region`: those of a vector register of the widest element
/// that it reads or computes with, 1 if vectors cannot hold one of them.
int64_t preferredLanes(mlir::Region &region, const CPUInfo &target);

/// vector<lanes x i1>: lane i is set when first + i < end. Null when `first + lanes <= end` is
/// proved.
mlir::Value emitTailMask(KernelFrame &frame, sym::Expr first, sym::Expr end, int64_t lanes);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_BODYEMITTER_H
