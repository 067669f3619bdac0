// Products of small integers that have a scale for each group of steps: summed exactly within a group.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_MULTIPLYGROUPS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_MULTIPLYGROUPS_H

#include "CPU/Contract/SmallWeights.h"

namespace kiln::cpu {

/// Unsigned bytes of a left operand, four in a word, and the zero point of each row (f32) behind its
/// words. cpu-keep-small-weights makes the left operand
///
///   %w = kernel.read %left (batch…, m…, d_k floordiv 4) : i32
///   %b = byte d_k mod 4 of %w
///   yield sitofp(%b) - bitcast(kernel.read %left (batch…, m…, number of words))
///
/// of one that was quantized, if the right one has groups of four bits.
struct GroupedBytes {
  kernel::ReadOp words, zero;
  static std::optional<GroupedBytes> get(kernel::ContractOp contract);
};

/// Makes such a left operand; does nothing if there is none, or if `weights` have no such groups.
void multiplyGroups(kernel::ContractOp contract, const SmallWeights &weights,
                    mlir::RewriterBase &rewriter);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_MULTIPLYGROUPS_H
