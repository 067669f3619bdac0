// Reads declarations of C functions. Everything that a program could be matched wrongly by is found
// here, with its line and column.
#include "Declaration.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Extern/ExternGenerator.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

std::string Declaration::getSignature() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto print = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    stream << tensor.getElementType() << '[';
    llvm::interleaveComma(sym::getShape(tensor), stream);
    stream << ']';
  };
  func::FuncOp function = subgraph;
  stream << '(';
  llvm::interleaveComma(function.getArgumentTypes(), stream, print);
  stream << ") -> ";
  if (function.getNumResults() != 1)
    stream << '(';
  llvm::interleaveComma(function.getResultTypes(), stream, print);
  if (function.getNumResults() != 1)
    stream << ')';
  return text;
}

static bool isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

namespace {

/// Checks one function of a file.
class Reader {
public:
  explicit Reader(func::FuncOp function) : function(function) {
    declaration.subgraph = function;
    declaration.workspace = 0;
  }

  FailureOr<Declaration> read() {
    if (failed(readAttributes()) || failed(checkBody()))
      return failure();
    collectSymbols();
    auto check = [&](sym::Expr expr, StringRef where) -> LogicalResult {
      LogicalResult known = success();
      expr.walkLeaves([&](sym::Expr leaf) {
        if (succeeded(known) && !bound.contains(leaf))
          known = function.emitError() << where << ": " << leaf.str()
                                       << " is no size of an argument and no argument of a call";
      });
      return known;
    };
    if (failed(check(declaration.workspace, "workspace")))
      return failure();
    for (sym::Expr expr : declaration.where)
      if (failed(check(expr, "where")))
        return failure();
    for (Type type : function.getResultTypes())
      for (sym::Expr size : sym::getShape(cast<RankedTensorType>(type)))
        if (failed(check(size, "a result")))
          return failure();
    return std::move(declaration);
  }

private:
  LogicalResult readAttributes() {
    auto given = function->getAttrOfType<DictionaryAttr>(markAttrName);
    if (!given)
      return function.emitError("expected kernel.extern = {symbol = \"FUNCTION\", ...}");
    for (NamedAttribute attr : given)
      if (failed(readAttribute(attr.getName(), attr.getValue())))
        return failure();
    if (declaration.symbol.empty())
      return function.emitError("no `symbol`, the name of a C function");
    return success();
  }

  LogicalResult readAttribute(StringRef name, Attribute value) {
    auto fail = [&](StringRef expected) {
      return function.emitError() << "`" << name << "`: expected " << expected;
    };
    if (name == "symbol") {
      auto text = dyn_cast<StringAttr>(value);
      if (!text || !isIdentifier(text) || text.getValue().starts_with("kiln_"))
        return fail("the name of a C function, not one that begins with kiln_");
      declaration.symbol = text.str();
    } else if (name == "workspace") {
      if (auto expr = dyn_cast<sym::ExprAttr>(value))
        declaration.workspace = expr.getValue();
      else if (auto number = dyn_cast<IntegerAttr>(value); number && number.getInt() >= 0)
        declaration.workspace = number.getInt();
      else
        return fail("a number of bytes or #sym.expr");
    } else if (name == "where") {
      auto list = dyn_cast<ArrayAttr>(value);
      for (Attribute one : list ? list : ArrayAttr::get(value.getContext(), value)) {
        auto expr = dyn_cast<sym::ExprAttr>(one);
        if (!expr)
          return fail("a list of #sym.expr, each at least zero");
        declaration.where.push_back(expr.getValue());
      }
    } else if (name == "args") {
      declaration.args = dyn_cast<ArrayAttr>(value);
      if (!declaration.args)
        return fail("a list of what the function is given");
      return sym::verifyArguments(declaration.args, function.getNumArguments(),
                                  [&] { return function.emitError("`args`: "); });
    } else if (name == "writes") {
      auto list = dyn_cast<DenseI64ArrayAttr>(value);
      if (!list || list.size() > function.getNumResults())
        return fail("array<i64: …> of arguments, which are the last results");
      llvm::append_range(declaration.writes, list.asArrayRef());
      for (auto [argument, type] : llvm::zip_equal(
               declaration.writes, TypeRange(function.getResultTypes()).take_back(list.size())))
        if (argument < 0 || argument >= function.getNumArguments() ||
            function.getArgument(argument).getType() != type)
          return fail("arguments with the types of the last results");
    } else {
      return function.emitError() << "`" << name
                                  << "`: expected symbol, workspace, where, args or writes";
    }
    return success();
  }

  LogicalResult checkBody() {
    if (function.isExternal() || function.getBody().getBlocks().size() != 1)
      return function.emitError("expected a body: the subgraph that the function computes");
    Block &body = function.getBody().front();
    for (Value argument : body.getArguments()) {
      if (!isa<RankedTensorType>(argument.getType()))
        return function.emitError("an argument is no tensor");
      if (argument.use_empty())
        return function.emitError()
               << "argument number " << cast<BlockArgument>(argument).getArgNumber()
               << " is not part of the subgraph";
    }
    auto end = dyn_cast<func::ReturnOp>(body.getTerminator());
    if (!end || end.getNumOperands() == 0)
      return function.emitError("the subgraph has no result");
    llvm::SmallPtrSet<Operation *, 8> reached;
    for (Value result : end.getOperands())
      if (!result.getDefiningOp() || !isa<RankedTensorType>(result.getType()))
        return end.emitError("a result is no tensor that the subgraph computes");
    reach(end.getOperand(0).getDefiningOp(), reached);
    for (Operation &op : body.without_terminator()) {
      auto call = dyn_cast<torch::CallOp>(op);
      if (!call || call.getDefines() || call.getUpdates())
        return op.emitError("expected torch.call that defines no symbol and writes nothing");
      if (!reached.contains(&op))
        return op.emitError("is not needed for the first result, so that it cannot be found");
    }
    return success();
  }

  static void reach(Operation *op, llvm::SmallPtrSetImpl<Operation *> &reached) {
    if (!op || !reached.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      reach(operand.getDefiningOp(), reached);
  }

  /// Symbols that a match gives a value: those that stand alone as a size or as an argument.
  void collectSymbols() {
    auto add = [&](sym::Expr expr) {
      if (expr.kind() == sym::Kind::Symbol)
        bound.insert(expr);
    };
    for (Value argument : function.getArguments())
      llvm::for_each(sym::getShape(argument), add);
    for (auto call : function.getBody().getOps<torch::CallOp>()) {
      call.getArgs().walk([&](sym::ExprAttr attr) { add(attr.getValue()); });
      for (Value result : call.getResults())
        if (isa<RankedTensorType>(result.getType()))
          llvm::for_each(sym::getShape(result), add);
    }
  }

  func::FuncOp function;
  Declaration declaration;
  llvm::DenseSet<sym::Expr> bound;
};

} // namespace

llvm::Error externs::readDeclarations(StringRef path, MLIRContext *context,
                                      std::vector<OwningOpRef<ModuleOp>> &modules,
                                      std::vector<Declaration> &declarations) {
  if (!llvm::sys::fs::exists(path))
    return llvm::createStringError("'" + path + "': there is no such file");
  std::string problem;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error || !problem.empty())
      return success();
    llvm::raw_string_ostream stream(problem);
    if (auto location = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
      stream << location.getFilename().getValue() << ':' << location.getLine() << ':'
             << location.getColumn() << ": ";
    stream << diagnostic;
    return success();
  });
  auto fail = [&] { return llvm::createStringError(problem.empty() ? path.str() : problem); };
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, context);
  if (!module)
    return fail();
  for (Operation &op : *module->getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      op.emitError("expected func.func");
    FailureOr<Declaration> declaration = failure();
    if (function)
      declaration = Reader(function).read();
    if (failed(declaration))
      return fail();
    declarations.push_back(std::move(*declaration));
  }
  if (module->getBody()->empty())
    return llvm::createStringError("'" + path + "' declares nothing");
  modules.push_back(std::move(module));
  return llvm::Error::success();
}
