// How a kernel.map is run; shared by its planner and its emitter.
#ifndef KILN_LIB_TARGETS_CPU_MAP_MAPPLAN_H
#define KILN_LIB_TARGETS_CPU_MAP_MAPPLAN_H

#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "llvm/ADT/SmallBitVector.h"

namespace kiln::cpu {

/// A reduction over a small window in the loop in vectors (a depthwise convolution, a pool).
/// Several steps of the loop around share what they read, so they are written out together; where
/// the window does not reach over an edge, without masks.
struct WindowPlan {
  int64_t steps = 1;
  /// Steps [low, high) of the loop keep inside in its own direction. There may be none, and `low`
  /// is then beyond the end of a short loop.
  int64_t low = 0;
  sym::Expr high = 0;
  /// Tests that must hold besides: 0 <= first and last < bound.
  struct Test {
    sym::Expr first, last, bound;
  };
  llvm::SmallVector<Test> tests;
  /// The bounds that are then known: these results of the maps of these ops. Those that depend on
  /// the columns are left out, even where all lanes of a vector agree.
  llvm::SmallVector<std::pair<kernel::InsideOp, unsigned>> insides;
};

/// A reduction that is the same for all columns.
struct PlannedReduction {
  kernel::ReduceOp op;
  codegen::ReductionShape shape;
};

/// Elements of a row that a reduction computes on its way, in a task's scratch memory from `offset` bytes
/// on, where the body's `value` need not be computed again.
struct KeptElements {
  kernel::ReduceOp reduce;
  unsigned result; // of those that the reduction's body yields
  mlir::Value value;
  llvm::SmallVector<mlir::Operation *> ops; // that compute it in the reduction
  int64_t offset, bytes;                    // of a row
};

/// A task's scratch memory begins with a line of cache, and so does each row in it.
static constexpr int64_t lineBytes = 64;

/// A reduction whose accumulators, one for each column of the task and result from these bytes on, are in the task's scratch memory: a few of
/// its steps are taken for all columns before the next ones.
struct StreamedReduction {
  kernel::ReduceOp op;
  llvm::SmallVector<int64_t> offsets;
  int64_t end; // of its bytes
};

/// for task: for row of the task's block: for inner loops: for vector of columns
struct MapPlan {
  /// Dims that run as one row number, dealt out to tasks.
  llvm::SmallVector<codegen::DimGroup> rows;
  /// Loops inside a row. Not part of the row where values that depend on outer dims alone (a
  /// reduction) would be computed again for each of them.
  llvm::SmallVector<codegen::DimGroup> inner;
  /// The loop in vectors; none when elements are computed one by one.
  std::optional<codegen::DimGroup> columns;
  /// Another loop, along which values are computed in vectors: squares of `lanes` steps of both are
  /// turned in registers and stored along the columns.
  std::optional<codegen::DimGroup> turned;
  /// How the last of the inner loops is run.
  std::optional<WindowPlan> window;
  /// Reductions directly in the body that do not depend on the columns, in its order.
  llvm::SmallVector<PlannedReduction> reductions;
  llvm::SmallVector<KeptElements> kept;
  /// All reductions of the body, none of which is the same for all columns.
  llvm::SmallVector<StreamedReduction> streamed;
  int64_t lanes = 1;
  int64_t rowBlock = 1;
  /// Columns of one task; 0: all.
  int64_t columnBlock = 0;
  /// Estimated cycles of the whole map, and what they would be without vectors.
  double cycles = 0, scalarCycles = 0;

  /// Scratch memory of a task.
  int64_t scratchBytes() const;
  sym::Expr numRows() const;
  sym::Expr numRowBlocks() const { return numRows().ceilDiv(rowBlock); }
  sym::Expr numColumnBlocks() const;
  sym::Expr grid() const { return numRowBlocks() * numColumnBlocks(); }
};

/// The cheapest plan.
MapPlan makeMapPlan(kernel::MapOp map, const codegen::CPUInfo &target);
/// One plan for each loop that may be in vectors, and one without; the cheapest first.
std::vector<MapPlan> makeMapPlans(kernel::MapOp map, const codegen::CPUInfo &target);
/// The schedule that asks for `plan`.
MapAttr makeMapSchedule(mlir::MLIRContext *context, const MapPlan &plan);
/// The plan that `schedule` asks for. Fails, reporting on the function, if the map cannot be run so.
mlir::FailureOr<MapPlan> makeMapPlan(kernel::FuncOp func, MapAttr schedule,
                                     const codegen::CPUInfo &target);

/// Chooses the shapes of `plan`'s reductions. `dimsOf` gives the dims that an op of the body depends
/// on.
void chooseReductions(kernel::MapOp map,
                      llvm::function_ref<const llvm::SmallBitVector &(mlir::Operation *)> dimsOf,
                      const codegen::CPUInfo &target, MapPlan &plan);

/// The elements that could be kept in a plan that is complete but for this: they take longer to compute
/// than to store and to load, and their rows stay in cache.
llvm::SmallVector<KeptElements> findKeptElements(kernel::MapOp map, const MapPlan &plan,
                                                 const codegen::CPUInfo &target);

/// Some of the map's reductions would read a few lines in each of many pages.
bool isWorthStreaming(kernel::MapOp map, const codegen::DimGroup &columns,
                      const codegen::CPUInfo &target);
/// The reductions that could be streamed in a plan that is complete but for this, with accumulators for a block of `columns`, if
/// there are any: all of the map's, or none.
llvm::SmallVector<StreamedReduction> findStreamedReductions(kernel::MapOp map, const MapPlan &plan,
                                                            int64_t columns);
/// Columns of a task that streams: enough of them, and enough tasks.
int64_t chooseStreamedColumns(const codegen::DimGroup &columns, int64_t lanes);

/// The window that reductions of `map` make when `columns` is in vectors and `loop` is the one
/// around, `steps` of which are written out together, or as many as are best.
std::optional<WindowPlan> makeWindowPlan(kernel::MapOp map, const codegen::DimGroup &columns,
                                         const codegen::DimGroup &loop,
                                         const codegen::CPUInfo &target,
                                         std::optional<int64_t> steps = std::nullopt);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_MAP_MAPPLAN_H
