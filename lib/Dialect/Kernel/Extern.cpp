// Constraints of kernel.extern and kernel.invoke_extern.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

LogicalResult ExternOp::verify() {
  auto error = [&] { return emitOpError(); };
  if (failed(sym::verifyArguments(getArgs(), getNumOperands(), error)) || // C1
      failed(sym::verifyResults(getProjection(), getSizes(), getUpdates(), getNumOperands(),
                                getNumResults(), error))) // C2, C3, C6
    return failure();
  ResultRange results = getResults();
  for (auto [operand, result] :
       llvm::zip_equal(getUpdates(), results.take_back(getUpdates().size()))) // C4
    if (result.getType() != getOperand(operand).getType())
      return emitOpError("updates operand ") << operand << ", but the result has another type";
  for (Value size : results.slice(getProjection().size(), sym::countKept(getSizes()))) // C6
    if (auto type = cast<RankedTensorType>(size.getType());
        type.getRank() != 0 || !type.getElementType().isInteger(64))
      return emitOpError("gives a size as a ") << type;
  if (getNames() && getNames()->size() != getArgs().size()) // C5
    return emitOpError("has ") << getNames()->size() << " names for " << getArgs().size()
                               << " arguments";
  return success();
}

void ExternOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (getImpure())
    effects.emplace_back(MemoryEffects::Write::get());
}

sym::Expr InvokeExternOp::getParameter(unsigned i) {
  return sym::Expr::symbol(("p." + Twine(i)).str());
}

sym::Expr InvokeExternOp::substitute(sym::Expr expr) {
  ArrayRef<sym::Expr> symbols = getSymbols().getSizes();
  llvm::SmallDenseMap<sym::Expr, sym::Expr> values;
  for (auto [i, value] : llvm::enumerate(symbols))
    values[getParameter(i)] = value;
  return expr.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
    auto it = values.find(leaf);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  });
}

LogicalResult InvokeExternOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto func = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getFunctionAttr());
  if (!func)
    return emitOpError("'") << getFunction() << "' is not a function";
  auto differ = [&](TypeRange declared, TypeRange given) {
    return declared.size() != given.size() ||
           !llvm::all_of(llvm::zip_equal(declared, given), [&](auto pair) {
             auto [type, own] = pair;
             auto tensor = dyn_cast<RankedTensorType>(type);
             return tensor && sym::getTensorType(llvm::map_to_vector(sym::getShape(tensor),
                                                                     [&](sym::Expr size) {
                                                                       return substitute(size);
                                                                     }),
                                                 tensor.getElementType()) == own;
           });
  };
  FunctionType type = func.getFunctionType();
  if (differ(type.getInputs(), getOperandTypes()) || differ(type.getResults(), getResultTypes()))
    return emitOpError("calls @") // C1
           << getFunction() << ", which is " << type << ", as "
           << FunctionType::get(getContext(), getOperandTypes(), getResultTypes());
  return success();
}
