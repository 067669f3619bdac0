// Gives nested graphs that draw random numbers a state to draw from: an argument of theirs, which
// the caller draws for each call, or for each round of a loop.
#include "kiln/Dialect/Torch/CallArgs.h"
#include "kiln/Dialect/Torch/RandomState.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHTHREADRANDOM
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

/// The call draws random numbers, so far as its name and flags say.
static bool draws(CallOp call) {
  auto [space, rest] = call.getTarget().split('.');
  StringRef name = rest.split('.').first;
  CallArgs args(call);
  for (StringRef flag : {"train", "training"})
    if (args.has(flag) && !args.isNone(flag) && !args.boolean(flag))
      return false;
  return space == "aten" && llvm::StringSwitch<bool>(name)
                                .Cases({"rand", "rand_like", "randn", "randn_like"}, true)
                                .Cases({"randint", "randint_like", "randperm", "random"}, true)
                                .Cases({"bernoulli", "uniform", "exponential", "geometric"}, true)
                                .Cases({"normal", "normal_functional", "log_normal"}, true)
                                .Cases({"cauchy", "multinomial", "rrelu", "native_dropout"}, true)
                                .Cases({"dropout", "feature_dropout"}, true)
                                .Cases({"alpha_dropout", "feature_alpha_dropout"}, true)
                                .Default(false);
}

namespace {

/// How an operator calls graphs: which of its arguments the state is added to, and where among the
/// arguments of the graphs that is.
struct Form {
  enum Kind { Carried, Sliced, Invariant } kind;
  unsigned list;       // argument of the operator: a list, or the first of what is left
  unsigned before = 0; // the list before it, if the graphs take that first
};

std::optional<Form> getForm(StringRef target) {
  return llvm::StringSwitch<std::optional<Form>>(target)
      .Case("cond", Form{Form::Invariant, 3})
      .Case("while_loop", Form{Form::Carried, 2})
      .Case("scan", Form{Form::Sliced, 2, 1})
      .Case("map_impl", Form{Form::Sliced, 1})
      .Case("invoke_subgraph", Form{Form::Invariant, 2})
      .Default(std::nullopt);
}

struct ThreadRandom : kiln::impl::TorchThreadRandomBase<ThreadRandom> {
  void runOnOperation() override {
    positions.clear();
    symbols.emplace(getOperation());
    SmallVector<HigherOrderOp> ops;
    getOperation().walk([&](HigherOrderOp op) { ops.push_back(op); });
    find(ops);
    if (positions.empty())
      return;
    // While arguments are where they were.
    llvm::erase_if(ops, [&](HigherOrderOp op) {
      return llvm::none_of(graphsOf(op),
                           [&](func::FuncOp graph) { return positions.contains(graph); });
    });
    for (auto [graph, position] : positions)
      addArgument(cast<func::FuncOp>(graph), position);
    for (HigherOrderOp op : ops)
      addState(op);
  }

private:
  SmallVector<func::FuncOp> graphsOf(HigherOrderOp op) {
    SmallVector<func::FuncOp> graphs;
    for (Attribute arg : op.getArgs())
      if (auto name = dyn_cast<FlatSymbolRefAttr>(arg))
        if (auto graph = symbols->lookup<func::FuncOp>(name.getValue());
            graph && !graph.isExternal())
          graphs.push_back(graph);
    return graphs;
  }

  /// The graphs that get a state, and where: those that draw, others that an operator calls beside
  /// them, and their callers. Where two calls differ, neither is changed.
  void find(ArrayRef<HigherOrderOp> ops) {
    llvm::SetVector<Operation *> drawing;
    getOperation().walk([&](CallOp call) {
      if (auto graph = call->getParentOfType<func::FuncOp>(); draws(call) && graph.isPrivate())
        drawing.insert(graph);
    });
    for (bool changed = true; changed;) {
      changed = false;
      for (HigherOrderOp op : ops) {
        SmallVector<func::FuncOp> graphs = graphsOf(op);
        if (llvm::none_of(graphs, [&](func::FuncOp graph) { return drawing.contains(graph); }))
          continue;
        for (func::FuncOp graph : graphs)
          changed |= drawing.insert(graph);
        if (auto caller = op->getParentOfType<func::FuncOp>(); caller.isPrivate())
          changed |= drawing.insert(caller);
      }
    }
    llvm::SmallPtrSet<Operation *, 4> unfit;
    for (HigherOrderOp op : ops)
      for (func::FuncOp graph : graphsOf(op)) {
        std::optional<unsigned> position = findPosition(op, graph);
        if (!drawing.contains(graph))
          continue;
        if (!position || positions.try_emplace(graph, *position).first->second != *position)
          unfit.insert(op);
      }
    if (!unfit.empty())
      positions.clear();
  }

  static size_t count(Attribute attr) {
    auto list = dyn_cast<ArrayAttr>(attr);
    if (!list)
      return 1;
    size_t all = 0;
    for (Attribute element : list)
      all += count(element);
    return all;
  }

  /// The state's place among the graph's arguments.
  std::optional<unsigned> findPosition(HigherOrderOp op, func::FuncOp graph) {
    std::optional<Form> form = getForm(op.getTarget());
    ArrayRef<Attribute> args = op.getArgs().getValue();
    if (!form || op.getNames() || !graph.isPrivate() || !graph.getBody().hasOneBlock() ||
        (form->kind != Form::Invariant && args.size() <= form->list))
      return std::nullopt;
    if (form->kind == Form::Invariant)
      return graph.getNumArguments();
    size_t position = count(args[form->list]) + (form->before ? count(args[form->before]) : 0);
    return position <= graph.getNumArguments() ? std::optional<unsigned>(position) : std::nullopt;
  }

  static void addArgument(func::FuncOp graph, unsigned position) {
    Builder b(graph.getContext());
    auto mark = b.getDictionaryAttr(b.getNamedAttr(randomStateAttrName, b.getUnitAttr()));
    (void)graph.insertArgument(position, RankedTensorType::get(2, b.getI64Type()), mark,
                               graph.getLoc());
  }

  /// Numbers that the function draws from its own state: a state, or `length` of them.
  static Value drawState(OpBuilder &b, Operation *place, StringAttr node,
                         std::optional<sym::Expr> length = std::nullopt) {
    constexpr int64_t bound = int64_t(1) << 62;
    SmallVector<sym::Expr> shape;
    if (length)
      shape.push_back(*length);
    shape.push_back(2);
    SmallVector<Attribute> sizes;
    for (sym::Expr size : shape)
      sizes.push_back(size.isConstant() ? Attribute(b.getI64IntegerAttr(*size.constant()))
                                        : sym::ExprAttr::get(b.getContext(), size));
    Attribute none = b.getUnitAttr();
    SmallVector<Attribute> args = {b.getI64IntegerAttr(0),
                                   b.getI64IntegerAttr(bound),
                                   b.getArrayAttr(sizes),
                                   DTypeAttr::get(b.getContext(), b.getI64Type()),
                                   none,
                                   none,
                                   none};
    return CallOp::create(b, place->getLoc(), sym::getTensorType(shape, b.getI64Type()),
                          "aten.randint.low", ValueRange(), args, node)
        ->getResult(0);
  }

  /// The state of the next round, drawn at the end of a loop's body.
  static void returnState(func::FuncOp body, unsigned position, StringAttr node) {
    Operation *terminator = body.getBody().front().getTerminator();
    OpBuilder b(terminator);
    terminator->insertOperands(position, drawState(b, terminator, node));
    SmallVector<DictionaryAttr> attributes;
    for (unsigned i = 0; i < body.getNumResults(); ++i)
      attributes.push_back(body.getResultAttrDict(i));
    attributes.insert(attributes.begin() + position, DictionaryAttr());
    body.setFunctionType(b.getFunctionType(body.getArgumentTypes(), terminator->getOperandTypes()));
    body.setAllResultAttrs(attributes);
  }

  void addState(HigherOrderOp op) {
    OpBuilder b(op);
    Form form = *getForm(op.getTarget());
    SmallVector<Attribute> args(op.getArgs().getValue());
    std::optional<sym::Expr> length;
    if (form.kind == Form::Sliced) {
      Attribute first = args[form.list];
      while (auto list = dyn_cast<ArrayAttr>(first))
        first = list[0];
      length = sym::getShape(op->getOperand(cast<ArgAttr>(first).getIndex())).front();
    }
    SmallVector<Value> operands(op->getOperands());
    Attribute state = ArgAttr::get(b.getContext(), operands.size());
    operands.push_back(drawState(b, op, op.getNodeAttr(), length));
    if (op.getTarget() == "invoke_subgraph") {
      args.push_back(state);
    } else if (form.list == args.size()) { // left out
      args.push_back(b.getArrayAttr(state));
    } else {
      SmallVector<Attribute> list(cast<ArrayAttr>(args[form.list]).getValue());
      list.push_back(state);
      args[form.list] = b.getArrayAttr(list);
    }
    SmallVector<Type> types(op->getResultTypes());
    size_t added = types.size();
    ArrayAttr values = op.getValuesAttr();
    if (form.kind == Form::Carried) {
      added = count(op.getArgs()[form.list]);
      types.insert(types.begin() + added, operands.back().getType());
      returnState(graphsOf(op).back(), added, op.getNodeAttr());
      if (values) {
        SmallVector<Attribute> all(values.getValue());
        all.insert(all.begin() + added, b.getUnitAttr());
        values = b.getArrayAttr(all);
      }
    }
    auto fresh = HigherOrderOp::create(b, op.getLoc(), types, op.getTargetAttr(), operands,
                                       b.getArrayAttr(args), op.getNodeAttr(), op.getDefinesAttr(),
                                       values, op.getNamesAttr());
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      op->getResult(i).replaceAllUsesWith(fresh->getResult(i < added ? i : i + 1));
    op.erase();
  }

  std::optional<SymbolTable> symbols;
  llvm::MapVector<Operation *, unsigned> positions;
};

} // namespace
