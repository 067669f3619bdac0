#include "Npy.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

Expected<NpyArray> readNpy(StringRef path) {
  auto file = MemoryBuffer::getFile(path);
  if (!file)
    return createStringError(file.getError(), "cannot read %s", path.str().c_str());
  StringRef text = (*file)->getBuffer();
  auto bad = [&](const char *why) { return createStringError("%s: %s", path.str().c_str(), why); };
  if (text.size() < 12 || !text.starts_with("\x93NUMPY"))
    return bad("not an .npy file");
  bool isLong = text[6] >= 2;
  size_t length = isLong ? support::endian::read32le(text.data() + 8)
                         : support::endian::read16le(text.data() + 8);
  size_t start = isLong ? 12 : 10;
  if (start + length > text.size())
    return bad("truncated");
  StringRef header = text.substr(start, length), data = text.drop_front(start + length);
  auto field = [&](StringRef name) { return header.split("'" + name.str() + "':").second.ltrim(); };
  if (field("fortran_order").starts_with("True"))
    return bad("Fortran order");
  NpyArray array;
  StringRef type = field("descr").split("'").second.split("'").first;
  array.type = type.drop_front(1).str();
  StringRef dims = field("shape").split("(").second.split(")").first;
  SmallVector<StringRef> sizes;
  dims.split(sizes, ',', -1, /*KeepEmpty=*/false);
  for (StringRef size : sizes)
    if (size.trim().getAsInteger(10, array.shape.emplace_back()))
      return bad("bad shape");
  array.bytes.assign(data.begin(), data.end());
  return array;
}

Error writeNpy(StringRef path, const NpyArray &array) {
  std::string header = "{'descr': '" + std::string(array.type == "b1" ? "|" : "<") + array.type +
                       "', 'fortran_order': False, 'shape': (";
  for (int64_t size : array.shape)
    header += std::to_string(size) + ",";
  header += "), }";
  header.resize(alignTo(10 + header.size() + 1, 64) - 10 - 1, ' ');
  header += '\n';
  std::error_code error;
  raw_fd_ostream os(path, error);
  if (error)
    return createStringError(error, "cannot write %s", path.str().c_str());
  char length[2];
  support::endian::write16le(length, header.size());
  os << StringRef("\x93NUMPY\x01\x00", 8) << StringRef(length, 2) << header;
  os.write(array.bytes.data(), array.bytes.size());
  return Error::success();
}
