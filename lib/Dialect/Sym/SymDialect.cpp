// The attributes of the sym dialect, and the symbolic shapes of tensor types.
#include "kiln/Dialect/Sym/SymDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::sym;

#include "kiln/Dialect/Sym/SymDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Sym/SymAttributes.cpp.inc"

void SymDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Dialect/Sym/SymAttributes.cpp.inc"
      >();
}

//===-- Tensor types -------------------------------------------------------------------------===//

SmallVector<Expr> sym::getShape(RankedTensorType type) {
  if (auto shape = dyn_cast_or_null<ShapeAttr>(type.getEncoding()))
    return SmallVector<Expr>(shape.getSizes());
  SmallVector<Expr> sizes;
  for (int64_t size : type.getShape())
    sizes.push_back(ShapedType::isDynamic(size) ? Expr::invalid() : Expr(size));
  return sizes;
}

SmallVector<Expr> sym::getShape(Value tensor) {
  return getShape(cast<RankedTensorType>(tensor.getType()));
}

RankedTensorType sym::getTensorType(ArrayRef<Expr> shape, Type elementType) {
  SmallVector<int64_t> sizes;
  bool isStatic = true;
  for (Expr size : shape) {
    sizes.push_back(size.constant().value_or(ShapedType::kDynamic));
    isStatic &= size.isConstant();
  }
  Attribute encoding;
  if (!isStatic)
    encoding = ShapeAttr::get(elementType.getContext(), shape);
  return RankedTensorType::get(sizes, elementType, encoding);
}

LogicalResult ShapeAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                        function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getSizes().size())
    return emitError() << "#sym.shape lists " << getSizes().size() << " sizes for a tensor of rank "
                       << shape.size();
  for (auto [i, size] : llvm::enumerate(shape))
    if (getSizes()[i].constant().value_or(ShapedType::kDynamic) != size)
      return emitError() << "#sym.shape disagrees with dimension " << i << " of the tensor type";
  return success();
}

//===-- Symbols ------------------------------------------------------------------------------===//

SymbolCollector::SymbolCollector() {
  walker.addWalk([this](ExprAttr attr) { add(attr.getValue()); });
  walker.addWalk([this](ShapeAttr attr) { add(attr.getSizes()); });
  walker.addWalk([this](MapAttr attr) { add(attr.getResults()); });
}

void SymbolCollector::add(ArrayRef<Expr> exprs) {
  for (Expr expr : exprs)
    expr.walkLeaves([&](Expr leaf) {
      if (leaf.kind() == Kind::Symbol)
        symbols.insert(leaf);
    });
}

void SymbolCollector::add(Operation *op) {
  op->walk([&](Operation *inner) {
    for (NamedAttribute attr : inner->getAttrs())
      walker.walk(attr.getValue());
    for (Type type : inner->getResultTypes())
      walker.walk(type);
  });
}

//===-- Textual form -------------------------------------------------------------------------===//
// The grammar of Expr::parse, on MLIR's tokens.

namespace {

constexpr int maxNesting = 200;

class ExprParser {
public:
  explicit ExprParser(AsmParser &parser) : parser(parser) {}

  ParseResult sum(Expr &result, int depth = 0) {
    if (depth > maxNesting)
      return parser.emitError(parser.getCurrentLocation(), "expression is nested too deeply");
    if (term(result, depth))
      return failure();
    while (true) {
      Expr rhs;
      if (succeeded(parser.parseOptionalPlus())) {
        if (term(rhs, depth))
          return failure();
        result = result + rhs;
      } else if (succeeded(parser.parseOptionalMinus())) {
        if (term(rhs, depth))
          return failure();
        result = result - rhs;
      } else {
        return success();
      }
    }
  }

private:
  ParseResult term(Expr &result, int depth) {
    if (factor(result, depth))
      return failure();
    while (true) {
      Expr rhs;
      if (succeeded(parser.parseOptionalStar())) {
        if (factor(rhs, depth))
          return failure();
        result = result * rhs;
        continue;
      }
      StringRef op;
      if (failed(parser.parseOptionalKeyword(&op, {"floordiv", "ceildiv", "mod"})))
        return success();
      if (factor(rhs, depth))
        return failure();
      result = op == "floordiv" ? result.floorDiv(rhs)
               : op == "mod"    ? result.mod(rhs)
                                : result.ceilDiv(rhs);
    }
  }

  ParseResult factor(Expr &result, int depth) {
    if (depth > maxNesting)
      return parser.emitError(parser.getCurrentLocation(), "expression is nested too deeply");
    if (succeeded(parser.parseOptionalMinus())) {
      if (factor(result, depth + 1))
        return failure();
      result = -result;
      return success();
    }
    if (succeeded(parser.parseOptionalLParen()))
      return failure(failed(sum(result, depth + 1)) || failed(parser.parseRParen()));
    int64_t value;
    OptionalParseResult integer = parser.parseOptionalInteger(value);
    if (integer.has_value()) {
      result = value;
      return *integer;
    }
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    if (name == "min" || name == "max")
      return minMax(name == "min", result, depth);
    unsigned dim;
    if (name.size() > 1 && name[0] == 'd' && !name.drop_front().getAsInteger(10, dim))
      result = Expr::dim(dim);
    else
      result = Expr::symbol(name);
    return success();
  }

  ParseResult minMax(bool isMin, Expr &result, int depth) {
    bool first = true;
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&]() -> ParseResult {
      Expr operand;
      if (sum(operand, depth + 1))
        return failure();
      result = first ? operand : isMin ? Expr::min(result, operand) : Expr::max(result, operand);
      first = false;
      return success();
    });
  }

  AsmParser &parser;
};

} // namespace

ParseResult sym::parseExpr(AsmParser &parser, Expr &expr) {
  SMLoc loc = parser.getCurrentLocation();
  if (ExprParser(parser).sum(expr))
    return failure();
  if (!expr.isValid())
    return parser.emitError(loc, "expression overflows 64 bits or divides by zero");
  return success();
}

ParseResult sym::parseExprList(AsmParser &parser, SmallVectorImpl<Expr> &exprs,
                               AsmParser::Delimiter delimiter) {
  return parser.parseCommaSeparatedList(delimiter,
                                        [&] { return parseExpr(parser, exprs.emplace_back()); });
}

ParseResult sym::parseIndexMap(AsmParser &parser, IndexMap &map) {
  map = IndexMap();
  auto parseDim = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    if (name != "d" + std::to_string(map.numDims))
      return parser.emitError(loc, "expected dim 'd") << map.numDims << "'";
    ++map.numDims;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseDim) || parser.parseArrow())
    return failure();
  return parseExprList(parser, map.results, AsmParser::Delimiter::Paren);
}

ParseResult sym::parseIndexMap(OpAsmParser &parser, MapAttr &attr) {
  IndexMap map;
  if (parseIndexMap(parser, map))
    return failure();
  attr = MapAttr::get(parser.getContext(), map);
  return success();
}

void sym::printIndexMap(OpAsmPrinter &printer, Operation *, MapAttr map) {
  map.getMap().print(printer.getStream());
}

ParseResult sym::parseSize(OpAsmParser &parser, ExprAttr &attr) {
  Expr expr;
  if (parseExpr(parser, expr))
    return failure();
  attr = ExprAttr::get(parser.getContext(), expr);
  return success();
}

void sym::printSize(OpAsmPrinter &printer, Operation *, ExprAttr size) {
  size.getValue().print(printer.getStream());
}

static void printList(raw_ostream &os, ArrayRef<Expr> exprs) {
  os << '[';
  llvm::interleaveComma(exprs, os);
  os << ']';
}

ParseResult sym::parseExprList(OpAsmParser &parser, ShapeAttr &attr) {
  SmallVector<Expr> exprs;
  if (parseExprList(parser, exprs, AsmParser::Delimiter::Square))
    return failure();
  attr = ShapeAttr::get(parser.getContext(), exprs);
  return success();
}

void sym::printExprList(OpAsmPrinter &printer, Operation *, ShapeAttr shape) {
  printList(printer.getStream(), shape.getSizes());
}

Attribute ExprAttr::parse(AsmParser &parser, Type) {
  Expr expr;
  if (parser.parseLess() || parseExpr(parser, expr) || parser.parseGreater())
    return {};
  return get(parser.getContext(), expr);
}
void ExprAttr::print(AsmPrinter &printer) const { printer.getStream() << '<' << getValue() << '>'; }

Attribute ShapeAttr::parse(AsmParser &parser, Type) {
  SmallVector<Expr> exprs;
  if (parser.parseLess() || parseExprList(parser, exprs, AsmParser::Delimiter::Square) ||
      parser.parseGreater())
    return {};
  return get(parser.getContext(), exprs);
}
void ShapeAttr::print(AsmPrinter &printer) const {
  printer.getStream() << '<';
  printList(printer.getStream(), getSizes());
  printer.getStream() << '>';
}

Attribute MapAttr::parse(AsmParser &parser, Type) {
  IndexMap map;
  if (parser.parseLess() || parseIndexMap(parser, map) || parser.parseGreater())
    return {};
  return get(parser.getContext(), map);
}
void MapAttr::print(AsmPrinter &printer) const {
  printer.getStream() << '<';
  getMap().print(printer.getStream());
  printer.getStream() << '>';
}
