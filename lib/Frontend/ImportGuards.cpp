// Guards, the assumptions of export about the inputs: Python conditions on their sizes, strides and
// values.
#include "FloatExpr.h"
#include "Importer.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/OpSchema.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/StringExtras.h"
#include <functional>

using namespace mlir;
using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

namespace {

/// The inputs of a program by the paths that guards call them.
class GuardInputs {
public:
  explicit GuardInputs(const ExportedProgram &program) : program(program) {}

  /// Export names an input after its path: ['past'][0] is past_0. What was traced through dynamo
  /// counts inputs instead: ['flat_args'][3].
  const Argument *find(ArrayRef<StringRef> path) const {
    unsigned number;
    if (path.size() == 2 && path[0] == "flat_args" && !path[1].getAsInteger(10, number)) {
      for (auto [spec, input] : llvm::zip(program.inputSpecs, program.graph.inputs))
        if ((spec.kind == InputKind::User || spec.kind == InputKind::Constant) && number-- == 0)
          return &input;
      return nullptr;
    }
    std::string name;
    for (StringRef key : path) {
      name += name.empty() ? "" : "_";
      for (char c : key)
        name += isAlnum(c) ? toLower(c) : '_';
    }
    for (auto [spec, input] : llvm::zip(program.inputSpecs, program.graph.inputs))
      if (spec.kind == InputKind::User && spec.name == name)
        return &input;
    return nullptr;
  }

  StringRef nameOf(ArrayRef<StringRef> path) const {
    const Argument *input = find(path);
    for (auto [spec, other] : llvm::zip(program.inputSpecs, program.graph.inputs))
      if (&other == input)
        return spec.name;
    return "";
  }

  /// `L['past'][0].size()[2] > 1` as `past_0.size()[2] > 1`.
  std::string readable(StringRef guard) const {
    std::string result;
    while (true) {
      auto [before, rest] = guard.split("L['");
      result += before;
      if (before.size() == guard.size())
        return result;
      rest = guard.drop_front(before.size() + 1);
      StringRef start = rest;
      SmallVector<StringRef> path;
      while (rest.starts_with("[") && rest.contains(']')) {
        path.push_back(rest.slice(1, rest.find(']')).trim("'\""));
        rest = rest.drop_front(rest.find(']') + 1);
      }
      StringRef name = nameOf(path);
      result += name.empty() ? ("L" + start.drop_back(rest.size())).str() : name.str();
      guard = rest;
    }
  }

private:
  const ExportedProgram &program;
};

} // namespace

/// Nobody can tell a view from a copy unless something is written.
static bool mayWrite(Operation *op) {
  if (auto call = dyn_cast<torch::CallOp>(op)) {
    const torch::OpSchema *schema = torch::lookupSchema(call.getTarget());
    return !schema || schema->mutates();
  }
  return isa<torch::HigherOrderOp>(op) &&
         cast<torch::HigherOrderOp>(op).getTarget().contains("auto_functionalized");
}

llvm::DenseSet<Expr> Importer::symbolsInUse() {
  llvm::DenseSet<Expr> used;
  bool hasWrites = module->getBody()
                       ->walk([](Operation *op) {
                         return mayWrite(op) ? WalkResult::interrupt() : WalkResult::advance();
                       })
                       .wasInterrupted();
  auto add = [&](Expr expr) { expr.walkLeaves([&](Expr leaf) { used.insert(leaf); }); };
  AttrTypeWalker walker;
  walker.addWalk([&](sym::ExprAttr expr) { add(expr.getValue()); });
  walker.addWalk([&](sym::ShapeAttr shape) { llvm::for_each(shape.getSizes(), add); });
  module->getBody()->walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      walker.walk(type);
    auto call = dyn_cast<torch::CallOp>(op);
    bool isValue = call && !hasWrites && !call.getTarget().starts_with("aten.as_strided") &&
                   !call.getTarget().starts_with("aten.resize");
    for (NamedAttribute attr : op->getAttrs()) {
      auto func = dyn_cast<func::FuncOp>(op);
      if (isValue && (attr.getName() == torch::stridesAttrName ||
                      attr.getName() == torch::storageOffsetAttrName))
        continue;
      if (!func || attr.getName() != func.getArgAttrsAttrName()) {
        walker.walk(attr.getValue());
        continue;
      }
      for (auto argument : func.getArgAttrsAttr().getAsRange<DictionaryAttr>())
        for (NamedAttribute property : argument)
          if (property.getName() != torch::stridesAttrName)
            walker.walk(property.getValue());
    }
  });
  return used;
}

llvm::DenseSet<Expr> Importer::inputSizes() {
  llvm::DenseSet<Expr> sizes;
  for (Type type : module->lookupSymbol<func::FuncOp>("main").getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      sizes.insert_range(sym::getShape(tensor));
  return sizes;
}

bool Importer::dependsOnlyOn(Expr expr, const llvm::DenseSet<Expr> &symbols) {
  bool all = true;
  expr.walkLeaves([&](Expr leaf) { all &= symbols.contains(leaf); });
  return all;
}

/// A condition with floats, in integers. `unreadable` says why it is no condition of integers.
Expected<Expr> Importer::readFloats(StringRef text, InputLookup inputs,
                                    const llvm::DenseSet<Expr> &used, StringRef readable,
                                    Error unreadable) {
  Expected<FloatExpr> floats = FloatExpr::parse(text, inputs);
  if (!floats)
    return consumeError(floats.takeError()), std::move(unreadable);
  llvm::SetVector<Expr> leaves;
  for (Expr expr : floats->leaves())
    expr.walkLeaves([&](Expr leaf) { leaves.insert(leaf); });
  bool isIrrelevant = llvm::any_of(leaves, [&](Expr leaf) { return !used.contains(leaf); });
  bool isAsserted = !isIrrelevant && leaves.size() > 1;
  if (isAsserted && !assertFloats(*floats, readable))
    return unreadable;
  consumeError(std::move(unreadable));
  if (isIrrelevant || isAsserted)
    return 0;         // always holds
  if (leaves.empty()) // of sizes that export has made constants
    return floats->toIntegers(0, {0, 0});
  auto ranges = (*module)->getAttrOfType<DictionaryAttr>(torch::symbolsAttrName);
  auto range = ranges ? ranges.getAs<DictionaryAttr>(leaves[0].symbolName()) : DictionaryAttr();
  auto bound = [&](StringRef name) -> std::optional<int64_t> {
    auto value = range ? range.getAs<IntegerAttr>(name) : IntegerAttr();
    return value ? std::optional(value.getInt()) : std::nullopt;
  };
  return floats->toIntegers(leaves[0], {bound("min"), bound("max")});
}

void Importer::widenBoundedRanges(InputLookup inputs) {
  auto ranges = (*module)->getAttrOfType<DictionaryAttr>(torch::symbolsAttrName);
  if (!ranges)
    return;
  sym::Assumptions known;
  kernel::addSymbolRanges(*module, known);
  SmallVector<Expr> candidates;
  for (Expr size : inputSizes())
    if (sym::Range range = known.rangeOf(size);
        size.kind() == sym::Kind::Symbol && range.min == 2 && range.max)
      candidates.push_back(size);
  if (candidates.empty())
    return;

  NamedAttrList widened(ranges);
  auto widenAll = [&](Expr condition) {
    for (Expr symbol : candidates) {
      Expr bound = condition + symbol;
      if (!condition.dependsOn(symbol) || bound.dependsOn(symbol) ||
          known.rangeOf(bound).max != known.rangeOf(symbol).max)
        continue;
      NamedAttrList range(ranges.getAs<DictionaryAttr>(symbol.symbolName()));
      range.set("min", builder.getI64IntegerAttr(0));
      widened.set(symbol.symbolName(), range.getDictionary(&context));
    }
  };
  for (const std::string &text : program.guardsCode) {
    Expected<Expr> condition = symbols.readCondition(text, inputs);
    if (condition)
      widenAll(*condition);
    else
      consumeError(condition.takeError()); // it may be one of floats
  }
  module->getBody()->walk([&](torch::CallOp call) {
    ArrayRef<Attribute> args = call.getArgs().getValue();
    auto left = args.size() == 2 ? dyn_cast<sym::ExprAttr>(args[0]) : sym::ExprAttr();
    auto right = left ? dyn_cast<IntegerAttr>(args[1]) : IntegerAttr();
    bool isAsserted = llvm::any_of(call->getUsers(), [](Operation *user) {
      auto check = dyn_cast<torch::CallOp>(user);
      return check && check.getTarget().starts_with("aten._assert_scalar");
    });
    if (right && isAsserted && call.getTarget() == "_operator.le")
      widenAll(Expr(right.getInt()) - left.getValue());
  });
  (*module)->setAttr(torch::symbolsAttrName, widened.getDictionary(&context));
}

Error Importer::importGuards(const llvm::DenseSet<Expr> &used) {
  GuardInputs inputs(program);
  SmallVector<Attribute> guards;
  std::function<void(Expr, StringRef)> add = [&](Expr condition, StringRef text) {
    if (!dependsOnlyOn(condition, used)) {
      // The other parts of an `and` may still say something of the program.
      if (condition.kind() == sym::Kind::Min)
        for (Expr part : condition.operands())
          add(part, text);
      return;
    }
    NamedAttrList attrs;
    attrs.set("expr", sym::ExprAttr::get(&context, condition));
    attrs.set("text", builder.getStringAttr(text));
    guards.push_back(attrs.getDictionary(&context));
  };
  for (Expr assumption : symbols.assumptions())
    add(assumption, "a size that is multiplied by a float is at most 65536");
  unsigned numOfBases = 0;
  auto lookup = [&](const InputProperty &property) -> std::optional<Expr> {
    if (property.kind == InputProperty::OfBase)
      // Unknown here, and unrelated to all else: a model gets tensors, not what they are views
      // of.
      return Expr::symbol("view.base." + std::to_string(numOfBases++));
    const SymInt *value = nullptr;
    const Argument *input = inputs.find(property.path);
    if (!input)
      return std::nullopt;
    if (auto *tensor = std::get_if<TensorRef>(&input->value)) {
      auto it = program.graph.tensorValues.find(tensor->name);
      if (it == program.graph.tensorValues.end())
        return std::nullopt;
      const TensorMeta &meta = it->second;
      if (property.kind == InputProperty::StorageOffset)
        value = &meta.storageOffset;
      else if (property.kind == InputProperty::Size && property.dim < meta.sizes.size())
        value = &meta.sizes[property.dim];
      else if (property.kind == InputProperty::Stride && property.dim < meta.strides.size())
        value = &meta.strides[property.dim];
    } else if (auto *number = std::get_if<SymIntRef>(&input->value)) {
      const std::string *name = std::get_if<std::string>(&number->value);
      auto it = name ? program.graph.symIntValues.find(*name) : program.graph.symIntValues.end();
      if (property.kind == InputProperty::Value && it != program.graph.symIntValues.end())
        value = &it->second;
    } else if (auto *constant = std::get_if<int64_t>(&input->value)) {
      return Expr(*constant);
    }
    if (!value)
      return std::nullopt;
    Expected<Expr> expr = integer(*value);
    if (expr)
      return *expr;
    consumeError(expr.takeError());
    return std::nullopt;
  };
  widenBoundedRanges(lookup);
  for (const std::string &text : program.guardsCode) {
    std::string readable = inputs.readable(text);
    Expected<Expr> condition = symbols.readCondition(text, lookup);
    if (!condition)
      condition = readFloats(text, lookup, used, readable, condition.takeError());
    if (!condition)
      return fail("guard '" + readable + "': " + toString(condition.takeError()));
    add(correct(*condition), readable);
  }
  if (!guards.empty())
    (*module)->setAttr(torch::guardsAttrName, builder.getArrayAttr(guards));
  return Error::success();
}
