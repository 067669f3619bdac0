// An input's size is an expression; PyTorch gives most of them a symbol of their own, which is then
// simply read. Where a symbol occurs only inside a larger expression (2*s0 + 1, or s0*s1 with s1
// known from elsewhere) the equation is linear in it and is solved: the rest must divide.
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERSOLVESYMBOLS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;
using sym::Expr;

namespace {

enum class Property { Size, Value, Stride };

/// An input's property is an expression.
struct Equation {
  Property property;
  unsigned input;
  int64_t dim; // of a size or stride
  Expr expr;
};

class Solver {
public:
  explicit Solver(ProgramOp program) : program(program) {
    for (auto function : program->getParentOfType<ModuleOp>().getOps<HostFunctionOpInterface>())
      defined.insert_range(getDefinedSymbols(function));
  }

  LogicalResult run() {
    readEquations();
    SymbolCollector collector;
    for (Operation &op : *program->getBlock())
      collector.add(&op);
    used = std::move(collector.symbols);
    keepCheckedStrides();

    OpBuilder builder = OpBuilder::atBlockBegin(&program.getBody().front());
    // Symbols that can be read are read; the runtime then checks all other sizes with the values
    // found.
    solve(builder, /*plainOnly=*/true);
    while (solve(builder, /*plainOnly=*/false)) {
    }
    for (Expr symbol : used)
      if (!known.contains(symbol) && !defined.contains(symbol)) // C1
        return refuse(symbol);
    return success();
  }

private:
  /// Takes strides off the inputs: what is left there is checked.
  void readEquations() {
    SmallVector<Equation> values, strides;
    for (unsigned i = 0; i < program.getNumArguments(); ++i) {
      auto type = cast<BufferType>(program.getArgumentTypes()[i]);
      for (auto [d, size] : llvm::enumerate(type.getSizes()))
        equations.push_back({Property::Size, i, static_cast<int64_t>(d), size});
      if (auto value = program.getArgAttrOfType<sym::ExprAttr>(i, valueAttrName))
        values.push_back({Property::Value, i, 0, value.getValue()});
      if (auto recorded = program.getArgAttrOfType<sym::ShapeAttr>(i, stridesAttrName)) {
        for (auto [d, stride] : llvm::enumerate(recorded.getSizes()))
          strides.push_back({Property::Stride, i, static_cast<int64_t>(d), stride});
        recordedStrides[i] = recorded;
        program.removeArgAttr(i, StringAttr::get(program.getContext(), stridesAttrName));
      }
    }
    llvm::append_range(equations, values);
    llvm::append_range(equations, strides);
  }

  /// Puts back those that inputs must have, whose symbols are then used.
  void keepCheckedStrides() {
    auto check = StringAttr::get(program.getContext(), checkStridesAttrName);
    for (unsigned i = 0; i < program.getNumArguments(); ++i) {
      sym::ShapeAttr recorded = recordedStrides.lookup(i);
      if (!program.removeArgAttr(i, check) || !recorded)
        continue;
      checkStrides(i, recorded);
    }
  }

  /// All strides of an input are compared, each with what its symbols give.
  void checkStrides(unsigned input, sym::ShapeAttr recorded) {
    program.setArgAttr(input, stridesAttrName, recorded);
    for (Expr stride : recorded.getSizes())
      stride.walkLeaves([&](Expr leaf) { used.insert(leaf); });
  }

  llvm::SmallSetVector<Expr, 2> unknowns(Expr expr) {
    llvm::SmallSetVector<Expr, 2> leaves;
    expr.walkLeaves([&](Expr leaf) {
      if (!known.contains(leaf))
        leaves.insert(leaf);
    });
    return leaves;
  }

  /// One round over the equations; whether a symbol became known.
  bool solve(OpBuilder &builder, bool plainOnly) {
    size_t before = known.size();
    for (const Equation &equation : equations) {
      auto leaves = unknowns(equation.expr);
      if (leaves.size() != 1 || (plainOnly && equation.expr != leaves[0]) ||
          !sym::splitLinear(equation.expr, leaves[0]))
        continue;
      bool isStride = equation.property == Property::Stride;
      // Inputs of any layout are taken where nothing depends on it.
      if (defined.contains(leaves[0]) || (isStride && !used.contains(leaves[0])))
        continue;
      known.insert(leaves[0]);
      auto dim = builder.getI64IntegerAttr(equation.dim);
      BindOp::create(builder, program.getLoc(), builder.getStringAttr(leaves[0].symbolName()),
                     program.getArgument(equation.input),
                     equation.property == Property::Size ? dim : IntegerAttr(),
                     isStride ? dim : IntegerAttr(),
                     sym::ExprAttr::get(builder.getContext(), equation.expr));
      if (isStride)
        checkStrides(equation.input, recordedStrides[equation.input]);
    }
    return known.size() != before;
  }

  LogicalResult refuse(Expr symbol) {
    InFlightDiagnostic error = program.emitError("symbol ")
                               << symbol.symbolName()
                               << " cannot be computed from the shapes of the inputs: ";
    auto *said = llvm::find_if(equations, [&](const Equation &equation) {
      return equation.expr.dependsOn(symbol) && equation.property != Property::Stride;
    });
    if (said == equations.end())
      return error << "none has it";
    if (said->property == Property::Size)
      error << "size " << said->dim << " of ";
    error << "input \"" << program.getInputName(said->input) << "\" is " << said->expr.str();
    auto others = unknowns(said->expr);
    others.remove(symbol);
    if (others.empty())
      return error << ", which several values give";
    error << ", and nothing gives ";
    llvm::interleaveComma(others, error, [&](Expr other) { error << other.symbolName(); });
    return error;
  }

  ProgramOp program;
  llvm::SetVector<Expr> defined, used;
  SmallVector<Equation> equations; // sizes first, then values, then strides
  DenseMap<unsigned, sym::ShapeAttr> recordedStrides;
  llvm::DenseSet<Expr> known;
};

struct SolveSymbols : kiln::impl::WrapperSolveSymbolsBase<SolveSymbols> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      if (failed(Solver(program).run()))
        return signalPassFailure();
  }
};

} // namespace
