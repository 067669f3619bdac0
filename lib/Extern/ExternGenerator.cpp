// External code generators: the registry, the list of a compilation, and the cache of symbols.
#include "kiln/Extern/ExternGenerator.h"
#include "C/CGenerator.h"
#include "Libraries/Generators.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SHA1.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

ExternGenerator::~ExternGenerator() = default;

//===-- The registry --------------------------------------------------------------------------===//

static std::vector<ExternRegistration> &registry() {
  static std::vector<ExternRegistration> generators;
  return generators;
}

void externs::registerExternGenerator(ExternRegistration registration) {
  assert(!lookupExternGenerator(registration.name) && "registered twice");
  registry().push_back(std::move(registration));
}

llvm::ArrayRef<ExternRegistration> externs::getRegisteredExternGenerators() { return registry(); }

const ExternRegistration *externs::lookupExternGenerator(StringRef spec) {
  StringRef name = spec.split('{').first;
  auto found = llvm::find_if(registry(), [&](const auto &known) { return known.name == name; });
  return found == registry().end() ? nullptr : &*found;
}

void externs::registerExternGenerators() {
  [[maybe_unused]] static bool done = [] {
    registerCGenerator();
    registerOneDNNGenerator();
    registerCuBLASGenerator();
    registerCuDNNGenerator();
    return true;
  }();
}

//===-- The list of a compilation -------------------------------------------------------------===//

llvm::Expected<std::vector<std::string>> externs::splitExternList(StringRef list) {
  std::vector<std::string> parts(1);
  unsigned depth = 0;
  for (char c : list) {
    if (c == '}' && depth == 0)
      return llvm::createStringError("'" + list + "': a '}' without a '{'");
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (depth)
    return llvm::createStringError("'" + list + "': a '{' without a '}'");
  for (std::string &part : parts)
    if (part = StringRef(part).trim().str(); part.empty())
      return llvm::createStringError("'" + list +
                                     "': expected NAME or NAME{OPTIONS} between commas");
  return parts;
}

llvm::Expected<std::shared_ptr<ExternSession>>
ExternSession::create(ArrayRef<std::string> specs, StringRef target, MLIRContext *context) {
  auto session = std::make_shared<ExternSession>();
  for (StringRef spec : specs) {
    const ExternRegistration *known = lookupExternGenerator(spec);
    if (!known) {
      auto names = llvm::map_range(registry(), [](const auto &one) { return one.name; });
      return llvm::createStringError("no external code generator is called '" +
                                     spec.split('{').first +
                                     "'; there are: " + llvm::join(names, ", "));
    }
    if (!target.empty() && !known->target.empty() && target != known->target)
      return llvm::createStringError(known->name + " computes with --target=" + known->target +
                                     ", and the model is for --target=" + target);
    StringRef options = spec.drop_front(known->name.size());
    if (options.consume_front("{") && !options.consume_back("}"))
      return llvm::createStringError("'" + spec + "': expected NAME{OPTIONS}");
    auto isSame = [&](const auto &other) { return other->getName() == known->name; };
    if (llvm::any_of(session->generators, isSame))
      return llvm::createStringError(known->name + " stands there twice");
    auto created = known->create(options, context);
    if (!created)
      return llvm::createStringError(known->name + ": " + llvm::toString(created.takeError()));
    session->generators.push_back(std::move(*created));
    session->counts[session->generators.back()->getName()];
  }
  return session;
}

LogicalResult ExternSession::ensure(std::shared_ptr<ExternSession> &session,
                                    ArrayRef<std::string> specs, MLIRContext *context) {
  if (session)
    return success();
  auto created = create(specs, "", context);
  if (!created)
    return emitError(UnknownLoc::get(context)) << llvm::toString(created.takeError());
  session = std::move(*created);
  return success();
}

//===-- Names ---------------------------------------------------------------------------------===//

std::string SymbolCache::getName(StringRef prefix, StringRef structure) {
  std::lock_guard<std::mutex> lock(mutex);
  auto [entry, isNew] = names.try_emplace(structure);
  if (!isNew)
    return entry->second;
  llvm::SHA1 hash;
  hash.update(structure);
  std::string digits = llvm::toHex(hash.final(), /*LowerCase=*/true);
  // Eight digits, unless another structure begins with the same.
  for (size_t length = 8;; ++length) {
    std::string name = (prefix + "_" + StringRef(digits).take_front(length)).str();
    if (!structures.try_emplace(name, structure).second)
      continue;
    return entry->second = name;
  }
}

//===-- Objects -------------------------------------------------------------------------------===//

void externs::addObject(ModuleOp module, StringRef name, ObjectFormat format, StringRef contents) {
  Builder b(module.getContext());
  SmallVector<Attribute> objects;
  if (auto known = module->getAttrOfType<ArrayAttr>(objectsAttrName))
    llvm::append_range(objects, known);
  StringRef kind = format == ObjectFormat::Object ? "object" : "llvm";
  objects.push_back(b.getDictionaryAttr({b.getNamedAttr("name", b.getStringAttr(name)),
                                         b.getNamedAttr("format", b.getStringAttr(kind)),
                                         b.getNamedAttr("contents", b.getStringAttr(contents))}));
  module->setAttr(objectsAttrName, b.getArrayAttr(objects));
}
