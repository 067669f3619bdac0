// The table of contents: what happens to a program between the archive and machine code, one
// function for each stage, in order.
#ifndef KILN_PIPELINE_PIPELINE_H
#define KILN_PIPELINE_PIPELINE_H

#include "kiln/Extern/Passes.h"
#include "kiln/Targets/Target.h"
#include "mlir/IR/DialectRegistry.h"
#include <string>

namespace kiln {
namespace cpu {
class FoldCache;
}

/// Everything that Kiln's programs are made of, at any stage.
void registerDialects(mlir::DialectRegistry &registry);

/// The targets of this compiler (kiln/Targets/Target.h). May be called again.
void registerTargets();

/// Every pass and every stage under its name, for kiln-opt; the targets are registered before.
void registerPasses();
void registerPipelines();

struct TorchStageOptions {
  /// The library that runs operators without a lowering ("torch"); "none": they are errors.
  std::string fallback = "none";
  /// Custom operators that C functions compute; see torch-bind-custom-ops.
  std::vector<std::string> customOps;
  /// External code generators that may take over parts; null: none.
  externs::Session externs = nullptr;
  /// The target launches Triton kernels.
  bool triton = false;
};

/// torch -> kernel: writes become values, every operator says what it computes.
void buildTorchStage(mlir::OpPassManager &pm, const TorchStageOptions &options = {});

struct KernelStageOptions {
  /// Threads that run constant folding; 0: one for each core.
  unsigned jobs = 0;
  /// What other programs of the context have folded; null: there are none.
  cpu::FoldCache *folds = nullptr;
};

/// torch ops lowered -> fused: views composed, maps and epilogues fused, constants folded.
void buildFuseStage(mlir::OpPassManager &pm, const Target &target,
                    const KernelStageOptions &options = {});

/// fused -> kernels: operands laid out for `target`, and each op a kernel of its own.
void buildPrepareStage(mlir::OpPassManager &pm, const Target &target,
                       const KernelStageOptions &options = {});

/// Both.
void buildKernelStage(mlir::OpPassManager &pm, const Target &target,
                      const KernelStageOptions &options = {});

/// kernel -> wrapper: calls of kernels become launches on buffers, buffers get their places.
void buildWrapperStage(mlir::OpPassManager &pm, const Target &target);

/// wrapper, with kernels: what each target's planner decides. Kernels that fold constants are run
/// by `host`, which may be the same target.
void buildScheduleStage(mlir::OpPassManager &pm, const Target &target, const Target &host);

/// wrapper, with kernels scheduled: how symbols follow from the inputs, and sizes from symbols.
void buildEntryStage(mlir::OpPassManager &pm, bool shareKernels = true);
/// The first half alone, for kernels without schedules.
void buildSolveSymbols(mlir::OpPassManager &pm);

} // namespace kiln

#endif // KILN_PIPELINE_PIPELINE_H
