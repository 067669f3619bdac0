// Solving symbols from the shapes of the inputs.
//
// An input's size is an expression; PyTorch gives most of them a symbol of their own, which is then
// simply read. Where a symbol occurs only inside a larger expression (2*s0 + 1, or s0*s1 with s1
// known from elsewhere) the equation is linear in it and is solved: the rest must divide.
#include "HostProgram.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::wrapper;

namespace {

/// symbol = (size of dim `dim` of input `input` - rest) / coefficient
struct Solution {
  sym::Expr symbol;
  unsigned input, dim;
  sym::Expr coefficient, rest;
};

/// An order in which the symbols can be solved; those that cannot be are left out.
SmallVector<Solution> solve(ProgramOp program) {
  SmallVector<Solution> solutions;
  llvm::SmallPtrSet<const void *, 8> known;
  auto unknowns = [&](sym::Expr expr) {
    llvm::SmallSetVector<sym::Expr, 2> leaves;
    expr.walkLeaves([&](sym::Expr leaf) {
      if (!known.contains(leaf.opaque()))
        leaves.insert(leaf);
    });
    return leaves;
  };
  auto pass = [&](bool plainOnly) {
    for (auto [i, type] : llvm::enumerate(program.getArgumentTypes()))
      for (auto [d, size] : llvm::enumerate(cast<BufferType>(type).getSizes())) {
        auto leaves = unknowns(size);
        if (leaves.size() != 1 || (plainOnly && size != leaves[0]))
          continue;
        std::optional<sym::Linear> linear = sym::splitLinear(size, leaves[0]);
        if (!linear)
          continue;
        known.insert(leaves[0].opaque());
        solutions.push_back({leaves[0], static_cast<unsigned>(i), static_cast<unsigned>(d),
                             linear->coefficient, linear->rest});
      }
  };
  // What can be read is read; the runtime then checks all other sizes with the values found.
  pass(/*plainOnly=*/true);
  for (size_t before = SIZE_MAX; before != solutions.size();) {
    before = solutions.size();
    pass(/*plainOnly=*/false);
  }
  return solutions;
}

} // namespace

LogicalResult HostProgram::emitBind() {
  if (getSymbols().empty())
    return success();
  loc = program.getLoc();
  SmallVector<Solution> solutions = solve(program);
  llvm::StringSet<llvm::MallocAllocator> solved;
  for (const Solution &solution : solutions)
    solved.insert(solution.symbol.symbolName());
  for (sym::Expr symbol : getUsedSymbols())
    if (!solved.contains(symbol.symbolName()) && !definedSymbols.contains(symbol))
      return program.emitError("symbol ")
             << symbol.symbolName() << " cannot be computed from the shapes of the inputs";

  beginFunction("kiln_bind", i32Type, {ptr, ptr});
  Value shapes = function.getArgument(0), symbols = function.getArgument(1);
  llvm::StringMap<Value> values;
  ExprEmitter exprs(builder, loc, [&](StringRef name) { return values.lookup(name); });
  errorBlock = new Block();
  errorBlock->addArgument(i32Type, loc);
  for (const Solution &solution : solutions) {
    Value size = load(i64, load(ptr, shapes, solution.input), solution.dim);
    if (!solution.rest.isConstant(0))
      size = LLVM::SubOp::create(builder, loc, size, exprs.emit(solution.rest));
    Value value = size;
    if (!solution.coefficient.isConstant(1)) {
      Value coefficient = exprs.emit(solution.coefficient);
      value = exprs.floorDiv(size, coefficient);
      Value product = LLVM::MulOp::create(builder, loc, value, coefficient);
      Value differs = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, product, size);
      Value zero = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, coefficient,
                                        exprs.constant(0));
      Value wrong = LLVM::OrOp::create(builder, loc, differs, zero);
      Block *next = function.addBlock();
      LLVM::CondBrOp::create(builder, loc, wrong, errorBlock,
                             ValueRange(i32(static_cast<int32_t>(solution.input) + 1)), next,
                             ValueRange());
      builder.setInsertionPointToEnd(next);
    }
    values[solution.symbol.symbolName()] = value;
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
  return success();
}
