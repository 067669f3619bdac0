// Types, enums and symbolic integers of the schema in MLIR.
#include "Importer.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

Expected<Type> Importer::elementType(ScalarTypeCode code) {
  Builder &b = builder;
  switch (code.code) {
  case 1:
    return b.getIntegerType(8, /*isSigned=*/false);
  case 2:
    return b.getI8Type();
  case 3:
    return b.getI16Type();
  case 4:
    return b.getI32Type();
  case 5:
    return b.getI64Type();
  case 6:
    return b.getF16Type();
  case 7:
    return b.getF32Type();
  case 8:
    return b.getF64Type();
  case 9:
    return ComplexType::get(b.getF16Type());
  case 10:
    return ComplexType::get(b.getF32Type());
  case 11:
    return ComplexType::get(b.getF64Type());
  case 12:
    return b.getI1Type();
  case 13:
    return b.getBF16Type();
  case 28:
    return b.getIntegerType(16, /*isSigned=*/false);
  case 29:
    return b.getType<Float8E4M3FNType>();
  case 30:
    return b.getType<Float8E5M2Type>();
  case 31:
    return b.getType<Float8E4M3FNUZType>();
  case 32:
    return b.getType<Float8E5M2FNUZType>();
  case 33:
    return b.getType<Float8E8M0FNUType>();
  case 34:
    return b.getIntegerType(32, /*isSigned=*/false);
  case 35:
    return b.getIntegerType(64, /*isSigned=*/false);
  default:
    return fail("scalar type " + Twine(code.code) + " is not supported");
  }
}

Expected<torch::LayoutAttr> Importer::layoutAttr(LayoutCode code) {
  using torch::Layout;
  constexpr Layout layouts[] = {Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc,
                                Layout::SparseBsr, Layout::SparseBsc, Layout::Mkldnn,
                                Layout::Strided};
  if (code.code < 1 || code.code > 7)
    return fail("unknown layout");
  return torch::LayoutAttr::get(&context, layouts[code.code - 1]);
}

torch::MemoryFormatAttr Importer::memoryFormatAttr(MemoryFormatCode code) {
  using torch::MemoryFormat;
  constexpr MemoryFormat formats[] = {MemoryFormat::Contiguous, MemoryFormat::ChannelsLast,
                                      MemoryFormat::ChannelsLast3d, MemoryFormat::Preserve};
  bool isKnown = code.code >= 1 && code.code <= 4;
  return torch::MemoryFormatAttr::get(&context,
                                      isKnown ? formats[code.code - 1] : MemoryFormat::Preserve);
}

torch::DeviceAttr Importer::deviceAttr(const Device &device) {
  std::string name = device.type;
  if (device.index)
    name += ":" + std::to_string(*device.index);
  return torch::DeviceAttr::get(&context, name);
}

Expected<Expr> Importer::integer(const SymInt &value) {
  if (auto *constant = std::get_if<int64_t>(&value))
    return Expr(*constant);
  Expected<Expr> expr = symbols.read(std::get<ExprText>(value).text);
  if (!expr)
    return fail(toString(expr.takeError()));
  if (std::optional<int64_t> hint = std::get<ExprText>(value).hint;
      hint && expr->kind() == sym::Kind::Symbol)
    hints.set(expr->symbolName(), builder.getI64IntegerAttr(*hint));
  return correct(*expr);
}

Expected<SmallVector<Expr>> Importer::integers(ArrayRef<SymInt> values) {
  SmallVector<Expr> exprs;
  for (const SymInt &value : values) {
    Expected<Expr> expr = integer(value);
    if (!expr)
      return expr.takeError();
    exprs.push_back(*expr);
  }
  return exprs;
}

Attribute Importer::integerAttr(Expr expr) {
  if (std::optional<int64_t> constant = expr.constant())
    return builder.getI64IntegerAttr(*constant);
  return sym::ExprAttr::get(&context, expr);
}

RankedTensorType Importer::scalarType(Type elementType) {
  return RankedTensorType::get({}, elementType);
}

Expected<RankedTensorType> Importer::tensorType(const TensorMeta &meta) {
  Expected<Type> element = elementType(meta.dtype);
  if (!element)
    return element.takeError();
  constexpr int64_t strided = 7;
  if (meta.layout.code != strided)
    return fail("a tensor that is not strided (layout " + Twine(meta.layout.code) +
                ") is not supported");
  constexpr size_t maxRank = 64; // PyTorch's
  if (meta.sizes.size() > maxRank)
    return fail("a tensor of rank " + Twine(meta.sizes.size()) + " is not supported");
  for (const SymInt &stride : meta.strides)
    if (auto *number = std::get_if<int64_t>(&stride); number && *number < 0)
      return fail("a tensor with the negative stride " + Twine(*number));
  Expected<SmallVector<Expr>> sizes = integers(meta.sizes);
  if (!sizes)
    return sizes.takeError();
  // A tensor must be addressable: its static part may not exceed 63 bits, the element's size
  // counted.
  uint64_t bytes = 16;
  for (Expr size : *sizes) {
    std::optional<int64_t> constant = size.constant();
    if (!constant)
      continue;
    if (*constant < 0)
      return fail("a tensor with the negative size " + Twine(*constant));
    if (*constant > 0 && __builtin_mul_overflow(bytes, static_cast<uint64_t>(*constant), &bytes))
      bytes = UINT64_MAX;
  }
  if (bytes > static_cast<uint64_t>(INT64_MAX))
    return fail("a tensor of more than 2^63 bytes");
  return sym::getTensorType(*sizes, *element);
}

Expected<const TensorMeta *> Importer::metaOf(StringRef name) {
  auto it = scope->graph.tensorValues.find(name);
  if (it == scope->graph.tensorValues.end())
    return fail("'" + name + "' is not in tensor_values");
  return &it->second;
}

void Importer::learn(Expr expr, SmallVectorImpl<Expr> *added) {
  expr.walkLeaves([&](Expr leaf) {
    if (scope->known.insert(leaf).second && added)
      added->push_back(leaf);
  });
}

void Importer::learn(Type type, SmallVectorImpl<Expr> *added) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    for (Expr size : sym::getShape(tensor))
      learn(size, added);
}
