//===- Reproducer.h - What is left behind when a stage fails ----*- C++ -*-===//
#ifndef KILN_LIB_PIPELINE_REPRODUCER_H
#define KILN_LIB_PIPELINE_REPRODUCER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include <string>

namespace kiln {

/// The input of the stage that is running, and the passes that run on it. If the process dies by a
/// signal in its life, both are written to a file that `kiln-opt --run-reproducer` takes.
class Reproducer {
public:
  Reproducer(mlir::ModuleOp module, const mlir::OpPassManager *passes);
  ~Reproducer();
  Reproducer(const Reproducer &) = delete;
  Reproducer &operator=(const Reproducer &) = delete;

  /// Writes the file; returns its path, or "" when it cannot be written.
  std::string write();

private:
  mlir::OwningOpRef<mlir::ModuleOp> input;
  std::string pipeline;
  bool threads;
};

} // namespace kiln

#endif // KILN_LIB_PIPELINE_REPRODUCER_H
