// The kernels of a program as something to measure.
#ifndef KILN_LIB_TUNING_KERNELSET_H
#define KILN_LIB_TUNING_KERNELSET_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Targets/Target.h"
#include "kiln/Tuning/Autotune.h"
#include "kiln/Tuning/Bundle.h"

namespace kiln::tuning {

/// A kernel, which is planned, with sizes to measure it at.
struct TunedKernel {
  kernel::FuncOp func;
  /// In a run, as far as the program says.
  unsigned launches = 0;
  /// The places of the launches among all those of the program.
  llvm::SmallVector<unsigned> places;
  llvm::StringMap<int64_t> symbols;
  std::vector<Buffer> buffers;
  std::string key;
};

/// The kernels that a run launches and that can be measured, with the sizes of a point (Choices.h).
/// A warning or a remark says why another one cannot, at the first point.
std::vector<TunedKernel> findKernels(mlir::ModuleOp module, const Target &target,
                                     llvm::StringRef compiler, const Options &options,
                                     size_t point);

/// Bytes of all weights that the program reads.
int64_t getWeightBytes(mlir::ModuleOp module);

/// Says something of a kernel to who listens to remarks.
void sayOf(kernel::FuncOp func, llvm::StringRef name, llvm::StringRef text,
           llvm::StringRef reason = "");

/// Plans kernels with given schedules, and puts them into bundles.
class Bundler {
public:
  Bundler(mlir::ModuleOp module, const Target &target, llvm::StringRef compiler,
          const Options &options, const codegen::ObjectOptions &code);

  /// A module with a copy of `func` that has been planned with `schedule`; null if it cannot be run
  /// so.
  mlir::OwningOpRef<mlir::ModuleOp> plan(kernel::FuncOp func,
                                         kernel::ScheduleAttrInterface schedule);
  /// Gives `func` a schedule that it can be run with.
  void setSchedule(kernel::FuncOp func, kernel::ScheduleAttrInterface schedule);

  /// The planned kernels in each list are candidates for the same kernel.
  struct Entry {
    const TunedKernel *kernel;
    llvm::SmallVector<kernel::FuncOp> candidates;
  };
  /// The schedule that is tuned.
  kernel::ScheduleAttrInterface getSchedule(kernel::FuncOp func) const {
    return target.getTunedSchedule(func);
  }

  /// With a sequence, for runs of the program: `entries` that it launches, by their places.
  llvm::Error write(llvm::ArrayRef<Entry> entries, llvm::StringRef path,
                    std::vector<int64_t> sequence = {});

private:
  mlir::OwningOpRef<mlir::ModuleOp> makeProgram(llvm::ArrayRef<Entry> entries, Manifest &manifest);

  mlir::ModuleOp module;
  const Target &target;
  std::string compiler;
  const Options &options;
  const codegen::ObjectOptions &code;
};

/// The machine that kernels are compiled for, in words.
std::string describeTarget(const Target &target);

} // namespace kiln::tuning

#endif // KILN_LIB_TUNING_KERNELSET_H
