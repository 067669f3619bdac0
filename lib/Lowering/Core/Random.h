// Random numbers of a run: Philox4x32-10 (Salmon et al., 2011), whose n-th block of bits is a
// function of a key and n, so that every element has its own without an order.
//
// The key and how many blocks earlier runs have drawn are a buffer of the model, "kiln.random"
// (i64[2]), which each run moves on. It starts with PyTorch's default seed; setting it, as any
// other constant, seeds the model. PyTorch's CPU generator is a Mersenne twister, whose numbers
// have an order and differ from these.
#ifndef KILN_LIB_LOWERING_CORE_RANDOM_H
#define KILN_LIB_LOWERING_CORE_RANDOM_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::lowering {

using namespace kernel; // elements and builders

class RandomSource {
public:
  explicit RandomSource(mlir::func::FuncOp function) : function(function) {}

  /// Reserves a block of bits for each of `count` elements; the first one's number within this run.
  Expr reserve(Expr count);
  /// The buffer. Made at the start of the function when it is first asked for; in a nested graph,
  /// the argument that has been added for it.
  mlir::Value state();
  bool isUsed() const { return static_cast<bool>(buffer); }
  bool isGiven() const { return llvm::isa_and_nonnull<mlir::BlockArgument>(buffer); }
  /// Makes the buffer's new value a result of the function, if anything was drawn.
  void finish();

private:
  mlir::func::FuncOp function;
  mlir::Value buffer;
  Expr drawn = 0;
};

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_RANDOM_H
