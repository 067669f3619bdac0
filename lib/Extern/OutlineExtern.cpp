// outline-extern: makes functions of marked subgraphs, which structurally equal ones share.
#include "Subgraph.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Extern/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace kiln::externs {
#define GEN_PASS_DEF_OUTLINEEXTERN
#include "kiln/Extern/Passes.h.inc"
} // namespace kiln::externs

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

/// A constant that no one can replace.
static bool isFixed(Operation *op) {
  if (auto constant = dyn_cast<torch::ConstantOp>(op))
    return constant.getKind() == "constant";
  auto constant = dyn_cast<kernel::ConstantOp>(op);
  return constant && !constant.getNameAttr();
}

namespace {

struct OutlineExtern : kiln::externs::impl::OutlineExternBase<OutlineExtern> {
  explicit OutlineExtern(Session session) : session(std::move(session)) {}
  OutlineExtern(const OutlineExtern &other) : OutlineExternBase(other), session(other.session) {}

  LogicalResult initialize(MLIRContext *) override {
    if (!session)
      session = std::make_shared<ExternSession>();
    return success();
  }

  void runOnOperation() override {
    symbols.emplace(getOperation());
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      if (!getMark(function))
        outline(function);
    eraseInlined();
  }

private:
  void outline(func::FuncOp function) {
    llvm::MapVector<int64_t, SmallVector<Operation *>> groups;
    SmallVector<Operation *> calls;
    for (Operation &op : function.getBody().getOps()) {
      DictionaryAttr mark = getMark(&op);
      if (auto group = mark ? mark.getAs<IntegerAttr>("group") : IntegerAttr())
        groups[group.getInt()].push_back(&op);
      else if (getCallee(&op))
        calls.push_back(&op);
    }
    for (auto &[group, ops] : groups)
      outline(ops);
    for (Operation *call : calls)
      replaceCall(call);
  }

  /// A function that somebody else has marked as a whole.
  func::FuncOp getCallee(Operation *op) {
    StringRef name;
    if (auto call = dyn_cast<func::CallOp>(op))
      name = call.getCallee();
    else if (auto invoke = dyn_cast<kernel::InvokeOp>(op))
      name = invoke.getGraph();
    auto callee = name.empty() ? func::FuncOp() : symbols->lookup<func::FuncOp>(name);
    return callee && !callee.isExternal() && getMark(callee) ? callee : func::FuncOp();
  }

  void replaceCall(Operation *call) {
    func::FuncOp callee = getCallee(call);
    inlined.insert(callee);
    replace(call, callee.clone(), getMark(callee), llvm::to_vector(call->getOperands()),
            SmallVector<Value>(call->getResults()));
    call->erase();
  }

  /// `ops` in the order of their block.
  void outline(ArrayRef<Operation *> ops) {
    Operation *root = ops.back();
    DictionaryAttr mark = getMark(root);
    SmallVector<Value> results(root->getResults());
    if (auto numbers = mark.getAs<DenseI64ArrayAttr>("results")) {
      results.clear();
      for (size_t i = 0; i + 1 < static_cast<size_t>(numbers.size()); i += 2)
        results.push_back(ops[numbers[i]]->getResult(numbers[i + 1]));
    }
    llvm::SetVector<Value> operands;
    llvm::SetVector<Operation *> captured;
    collectOperands(ops, mark.contains("capture"), operands, captured);

    auto type = FunctionType::get(&getContext(), llvm::map_to_vector(operands, getType),
                                  llvm::map_to_vector(results, getType));
    auto function = func::FuncOp::create(root->getLoc(), "f", type);
    Block *body = function.addEntryBlock();
    IRMapping mapping;
    mapping.map(operands.getArrayRef(), body->getArguments());
    auto builder = OpBuilder::atBlockBegin(body);
    for (Operation *constant : captured)
      builder.clone(*constant, mapping);
    for (Operation *op : ops)
      builder.clone(*op, mapping);
    func::ReturnOp::create(builder, root->getLoc(), llvm::map_to_vector(results, [&](Value v) {
                             return mapping.lookup(v);
                           }));
    replace(root, function, mark, operands.getArrayRef(), results);
    for (Operation *op : llvm::reverse(ops))
      op->erase();
  }

  static Type getType(Value value) { return value.getType(); }

  /// Values that `ops`, and regions of theirs, read from outside.
  static void collectOperands(ArrayRef<Operation *> ops, bool captures,
                              llvm::SetVector<Value> &operands,
                              llvm::SetVector<Operation *> &captured) {
    llvm::SmallPtrSet<Operation *, 8> inside(ops.begin(), ops.end());
    Block *block = ops.front()->getBlock();
    for (Operation *op : ops)
      op->walk([&](Operation *nested) {
        for (Value operand : nested->getOperands()) {
          Operation *definer = operand.getDefiningOp();
          Block *home = operand.getParentBlock();
          if (home != block || (definer && inside.contains(definer)))
            continue;
          if (captures && definer && isFixed(definer))
            captured.insert(definer);
          else
            operands.insert(operand);
        }
      });
  }

  /// The function takes its place in the module, unless there is one like it; in front of `place`
  /// it is called.
  void replace(Operation *place, func::FuncOp function, DictionaryAttr mark,
               ArrayRef<Value> operands, ArrayRef<Value> results) {
    Builder b(&getContext());
    NamedAttrList kept;
    for (StringRef name : {"generator", "pattern", "inline"})
      if (Attribute value = mark.get(name))
        kept.set(name, value);
    for (NamedAttribute attr : llvm::to_vector(function->getDiscardableAttrs()))
      function->removeAttr(attr.getName());
    function->setAttr(markAttrName, kept.getDictionary(&getContext()));
    function.setPrivate();
    SmallVector<sym::Expr> known = canonicalize(function);
    func::FuncOp shared = share(function, mark);
    OpBuilder builder(place);
    auto call = kernel::InvokeExternOp::create(
        builder, place->getLoc(), llvm::map_to_vector(results, getType), shared.getSymName(),
        sym::ShapeAttr::get(&getContext(), known), operands);
    for (auto [i, value] : llvm::enumerate(call.getResults()))
      Value(results[i]).replaceAllUsesWith(value);
    ++getCounts(mark).subgraphs;
  }

  func::FuncOp share(func::FuncOp function, DictionaryAttr mark) {
    std::string structure = describeStructure(function);
    std::string cached = session->symbols.getName(getPrefix(mark), structure), name = cached;
    for (unsigned i = 1;; ++i) {
      Operation *taken = symbols->lookup(name);
      if (!taken)
        break;
      auto other = dyn_cast<func::FuncOp>(taken);
      if (other && !other.isExternal() && getMark(other) && other.isPrivate() &&
          describeStructure(other) == structure) {
        function.erase();
        return other;
      }
      name = cached + "_" + std::to_string(i);
    }
    function.setName(name);
    symbols->insert(function);
    ++getCounts(mark).functions;
    return function;
  }

  ExternCounts &getCounts(DictionaryAttr mark) {
    return session->counts[mark.getAs<StringAttr>("generator").getValue()];
  }

  /// Those that were marked as a whole, and that nothing else refers to.
  void eraseInlined() {
    for (Operation *function : inlined)
      if (SymbolTable::symbolKnownUseEmpty(function, getOperation()) &&
          cast<func::FuncOp>(function).isPrivate())
        symbols->erase(function);
    inlined.clear();
  }

  Session session;
  std::optional<SymbolTable> symbols;
  llvm::SetVector<Operation *> inlined;
};

} // namespace

std::unique_ptr<Pass> externs::createOutlineExtern(Session session) {
  return std::make_unique<OutlineExtern>(std::move(session));
}
