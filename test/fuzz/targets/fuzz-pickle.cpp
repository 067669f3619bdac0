// The reader of tables of tensors that torch.save has pickled.
#include "kiln/Frontend/ExportedProgram.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef pickle(reinterpret_cast<const char *>(data), size);
  if (auto table = kiln::frontend::parseSavedTensors(pickle, "data.pkl"); !table)
    consumeError(table.takeError());
  return 0;
}
