// The readers of an archive's JSON: the program, and the tables of weights.
#include "kiln/Frontend/ExportedProgram.h"

using namespace kiln::frontend;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  if (auto program = parseExportedProgram(text, "models/model.json"); !program)
    consumeError(program.takeError());
  if (auto config = parsePayloadConfig(text, "weights.json"); !config)
    consumeError(config.takeError());
  return 0;
}
