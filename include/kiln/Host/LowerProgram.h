//===- LowerProgram.h - From a wrapper.program to LLVM ----------*- C++ -*-===//
#ifndef KILN_HOST_LOWERPROGRAM_H
#define KILN_HOST_LOWERPROGRAM_H

#include "kiln/Host/Debug.h"
#include "kiln/Host/ModelInfo.h"
#include "mlir/Pass/Pass.h"

namespace kiln::host {

struct HostTablesOptions {
  ModelInfo info;
  /// Kernels run on a device, whose runtime launches them.
  bool device = false;
  bool externalWeights = false;
  uint64_t weightsHash = 0;
  DebugOptions debug;
  /// A library of steps for another host, not of the program.
  bool stepsAlone = false;
  uint32_t stepsHash = 0;
  /// The CPU that code is for, and what it must have (runtime/cpu_features.h).
  std::string cpu;
  uint64_t cpuFeatures = 0;
  /// The name of a program alone.
  std::string entry = "model";
  /// All programs of the model if there are several, this among them. The first one's tables
  /// describe all; it is lowered while the others are as they were, which have names alone by then.
  llvm::ArrayRef<ModelEntry> entries = {};
  unsigned number = 0;
  /// The table of all their constants; null: there is one program.
  const ConstantCells *cells = nullptr;
  /// The bytes of the weights that are known.
  int64_t knownBytes = 0;

  llvm::SmallVector<ModelEntry> getEntries(wrapper::ProgramOp alone) const {
    return entries.empty() ? llvm::SmallVector<ModelEntry>{{entry, alone}}
                           : llvm::SmallVector<ModelEntry>(entries);
  }
};

/// wrapper-lower-to-llvm for a program that may be one of several, which the pass's own options
/// cannot say.
std::unique_ptr<mlir::Pass> createLowerProgram(const HostTablesOptions &options);

} // namespace kiln::host

#endif // KILN_HOST_LOWERPROGRAM_H
