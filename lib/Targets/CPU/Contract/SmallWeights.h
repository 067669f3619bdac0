// Right operands that are small integers, widened and scaled where they are multiplied:
//
//   weight(n, k) = (bits(n, k) - zero(n, k / group)) * scale(n, k / group), or
//                   bits(n, k) * scale(n, k / group) + offset(n, k / group)
//
// cpu-pack-contracts finds them and lays their bits out in panels, of four bits where these are enough:
// eight steps of the sum in an i32, the first in its lowest bits. Scales and offsets (or zeros) are
// panels with a row for each group, scales of bf16 or f16 as such. What it makes of a contract's right
// operand is the IR that the layout knows again:
//
//   %w = kernel.read %bits (…, d_n floordiv panel, groups and words of k, d_n mod panel) : i32
//   %q = sign-extended bits 4*d_k to 4*d_k + 3 of %w
//   yield sitofp(%q) * extf(kernel.read %scales (…)) + kernel.read %offsets (…)
//
// Left operands of bf16, on CPUs that multiply pairs of these: the weight that is yielded is rounded to
// bf16, and steps 2*i and 2*i + 1 of a word are its bits from 4*i and from 16 + 4*i on. Many rows share
// what a task has widened to pairs (WidenPanels.h), few look them up (WordGroups.h). So do many rows of f32 what it has widened to f32.
//
// Left operands of bytes (MultiplyGroups.h): the innermost k dims are the halves of a word, of two and
// four steps: bits 4*d_half + 8*d_step on are those of a step, so that a shift and a mask make four
// bytes of a word.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_SMALLWEIGHTS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_SMALLWEIGHTS_H

#include "CPU/Contract/Panels.h"
#include "kiln/Codegen/CPUInfo.h"

namespace kiln::cpu {

/// Bits of an element of a word, and how many there are.
constexpr int64_t smallBits = 4, wordSteps = 32 / smallBits, pairSteps = 2;
/// Halves of a word, and steps in one.
constexpr int64_t wordHalves = 2, halfSteps = wordSteps / wordHalves;

/// Bits of word step `step` from this one on, in words of pairs.
inline sym::Expr firstPairBit(sym::Expr step) {
  return smallBits * step.floorDiv(pairSteps) + 32 / pairSteps * step.mod(pairSteps);
}

/// A right operand as a contract has it before it is packed.
struct SmallWeights {
  /// An op on floats whose other operand changes with groups of steps at most.
  struct Step {
    enum Kind { Multiply, Add, Subtract } kind;
    mlir::Value value;
  };

  mlir::Value bits; // in the region
  bool isUnsigned = false;
  int64_t least = 0, most = 0; // of the bits
  /// From the bits to the weight.
  llvm::SmallVector<Step> steps;
  /// Zero points that are all zero: those that replace them have to be, too.
  llvm::SmallVector<mlir::Value> zeros;
  /// Steps of the sum with one scale and offset; 0: all.
  int64_t group = 0;

  /// Nothing, and why, if the right operand is not of this kind.
  static std::optional<SmallWeights> get(kernel::ContractOp contract, const char *&reason);

  /// The number that is added to signed bits of `smallBits` to get these; nothing: they have more.
  std::optional<int64_t> getBias() const;
  bool hasOffset() const;
  /// Numbers are taken off the bits before they are scaled: they are zeros, not offsets.
  bool subtractsFirst() const;
  /// Scale and offset or zero of bits less `bias`, of what the steps' values have become; null: 1 and 0.
  std::pair<mlir::Value, mlir::Value> createParameters(mlir::OpBuilder &builder, mlir::Location loc,
                                                       const mlir::IRMapping &mapping,
                                                       int64_t bias) const;
  /// The narrowest type that the scale is a number of: that of the only one, or f32.
  mlir::Type getScaleType() const;
};

/// Makes `region` yield its value in f32.
void widenYield(mlir::Region &region, mlir::RewriterBase &rewriter);
/// Makes a tensor [batch…, m…, k…] of the left operand, of bf16 or f32.
void placeLeft(kernel::ContractOp contract, mlir::Type element, mlir::RewriterBase &rewriter);
/// The dims of a contract over those of one with the k dims `sums`: its own in their order, or (split)
/// several for its one dim of more steps than one.
llvm::SmallVector<sym::Expr> renameSteps(const Panels &panels, llvm::ArrayRef<sym::Expr> sums,
                                         bool isSplit);

/// Lays out the right operand, and replaces the contract. With `inPairs`, it is multiplied in pairs of bf16.
void packSmallWeights(const Panels &panels, const SmallWeights &weights, bool inPairs,
                      mlir::RewriterBase &rewriter);

/// Both operands are of bf16, and the sum, in f32, is along one dim, of pairs of steps.
bool sumsPairs(kernel::ContractOp contract);
/// Rows that look their weights up, if these are in words and have scales alone. So few are multiplied in f32 otherwise: widening
/// a panel for them takes longer than is gained.
bool hasFewRows(kernel::ContractOp contract);
/// Rows that are not few.
constexpr int64_t fewestManyRows = 16;
/// Small integers are worth multiplying as pairs of bf16 on this CPU.
bool multipliesInPairs(kernel::ContractOp contract, const SmallWeights &weights,
                       const codegen::CPUInfo &target);
/// Rows of f32 are so few that their digits multiply weights of four bits faster (BlockFloats.h).
bool multipliesDigits(kernel::ContractOp contract, const codegen::CPUInfo &target);
/// Puts the left operand of such a contract along the sum, unless it lies so.
void placeLeftAlongSum(kernel::ContractOp contract, mlir::RewriterBase &rewriter);
/// Weights of bf16 may be laid out in words of two steps of the sum; nobody else reads them.
bool canPackPairs(kernel::ContractOp contract);
/// Does so, for CPUs that multiply pairs, and replaces the contract.
void packPairs(const Panels &panels, mlir::RewriterBase &rewriter);

/// A right operand that `packSmallWeights` or `packPairs` made, or one of bf16 or f16 that is widened to
/// f32: its reads, and the steps of the sum in an element of the bits, 1, `pairSteps` or `wordSteps`.
struct PackedSmallWeights {
  kernel::ReadOp bits, scale, offset; // of the latter two none or both, or a scale alone
  bool isUnsigned = false, subtractsFirst = false;
  bool inPairs = false;
  int64_t steps = 1;
  /// Words of the left operand's bytes, by which words are multiplied; null: it is none.
  kernel::ReadOp left;

  static std::optional<PackedSmallWeights> get(kernel::ContractOp contract);
};

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_SMALLWEIGHTS_H
