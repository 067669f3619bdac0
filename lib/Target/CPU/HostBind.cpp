// kiln_bind: the symbols' values from the shapes of the inputs, as `wrapper.bind` says.
#include "HostProgram.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::wrapper;

void HostProgram::emitBind() {
  if (getSymbols().empty())
    return;
  loc = program.getLoc();
  beginFunction("kiln_bind", i32Type, {ptr, ptr});
  Value shapes = function.getArgument(0), symbols = function.getArgument(1);
  llvm::StringMap<Value> values;
  ExprEmitter exprs(builder, loc, [&](StringRef name) { return values.lookup(name); });
  errorBlock = new Block();
  errorBlock->addArgument(i32Type, loc);
  for (BindOp bind : program.getBody().front().getOps<BindOp>()) {
    unsigned input = cast<BlockArgument>(bind.getInput()).getArgNumber();
    // Strides follow the sizes; a number stands alone.
    size_t rank = cast<BufferType>(bind.getInput().getType()).getSizes().size();
    int64_t at = bind.getSize() ? *bind.getSize() : bind.getStride() ? rank + *bind.getStride() : 0;
    Value number = load(i64, load(ptr, shapes, input), at);
    sym::Linear linear =
        *sym::splitLinear(bind.getExpr().getValue(), sym::Expr::symbol(bind.getSymbol()));
    if (!linear.rest.isConstant(0))
      number = LLVM::SubOp::create(builder, loc, number, exprs.emit(linear.rest));
    Value value = number;
    if (!linear.coefficient.isConstant(1)) {
      Value coefficient = exprs.emit(linear.coefficient);
      value = exprs.floorDiv(number, coefficient);
      Value product = LLVM::MulOp::create(builder, loc, value, coefficient);
      Value differs = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, product, number);
      Value zero = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, coefficient,
                                        exprs.constant(0));
      Value wrong = LLVM::OrOp::create(builder, loc, differs, zero);
      Block *next = function.addBlock();
      LLVM::CondBrOp::create(builder, loc, wrong, errorBlock,
                             ValueRange(i32(static_cast<int32_t>(input) + 1)), next, ValueRange());
      builder.setInsertionPointToEnd(next);
    }
    values[bind.getSymbol()] = value;
  }
  for (auto [i, symbol] : llvm::enumerate(getSymbols())) {
    Value value = values.lookup(symbol.getName());
    if (!value) {
      // Nothing depends on it, or nothing yet: any value that its range allows.
      auto range = dyn_cast<DictionaryAttr>(symbol.getValue());
      auto bound = range ? range.getAs<IntegerAttr>("min") : IntegerAttr();
      if (!bound && range)
        bound = range.getAs<IntegerAttr>("max");
      value = exprs.constant(bound ? bound.getInt() : 0);
    }
    Value slot = LLVM::GEPOp::create(builder, loc, ptr, i64, symbols,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    LLVM::StoreOp::create(builder, loc, value, slot);
  }
  LLVM::ReturnOp::create(builder, loc, i32(0));
  function.getBody().push_back(errorBlock);
  builder.setInsertionPointToEnd(errorBlock);
  LLVM::ReturnOp::create(builder, loc, errorBlock->getArgument(0));
}
