// Generators whose code is calls of a library: functions become what their ops are described as.
#include "Calls.h"
#include "kiln/Dialect/Kernel/Constants.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

LibraryGenerator::LibraryGenerator(StringRef library, ArrayRef<Kind> kinds, Settings settings,
                                   Extras extras)
    : library(library), kinds(kinds), settings(settings), extras(std::move(extras)) {
  for (const Kind &kind : kinds)
    patterns.push_back(
        {kind.pattern.str(), [&kind, settings](Operation *root) -> FailureOr<ExternMatch> {
           FailureOr<Call> call = kind.describe(root, settings);
           if (failed(call))
             return failure();
           return ExternMatch{call->ops, {call->result}};
         }});
}

LogicalResult LibraryGenerator::generate(ModuleOp, ArrayRef<func::FuncOp> functions) const {
  Settings marked = settings;
  marked.isMarked = true;
  for (func::FuncOp function : functions) {
    auto mark = function->getAttrOfType<DictionaryAttr>(markAttrName);
    auto pattern = mark.getAs<StringAttr>("pattern");
    const Kind *kind =
        llvm::find_if(kinds, [&](const Kind &known) { return known.pattern == pattern; });
    Operation *end = function.getBody().front().getTerminator();
    FailureOr<Call> call = failure();
    if (kind != kinds.end())
      call = kind->describe(end->getOperand(0).getDefiningOp(), marked);
    if (succeeded(call))
      function->setAttr(codeAttrName, makeCode(*call, function));
  }
  return success();
}

/// Memory begins at multiples of this in a workspace.
static constexpr int64_t alignment = 256;

static sym::Expr getBytes(Type type) {
  sym::Expr bytes = kernel::getElementBytes(getElementTypeOrSelf(type));
  for (sym::Expr size : sym::getShape(cast<RankedTensorType>(type)))
    bytes = bytes * size;
  return bytes + alignment;
}

kernel::ExternCodeAttr LibraryGenerator::makeCode(const Call &call, func::FuncOp function) const {
  MLIRContext *context = call.result.getContext();
  SmallVector<Attribute> args;
  for (const auto &argument : call.arguments) {
    const Value *tensor = std::get_if<Value>(&argument);
    if (!tensor)
      args.push_back(std::get<Attribute>(argument));
    else if (*tensor)
      args.push_back(sym::ArgAttr::get(context, cast<BlockArgument>(*tensor).getArgNumber()));
    else
      args.push_back(UnitAttr::get(context));
  }
  llvm::append_range(args, extras.arguments);
  sym::Expr workspace = extras.workspace;
  if (extras.hasCopies)
    for (Type type :
         llvm::concat<const Type>(function.getArgumentTypes(), function.getResultTypes()))
      workspace = workspace + getBytes(type);
  bool isEmpty = workspace.constant() == 0;
  auto bytes = isEmpty ? sym::ExprAttr() : sym::ExprAttr::get(context, workspace);
  return kernel::ExternCodeAttr::get(context, library, call.callee, ArrayAttr::get(context, args),
                                     bytes, DenseI64ArrayAttr());
}
