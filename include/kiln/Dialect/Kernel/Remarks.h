// Remarks of passes on their decisions (docs/debugging.md): MLIR's remarks, in words, with the node
// that a decision is about. Nothing is put into words unless someone listens.
#ifndef KILN_DIALECT_KERNEL_REMARKS_H
#define KILN_DIALECT_KERNEL_REMARKS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <optional>
#include <string>

namespace kiln {

enum class RemarkKind {
  Done,    // the pass did it
  NotDone, // it could have been done, but for the reason
  Chosen,  // one of several ways
};

/// Keys of the arguments that each remark has, in this order; a reason and cycles may be absent.
inline constexpr llvm::StringLiteral remarkWhereKey = "Where", remarkTextKey = "Remark",
                                     remarkReasonKey = "Reason", remarkCyclesKey = "Cycles";

struct RemarkText {
  std::string text; // "fused into node 'add' (model.py:3)"
  std::string reason = {};
  /// The cost by which a planner has chosen.
  std::optional<double> cycles = std::nullopt;
};

/// Remarks of passes on `op` are reported to somebody.
inline bool wantsRemarks(mlir::Operation *op) { return op->getContext()->getRemarkEngine(); }

/// Reports what `describe` says of `op`. `pass` is the name of the pass, which is the category;
/// `name` is what tools tell this remark by.
void emitRemark(RemarkKind kind, mlir::Operation *op, llvm::StringRef pass, llvm::StringRef name,
                llvm::function_ref<RemarkText()> describe);

/// "kernel @map_3: SCHEDULE, LAUNCH", of a kernel that has been planned.
std::string describeSchedule(kernel::FuncOp kernel);

} // namespace kiln

#endif // KILN_DIALECT_KERNEL_REMARKS_H
