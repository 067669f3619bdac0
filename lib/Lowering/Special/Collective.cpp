// Collectives of several processes, as tensor-parallel programs have them.
#include "kiln/Dialect/Kernel/Collective.h"
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The number of processes that a call of the torch dialect says its group has.
static std::optional<int64_t> getStatedRanks(const torch::CallArgs &args) {
  if (args.has("group_size"))
    return args.integer("group_size");
  if (args.has("output_split_sizes"))
    if (size_t parts = args.symIntList("output_split_sizes").size())
      return parts;
  return std::nullopt;
}

/// The same of any call of that group, else what the compiler was told.
static std::optional<int64_t> findRanks(Call &call, StringRef group) {
  if (std::optional<int64_t> ranks = getStatedRanks(call.args))
    return ranks;
  std::optional<int64_t> found;
  auto module = call.args.op()->getParentOfType<ModuleOp>();
  module->walk([&](Operation *op) {
    if (auto other = dyn_cast<torch::CallOp>(op)) {
      torch::CallArgs args(other);
      if (args.has("group_name") && isa<StringAttr>(args.get("group_name")) &&
          args.string("group_name") == group)
        found = getStatedRanks(args);
    } else if (auto lowered = dyn_cast<kernel::CollectiveOp>(op);
               lowered && lowered.getGroup() == group) {
      found = lowered.getRanks();
    }
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (auto told = module->getAttrOfType<IntegerAttr>(kernel::ranksAttrName); told && !found)
    found = told.getInt();
  return found;
}

namespace {
/// A collective of one or, coalesced, of several tensors.
class Collective {
public:
  Collective(Call &call, StringRef kind) : call(call), kind(kind) {}

  LogicalResult run() {
    if (failed(readGroup()) || failed(readReduction()) || failed(readRoot()))
      return failure();
    SmallVector<Value> inputs =
        call.args.isList(0) ? call.args.tensorList(0) : SmallVector<Value>{call.tensor(0)};
    SmallVector<Value> results;
    for (Value input : inputs) {
      FailureOr<Value> result = lower(input);
      if (failed(result))
        return failure();
      results.push_back(*result);
    }
    return call.set(results);
  }

private:
  LogicalResult readGroup() {
    if (!isa_and_nonnull<StringAttr>(call.args.get("group_name")))
      return call.refuse("a group of processes that is not given by its name");
    group = call.args.string("group_name");
    if (group.size() > maxName || group.contains('\0'))
      return call.refuse("a group of processes with such a name");
    std::optional<int64_t> found = findRanks(call, group);
    if (!found)
      return call.refuse("the program does not say how many processes the group '" + group +
                         "' has (--ranks)");
    ranks = *found;
    return ranks >= 1 && ranks <= maxRanks
               ? success()
               : call.refuse("a group of " + Twine(ranks) + " processes");
  }

  LogicalResult readReduction() {
    if (!call.args.has("reduce_op"))
      return success();
    std::string given = call.args.string("reduce_op").lower();
    if (given == "mean") // a name of PyTorch's for it
      given = "avg";
    reduction = call.kernels.b().getStringAttr(given);
    return success();
  }

  LogicalResult readRoot() {
    if (!call.args.has("src"))
      return success();
    int64_t number = call.args.integer("src");
    if (number < 0 || number >= ranks)
      return call.refuse("rank " + Twine(number) + " of " + Twine(ranks));
    root = call.kernels.b().getI64IntegerAttr(number);
    return success();
  }

  /// The lengths of parts along dim 0, which add up to `size`.
  FailureOr<sym::ShapeAttr> readParts(const char *name, Expr size) {
    SmallVector<Expr> parts = call.args.symIntList(name);
    if (static_cast<int64_t>(parts.size()) != ranks)
      return call.refuse(Twine(parts.size()) + " parts for " + Twine(ranks) + " processes");
    for (Expr part : parts)
      call.require(part, "a part of " + Twine(name) + " is negative");
    if (!call.fits(sym::sum(parts), size, Twine(name) + " does not add up to the rows"))
      return call.refuse(Twine(name) + " does not add up to the rows");
    return sym::ShapeAttr::get(call.kernels.b().getContext(), parts);
  }

  FailureOr<Value> lower(Value input) {
    if (!input)
      return call.refuse("None as an input");
    Exprs shape = shapeOf(input);
    Type type = elementType(input);
    if (reduction)
      if (StringRef reason = kernel::CollectiveOp::checkReduction(reduction.getValue(), type);
          !reason.empty())
        return call.refuse("'" + reduction.getValue() + "': " + reason);
    bool isCut = kind != "all_reduce" && kind != "broadcast";
    if (isCut && shape.empty())
      return call.refuse("a tensor without dims");
    sym::ShapeAttr send, receive;
    if (kind == "reduce_scatter" && !call.fits(shape[0].floorDiv(ranks) * ranks, shape[0],
                                               "rows that cannot be divided among the processes"))
      return call.refuse("rows that cannot be divided among " + Twine(ranks) + " processes");
    if (kind == "all_to_all") {
      FailureOr<sym::ShapeAttr> from = readParts("input_split_sizes", shape[0]);
      FailureOr<sym::ShapeAttr> to = readParts("output_split_sizes", call.resultShape()[0]);
      if (failed(from) || failed(to))
        return failure();
      send = *from;
      receive = *to;
    }
    SmallVector<Expr> result = kernel::CollectiveOp::getResultShape(kind, shape, ranks, receive);
    ImplicitLocOpBuilder &b = call.kernels.b();
    return kernel::CollectiveOp::create(b, sym::getTensorType(result, type), b.getStringAttr(kind),
                                        input, reduction, root, send, receive,
                                        b.getStringAttr(group), b.getI64IntegerAttr(ranks))
        .getResult();
  }

  static constexpr size_t maxName = 256;
  static constexpr int64_t maxRanks = 1 << 20;

  Call &call;
  StringRef kind, group;
  int64_t ranks = 0;
  StringAttr reduction;
  IntegerAttr root;
};
} // namespace

static Lowering collective(StringRef kind) {
  return [kind](Call &call) { return Collective(call, kind).run(); };
}

/// A collective is over when its step is, so there is nothing to wait for.
static LogicalResult lowerWait(Call &call) { return call.set(call.tensor(0)); }

void lowering::registerCollective(LoweringTable &table) {
  table.add(
      {"_c10d_functional.all_reduce.default", "_c10d_functional.all_reduce_coalesced.default"},
      collective("all_reduce"));
  table.add({"_c10d_functional.all_gather_into_tensor.default",
             "_c10d_functional.all_gather_into_tensor_coalesced.default"},
            collective("all_gather"));
  table.add({"_c10d_functional.reduce_scatter_tensor.default",
             "_c10d_functional.reduce_scatter_tensor_coalesced.default"},
            collective("reduce_scatter"));
  table.add("_c10d_functional.all_to_all_single.default", collective("all_to_all"));
  table.add("_c10d_functional.broadcast.default", collective("broadcast"));
  table.add(
      {"_c10d_functional.wait_tensor.default", "_c10d_functional._wrap_tensor_autograd.default"},
      lowerWait);
}
