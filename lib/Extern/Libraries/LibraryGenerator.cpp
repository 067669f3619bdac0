// Generators whose code is calls of a library: functions become what their ops are described as.
#include "Calls.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

LibraryGenerator::LibraryGenerator(StringRef library, ArrayRef<Kind> kinds, Settings settings,
                                   int64_t workspace, ArrayRef<Attribute> more)
    : library(library), kinds(kinds), settings(settings), workspace(workspace), more(more) {
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
  for (func::FuncOp function : functions) {
    auto mark = function->getAttrOfType<DictionaryAttr>(markAttrName);
    auto pattern = mark.getAs<StringAttr>("pattern");
    const Kind *kind =
        llvm::find_if(kinds, [&](const Kind &known) { return known.pattern == pattern; });
    Operation *end = function.getBody().front().getTerminator();
    FailureOr<Call> call = failure();
    if (kind != kinds.end())
      call = kind->describe(end->getOperand(0).getDefiningOp(), settings);
    if (succeeded(call))
      function->setAttr(codeAttrName, makeCode(*call));
  }
  return success();
}

kernel::ExternCodeAttr LibraryGenerator::makeCode(const Call &call) const {
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
  llvm::append_range(args, more);
  auto bytes = workspace ? sym::ExprAttr::get(context, sym::Expr(workspace)) : sym::ExprAttr();
  return kernel::ExternCodeAttr::get(context, library, call.callee, ArrayAttr::get(context, args),
                                     bytes, DenseI64ArrayAttr());
}
