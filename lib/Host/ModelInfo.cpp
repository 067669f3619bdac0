// The description of a model as JSON: its inputs, outputs and constants.
#include "kiln/Host/ModelInfo.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "llvm/ADT/MapVector.h"
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

std::vector<NamedConstant> host::getNamedConstants(ArrayRef<ModelEntry> entries,
                                                   const ConstantCells &cells) {
  if (entries.size() == 1)
    return getNamedConstants(ProgramOp(entries.front().program));
  // By name: whose it is, with the entry's number.
  llvm::MapVector<StringRef, SmallVector<std::pair<unsigned, const NamedConstant *>>> owners;
  std::vector<std::vector<NamedConstant>> lists;
  for (const ModelEntry &entry : entries)
    lists.push_back(getNamedConstants(ProgramOp(entry.program)));
  for (auto [i, list] : llvm::enumerate(lists))
    for (const NamedConstant &constant : list)
      owners[constant.name].push_back({i, &constant});
  std::vector<NamedConstant> result;
  for (auto &[name, some] : owners) {
    // One that an entry does not use may be any.
    const NamedConstant *used = some.front().second;
    for (auto [entry, constant] : some)
      if (!used->op)
        used = constant;
    bool isOne = llvm::all_of(some, [&](auto owner) {
      ConstantOp op = owner.second->op;
      return !op || cells.lookup(op) == cells.lookup(ConstantOp(used->op));
    });
    if (isOne)
      result.push_back(*used);
    for (auto [entry, constant] : some)
      if (!isOne && constant->op)
        result.push_back(
            {entries[entry].name + ":" + constant->name, constant->type, constant->op});
  }
  return result;
}

const ModelEntry *host::getDefaultEntry(ArrayRef<ModelEntry> entries) {
  if (entries.size() == 1)
    return &entries.front();
  for (StringRef name : {"forward", "model"})
    for (const ModelEntry &entry : entries)
      if (entry.name == name)
        return &entry;
  return nullptr;
}

static void describeSymbols(llvm::json::OStream &json, DictionaryAttr symbols) {
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
}

/// The attributes of an object that is about `program`.
static void describeProgram(llvm::json::OStream &json, ProgramOp program, StringRef device) {
  json.attributeArray("inputs", [&] {
    for (unsigned i = 0; i < program.getNumArguments(); ++i)
      describeTensor(json, program.getInputName(i), program.getArgumentTypes()[i], device,
                     program.isMutated(i));
  });
  json.attributeArray("outputs", [&] {
    for (unsigned i = 0; i < program.getNumResults(); ++i)
      describeTensor(json, program.getOutputName(i), program.getResultTypes()[i], device);
  });
  json.attributeObject("symbols", [&] { describeSymbols(json, program.getSymbolsAttr()); });
  if (program.getArenaBytes())
    json.attribute("arena_bytes", toJson(program.getArenaBytes()->getValue()));
  auto module = program->getParentOfType<ModuleOp>();
  if (auto signature = module->getAttrOfType<StringAttr>(torch::signatureAttrName)) {
    json.attributeBegin("signature");
    json.rawValue(signature.getValue());
    json.attributeEnd();
  }
}

std::string host::describeModel(ArrayRef<ModelEntry> entries, const ConstantCells &cells,
                                const ModelInfo &model) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  const ModelEntry *main = getDefaultEntry(entries);
  json.object([&] {
    json.attribute("name", model.name);
    json.attribute("target", model.target);
    json.attribute("abi", 2); // kiln_abi_version
    json.attribute("compiler", model.compiler);
    if (main) {
      describeProgram(json, main->program, model.target);
    } else {
      json.attributeArray("inputs", [] {});
      json.attributeArray("outputs", [] {});
      json.attributeObject("symbols", [] {});
    }
    json.attributeArray("constants", [&] {
      for (const NamedConstant &constant : getNamedConstants(entries, cells))
        describeTensor(json, constant.name, constant.type, "");
    });
    json.attribute("entry", main ? llvm::json::Value(main->name) : llvm::json::Value(nullptr));
    json.attributeArray("entries", [&] {
      for (const ModelEntry &entry : entries)
        json.object([&] {
          json.attribute("name", entry.name);
          describeProgram(json, entry.program, model.target);
        });
    });
  });
  return text;
}
