// One planner and one emitter for each kind of kernel. `cuda-choose-schedule` calls the planner of
// a kernel's root, `cuda-emit-kernels` its emitter.
//
// A kernel is written with the same tools as one for CPUs (kiln/Codegen/BodyEmitter.h), with a
// single lane: the code is that of one thread.
#ifndef KILN_TARGETS_CUDA_KERNELEMITTERS_H
#define KILN_TARGETS_CUDA_KERNELEMITTERS_H

#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Targets/CUDA/CUDADialect.h"

namespace kiln::cuda {

/// Names of attributes of the function that a kernel becomes.
constexpr llvm::StringLiteral symbolsAttrName = "cuda.symbols";
constexpr llvm::StringLiteral buffersAttrName = "cuda.buffers";
constexpr llvm::StringLiteral sharedAttrName = "cuda.shared";
constexpr llvm::StringLiteral gridAttrName = "cuda.grid";
constexpr llvm::StringLiteral mapsAttrName = "cuda.maps";
constexpr llvm::StringLiteral workspaceAttrName = "cuda.workspace";
constexpr llvm::StringLiteral sharedWorkspaceAttrName = "cuda.shared_workspace";

/// The attribute of a kernel.func, and of its function, that is launched instead of the one it
/// names on GPUs of one architecture; and that of its function which says which (`hopper`).
constexpr llvm::StringLiteral variantAttrName = "cuda.variant_of";
constexpr llvm::StringLiteral architectureAttrName = "cuda.architecture";

/// The instructions of an llvm.inline_asm that read the thread's number, and the block's.
constexpr llvm::StringLiteral readThreadText = "mov.u32 $0, %tid.x;",
                              readBlockText = "mov.u32 $0, %ctaid.x;";

/// That of one that has the GPU read a tensor map before it is needed.
constexpr llvm::StringLiteral prefetchMapText = "prefetch.tensormap [$0];";

/// Shared memory of a block, whose size the launch gives.
constexpr llvm::StringLiteral sharedMemoryName = "kiln_shared";

struct KernelPlan {
  kernel::ScheduleAttrInterface schedule;
  sym::Expr grid; // blocks, over symbols
  int64_t threads = 0;
  /// The reason for this schedule, in words.
  llvm::StringRef reason;
  /// Estimated cycles that the kernel takes a whole GPU, where the planner compares some.
  std::optional<double> cycles = std::nullopt;

  kernel::LaunchAttr launch() const {
    return kernel::LaunchAttr::get(sym::ExprAttr::get(schedule.getContext(), grid), threads);
  }
};

/// The reason for a schedule that the kernel has had before.
constexpr llvm::StringLiteral givenReason = "it was given";

/// The kernel's schedule, which is of this kind.
template <typename Schedule> Schedule getSchedule(kernel::FuncOp func) {
  return llvm::cast<Schedule>(func.getScheduleAttr());
}
/// Fails: the schedule is not one that this target's planner of `root` knows.
mlir::InFlightDiagnostic emitUnknownSchedule(kernel::FuncOp func);

/// The machine as the CPU's tools see it: registers hold one element.
const codegen::CPUInfo &getThreadTarget();

/// Schedules like `base`, which the kernel or its variant has, the most promising first. The kernel
/// may not be able to run with each of them: its planner says that.
llvm::SmallVector<kernel::ScheduleAttrInterface>
enumerateSchedules(kernel::FuncOp func, kernel::ScheduleAttrInterface base);

/// `threads`, if given, are those of a block.
mlir::FailureOr<KernelPlan> planMap(kernel::FuncOp func, std::optional<int64_t> threads = {});
/// `tf32`: how many products of TF32 are summed for one of f32; 0: tensor cores have no part in it.
mlir::FailureOr<KernelPlan> planContract(kernel::FuncOp func, unsigned tf32);
mlir::FailureOr<KernelPlan> planAttention(kernel::FuncOp func);
/// Whether a block has a line to scan, or a row to sort; otherwise a thread has.
bool isBlockScan(kernel::ScanOp scan);
bool isBlockSort(kernel::SortOp sort);
mlir::FailureOr<KernelPlan> planScan(kernel::FuncOp func);
mlir::FailureOr<KernelPlan> planSort(kernel::FuncOp func);
mlir::FailureOr<KernelPlan> planMerge(kernel::FuncOp func);
/// True if the last of several places that write one element may be found before any of them is
/// written.
bool isPlaceScatter(kernel::FuncOp func);
mlir::FailureOr<KernelPlan> planScatter(kernel::FuncOp func);
/// Threads of a group's blocks: those of a product of few rows.
constexpr int64_t groupThreads = 256;
/// A kernel that holds others. Plans and schedules its parts, too.
mlir::FailureOr<KernelPlan> planGroup(kernel::FuncOp group);
/// True if each block of `part` reads of its operand `argument` what the same block of `producer`
/// writes: both are products of few rows.
bool isReadWhereWritten(kernel::FuncOp producer, kernel::FuncOp part, mlir::BlockArgument argument);
/// True if `func` may be a part of a group: it is small, and its blocks may have as many threads as
/// others'.
bool mayBePart(kernel::FuncOp func);
/// Repeats, and the other scans, scatters and sorts: each thread runs one task of the CPU's kernel.
mlir::FailureOr<KernelPlan> planTasks(kernel::FuncOp func, std::optional<int64_t> threads = {});

/// A buffer's elements as hardware that copies boxes of them is told (a tensor map). Innermost dim
/// first: its stride is 1.
struct TensorMap {
  unsigned buffer;
  mlir::Type type;
  sym::Expr offset; // of the first element
  llvm::ArrayRef<sym::Expr> sizes, strides;
  llvm::ArrayRef<int64_t> box;
};

/// A kernel's function while it is written.
struct DeviceFrame : codegen::KernelFrame {
  DeviceFrame(kernel::FuncOp func, llvm::ArrayRef<sym::Expr> symbols);

  mlir::Value thread, block; // i64
  int64_t numThreads;
  int64_t sharedBytes = 0;

  /// Bytes of the run's workspace for each block, and for all of them. Both are 0: the kernel is
  /// not given it.
  int64_t workspaceBytes = 0, sharedWorkspaceBytes = 0;
  /// The contents of `cuda.maps`: the host makes a map of each for a launch.
  llvm::SmallVector<mlir::Attribute> maps;

  /// The address of `bytes` bytes of the block's memory that nobody else has.
  mlir::Value allocateShared(int64_t bytes, int64_t alignment = vectorBytes);
  /// One more parameter, behind the error flag: the address of the run's workspace, for this many
  /// bytes of each block and the flags before them (PartialSums.h). Before any tensor map.
  mlir::Value addWorkspace(int64_t bytes);
  /// The same, for this many bytes of all blocks together, however many there are.
  mlir::Value addSharedWorkspace(int64_t bytes);
  /// One more parameter, behind the others: the address of a tensor map.
  mlir::Value addTensorMap(const TensorMap &map);
  /// The thread's number, or the block's, read again: what is computed of it is not computed
  /// before.
  mlir::Value readThread();
  mlir::Value readBlock();
  /// A generic address of shared memory as one of that.
  mlir::Value toShared(mlir::Value address);
  void emitBarrier();
  /// A barrier of all threads of the cluster that have not ended. `isRelaxed`: what they have done
  /// before is not known behind it, but for barriers that have been fenced.
  void emitClusterBarrier(bool isRelaxed = false);
  /// Runs `body` in the threads for which `condition` (null: always) holds.
  void emitIf(mlir::Value condition, llvm::function_ref<void()> body);
  /// The values of `body` where `condition` (null: always) holds, else `otherwise`.
  llvm::SmallVector<mlir::Value>
  emitWhere(mlir::Value condition, mlir::ValueRange otherwise,
            llvm::function_ref<llvm::SmallVector<mlir::Value>()> body);
  /// value < limit, or null if that is proved.
  mlir::Value emitLess(sym::Expr value, sym::Expr limit);
  /// Two conditions together, null where both are proved.
  mlir::Value both(mlir::Value x, mlir::Value y);

private:
  mlir::Value readAgain(llvm::StringRef text);
  mlir::Value addParameter(llvm::ArrayRef<mlir::NamedAttribute> attributes);
  mlir::Value addWorkspace();
};

// Each writes the function's body, with everything but the final llvm.return. The kernel has been
// planned.
mlir::LogicalResult emitRoot(DeviceFrame &frame);
mlir::LogicalResult emitGroup(DeviceFrame &frame);
mlir::LogicalResult emitMap(DeviceFrame &frame, kernel::MapOp map);
mlir::LogicalResult emitContract(DeviceFrame &frame, kernel::ContractOp contract);
mlir::LogicalResult emitAttention(DeviceFrame &frame, kernel::AttentionOp attention);
mlir::LogicalResult emitScan(DeviceFrame &frame, kernel::ScanOp scan);
mlir::LogicalResult emitSort(DeviceFrame &frame, kernel::SortOp sort);
mlir::LogicalResult emitMerge(DeviceFrame &frame, kernel::MergeOp merge);
mlir::LogicalResult emitScatter(DeviceFrame &frame, kernel::ScatterOp scatter);
mlir::LogicalResult emitTasks(DeviceFrame &frame, mlir::Operation *root);

/// Before anything is read or written in memory: waits until all kernels before this one have ended.
/// On GPUs before compute capability 9.0, where none begins earlier, that is nothing.
void emitGridWait(mlir::OpBuilder &builder, mlir::Location loc);

/// The threads that planning gave the kernel; 0: it runs on the host.
int64_t getThreads(kernel::FuncOp func);

/// Blocks that the code of a function makes a cluster of (`nvvm.cluster_dim`): they run at the same
/// time and reach each other's shared memory. 1: each is by itself. What is launched are whole
/// clusters, which needs no word from whoever launches.
int64_t getCluster(mlir::LLVM::LLVMFuncOp function);
void setCluster(mlir::LLVM::LLVMFuncOp function, int64_t blocks);

} // namespace kiln::cuda

#endif // KILN_TARGETS_CUDA_KERNELEMITTERS_H
