// Weights that are small integers: each task widens them to pairs of bf16, or scales them as f32, a panel at a time, which all
// of its rows share.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_WIDENPANELS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_WIDENPANELS_H

#include "CPU/Contract/ContractStaging.h"

namespace kiln::cpu {

/// Widens `vectors` vectors of columns of a panel: the pair or the number of step k and a column is at k * layout.panel() +
/// column from `base`. `bits`, `scales` and `offsets` (null: none) are the first rows of the panel.
void emitWidenedPanel(codegen::KernelFrame &frame, const ContractLayout &layout, int64_t vectors,
                      mlir::Value bits, mlir::Value scales, mlir::Value offsets, mlir::Value base);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_WIDENPANELS_H
