// The higher-order `print`: its format is taken apart into texts, numbers and tensors, of which the
// runtime puts together what it prints (runtime/print.c). It never sees the format.
#include "Core/Print.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// More than anybody reads in a line.
constexpr size_t maxText = 1 << 16, maxPieces = 512;
constexpr unsigned maxDecimals = 60; // runtime/print.h has room for them

class PrintCall {
public:
  PrintCall(torch::HigherOrderOp op, KernelBuilder &kernels) : op(op), kernels(kernels) {}

  LogicalResult run() {
    ArrayRef<Attribute> args = op.getArgs().getValue();
    auto format = args.empty() ? StringAttr() : dyn_cast<StringAttr>(args.front());
    bool hasResult = !llvm::all_of(op->getResults(), [](Value result) {
      return isa<NoneType>(result.getType()) && result.use_empty();
    });
    if (!format || hasResult)
      return refuse("arguments that it does not take");
    if (op.getNames())
      names.append(op.getNames()->getAsValueRange<StringAttr>().begin(),
                   op.getNames()->getAsValueRange<StringAttr>().end());
    names.resize(args.size());
    for (size_t i = 1; i < args.size(); ++i)
      if (names[i].empty())
        positional.push_back(args[i]);
    if (failed(addFormat(format.getValue())))
      return failure();
    endText();
    ImplicitLocOpBuilder &b = kernels.b();
    pieces.insert(pieces.begin(), b.getStringAttr(kinds));
    ExternOp::create(b, TypeRange(), torch::runtimeLibrary, torch::printFunction,
                     operands.getArrayRef(), b.getArrayAttr(pieces), ArrayAttr(),
                     /*projection=*/ArrayRef<int64_t>(), /*sizes=*/ArrayRef<int64_t>(),
                     /*updates=*/ArrayRef<int64_t>(), /*impure=*/true);
    return success();
  }

private:
  LogicalResult refuse(const Twine &reason) {
    kernels.fail(reason);
    return failure();
  }

  //===-- The format ---------------------------------------------------------------------------===//

  LogicalResult addFormat(StringRef format) {
    while (!format.empty()) {
      size_t brace = format.find_first_of("{}");
      if (failed(addText(format.take_front(brace))))
        return failure();
      if (brace == StringRef::npos)
        return success();
      char first = format[brace];
      format = format.drop_front(brace + 1);
      if (!format.empty() && format.front() == first) { // twice: the brace itself
        text += first;
        format = format.drop_front();
        continue;
      }
      size_t end = first == '{' ? format.find('}') : StringRef::npos;
      if (end == StringRef::npos)
        return refuse(Twine("a single '") + Twine(first) + "' in its format");
      if (failed(addField(format.take_front(end))))
        return failure();
      format = format.drop_front(end + 1);
    }
    return success();
  }

  LogicalResult addField(StringRef field) {
    size_t place = field.find_first_of("!:");
    StringRef name = field.take_front(place), spec = field.drop_front(name.size());
    if (spec.starts_with("!") || name.find_first_of(".[{") != StringRef::npos)
      return refuse("the place {" + field +
                    "} in its format: attributes, items and conversions are Python's");
    std::optional<Attribute> value = find(name);
    if (!value)
      return refuse("nothing is given for the place {" + field + "} in its format");
    return add(*value, spec.drop_front(spec.empty() ? 0 : 1), /*inList=*/false);
  }

  /// The argument that `name` stands for: the next one, a number of one, or its name.
  std::optional<Attribute> find(StringRef name) {
    size_t index;
    if (name.empty() || llvm::all_of(name, llvm::isDigit)) {
      Numbering wanted = name.empty() ? Numbering::Automatic : Numbering::Given;
      if (numbering != Numbering::None && numbering != wanted)
        return std::nullopt; // which Python refuses
      numbering = wanted;
      if (name.empty())
        index = next++;
      else if (name.getAsInteger(10, index))
        index = positional.size();
      return index < positional.size() ? std::optional(positional[index]) : std::nullopt;
    }
    for (auto [given, value] : llvm::zip_equal(names, op.getArgs()))
      if (given == name)
        return value;
    return std::nullopt;
  }

  //===-- Pieces -------------------------------------------------------------------------------===//

  LogicalResult addText(const Twine &more) {
    text += more.str();
    size += more.str().size();
    if (size > maxText)
      return refuse("a text of more than " + Twine(maxText) + " bytes");
    if (StringRef(text).contains('\0'))
      return refuse("a text with a zero byte");
    return success();
  }

  void endText() {
    if (!text.empty())
      addPiece('s', kernels.b().getStringAttr(text));
    text.clear();
  }

  void addPiece(char kind, Attribute piece) {
    kinds += kind;
    pieces.push_back(piece);
  }

  /// A number whose text the runtime makes: as Python has it, or in a style like "4f".
  LogicalResult addNumber(Attribute number, StringRef spec) {
    endText();
    if (spec.empty()) {
      addPiece('n', number);
      return success();
    }
    char style = spec.back();
    StringRef digits = spec.drop_front().drop_back();
    unsigned decimals;
    if (!spec.starts_with(".") || !StringRef("efg").contains(style) ||
        digits.getAsInteger(10, decimals) || decimals > maxDecimals)
      return refuse("the spec '" + spec +
                    "' in its format: the ones known are like .4f, .4e and .4g");
    addPiece(style, number);
    kinds += std::to_string(decimals); // as the runtime reads it, at most two digits
    return success();
  }

  Attribute refer(Value tensor) {
    operands.insert(tensor);
    unsigned index = llvm::find(operands, tensor) - operands.begin();
    return torch::ArgAttr::get(op.getContext(), index);
  }

  LogicalResult addTensor(Value tensor, StringRef spec, bool inList) {
    auto type = dyn_cast<RankedTensorType>(tensor.getType());
    if (!type || isa<Float8E8M0FNUType>(type.getElementType()))
      return refuse("an argument that is None or a tensor of exponents");
    bool isNumber = type.getRank() == 0 && !inList;
    if (isNumber && (spec.empty() || !isa<ComplexType>(type.getElementType())))
      return addNumber(refer(tensor), spec);
    if (!spec.empty())
      return refuse("the spec '" + spec + "' in its format, which is for numbers");
    endText();
    addPiece('t', refer(tensor));
    return success();
  }

  LogicalResult addList(ArrayAttr list) {
    if (failed(addText("[")))
      return failure();
    for (auto [i, element] : llvm::enumerate(list))
      if (failed(addText(i ? ", " : "")) || failed(add(element, "", /*inList=*/true)))
        return failure();
    return addText("]");
  }

  /// Python's repr of a string that needs no escapes.
  LogicalResult addQuoted(StringRef string) {
    if (!llvm::all_of(string, [](char c) { return llvm::isPrint(c) && c != '\'' && c != '\\'; }))
      return refuse("a list with a text that Python would escape");
    return addText("'" + string + "'");
  }

  LogicalResult add(Attribute value, StringRef spec, bool inList) {
    if (pieces.size() > maxPieces)
      return refuse("a format of more than " + Twine(maxPieces) + " pieces");
    if (auto tensor = dyn_cast<torch::ArgAttr>(value))
      return addTensor(op->getOperand(tensor.getIndex()), spec, inList);
    if (auto number = dyn_cast<torch::ScalarAttr>(value))
      return addTensor(op->getOperand(number.getIndex()), spec, /*inList=*/false);
    if (isa<sym::ExprAttr, IntegerAttr, FloatAttr>(value) ||
        (isa<torch::ComplexAttr>(value) && spec.empty()))
      return addNumber(value, spec);
    if (!spec.empty())
      return refuse("the spec '" + spec + "' in its format, which is for numbers");
    if (isa<UnitAttr>(value))
      return addText("None");
    if (auto string = dyn_cast<StringAttr>(value))
      return inList ? addQuoted(string.getValue()) : addText(string.getValue());
    if (auto list = dyn_cast<ArrayAttr>(value))
      return addList(list);
    return refuse(
        "an argument that is neither a tensor, a number, a text, None nor a list of these");
  }

  torch::HigherOrderOp op;
  KernelBuilder &kernels;
  SmallVector<StringRef> names; // of all arguments; "" for positional ones
  SmallVector<Attribute> positional;
  enum class Numbering { None, Automatic, Given } numbering = Numbering::None;
  size_t next = 0;

  std::string kinds, text; // of pieces; what comes after them
  size_t size = 0;
  SmallVector<Attribute> pieces;
  llvm::SetVector<Value> operands;
};

} // namespace

LogicalResult lowering::lowerPrint(torch::HigherOrderOp op, KernelBuilder &kernels) {
  return PrintCall(op, kernels).run();
}
