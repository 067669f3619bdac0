// Finds the programs that become a model's entries, and keeps their kernels apart.
#include "Entries.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Frontend/Frontend.h"
#include "kiln/Host/Device.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace kiln;
using llvm::createStringError;

/// Names become parts of symbols.
static llvm::Error checkName(StringRef name) {
  auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  if (!name.empty() && name.size() <= 64 && llvm::all_of(name, isPart) && !llvm::isDigit(name[0]))
    return llvm::Error::success();
  std::string shown;
  llvm::raw_string_ostream(shown).write_escaped(name.take_front(80));
  return createStringError("--entry: '" + shown +
                           "' is no name for an entry: letters, digits and '_', not a digit first, "
                           "64 at most (--entry NAME=FILE gives a program another name)");
}

static bool isSameFile(StringRef a, StringRef b) {
  bool same = false;
  return a == b || (!llvm::sys::fs::equivalent(a, b, same) && same);
}

/// The program of `option.file` that is meant.
static llvm::Expected<Entry> findEntry(const EntryOption &option, uint64_t maxUnpacked) {
  llvm::Expected<std::vector<std::string>> programs =
      frontend::listPrograms(option.file, maxUnpacked);
  if (!programs)
    return programs.takeError();
  Entry entry{option.name, option.file, "", {}, {}};
  if (programs->size() == 1)
    return entry;
  if (!llvm::is_contained(*programs, option.name))
    return createStringError(option.file + ": holds several programs (" +
                             llvm::join(*programs, ", ") + ") and none is called '" + option.name +
                             "'");
  entry.program = option.name;
  return entry;
}

llvm::Expected<std::vector<Entry>> kiln::findEntries(const CompileOptions &options) {
  std::vector<Entry> entries;
  auto isInput = [&](const EntryOption &option) { return isSameFile(option.file, options.input); };
  // A part of a model that is compiled by itself.
  if (!options.program.empty()) {
    entries.push_back({"model", options.input, "", {}, {}});
    return entries;
  }
  if (llvm::none_of(options.entries, isInput)) {
    llvm::Expected<std::vector<std::string>> programs =
        frontend::listPrograms(options.input, options.maxUnpacked);
    if (!programs)
      return programs.takeError();
    for (const std::string &program : *programs)
      entries.push_back({program, options.input, program, {}, {}});
    if (entries.empty()) // which is not the only thing that is wrong, perhaps
      entries.push_back({"model", options.input, "", {}, {}});
  }
  for (const EntryOption &option : options.entries) {
    llvm::Expected<Entry> entry = findEntry(option, options.maxUnpacked);
    if (!entry)
      return entry.takeError();
    entries.push_back(std::move(*entry));
  }
  llvm::StringSet<> names;
  for (const Entry &entry : entries) {
    if (!names.insert(entry.name).second)
      return createStringError("two entries are called '" + entry.name +
                               "' (--entry NAME=FILE gives a program another name)");
    bool isChosen = llvm::any_of(
        options.entries, [&](const EntryOption &option) { return option.name == entry.name; });
    if (entries.size() > 1 || isChosen)
      if (llvm::Error error = checkName(entry.name))
        return std::move(error);
  }
  return std::move(entries);
}

llvm::Error kiln::checkEntries(ArrayRef<Entry> entries, const CompileOptions &options) {
  if (entries.size() == 1)
    return options.sharedState.empty()
               ? llvm::Error::success()
               : createStringError("--share-state: there is one entry, '" + entries[0].name + "'");
  std::string alone;
  if (options.emit == EmitKind::Fx)
    alone = "--emit=fx";
  if (options.emit == EmitKind::Assembly)
    alone = "--emit=ptx";
  if (options.emit == EmitKind::Program)
    alone = "--target=" + options.target;
  if (!options.report.file.empty())
    alone = "--report";
  if (options.tuning.mode == tuning::Mode::WriteBundle)
    alone = "--autotune=bundle";
  if (alone.empty())
    return llvm::Error::success();
  SmallVector<StringRef> names;
  for (const Entry &entry : entries)
    names.push_back(entry.name);
  return createStringError(alone + " is for one program, and there are " + Twine(entries.size()) +
                           " (" + llvm::join(names, ", ") + "): --entry " + names[0] + "=" +
                           entries[0].file + " chooses the first one");
}

OwningOpRef<ModuleOp> kiln::joinModules(MutableArrayRef<Entry> entries) {
  OwningOpRef<ModuleOp> joined = ModuleOp::create(entries.front().module->getLoc());
  for (Entry &entry : entries) {
    entry.module->setSymName(entry.name);
    joined->push_back(entry.module.release());
  }
  return joined;
}

llvm::Error kiln::nameEntry(llvm::Error error, const Entry &entry) {
  auto name = [&](const std::string &message) {
    std::string file = entry.file + ": ";
    StringRef rest = message;
    bool isNamed = rest.consume_front(file);
    return (isNamed ? file : "") + "entry '" + entry.name + "': " + rest.str();
  };
  return llvm::handleErrors(
      std::move(error),
      [&](const InternalError &error) -> llvm::Error {
        const llvm::ErrorInfoBase &base = error; // whose function it is
        return llvm::make_error<InternalError>(name(base.message()), error.getReproducer());
      },
      [&](const llvm::ErrorInfoBase &error) -> llvm::Error {
        return llvm::createStringError(name(error.message()));
      });
}

void kiln::prefixKernels(ModuleOp module, StringRef entry) {
  llvm::DenseMap<StringAttr, FlatSymbolRefAttr> names;
  for (Operation &op : *module.getBody()) {
    if (!isa<kernel::FuncOp>(op))
      continue;
    StringAttr old = SymbolTable::getSymbolName(&op);
    auto name = StringAttr::get(module.getContext(), entry + "$" + old.getValue());
    SymbolTable::setSymbolName(&op, name);
    names[old] = FlatSymbolRefAttr::get(name);
  }
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FlatSymbolRefAttr old) -> std::optional<Attribute> {
    auto name = names.find(old.getAttr());
    return name == names.end() ? std::nullopt : std::optional<Attribute>(name->second);
  });
  replacer.recursivelyReplaceElementsIn(module);
  module->setAttr(host::entryAttrName, StringAttr::get(module.getContext(), entry));
}
