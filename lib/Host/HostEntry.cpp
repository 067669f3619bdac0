// Functions that the runtime calls before the program: kiln_bind, the symbols' values from the
// shapes of the inputs, as `wrapper.bind` says; kiln_sizes, what follows from them; kiln_eval, one
// size of a table.
#include "HostProgram.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

void HostProgram::emitBind() {
  if (getSymbols().empty())
    return;
  loc = program.getLoc();
  beginFunction("kiln_bind",
                CFunctionType<decltype(kiln_rt_program::bind)>::get(builder.getContext()));
  placeAtEntry(function);
  Value shapes = function.getArgument(0), symbols = function.getArgument(1);
  llvm::StringMap<Value> values;
  ExprEmitter exprs(builder, loc, [&](StringRef name) { return values.lookup(name); });
  beginErrors();
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
  for (NamedAttribute symbol : getSymbols()) {
    Value value = values.lookup(symbol.getName());
    if (!value) {
      // Nothing depends on it, or nothing yet: any value that its range allows.
      auto range = dyn_cast<DictionaryAttr>(symbol.getValue());
      auto bound = range ? range.getAs<IntegerAttr>("min") : IntegerAttr();
      if (!bound && range)
        bound = range.getAs<IntegerAttr>("max");
      value = exprs.constant(bound ? bound.getInt() : 0);
    }
    storeSymbol(symbols, symbol.getName(), value);
  }
  endErrors();
}

void HostProgram::findEntrySizes() {
  llvm::SetVector<sym::Expr> late = definedSymbols;
  for (DefineOp define : program.getBody().front().getOps<DefineOp>()) {
    if (!define.getExpr())
      continue;
    SymbolCollector used;
    used.add(define.getExpr()->getValue());
    if (llvm::any_of(used.symbols, [&](sym::Expr symbol) { return late.contains(symbol); }))
      continue;
    entrySizes.insert(define);
    late.remove(sym::Expr::symbol(define.getSymbol()));
  }
}

void HostProgram::emitSizes() {
  beginFunction("kiln_sizes",
                CFunctionType<decltype(kiln_rt_program::sizes)>::get(builder.getContext()));
  placeAtEntry(function);
  Value symbols = function.getArgument(0);
  ExprEmitter exprs(builder, loc, [&](StringRef name) { return loadSymbol(symbols, name); });
  // A size of more than 64 bits becomes -1, which is no size.
  for (Operation *size : entrySizes) {
    auto define = cast<DefineOp>(size);
    storeSymbol(symbols, define.getSymbol(), exprs.emitChecked(define.getExprAttr().getValue()));
  }
  LLVM::ReturnOp::create(builder, loc, exprs.emitChecked(program.getArenaBytes()->getValue()));
}

void HostProgram::emitEval(StringRef name, ArrayRef<sym::Expr> exprs) {
  beginFunction(name, CFunctionType<decltype(kiln_rt_program::eval)>::get(builder.getContext()));
  Value symbols = function.getArgument(0);
  Block *entry = builder.getInsertionBlock();
  SmallVector<Block *> cases;
  SmallVector<APInt> numbers;
  for (sym::Expr expr : exprs) {
    numbers.emplace_back(64, cases.size());
    builder.setInsertionPointToEnd(cases.emplace_back(function.addBlock()));
    loadedSymbols.clear();
    ExprEmitter emitter(builder, loc, [&](StringRef name) {
      for (auto [i, symbol] : llvm::enumerate(getSymbols()))
        if (symbol.getName() == name)
          return load(i64, symbols, i);
      return emitter.constant(0);
    });
    LLVM::ReturnOp::create(builder, loc, emitter.emitChecked(expr));
  }
  Block *none = function.addBlock();
  builder.setInsertionPointToEnd(none);
  LLVM::ReturnOp::create(builder, loc, number(sym::Expr(-1)));
  builder.setInsertionPointToEnd(entry);
  LLVM::SwitchOp::create(builder, loc, function.getArgument(1), none, ValueRange(),
                         ArrayRef<APInt>(numbers), cases, SmallVector<ValueRange>(cases.size()));
}

void HostProgram::placeAtEntry(LLVM::LLVMFuncOp function) {
  function.setSection(".text.hot." + function.getName().str());
}
