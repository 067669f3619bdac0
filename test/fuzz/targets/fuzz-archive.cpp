// The reader of archives: any bytes as a .pt2 file, all members of which are read.
#include "MemoryFile.h"
#include "kiln/Frontend/Pt2Archive.h"

using namespace kiln::frontend;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MemoryFile file({reinterpret_cast<const char *>(data), size});
  llvm::Expected<std::unique_ptr<Pt2Archive>> archive =
      Pt2Archive::open(file.path(), /*maxUnpacked=*/1 << 28);
  if (!archive) {
    consumeError(archive.takeError());
    return 0;
  }
  uint64_t sum = 0;
  for (llvm::StringRef folder : {"models/", "data/weights/", "data/constants/", "extra/", ""})
    for (const std::string &member : (*archive)->membersIn(folder)) {
      llvm::Expected<Pt2Archive::Bytes> bytes = (*archive)->read(member, /*verify=*/true);
      if (!bytes)
        consumeError(bytes.takeError());
      else
        for (char byte : bytes->data)
          sum += static_cast<uint8_t>(byte);
    }
  return sum == 1 ? -1 : 0; // the sum is used, so every byte is read
}
