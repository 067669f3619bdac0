// Sizes of what is in the output: symbols of the objects, and sections.
#include "kiln/Report/Report.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace kiln;
using namespace kiln::report;
using namespace llvm::object;
using llvm::json::Object;

void Report::addObject(llvm::MemoryBufferRef object) {
  auto file = ObjectFile::createELFObjectFile(object);
  if (!file) { // which the link reports
    llvm::consumeError(file.takeError());
    return;
  }
  for (ELFSymbolRef symbol : llvm::cast<ELFObjectFileBase>(**file).symbols()) {
    auto name = symbol.getName();
    auto section = symbol.getSection();
    if (!name || !section || *section == (*file)->section_end() || symbol.getSize() == 0) {
      llvm::consumeError(name.takeError());
      llvm::consumeError(section.takeError());
      continue;
    }
    Object entry{{"name", name->str()},
                 {"bytes", int64_t(symbol.getSize())},
                 {"section", (*section)->isText() ? "code" : "data"}};
    if (auto kernel = kernelNumbers.find(*name); kernel != kernelNumbers.end())
      entry["kernel"] = kernel->second;
    code.push_back(std::move(entry));
  }
}

void Report::addOutput(llvm::StringRef path) {
  auto file = ObjectFile::createObjectFile(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return;
  }
  llvm::json::Array sections;
  for (SectionRef section : file->getBinary()->sections()) {
    auto name = section.getName();
    if (name && !name->empty() && section.getSize() && !section.isBSS())
      sections.push_back(Object{{"name", name->str()}, {"bytes", int64_t(section.getSize())}});
    llvm::consumeError(name.takeError());
  }
  result["sections"] = std::move(sections);
}
