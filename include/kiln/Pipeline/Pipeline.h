// The table of contents: what happens to a program between the archive and machine code, one
// function for each stage, in order.
#ifndef KILN_PIPELINE_PIPELINE_H
#define KILN_PIPELINE_PIPELINE_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include <string>

namespace kiln {

/// Everything that Kiln's programs are made of, at any stage.
void registerDialects(mlir::DialectRegistry &registry);

/// Every pass and every stage under its name, for kiln-opt.
void registerPasses();
void registerPipelines();

struct TorchStageOptions {
  /// The library that runs operators without a lowering ("torch"); "none": they are errors.
  std::string fallback = "none";
  /// Custom operators that C functions compute; see torch-bind-custom-ops.
  std::vector<std::string> customOps;
};

/// torch -> kernel: writes become values, every operator says what it computes.
void buildTorchStage(mlir::OpPassManager &pm, const TorchStageOptions &options = {});

struct KernelStageOptions {
  /// Threads that run constant folding; 0: one for each core.
  unsigned jobs = 0;
  /// The vector registers that contracts are tiled and packed for: bytes of one, and how many.
  int64_t vectorBytes = 64, registers = 32;
  /// Lay operands out for vectors (CPUs).
  bool pack = true;
  /// The CPU that constant folding compiles for, if this machine runs its code.
  std::string cpu = "native";
};

/// torch ops lowered -> kernels: views composed, layouts chosen, maps and epilogues fused,
/// constants folded, operands packed, and each op a kernel of its own.
void buildKernelStage(mlir::OpPassManager &pm, const KernelStageOptions &options = {});

/// kernel -> wrapper: calls of kernels become launches on buffers, buffers get their places.
void buildWrapperStage(mlir::OpPassManager &pm);

/// wrapper, with kernels scheduled: how symbols follow from the inputs, and sizes from symbols.
void buildEntryStage(mlir::OpPassManager &pm);

} // namespace kiln

#endif // KILN_PIPELINE_PIPELINE_H
