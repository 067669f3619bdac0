// A file whose contents are a fuzzer's bytes, for readers that take a path.
#ifndef KILN_TEST_FUZZ_MEMORYFILE_H
#define KILN_TEST_FUZZ_MEMORYFILE_H

#include "llvm/ADT/StringRef.h"
#include <string>
#include <sys/mman.h>
#include <unistd.h>

class MemoryFile {
public:
  explicit MemoryFile(llvm::StringRef contents) : file(memfd_create("input", MFD_CLOEXEC)) {
    while (!contents.empty()) {
      ssize_t written = write(file, contents.data(), contents.size());
      if (written <= 0)
        abort();
      contents = contents.drop_front(written);
    }
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile() { close(file); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file); }

private:
  int file;
};

#endif // KILN_TEST_FUZZ_MEMORYFILE_H
