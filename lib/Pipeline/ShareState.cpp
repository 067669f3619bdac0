// Buffers that several programs write to and read: finds them by the names that the user has given.
#include "ShareWeights.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace kiln;
using llvm::createStringError;

namespace {

/// A buffer in one of the programs.
struct Owner {
  StringRef entry;
  torch::ConstantOp buffer;
  SharedNames *names;
};

} // namespace

/// Buffers in the order of their names' first appearance.
static llvm::MapVector<StringRef, SmallVector<Owner>>
findBuffers(ArrayRef<std::pair<std::string, ModuleOp>> modules, std::vector<SharedNames> &names) {
  llvm::MapVector<StringRef, SmallVector<Owner>> buffers;
  for (auto [i, module] : llvm::enumerate(modules))
    ModuleOp(module.second).walk([&, entry = StringRef(module.first), i = i](torch::ConstantOp op) {
      buffers[op.getName()].push_back({entry, op, &names[i]});
    });
  return buffers;
}

static std::string describe(torch::ConstantOp buffer) {
  std::string text;
  llvm::raw_string_ostream(text) << buffer.getType();
  return text;
}

static llvm::Error checkSame(StringRef name, const Owner &first, const Owner &other) {
  torch::ConstantOp a = first.buffer, b = other.buffer;
  if (b.getKind() == "constant")
    return createStringError("--share-state: '" + name + "' is a constant in the entry '" +
                             other.entry + "': register_buffer makes it a buffer");
  if (a.getType() != b.getType())
    return createStringError("--share-state: '" + name + "' is " + describe(a) + " in the entry '" +
                             first.entry + "' and " + describe(b) + " in '" + other.entry + "'");
  std::optional<kernel::ConstantBytes> bytes = kernel::getConstantBytes(a.getValue()),
                                       others = kernel::getConstantBytes(b.getValue());
  if (bytes && others && bytes->data() != others->data())
    return createStringError("--share-state: '" + name +
                             "' begins with other values in the entry '" + first.entry +
                             "' than in '" + other.entry + "'");
  return llvm::Error::success();
}

/// A program that writes the buffer and does not read it loses the constant on the way.
static void keepBeginning(torch::ConstantOp buffer) {
  auto module = buffer->getParentOfType<ModuleOp>();
  NamedAttrList shared(module->getAttrOfType<DictionaryAttr>(torch::sharedStateAttrName));
  shared.set(buffer.getName(), buffer.getValue());
  module->setAttr(torch::sharedStateAttrName, shared.getDictionary(module.getContext()));
}

llvm::Expected<std::vector<SharedNames>>
kiln::shareState(ArrayRef<std::pair<std::string, ModuleOp>> modules,
                 ArrayRef<std::string> patterns) {
  std::vector<SharedNames> names(modules.size());
  auto buffers = findBuffers(modules, names);
  unsigned number = 0;
  for (const std::string &pattern : patterns) {
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return createStringError("--share-state=" + pattern + ": " + toString(glob.takeError()));
    bool isFound = false;
    for (auto &[name, owners] : buffers) {
      // A pattern names buffers alone; parameters may be named.
      auto isBuffer = [](Owner &owner) { return owner.buffer.getKind() == "buffer"; };
      bool isNamed = name == pattern || llvm::any_of(owners, isBuffer);
      if (!isNamed || !glob->match(name))
        continue;
      isFound = true;
      if (owners.size() < 2) {
        SmallVector<StringRef> lacking;
        for (const auto &module : modules)
          if (module.first != owners.front().entry)
            lacking.push_back(module.first);
        return createStringError("--share-state: '" + name + "' is in the entry '" +
                                 owners.front().entry + "' alone, and not in '" +
                                 llvm::join(lacking, "', '") + "'");
      }
      for (Owner &owner : owners) {
        if (llvm::Error error = checkSame(name, owners.front(), owner))
          return std::move(error);
        // Reads must not be of the value at compile time.
        owner.buffer.setMutated(true);
        keepBeginning(owner.buffer);
        owner.names->try_emplace(name, number);
      }
      ++number;
    }
    if (!isFound)
      return createStringError("--share-state: no entry has a buffer named '" + pattern + "'");
  }
  return names;
}
