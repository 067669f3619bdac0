// The description of a model as JSON: its inputs, outputs and constants.
#include "kiln/Host/ModelInfo.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::host;
using namespace kiln::wrapper;

ElementCode host::describeElement(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type)) {
    uint8_t bits = 2 * complex.getElementType().getIntOrFloatBitWidth();
    return {5, bits, "complex" + std::to_string(bits)};
  }
  auto bits = static_cast<uint8_t>(type.getIntOrFloatBitWidth());
  if (bits == 1)
    return {6, 8, "bool"};
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    return {static_cast<uint8_t>(isUnsigned ? 1 : 0), bits,
            (isUnsigned ? "uint" : "int") + std::to_string(bits)};
  }
  if (isa<BFloat16Type>(type))
    return {4, 16, "bfloat16"};
  if (isa<Float8E4M3FNType>(type))
    return {10, 8, "float8_e4m3fn"};
  if (isa<Float8E4M3FNUZType>(type))
    return {11, 8, "float8_e4m3fnuz"};
  if (isa<Float8E5M2Type>(type))
    return {12, 8, "float8_e5m2"};
  if (isa<Float8E5M2FNUZType>(type))
    return {13, 8, "float8_e5m2fnuz"};
  return {2, bits, "float" + std::to_string(bits)};
}

std::optional<int64_t> host::getSymbolBound(NamedAttribute symbol, StringRef name) {
  auto range = dyn_cast<DictionaryAttr>(symbol.getValue());
  auto bound = range ? range.getAs<IntegerAttr>(name) : IntegerAttr();
  return bound ? std::optional<int64_t>(bound.getInt()) : std::nullopt;
}

//===-- JSON ---------------------------------------------------------------------------------===//

static llvm::json::Value toJson(sym::Expr size) {
  if (std::optional<int64_t> constant = size.constant())
    return *constant;
  return size.str();
}

static llvm::json::Value toJson(ArrayRef<sym::Expr> shape) {
  llvm::json::Array sizes;
  for (sym::Expr size : shape)
    sizes.push_back(toJson(size));
  return llvm::json::Value(std::move(sizes));
}

/// `device` is where it is, or empty for a constant.
static void describeTensor(llvm::json::OStream &json, StringRef name, Type type, StringRef device,
                           bool mutated = false) {
  auto buffer = dyn_cast<BufferType>(type);
  llvm::json::Value null(nullptr);
  json.object([&] {
    json.attribute("name", name);
    json.attribute("dtype", buffer ? describeElement(buffer.getElementType()).name : null);
    json.attribute("shape", buffer ? toJson(buffer.getSizes()) : null);
    if (!device.empty())
      json.attribute("device", buffer ? llvm::json::Value(device) : null);
    if (mutated)
      json.attribute("mutated", true);
  });
}

std::vector<NamedConstant> host::getNamedConstants(ProgramOp program) {
  std::vector<NamedConstant> result;
  llvm::StringMap<ConstantOp> used;
  for (ConstantOp constant : getConstants(program))
    if (constant.getName())
      used.try_emplace(*constant.getName(), constant);
  auto list =
      program->getParentOfType<ModuleOp>()->getAttrOfType<ArrayAttr>(torch::constantsAttrName);
  if (!list) {
    for (ConstantOp constant : getConstants(program))
      if (constant.getName() && used.lookup(*constant.getName()) == constant)
        result.push_back({constant.getName()->str(), constant.getType(), constant});
    return result;
  }
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    auto name = entry.getAs<StringAttr>("name"), storage = entry.getAs<StringAttr>("storage");
    auto type = cast<RankedTensorType>(entry.getAs<TypeAttr>("type").getValue());
    result.push_back({name.str(), BufferType::get(type),
                      used.lookup(storage ? storage.getValue() : name.getValue())});
  }
  return result;
}

std::string host::describeModel(ProgramOp program, const ModelInfo &model) {
  DictionaryAttr symbols = program.getSymbolsAttr();
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  json.object([&] {
    json.attribute("name", model.name);
    json.attribute("target", model.target);
    json.attribute("abi", 2); // kiln_abi_version
    json.attribute("compiler", model.compiler);
    json.attributeArray("inputs", [&] {
      for (unsigned i = 0; i < program.getNumArguments(); ++i)
        describeTensor(json, program.getInputName(i), program.getArgumentTypes()[i], model.target,
                       program.isMutated(i));
    });
    json.attributeArray("outputs", [&] {
      for (unsigned i = 0; i < program.getNumResults(); ++i)
        describeTensor(json, program.getOutputName(i), program.getResultTypes()[i], model.target);
    });
    json.attributeObject("symbols", [&] {
      for (NamedAttribute symbol : symbols ? symbols.getValue() : ArrayRef<NamedAttribute>()) {
        auto range = dyn_cast<DictionaryAttr>(symbol.getValue());
        if (range && range.contains(wrapper::sizeAttrName))
          continue;
        json.attributeObject(symbol.getName(), [&] {
          for (StringRef name : {"min", "max"}) {
            std::optional<int64_t> bound = getSymbolBound(symbol, name);
            json.attribute(name, bound ? llvm::json::Value(*bound) : llvm::json::Value(nullptr));
          }
        });
      }
    });
    if (program.getArenaBytes())
      json.attribute("arena_bytes", toJson(program.getArenaBytes()->getValue()));
    auto module = program->getParentOfType<ModuleOp>();
    if (auto signature = module->getAttrOfType<StringAttr>(torch::signatureAttrName)) {
      json.attributeBegin("signature");
      json.rawValue(signature.getValue());
      json.attributeEnd();
    }
    json.attributeArray("constants", [&] {
      for (const NamedConstant &constant : getNamedConstants(program))
        describeTensor(json, constant.name, constant.type, "");
    });
  });
  return text;
}
