//===- Npz.cpp - Arrays in .npz files -------------------------------------===//
#include "Npz.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>
#include <zip.h>

using namespace llvm;
using namespace kiln::run;

//===-- The header of a .npy file -----------------------------------------===//

namespace {

/// The contents of a header.
struct NpyHeader {
  std::string descr;
  bool fortranOrder = false;
  SmallVector<int64_t> shape;
};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (1, 128), }: these
/// three keys in any order, each once.
class HeaderParser {
public:
  explicit HeaderParser(StringRef text) : rest(text) {}

  bool parse(NpyHeader &header) {
    bool descr = false, order = false, shape = false;
    if (!consume("{"))
      return false;
    while (!consume("}")) {
      std::string key;
      if (!parseString(key) || !consume(":"))
        return false;
      bool valid = false;
      if (key == "descr")
        valid = !std::exchange(descr, true) && parseString(header.descr);
      else if (key == "fortran_order")
        valid = !std::exchange(order, true) && parseBool(header.fortranOrder);
      else if (key == "shape")
        valid = !std::exchange(shape, true) && parseShape(header.shape);
      if (!valid)
        return false;
      if (!consume(",") && !peek("}"))
        return false;
    }
    return descr && order && shape && rest.trim().empty();
  }

private:
  StringRef rest;

  bool peek(StringRef token) {
    rest = rest.ltrim();
    return rest.starts_with(token);
  }

  bool consume(StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }

  bool parseString(std::string &value) {
    rest = rest.ltrim();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"'))
      return false;
    size_t end = rest.find(rest[0], 1);
    if (end == StringRef::npos)
      return false;
    value = rest.slice(1, end).str();
    rest = rest.drop_front(end + 1);
    return true;
  }

  bool parseBool(bool &value) {
    if (consume("True"))
      return value = true;
    value = false;
    return consume("False");
  }

  /// A tuple: (), (3,), (1, 2) or (1, 2,); but (3) is a number.
  bool parseShape(SmallVector<int64_t> &shape) {
    if (!consume("("))
      return false;
    bool comma = false;
    while (!consume(")")) {
      int64_t size;
      rest = rest.ltrim();
      if ((!shape.empty() && !comma) || shape.size() == 64 || rest.consumeInteger(10, size) ||
          size < 0)
        return false;
      shape.push_back(size);
      comma = consume(",");
    }
    return shape.size() != 1 || comma;
  }
};

} // namespace

/// The dtype of a type string, or an error that says what is wrong with it.
static Expected<const DType *> parseDescr(StringRef descr, StringRef key, ResolveVoid resolve) {
  StringRef rest = descr;
  char order = rest.empty() ? 0 : rest.front();
  if (StringRef("<>|=").contains(order))
    rest = rest.drop_front();
  char kind = rest.empty() ? 0 : rest.front();
  unsigned bytes;
  if (rest.empty() || rest.drop_front().getAsInteger(10, bytes) || bytes == 0)
    return createStringError("dtype " + quote(descr) + " is not supported");
  if (order == '>' && bytes > 1)
    return createStringError("dtype " + quote(descr) + ": big-endian arrays are not supported");
  if (kind == 'V') {
    const DType *type = resolve(key, bytes);
    if (!type)
      return createStringError("an array of voids (" + quote(descr) +
                               ") stands for bfloat16 or float8, which the model does not take "
                               "here");
    return type;
  }
  std::string numpyName = (Twine(bytes == 1 ? "|" : "<") + Twine(kind) + Twine(bytes)).str();
  for (const DType &type : allDTypes())
    if (type.descr == numpyName)
      return &type;
  return createStringError("dtype " + quote(descr) + " is not supported");
}

//===-- Reading -----------------------------------------------------------===//

namespace {

struct ZipClose {
  void operator()(zip_t *archive) const { zip_discard(archive); }
  void operator()(zip_file_t *file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, ZipClose>;
using Member = std::unique_ptr<zip_file_t, ZipClose>;

} // namespace

/// Reads at most so many bytes; returns how many, 0 at the end and less on an error.
using ReadSome = function_ref<int64_t(void *data, uint64_t bytes)>;

static bool readExactly(ReadSome read, void *data, uint64_t bytes) {
  char *at = static_cast<char *>(data);
  while (bytes > 0) {
    int64_t got = read(at, std::min<uint64_t>(bytes, 1 << 30));
    if (got <= 0)
      return false;
    at += got;
    bytes -= got;
  }
  return true;
}

static Expected<Array> parseNpy(ReadSome read, uint64_t fileBytes, StringRef key,
                                ResolveVoid resolve) {
  constexpr StringLiteral magic("\x93NUMPY");
  unsigned char start[12];
  if (!readExactly(read, start, 10) || std::memcmp(start, magic.data(), magic.size()) != 0)
    return createStringError("not a .npy file");
  unsigned version = start[6];
  if (version < 1 || version > 3 || start[7] != 0)
    return createStringError(".npy version %u.%u is not supported", version, unsigned(start[7]));
  uint64_t headerBytes = support::endian::read16le(start + 8), prefixBytes = 10;
  if (version > 1) {
    if (!readExactly(read, start + 10, 2))
      return createStringError("not a .npy file");
    headerBytes = support::endian::read32le(start + 8);
    prefixBytes = 12;
  }
  if (headerBytes > (1 << 20))
    return createStringError("its header is too long");
  std::string text(headerBytes, 0);
  NpyHeader header;
  if (!readExactly(read, text.data(), text.size()) || !HeaderParser(text).parse(header))
    return createStringError("its header is not that of a plain array");
  Expected<const DType *> dtype = parseDescr(header.descr, key, resolve);
  if (!dtype)
    return dtype.takeError();
  Expected<Array> array = Array::allocate(**dtype, header.shape);
  if (!array)
    return array;
  if (fileBytes != prefixBytes + headerBytes + array->bytes)
    return createStringError("its header says " + describe(*dtype, header.shape) +
                             ", which is not the size of its data");
  char end;
  if (!readExactly(read, array->data.get(), array->bytes) || read(&end, 1) != 0)
    return createStringError("it is damaged"); // a checksum, at the latest
  if (header.fortranOrder) {
    int64_t stride = 1;
    for (auto [size, s] : llvm::zip(array->shape, array->strides)) {
      s = stride;
      stride *= std::max<int64_t>(size, 1);
    }
  }
  if ((*dtype)->code == kDLBool)
    for (size_t i = 0; i < array->bytes; ++i)
      if (array->data.get()[i] & ~1)
        return createStringError("a bool is neither 0 nor 1");
  return array;
}

static std::string zipMessage(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string message = zip_error_strerror(&error);
  zip_error_fini(&error);
  return message;
}

Expected<std::map<std::string, Array>> kiln::run::readNpz(const std::string &path,
                                                          ResolveVoid resolve) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive)
    return createStringError(path + (code == ZIP_ER_NOZIP ? ": not an .npz file: " : ": ") +
                             zipMessage(code));
  std::map<std::string, Array> arrays;
  for (zip_int64_t i = 0, n = zip_get_num_entries(archive.get(), 0); i < n; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(archive.get(), i, 0, &stat) != 0 ||
        (stat.valid & (ZIP_STAT_NAME | ZIP_STAT_SIZE)) != (ZIP_STAT_NAME | ZIP_STAT_SIZE))
      return createStringError(path + ": a member has no name or size");
    StringRef key = stat.name;
    if (!key.consume_back(".npy"))
      return createStringError(path + ": " + quote(stat.name) + " is not a .npy file");
    Member member(zip_fopen_index(archive.get(), i, 0));
    if (!member)
      return createStringError(path + ": " + quote(key) + ": " + zip_strerror(archive.get()));
    auto read = [&](void *data, uint64_t bytes) { return zip_fread(member.get(), data, bytes); };
    Expected<Array> array = parseNpy(read, stat.size, key, resolve);
    if (!array)
      return createStringError(path + ": " + quote(key) + ": " + toString(array.takeError()));
    if (!arrays.emplace(key.str(), std::move(*array)).second)
      return createStringError(path + ": two arrays are named " + quote(key));
  }
  return arrays;
}

Expected<Array> kiln::run::readNpy(const std::string &path, ResolveVoid resolve) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(buffer.getError(), path + ": " + buffer.getError().message());
  StringRef rest = (*buffer)->getBuffer();
  auto read = [&](void *data, uint64_t bytes) -> int64_t {
    StringRef part = rest.take_front(bytes);
    memcpy(data, part.data(), part.size());
    rest = rest.drop_front(part.size());
    return part.size();
  };
  Expected<Array> array = parseNpy(read, rest.size(), path, resolve);
  if (!array)
    return createStringError(path + ": " + toString(array.takeError()));
  return array;
}

//===-- Writing -----------------------------------------------------------===//

/// Magic number, version 1.0 and a header padded so that data starts at a
/// multiple of 64 bytes.
static std::string makeHeader(const Array &array) {
  std::string dict;
  raw_string_ostream stream(dict);
  stream << "{'descr': '" << array.dtype->descr << "', 'fortran_order': False, 'shape': (";
  interleaveComma(array.shape, stream);
  stream << (array.shape.size() == 1 ? ",), }" : "), }");
  size_t padding = 64 - (10 + dict.size() + 1) % 64;
  dict.append(padding % 64, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header += '\1';
  header += '\0';
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

/// libzip removes archives without members instead of writing them.
static Error writeEmpty(const std::string &path) {
  std::error_code error;
  raw_fd_ostream stream(path, error);
  if (!error) {
    stream << "PK\5\6" << std::string(18, 0);
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  return error ? createStringError(error, "cannot write " + path + ": " + error.message())
               : Error::success();
}

Error kiln::run::writeNpz(const std::string &path,
                          ArrayRef<std::pair<std::string, const Array *>> arrays) {
  // libzip replaces what is at the path, which must not be a device.
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && status.type() != sys::fs::file_type::regular_file)
    return createStringError("cannot write " + path + ": not a regular file");
  if (arrays.empty())
    return writeEmpty(path);
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (!archive)
    return createStringError("cannot write " + path + ": " + zipMessage(code));
  std::vector<std::string> headers;
  headers.reserve(arrays.size()); // libzip reads them when it closes the archive
  std::vector<std::unique_ptr<zip_buffer_fragment_t[]>> fragments;
  for (const auto &[key, array] : arrays) {
    headers.push_back(makeHeader(*array));
    auto &parts = fragments.emplace_back(new zip_buffer_fragment_t[2]);
    parts[0] = {reinterpret_cast<zip_uint8_t *>(headers.back().data()), headers.back().size()};
    parts[1] = {reinterpret_cast<zip_uint8_t *>(array->data.get()), array->bytes};
    zip_source_t *source = zip_source_buffer_fragment(archive.get(), parts.get(), 2, 0);
    zip_int64_t index = -1;
    if (source)
      index = zip_file_add(archive.get(), (key + ".npy").c_str(), source, 0);
    if (index < 0 || zip_set_file_compression(archive.get(), index, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive.get(), index, 0, 0x21, 0) != 0) { // 1980-01-01
      if (source && index < 0)
        zip_source_free(source);
      return createStringError("cannot write " + path + ": " + zip_strerror(archive.get()));
    }
  }
  if (zip_close(archive.get()) != 0)
    return createStringError("cannot write " + path + ": " + zip_strerror(archive.get()));
  [[maybe_unused]] zip_t *freed = archive.release(); // by zip_close
  return Error::success();
}
