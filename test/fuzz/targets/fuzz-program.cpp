// The compiler from the archive to the planned program, and for some inputs to machine code. The input is a JSON object with an
// archive's texts ("program", "weights", "constants"). Mutations are those of JSON trees and of programs, so that most inputs are
// programs with something wrong or something else in them. Each must be refused as the program's fault, or compiled to what the
// verifiers behind every pass accept, and what computes the same before and behind the passes over kernels.
#include "fuzz-program.h"
#include "JsonMutator.h"
#include "MemoryFile.h"
#include "ProgramMutator.h"
#include "ResultCheck.h"
#include "ZipWriter.h"
#include "kiln/Pipeline/Compile.h"
#include "kiln/Pipeline/Pipeline.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

ProgramCounts counts;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  kiln::registerTargets();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  Expected<json::Value> document = json::parse({reinterpret_cast<const char *>(data), size});
  if (!document) {
    consumeError(document.takeError());
    return LLVMFuzzerMutate(data, size, maxSize);
  }
  if (seed % 2)
    mutateJson(*document, seed / 2);
  else
    ProgramMutator(*document, seed / 2).run();
  std::string text = formatv("{0}", *document);
  if (text.size() > maxSize)
    return size;
  memcpy(data, text.data(), text.size());
  return text.size();
}

/// A member of zeros for each file that a table of weights names: large enough for tiny programs.
static void addData(ZipWriter &zip, const json::Object *table, StringRef folder) {
  const json::Object *config = table ? table->getObject("config") : nullptr;
  if (!config)
    return;
  StringSet<> added;
  for (const auto &[name, payload] : *config)
    if (const json::Object *entry = payload.getAsObject())
      if (std::optional<StringRef> path = entry->getString("path_name");
          path && path->size() < 256 && added.insert(*path).second)
        zip.add((folder + *path).str(), std::string(4096, '\0'));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Expected<json::Value> document = json::parse({reinterpret_cast<const char *>(data), size});
  const json::Object *input = document ? document->getAsObject() : nullptr;
  if (!document)
    consumeError(document.takeError());
  if (!input || !input->get("program"))
    return -1;
  ZipWriter zip;
  zip.add("model/archive_format", "pt2");
  zip.add("model/models/model.json", formatv("{0}", *input->get("program")).str());
  for (StringRef kind : {"weights", "constants"}) {
    std::string folder = ("model/data/" + kind + "/").str();
    if (const json::Value *table = input->get(kind)) {
      zip.add(folder + "model_" + kind.str() + "_config.json", formatv("{0}", *table).str());
      addData(zip, table->getAsObject(), folder);
    }
  }
  MemoryFile file(zip.finish());
  kiln::CompileOptions options;
  options.input = file.path();
  static const std::string output = "/tmp/kiln-fuzz-" + std::to_string(getpid());
  options.output = output;
  // Machine code takes LLVM much longer than everything before it.
  bool hasCode = xxh3_64bits(ArrayRef(data, size)) % 32 == 0;
  options.emit = hasCode ? kiln::EmitKind::Object : kiln::EmitKind::Wrapper;
  options.cpu = "x86-64-v3";
  options.jobs = 1;
  options.maxUnpacked = 1 << 28;
  ResultCheck::State results;
  options.instrument = [&]() -> std::unique_ptr<mlir::PassInstrumentation> {
    return std::make_unique<ResultCheck>(results);
  };
  Error error = kiln::compile(options);
  unlink(output.c_str());
  ++(error ? counts.refused : counts.compiled);
  counts.compared += results.numCompared > 0;
  handleAllErrors(
      std::move(error),
      [](const kiln::InternalError &error) {
        error.log(errs());
        errs() << "\nan error of the compiler's; " << error.getReproducer() << "\n";
        abort();
      },
      [](const ErrorInfoBase &error) {
        std::string message = error.message();
        if (message.empty() || message.find('\n') != std::string::npos) {
          errs() << "expected one line, got '" << message << "'\n";
          abort();
        }
      });
  return 0;
}
