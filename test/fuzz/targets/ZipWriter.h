// A zip archive of stored members, in memory.
#ifndef KILN_TEST_FUZZ_ZIPWRITER_H
#define KILN_TEST_FUZZ_ZIPWRITER_H

#include "llvm/Support/CRC.h"
#include <cstdint>
#include <string>

class ZipWriter {
public:
  void add(const std::string &name, const std::string &contents) {
    uint32_t offset = archive.size(), bytes = contents.size();
    std::string common;
    put(common, 20, 2); // version
    put(common, 0, 8);  // flags, method, time, date
    put(common,
        llvm::crc32(
            llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(contents.data()), bytes)),
        4);
    put(common, bytes, 4);
    put(common, bytes, 4);
    put(common, name.size(), 2);
    put(common, 0, 2); // extra field
    archive += "PK\3\4" + common + name + contents;
    directory += "PK\1\2";
    put(directory, 20, 2);
    directory += common;
    put(directory, 0, 10); // comment, disk, attributes
    put(directory, offset, 4);
    directory += name;
    ++count;
  }

  std::string finish() {
    std::string end = "PK\5\6";
    put(end, 0, 4); // disks
    put(end, count, 2);
    put(end, count, 2);
    put(end, directory.size(), 4);
    put(end, archive.size(), 4);
    put(end, 0, 2); // comment
    return archive + directory + end;
  }

private:
  static void put(std::string &to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i)
      to += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
  }

  std::string archive, directory;
  unsigned count = 0;
};

#endif // KILN_TEST_FUZZ_ZIPWRITER_H
