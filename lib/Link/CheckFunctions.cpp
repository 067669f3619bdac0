// Looks declared C functions up in the files that a model is linked with.
#include "kiln/Link/CheckFunctions.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Object/Archive.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace llvm;
using namespace kiln;

namespace {

/// The entry of one symbol in the files.
struct Definition {
  std::string file;
  bool isFunction = false;
  std::string text; // of a constant
};

class Files {
public:
  void add(StringRef path) {
    Expected<object::OwningBinary<object::Binary>> opened = object::createBinary(path);
    if (!opened) {
      consumeError(opened.takeError());
      isComplete = false;
      return;
    }
    object::Binary &binary = *opened->getBinary();
    if (auto *archive = dyn_cast<object::Archive>(&binary))
      addArchive(*archive, path);
    else
      addBinary(binary, path);
  }

  StringMap<Definition> definitions;
  /// All files could be read.
  bool isComplete = true;

private:
  void addArchive(const object::Archive &archive, StringRef path) {
    Error problem = Error::success();
    for (const object::Archive::Child &child : archive.children(problem)) {
      Expected<std::unique_ptr<object::Binary>> member = child.getAsBinary();
      if (member) {
        addBinary(**member, path);
      } else {
        consumeError(member.takeError());
        isComplete = false;
      }
    }
    if (problem) {
      consumeError(std::move(problem));
      isComplete = false;
    }
  }

  void addBinary(object::Binary &binary, StringRef path) {
    auto *file = dyn_cast<object::ELFObjectFileBase>(&binary);
    if (!file) {
      isComplete = false;
      return;
    }
    for (const object::ELFSymbolRef &symbol : file->symbols())
      addSymbol(*file, symbol, path);
    if (!file->isRelocatableObject())
      for (const object::ELFSymbolRef &symbol : file->getDynamicSymbolIterators())
        addSymbol(*file, symbol, path);
  }

  void addSymbol(const object::ELFObjectFileBase &file, const object::ELFSymbolRef &symbol,
                 StringRef path) {
    Expected<uint32_t> flags = symbol.getFlags();
    Expected<StringRef> name = symbol.getName();
    Expected<object::section_iterator> section = symbol.getSection();
    Expected<uint64_t> value = symbol.getValue();
    bool isRead = flags && name && section && value;
    bool isDefined = isRead && (*flags & object::SymbolRef::SF_Global) &&
                     !(*flags & object::SymbolRef::SF_Undefined);
    consumeError(flags.takeError());
    consumeError(name.takeError());
    consumeError(section.takeError());
    consumeError(value.takeError());
    if (!isDefined)
      return;
    Definition &known = definitions[*name];
    known.file = path.str();
    known.isFunction |= is_contained({ELF::STT_FUNC, ELF::STT_GNU_IFUNC}, symbol.getELFType());
    if (*section == file.section_end())
      return;
    Expected<StringRef> contents = (*section)->getContents();
    if (!contents)
      return consumeError(contents.takeError());
    // In an object, a symbol's value is its place in the section; elsewhere an address.
    uint64_t place = *value - (file.isRelocatableObject() ? 0 : (*section)->getAddress());
    if (place < contents->size())
      known.text = contents->substr(place, symbol.getSize()).split('\0').first.str();
  }
};

} // namespace

/// A signature with other names of sizes is the same one: they are renamed in their order.
static std::string normalize(StringRef signature) {
  std::string text;
  StringMap<unsigned> sizes;
  bool isInside = false;
  while (!signature.empty()) {
    StringRef word = signature.take_while([](char c) { return isAlnum(c) || c == '_'; });
    if (word.empty())
      word = signature.take_front(1);
    signature = signature.drop_front(word.size());
    isInside = word == "[" || (isInside && word != "]");
    bool isName = isInside && (isAlpha(word.front()) || word.front() == '_') &&
                  !is_contained({"floordiv", "ceildiv", "mod", "min", "max"}, word);
    if (isName)
      text += "n" + std::to_string(sizes.try_emplace(word, sizes.size()).first->second);
    else if (word != " ")
      text += word;
  }
  return text;
}

Error kiln::checkFunctions(ArrayRef<std::string> paths, ArrayRef<ForeignFunction> functions) {
  Files files;
  for (const std::string &path : paths)
    files.add(path);
  for (const ForeignFunction &function : functions) {
    auto found = files.definitions.find(function.name);
    if (found == files.definitions.end()) {
      if (files.isComplete)
        return createStringError("--link: no file defines the C function " + function.name +
                                 ", which is declared");
      continue;
    }
    const std::string &file = found->second.file;
    if (!found->second.isFunction)
      return createStringError("--link=" + file + ": " + function.name +
                               " is declared as a function, and is none there");
    auto signature = files.definitions.find(function.name + "_kiln_signature");
    auto isStated = [&](StringRef declared) {
      return normalize(declared) == normalize(signature->second.text);
    };
    if (signature != files.definitions.end() && none_of(function.signatures, isStated))
      return createStringError("--link=" + file + ": " + function.name + " is " +
                               signature->second.text + ", but is declared as " +
                               join(function.signatures, " and "));
  }
  return Error::success();
}
