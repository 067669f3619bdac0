// Loops over tensors for lowerings that compute in steps.
#include "Core/Loop.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::lowering;

SmallVector<Value> lowering::loop(KernelBuilder &kernels, Expr length, ArrayRef<Value> carried,
                                  ArrayRef<Value> invariants,
                                  function_ref<SmallVector<Value>(const LoopStep &)> step) {
  ImplicitLocOpBuilder &b = kernels.b();
  Type i64 = b.getI64Type();
  Value numbers =
      kernels.map({length}, i64, [&](BodyBuilder &body) { return body.index(body.dim(0)); });
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  SmallVector<Type> types = llvm::to_vector(ValueRange(carried).getTypes()), arguments = types;
  arguments.push_back(sym::getTensorType({}, i64));
  llvm::append_range(arguments, ValueRange(invariants).getTypes());

  std::string name;
  for (unsigned i = 0; name.empty() || module.lookupSymbol(name); ++i)
    name = "loop_" + std::to_string(i);
  auto builder = ImplicitLocOpBuilder::atBlockEnd(b.getLoc(), module.getBody());
  auto graph = func::FuncOp::create(builder, name, builder.getFunctionType(arguments, types));
  graph.setPrivate();
  Block *entry = graph.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  KernelBuilder inside(builder, kernels.known());
  SmallVector<Value> given = llvm::to_vector_of<Value>(entry->getArguments());
  ArrayRef<Value> all(given);
  SmallVector<Value> next = step({inside, all[carried.size()], all.take_front(carried.size()),
                                  all.drop_front(carried.size() + 1)});
  func::ReturnOp::create(builder, next);
  if (inside.failure)
    kernels.fail(*inside.failure);
  auto op = kernel::ForOp::create(b, types, FlatSymbolRefAttr::get(graph.getSymNameAttr()),
                                  sym::ExprAttr::get(b.getContext(), length), carried,
                                  ValueRange(numbers), invariants);
  return llvm::to_vector_of<Value>(op->getResults());
}
