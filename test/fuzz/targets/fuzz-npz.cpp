// The reader of arrays: any bytes as a .npz and as a .npy file. An array that is read owns as many bytes as it says.
#include "MemoryFile.h"
#include "tools/aot-run/Npz.h"

using namespace kiln::run;

static uint64_t sum = 0;

static void use(const Array &array) {
  for (size_t i = 0; i < array.bytes; ++i)
    sum += static_cast<uint8_t>(array.data.get()[i]);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MemoryFile file({reinterpret_cast<const char *>(data), size});
  auto resolve = [](llvm::StringRef, unsigned bytes) {
    return findDType(bytes == 1 ? "float8_e4m3fn" : "bfloat16");
  };
  if (auto arrays = readNpz(file.path(), resolve)) {
    for (const auto &[name, array] : *arrays)
      use(array);
  } else {
    consumeError(arrays.takeError());
  }
  if (auto array = readNpy(file.path(), resolve))
    use(*array);
  else
    consumeError(array.takeError());
  return sum == 1 ? -1 : 0;
}
