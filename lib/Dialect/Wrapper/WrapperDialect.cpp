// The wrapper dialect, and the parts of its programs: constants, folds, named sizes.
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

#include "kiln/Dialect/Wrapper/WrapperDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "kiln/Dialect/Wrapper/WrapperTypes.cpp.inc"

void WrapperDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "kiln/Dialect/Wrapper/WrapperTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kiln/Dialect/Wrapper/WrapperOps.cpp.inc"
      >();
}

llvm::DenseMap<sym::Expr, sym::Expr> wrapper::getNamedSizes(DictionaryAttr symbols) {
  llvm::DenseMap<sym::Expr, sym::Expr> names;
  for (NamedAttribute symbol : symbols ? symbols.getValue() : ArrayRef<NamedAttribute>())
    if (auto properties = dyn_cast<DictionaryAttr>(symbol.getValue()))
      if (auto size = properties.getAs<sym::ExprAttr>(sizeAttrName))
        names[size.getValue()] = sym::Expr::symbol(symbol.getName());
  return names;
}

int64_t wrapper::getElementBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * getElementBytes(complex.getElementType());
  if (!type.isIntOrFloat())
    return 0;
  unsigned bits = type.getIntOrFloatBitWidth();
  return bits == 1 ? 1 : bits % 8 ? 0 : bits / 8;
}

sym::Expr wrapper::alignBytes(sym::Expr bytes) {
  return bytes.ceilDiv(bufferAlignment) * bufferAlignment;
}

wrapper::SymbolCollector::SymbolCollector() {
  walker.addWalk([this](BufferType type) {
    add(type.getSizes());
    add(type.getStrides());
  });
}

Value wrapper::getStorage(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>())
    buffer = view.getBuffer();
  return buffer;
}

SmallVector<Operation *> wrapper::getStorageUsers(Value buffer) {
  SmallVector<Operation *> users;
  SmallVector<Value> names = {getStorage(buffer)};
  while (!names.empty())
    for (Operation *user : names.pop_back_val().getUsers()) {
      if (auto view = dyn_cast<ViewOp>(user))
        names.push_back(view);
      else
        users.push_back(user);
    }
  return users;
}

//===-- Buffer type -------------------------------------------------------------------------===//

BufferType BufferType::getContiguous(ArrayRef<sym::Expr> sizes, Type elementType) {
  return get(elementType.getContext(), sizes, sym::rowMajorStrides(sizes), elementType);
}

BufferType BufferType::get(RankedTensorType tensor) {
  return getContiguous(sym::getShape(tensor), tensor.getElementType());
}

bool BufferType::isContiguous() {
  SmallVector<sym::Expr> expected = sym::rowMajorStrides(getSizes());
  for (auto [size, stride, want] : llvm::zip_equal(getSizes(), getStrides(), expected))
    if (stride != want && !size.isConstant(1))
      return llvm::any_of(getSizes(), [](sym::Expr e) { return e.isConstant(0); });
  return true;
}

sym::Expr BufferType::getNumElements() { return sym::product(getSizes()); }

sym::Expr BufferType::getBytes() {
  int64_t element = getElementBytes(getElementType());
  if (isContiguous())
    return getNumElements() * element;
  sym::Expr last;
  for (auto [size, stride] : llvm::zip_equal(getSizes(), getStrides()))
    last = last + (size - 1) * stride;
  return (last + 1) * element;
}

static LogicalResult verifySize(function_ref<InFlightDiagnostic()> emitError, sym::Expr expr,
                                StringRef what) {
  if (!expr.isValid())
    return emitError() << what << " is not valid";
  if (expr.hasDims() || expr.constant().value_or(0) < 0)
    return emitError() << what << " " << expr.str() << " is negative or depends on a loop dim";
  return success();
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<sym::Expr> sizes, ArrayRef<sym::Expr> strides,
                                 Type elementType) {
  if (sizes.size() != strides.size()) // C1
    return emitError() << "buffer has " << sizes.size() << " sizes and " << strides.size()
                       << " strides";
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) // C2
    if (failed(verifySize(emitError, size, "size")) ||
        failed(verifySize(emitError, stride, "stride")))
      return failure();
  if (getElementBytes(elementType) == 0) // C3
    return emitError() << elementType << " has no size in whole bytes";
  return success();
}

Type BufferType::parse(AsmParser &parser) {
  SmallVector<sym::Expr> sizes, strides;
  Type elementType;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || sym::parseExprList(parser, sizes, AsmParser::Delimiter::Square) ||
      parser.parseComma() || sym::parseExprList(parser, strides, AsmParser::Delimiter::Square) ||
      parser.parseComma() || parser.parseType(elementType) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), sizes, strides,
                    elementType);
}

void BufferType::print(AsmPrinter &printer) const {
  raw_ostream &os = printer.getStream();
  llvm::interleaveComma(getSizes(), os << "<[");
  llvm::interleaveComma(getStrides(), os << "], [");
  os << "], ";
  printer << getElementType() << '>';
}
