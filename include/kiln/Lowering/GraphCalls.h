// Lowers calls of nested graphs: cond, while_loop, scan, map_impl, invoke_subgraph.
//
// A symbolic integer among a graph's arguments is an expression inside of the graph, so it is no
// argument any more; what a loop carries from round to round is data, and stays one. Where a graph
// computes sizes with it, it defines a symbol at its beginning. The size of a branch's result that
// is another one in the other branch is a symbol that each branch defines at its end.
#ifndef KILN_LOWERING_GRAPHCALLS_H
#define KILN_LOWERING_GRAPHCALLS_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace kiln::lowering {

using namespace kernel; // elements and builders

/// A Python number as a 0-d tensor: an expression, or an integer, float or bool constant.
mlir::Value createNumber(KernelBuilder &kernels, mlir::Attribute number, mlir::Type type);

class GraphCalls {
public:
  /// Finds out which arguments of the module's graphs are expressions.
  explicit GraphCalls(mlir::ModuleOp module);

  /// To be called before the ops of `graph` are lowered: expressions take the place of arguments.
  void replaceNumbers(mlir::func::FuncOp graph, KernelBuilder &kernels);
  /// Puts a kernel op in place of `op`, of whose operands and of whose graphs the types are kept as
  /// they are where they say the same. A failure has been reported to `kernels`.
  mlir::LogicalResult lower(torch::HigherOrderOp op, KernelBuilder &kernels);
  /// To be called at the end: arguments that are expressions go away.
  void eraseNumbers();

private:
  struct Arguments;
  struct Results;
  struct Defined;
  std::optional<Arguments> read(torch::HigherOrderOp op);
  mlir::LogicalResult matchArguments(Arguments &arguments, torch::HigherOrderOp op,
                                     KernelBuilder &kernels);
  mlir::LogicalResult matchResults(Results &results, const Arguments &arguments,
                                   torch::HigherOrderOp op, KernelBuilder &kernels);
  static mlir::Operation *createCond(const Arguments &arguments, const Results &results,
                                     torch::HigherOrderOp op, KernelBuilder &kernels);
  static mlir::Operation *createWhile(const Arguments &arguments, const Results &results,
                                      KernelBuilder &kernels);
  std::optional<Expr> getCarriedSymbol(mlir::func::FuncOp graph, unsigned i);
  static bool adaptResult(mlir::func::FuncOp graph, unsigned i, mlir::RankedTensorType type,
                          Defined &defined, KernelBuilder &kernels);

  mlir::SymbolTable symbols;
  /// Symbols that inputs or calls give their values.
  llvm::SetVector<Expr> known;
  /// The arguments of each graph that are expressions.
  llvm::DenseMap<mlir::Operation *, llvm::BitVector> numbers;
};

} // namespace kiln::lowering

#endif // KILN_LOWERING_GRAPHCALLS_H
