// kernel-verify: checks what the kernel stage leaves.
#include "kiln/Dialect/Kernel/GraphCalls.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELVERIFY
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct Verify : kiln::impl::KernelVerifyBase<Verify> {
  void runOnOperation() override {
    llvm::DenseSet<StringRef> called;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(verify(function, called)))
        return signalPassFailure();
    for (auto kernel : getOperation().getOps<FuncOp>())
      if (!called.contains(kernel.getSymName())) { // V2
        kernel.emitOpError("is not called");
        return signalPassFailure();
      }
  }

  LogicalResult verify(func::FuncOp function, llvm::DenseSet<StringRef> &called) {
    llvm::SetVector<sym::Expr> unknown; // symbols whose definition is still to come
    for (auto define : function.getBody().getOps<DefineOp>())
      if (!unknown.insert(sym::Expr::symbol(define.getSymbol()))) // V3
        return define.emitOpError("defines symbol ") << define.getSymbol() << " again";
    for (Operation &op : function.getBody().getOps()) {
      if (!isa<CallOp, SpanOp, BitcastOp, ExternOp, CollectiveOp, GraphCallOpInterface, ConstantOp,
               DefineOp, AssertOp, CheckOp, torch::NoneOp, func::ReturnOp>(op))
        return op.emitOpError("is left after the kernel stage"); // V1
      auto call = dyn_cast<CallOp>(op);
      if (call)
        called.insert(call.getKernel());
      else if (auto constant = dyn_cast<ConstantOp>(op); constant && constant.getKernel())
        called.insert(*constant.getKernel());
      if (!unknown.empty()) {
        sym::SymbolCollector used;
        used.add(&op);
        if (call)
          used.add(SymbolTable::lookupNearestSymbolFrom(&op, call.getKernelAttr()));
        if (auto graphs = dyn_cast<GraphCallOpInterface>(op))
          addUses(graphs, used);
        for (sym::Expr symbol : used.symbols)
          if (unknown.contains(symbol)) // V3
            return op.emitOpError("uses symbol ") << symbol.str() << " before it is defined";
      }
      if (auto define = dyn_cast<DefineOp>(op))
        unknown.remove(sym::Expr::symbol(define.getSymbol()));
    }
    return success();
  }

  /// The symbols that nested graphs use and do not define themselves.
  static void addUses(GraphCallOpInterface call, sym::SymbolCollector &used) {
    for (FlatSymbolRefAttr name : call.getGraphs()) {
      auto graph = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, name);
      sym::SymbolCollector inside;
      inside.add(graph);
      llvm::SetVector<sym::Expr> defined = getDefinedSymbols(graph);
      for (sym::Expr symbol : inside.symbols)
        if (!defined.contains(symbol))
          used.symbols.insert(symbol);
    }
  }
};

} // namespace
