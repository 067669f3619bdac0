// torch-outline-vmap: turns what is computed inside vmap into a graph mapped over slices.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHOUTLINEVMAP
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {

constexpr StringLiteral prefix = "torch._functorch.predispatch.";

/// The part after the prefix of one of functorch's calls; empty for other ops.
StringRef getShortName(Operation *op) {
  auto call = dyn_cast<CallOp>(op);
  StringRef target = call ? call.getTarget() : StringRef();
  return target.consume_front(prefix) ? target : StringRef();
}

/// An argument that is a plain integer.
std::optional<int64_t> getInteger(CallOp call, unsigned i) {
  if (i >= call.getArgs().size())
    return std::nullopt;
  auto integer = dyn_cast<IntegerAttr>(call.getArgs()[i]);
  return integer ? std::optional(integer.getInt()) : std::nullopt;
}

/// The ops between entering and leaving one level of vmap.
struct Level {
  CallOp enter, leave;
  SmallVector<CallOp> adds, removes;
  SmallVector<Operation *> body;
};

struct OutlineVmap : kiln::impl::TorchOutlineVmapBase<OutlineVmap> {
  void runOnOperation() override {
    symbols.emplace(getOperation());
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (function.isExternal())
        continue;
      Block &block = function.getBody().front();
      for (Operation &op : llvm::make_early_inc_range(block))
        if (getShortName(&op) == "lazy_load_decompositions" && op.use_empty())
          op.erase();
      while (std::optional<Level> level = findInnermost(block))
        if (!outline(*level))
          break; // lowering refuses what is left
    }
  }

  static std::optional<Level> findInnermost(Block &block) {
    std::optional<Level> level;
    for (Operation &op : block) {
      StringRef name = getShortName(&op);
      if (name == "_vmap_increment_nesting") {
        level = Level{cast<CallOp>(op), {}, {}, {}, {}};
      } else if (level && name == "_vmap_decrement_nesting") {
        level->leave = cast<CallOp>(op);
        return level;
      } else if (level && name == "_add_batch_dim") {
        level->adds.push_back(cast<CallOp>(op));
      } else if (level && name == "_remove_batch_dim") {
        level->removes.push_back(cast<CallOp>(op));
      } else if (level && name.empty()) {
        level->body.push_back(&op);
      }
    }
    return std::nullopt;
  }

  /// The arguments are those that functorch gives them, and nothing but what is removed from the
  /// level is seen outside.
  static bool isPlain(const Level &level) {
    auto isTensorCall = [](CallOp call, unsigned numArgs) {
      return call.getArgs().size() == numArgs && call->getNumOperands() == 1 &&
             call->getNumResults() == 1 && isa<RankedTensorType>(call->getOperand(0).getType()) &&
             isa<RankedTensorType>(call->getResult(0).getType());
    };
    for (CallOp add : level.adds)
      if (!isTensorCall(add, 3) || !getInteger(add, 1))
        return false;
    for (CallOp remove : level.removes)
      if (!isTensorCall(remove, 4) || !getInteger(remove, 3))
        return false;
    llvm::SmallPtrSet<Operation *, 16> inside(level.body.begin(), level.body.end());
    inside.insert(level.removes.begin(), level.removes.end());
    auto seenInside = [&](Operation *op) {
      return llvm::all_of(op->getUsers(), [&](Operation *user) { return inside.contains(user); });
    };
    return !level.adds.empty() && llvm::all_of(level.adds, seenInside) &&
           llvm::all_of(level.body, seenInside);
  }

  bool outline(Level &level) {
    if (!isPlain(level))
      return false;
    OpBuilder builder(level.leave);
    Location loc = level.enter.getLoc();
    // Values that the body uses from outside go in as they are.
    llvm::SetVector<Value> invariants;
    llvm::SmallPtrSet<Operation *, 16> inside(level.body.begin(), level.body.end());
    inside.insert(level.adds.begin(), level.adds.end());
    auto use = [&](Value value) {
      if (!value.getDefiningOp() || !inside.contains(value.getDefiningOp()))
        invariants.insert(value);
    };
    for (Operation *op : level.body)
      for (Value operand : op->getOperands())
        use(operand);
    for (CallOp remove : level.removes)
      use(remove->getOperand(0));

    SmallVector<Value> operands, arguments;
    SmallVector<Attribute> slices, rest;
    auto argAttr = [&] { return ArgAttr::get(&getContext(), operands.size() - 1); };
    for (CallOp add : level.adds) {
      Value tensor = moveDim(add->getOperand(0), *getInteger(add, 1), 0, add, builder);
      if (!tensor)
        return false;
      operands.push_back(tensor);
      slices.push_back(argAttr());
      arguments.push_back(add->getResult(0));
    }
    for (Value value : invariants) {
      operands.push_back(value);
      rest.push_back(argAttr());
      arguments.push_back(value);
    }
    std::optional<SmallVector<Type>> types = getStackedTypes(level);
    if (!types)
      return false;
    func::FuncOp graph = createGraph(level, arguments, builder);
    ArrayAttr args =
        builder.getArrayAttr({FlatSymbolRefAttr::get(graph.getSymNameAttr()),
                              builder.getArrayAttr(slices), builder.getArrayAttr(rest)});
    auto map = HigherOrderOp::create(builder, loc, *types, builder.getStringAttr("map_impl"),
                                     operands, args, level.enter.getNodeAttr(), ArrayAttr(),
                                     ArrayAttr(), ArrayAttr());
    for (auto [remove, result] : llvm::zip_equal(level.removes, map->getResults())) {
      auto type = cast<RankedTensorType>(remove->getResult(0).getType());
      remove->getResult(0).replaceAllUsesWith(
          moveDim(result, 0, *getInteger(remove, 3), remove, builder, type));
    }
    for (CallOp remove : level.removes)
      remove.erase();
    for (Operation *op : llvm::reverse(level.body))
      op->erase();
    for (CallOp add : level.adds)
      add.erase();
    eraseCall(level.leave);
    eraseCall(level.enter);
    return true;
  }

  /// The results with the level's dim first.
  static std::optional<SmallVector<Type>> getStackedTypes(const Level &level) {
    SmallVector<Type> types;
    for (CallOp remove : level.removes) {
      auto type = cast<RankedTensorType>(remove->getResult(0).getType());
      auto element = cast<RankedTensorType>(remove->getOperand(0).getType());
      int64_t dim = *getInteger(remove, 3);
      if (dim < 0)
        dim += type.getRank();
      if (dim < 0 || dim >= type.getRank() || type.getRank() != element.getRank() + 1)
        return std::nullopt;
      SmallVector<sym::Expr> shape = sym::getShape(type);
      std::rotate(shape.begin(), shape.begin() + dim, shape.begin() + dim + 1);
      types.push_back(sym::getTensorType(shape, type.getElementType()));
    }
    return types;
  }

  func::FuncOp createGraph(Level &level, ArrayRef<Value> arguments, OpBuilder &builder) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(getOperation().getBody());
    SmallVector<Value> results;
    for (CallOp remove : level.removes)
      results.push_back(remove->getOperand(0));
    auto type =
        builder.getFunctionType(ValueRange(arguments).getTypes(), ValueRange(results).getTypes());
    auto graph = func::FuncOp::create(builder, level.enter.getLoc(), "vmap_body", type);
    graph.setPrivate();
    symbols->insert(graph);
    Block *block = graph.addEntryBlock();
    builder.setInsertionPointToStart(block);
    IRMapping mapping;
    mapping.map(arguments, block->getArguments());
    for (Operation *op : level.body)
      builder.clone(*op, mapping);
    SmallVector<Value> returned;
    for (Value result : results)
      returned.push_back(mapping.lookup(result));
    func::ReturnOp::create(builder, level.enter.getLoc(), returned);
    return graph;
  }

  /// `tensor` with dim `from` at place `to`; null if it has no such dim.
  static Value moveDim(Value tensor, int64_t from, int64_t to, CallOp call, OpBuilder &builder,
                       Type result = {}) {
    auto type = cast<RankedTensorType>(tensor.getType());
    auto wrap = [&](int64_t dim) { return dim < 0 ? dim + type.getRank() : dim; };
    int64_t first = wrap(from), last = wrap(to);
    if (first < 0 || last < 0 || first >= type.getRank() || last >= type.getRank())
      return {};
    if (first == last)
      return tensor;
    if (!result) {
      SmallVector<sym::Expr> shape = sym::getShape(type);
      sym::Expr size = shape[first];
      shape.erase(shape.begin() + first);
      shape.insert(shape.begin() + last, size);
      result = sym::getTensorType(shape, type.getElementType());
    }
    return CallOp::create(builder, call.getLoc(), result, "aten.movedim.int", tensor,
                          {ArgAttr::get(builder.getContext(), 0), builder.getI64IntegerAttr(first),
                           builder.getI64IntegerAttr(last)},
                          call.getNodeAttr())
        ->getResult(0);
  }

  /// Entering and leaving give None, which nobody uses.
  static void eraseCall(CallOp call) {
    if (call->use_empty())
      call.erase();
  }

  std::optional<SymbolTable> symbols;
};

} // namespace
