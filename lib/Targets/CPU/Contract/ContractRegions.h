// Queries about regions, for the passes that rewrite contracts.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTREGIONS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTREGIONS_H

#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Targets/CPU/CPUDialect.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln::cpu {

/// An index map of `region` uses dim `dim`.
bool usesDim(mlir::Region &region, unsigned dim);

/// The layout that `contract` is given; all is planned if it has none.
LayoutAttr getLayout(kernel::ContractOp contract);

/// The left operand is one read whose rows lie next to each other, not its steps of the sum.
bool liesAlongRows(kernel::ContractOp contract);

/// cpu-swap-operands exchanges the operands if nothing else is said.
bool isSwapPlanned(kernel::ContractOp contract, const codegen::CPUInfo &target);
/// They may be exchanged: nothing has been made of them that depends on their places.
bool canSwap(kernel::ContractOp contract);

/// The reason why cpu-pack-contracts does not pack the right operand, if nothing else is said; null:
/// it does.
const char *whyNotPacked(kernel::ContractOp contract, const codegen::CPUInfo &target);
/// The reason why it never can.
const char *whyNeverPacked(kernel::ContractOp contract);
/// The width of the panels that cpu-pack-contracts chooses.
int64_t choosePanel(kernel::ContractOp contract, const codegen::CPUInfo &target);
/// Gives products of different programs that have one weight one width, as cpu-pack-contracts does
/// within a program.
void sharePanels(llvm::ArrayRef<mlir::ModuleOp> modules, const codegen::CPUInfo &target);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_CONTRACTREGIONS_H
