//===- FourBits.h - Integers of four bits in words --------------*- C++ -*-===//
//
// Numbers of four bits, eight in a word of 32: of two neighbours the first is in the word's low half, and the second at
// the same place of the high half. So one mask finds both, and one `or` makes a pair of f16 or bf16 of them: of a number
// whose last place is 1, in whose lowest bits they are (as in Kim, Henry, Fahim and Awadalla, "Who Says Elephants Can't
// Run", 2022).
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_FOURBITS_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_FOURBITS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace kiln::cuda {

/// Numbers in a word, and bits of each.
constexpr int64_t wordSteps = 8, stepBits = 4;

/// The lowest bit of number `step` mod 8 in its word.
sym::Expr getFourBitPlace(sym::Expr step);

/// f32, f16 or bf16, of which 0 to 15 can be added to a number in this way.
bool mayWidenFourBits(mlir::Type type);

/// Number `step` mod 8 of `word`, i32, without a sign, in a region with `numDims` dims: i32.
mlir::Value extractFourBits(mlir::OpBuilder &b, mlir::Location loc, mlir::Value word,
                            sym::Expr step, unsigned numDims);
/// Such a number minus `excess`, as `type`.
mlir::Value widenFourBits(mlir::OpBuilder &b, mlir::Location loc, mlir::Value bits, int64_t excess,
                          mlir::FloatType type);

/// A number that `widenFourBits` made of number `step`, before anything is subtracted; its word, and the place there.
struct FourBits {
  mlir::arith::BitcastOp number;
  kernel::ReadOp word;
  kernel::IndexOp place;
};
std::optional<FourBits> matchFourBits(mlir::arith::BitcastOp number, sym::Expr step,
                                      const sym::Assumptions &known);

/// All numbers of a word, in order, as those that `number` stands for, which are f16 or bf16: vector<8 x type>.
mlir::Value widenWord(mlir::OpBuilder &b, mlir::Location loc, mlir::Value word,
                      mlir::FloatType type);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_FOURBITS_H
