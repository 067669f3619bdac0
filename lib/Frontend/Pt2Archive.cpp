// Reads the archive: libzip checks and lists it and inflates; where the bytes of a stored member
// lie, which libzip does not tell, is read from the headers.
#include "kiln/Frontend/Pt2Archive.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <new>
#include <zip.h>

using namespace llvm;
using namespace llvm::support;
using namespace kiln::frontend;

struct Pt2Archive::Member {
  uint64_t index;        // in libzip
  uint64_t headerOffset; // of the local header
  uint64_t size, compressedSize;
  uint32_t crc;
  bool isStored;
};

struct Pt2Archive::Zip {
  zip_t *handle = nullptr;
  ~Zip() { zip_discard(handle); }
};

Pt2Archive::Pt2Archive() : zip(std::make_unique<Zip>()) {}
Pt2Archive::~Pt2Archive() = default;

//===-- The directory -----------------------------------------------------------------------===//

namespace {

/// Bounds-checked little-endian reads.
struct Window {
  StringRef bytes;
  bool has(uint64_t offset, uint64_t size) const {
    return offset <= bytes.size() && size <= bytes.size() - offset;
  }
  template <typename T> T get(uint64_t offset) const {
    return endian::read<T, endianness::little>(bytes.data() + offset);
  }
};

constexpr uint32_t endSignature = 0x06054b50, end64Signature = 0x06064b50,
                   locator64Signature = 0x07064b50, centralSignature = 0x02014b50,
                   localSignature = 0x04034b50;
constexpr uint64_t endSize = 22, locator64Size = 20, end64Size = 56, centralSize = 46,
                   localSize = 30;
constexpr uint32_t unknown32 = 0xffffffff;
constexpr uint16_t zip64Extra = 1;

/// Offset of the first central header; nullopt when there is no end record.
std::optional<uint64_t> findDirectory(Window file) {
  if (!file.has(0, endSize))
    return std::nullopt;
  uint64_t last = file.bytes.size() - endSize, first = last > 0xffff ? last - 0xffff : 0;
  for (uint64_t end = last + 1; end-- > first;) {
    if (file.get<uint32_t>(end) != endSignature)
      continue;
    uint32_t offset = file.get<uint32_t>(end + 16);
    if (offset != unknown32)
      return offset;
    if (end < locator64Size || file.get<uint32_t>(end - locator64Size) != locator64Signature)
      return std::nullopt;
    uint64_t end64 = file.get<uint64_t>(end - locator64Size + 8);
    if (!file.has(end64, end64Size) || file.get<uint32_t>(end64) != end64Signature)
      return std::nullopt;
    return file.get<uint64_t>(end64 + 48);
  }
  return std::nullopt;
}

/// The local header's offset that a central header at `at` gives, from its zip64 field if need be.
std::optional<uint64_t> localOffset(Window file, uint64_t at, uint16_t nameSize,
                                    uint16_t extraSize) {
  uint32_t offset = file.get<uint32_t>(at + 42);
  if (offset != unknown32)
    return offset;
  uint64_t field = at + centralSize + nameSize, end = field + extraSize;
  while (field + 4 <= end) {
    uint16_t id = file.get<uint16_t>(field), size = file.get<uint16_t>(field + 2);
    field += 4;
    if (field + size > end)
      return std::nullopt;
    if (id == zip64Extra) {
      // The sizes come first, each only where the 32-bit field is full.
      uint64_t skip = (file.get<uint32_t>(at + 24) == unknown32 ? 8 : 0) +
                      (file.get<uint32_t>(at + 20) == unknown32 ? 8 : 0);
      if (skip + 8 > size)
        return std::nullopt;
      return file.get<uint64_t>(field + skip);
    }
    field += size;
  }
  return std::nullopt;
}

constexpr StringLiteral programSuffix = ".json", modelsFolder = "models/", tensors = "data.pkl";

/// The root folder: what stands before `data.pkl`.
std::optional<StringRef> rootOfTensors(StringRef name) {
  if (!name.consume_back(tensors) || (!name.empty() && !name.ends_with("/")))
    return std::nullopt;
  return name;
}

/// The root folder: what stands before `models/NAME.json`.
std::optional<StringRef> rootOf(StringRef name) {
  if (!name.ends_with(programSuffix))
    return std::nullopt;
  size_t slash = name.rfind('/');
  StringRef folder = slash == StringRef::npos ? "" : name.take_front(slash + 1);
  if (!folder.consume_back(modelsFolder) || (!folder.empty() && !folder.ends_with("/")))
    return std::nullopt;
  return folder;
}

} // namespace

Expected<std::unique_ptr<Pt2Archive>> Pt2Archive::open(StringRef path, uint64_t maxUnpacked) {
  auto fail = [&](const Twine &message) { return createStringError(Twine(path) + ": " + message); };
  // Devices and pipes may never end.
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) &&
      !is_contained({sys::fs::file_type::regular_file, sys::fs::file_type::directory_file},
                    status.type()))
    return fail("not a regular file");
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail(buffer.getError().message());
  std::shared_ptr<const MemoryBuffer> file = std::move(*buffer);
  if (file->getBufferSize() == 0)
    return fail("not a .pt2 archive: the file is empty");
  uint64_t own = file->getBufferSize();
  auto budget = std::make_shared<Budget>(
      Budget{maxUnpacked, maxUnpacked > UINT64_MAX - own ? UINT64_MAX : maxUnpacked + own});
  return open(path, {ArrayRef(file->getBufferStart(), own), file}, Kind::Program, budget);
}

Expected<std::unique_ptr<Pt2Archive>> Pt2Archive::openSaved(StringRef member) {
  Expected<Bytes> bytes = read(member, /*verify=*/false);
  if (!bytes)
    return bytes.takeError();
  return open((path + ": " + member).str(), std::move(*bytes), Kind::Tensors, budget);
}

Expected<std::unique_ptr<Pt2Archive>> Pt2Archive::open(StringRef path, Bytes file, Kind kind,
                                                       std::shared_ptr<Budget> budget) {
  auto fail = [&](const Twine &message) { return createStringError(Twine(path) + ": " + message); };
  std::unique_ptr<Pt2Archive> archive(new Pt2Archive());
  archive->path = path;
  archive->file = std::move(file);
  archive->budget = std::move(budget);
  StringRef bytes = archive->file.text();

  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source)
    archive->zip->handle = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (!archive->zip->handle) {
    std::string message = zip_error_strerror(&error);
    zip_source_free(source);
    zip_error_fini(&error);
    return fail((kind == Kind::Program ? "not a .pt2 archive" : "not an archive of tensors") +
                Twine(", or only a part of one: ") + message);
  }
  zip_error_fini(&error);
  if (Error directory = archive->readDirectory(kind))
    return fail(toString(std::move(directory)));
  return archive;
}

Error Pt2Archive::readDirectory(Kind kind) {
  Window bytes{file.text()};
  auto corrupt = [](const Twine &what) { return createStringError("corrupt archive: " + what); };
  std::optional<uint64_t> directory = findDirectory(bytes);
  if (!directory)
    return corrupt("no directory");
  zip_int64_t count = zip_get_num_entries(zip->handle, 0);

  struct Entry {
    std::string name;
    Member member;
  };
  SmallVector<Entry> entries;
  SmallVector<StringRef> roots;
  uint64_t at = *directory;
  for (zip_int64_t i = 0; i < count; ++i) {
    if (!bytes.has(at, centralSize) || bytes.get<uint32_t>(at) != centralSignature)
      return corrupt("bad directory entry " + Twine(i));
    uint16_t nameSize = bytes.get<uint16_t>(at + 28), extraSize = bytes.get<uint16_t>(at + 30),
             commentSize = bytes.get<uint16_t>(at + 32);
    uint64_t entrySize = centralSize + nameSize + extraSize + commentSize;
    if (!bytes.has(at, entrySize))
      return corrupt("bad directory entry " + Twine(i));
    zip_stat_t stat;
    if (zip_stat_index(zip->handle, i, ZIP_FL_ENC_RAW, &stat) != 0)
      return corrupt("bad directory entry " + Twine(i));
    constexpr zip_uint64_t needed =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_CRC;
    std::optional<uint64_t> header = localOffset(bytes, at, nameSize, extraSize);
    StringRef name = bytes.bytes.substr(at + centralSize, nameSize);
    if ((stat.valid & needed) != needed || !header || name != stat.name)
      return corrupt("bad directory entry " + Twine(i));
    entries.push_back(
        {name.str(),
         {static_cast<uint64_t>(i), *header, stat.size, stat.comp_size, stat.crc,
          stat.comp_method == ZIP_CM_STORE && (!(stat.valid & ZIP_STAT_ENCRYPTION_METHOD) ||
                                               stat.encryption_method == ZIP_EM_NONE)}});
    if (std::optional<StringRef> candidate =
            kind == Kind::Program ? rootOf(name) : rootOfTensors(name))
      if (!is_contained(roots, *candidate))
        roots.push_back(*candidate);
    at += entrySize;
  }
  if (roots.empty())
    return createStringError(kind == Kind::Program ? "holds no exported program (no models/*.json)"
                                                   : "holds no tensors (no data.pkl)");
  // A program may carry extra files, in folders of any name.
  StringRef outermost =
      *llvm::min_element(roots, [](StringRef a, StringRef b) { return a.size() < b.size(); });
  for (StringRef other : roots)
    if (!other.starts_with(outermost))
      return corrupt("more than one root folder: '" + outermost + "' and '" + other + "'");
  root = outermost.rtrim('/').str();
  for (Entry &entry : entries) {
    StringRef name = entry.name;
    if (name.consume_front(outermost) && !members.try_emplace(name, entry.member).second)
      return corrupt("'" + name + "' is there twice");
  }
  return Error::success();
}

SmallVector<std::string> Pt2Archive::membersIn(StringRef folder) const {
  SmallVector<std::string> names;
  for (StringRef name : members.keys())
    if (name.starts_with(folder))
      names.push_back(name.str());
  llvm::sort(names);
  return names;
}

//===-- Members -----------------------------------------------------------------------------===//

Expected<Pt2Archive::Bytes> Pt2Archive::read(StringRef name, bool verify) {
  auto fail = [&](const Twine &message) {
    return createStringError(Twine(path) + ": " + name + ": " + message);
  };
  auto it = members.find(name);
  if (it == members.end())
    return createStringError(Twine(path) + ": no member '" + name + "'");
  const Member &member = it->second;
  if (!member.isStored)
    return inflate(name, member);
  Window bytes{file.text()};
  uint64_t at = member.headerOffset;
  if (!bytes.has(at, localSize) || bytes.get<uint32_t>(at) != localSignature)
    return fail("corrupt archive: bad header");
  uint64_t data = at + localSize + bytes.get<uint16_t>(at + 26) + bytes.get<uint16_t>(at + 28);
  if (member.size != member.compressedSize || !bytes.has(data, member.size))
    return fail("truncated");
  Bytes result{ArrayRef(bytes.bytes.data() + data, member.size), file.owner};
  if (verify && llvm::crc32(arrayRefFromStringRef(result.text())) != member.crc)
    return fail("damaged (checksum)");
  return result;
}

Error Pt2Archive::checkWord(StringRef member, StringRef expected) {
  if (!contains(member))
    return Error::success();
  Expected<Bytes> bytes = read(member, /*verify=*/true);
  if (!bytes)
    return bytes.takeError();
  StringRef word = bytes->text().trim();
  if (word == expected)
    return Error::success();
  return createStringError(Twine(member) + " is '" + word.take_front(32) + "', expected '" +
                           expected + "'");
}

Expected<std::shared_ptr<char[]>> Pt2Archive::allocate(uint64_t bytes) {
  if (bytes > budget->left)
    return createStringError("the archive takes more than " + Twine(budget->allowed >> 30) +
                             " GiB of memory beyond its own size (--max-unpacked)");
  std::shared_ptr<char[]> memory(new (std::nothrow) char[bytes ? bytes : 1]);
  if (!memory)
    return createStringError("out of memory");
  budget->left -= bytes;
  return memory;
}

Expected<Pt2Archive::Bytes> Pt2Archive::inflate(StringRef name, const Member &member) {
  auto fail = [&](const Twine &message) {
    return createStringError(Twine(path) + ": " + name + ": " + message);
  };
  // Deflate makes at most 1032 bytes of one: a larger claim is a lie that would cost memory.
  constexpr uint64_t maxRatio = 1032;
  if (member.compressedSize > file.data.size() ||
      member.size > (member.compressedSize + 1) * maxRatio)
    return fail("corrupt archive: bad size");
  Expected<std::shared_ptr<char[]>> allocated = allocate(member.size);
  if (!allocated)
    return fail(toString(allocated.takeError()));
  std::shared_ptr<char[]> storage = *allocated;
  zip_file_t *stream = zip_fopen_index(zip->handle, member.index, 0);
  if (!stream)
    return fail(zip_strerror(zip->handle));
  uint64_t done = 0;
  while (done < member.size) {
    zip_int64_t got = zip_fread(stream, storage.get() + done, member.size - done);
    if (got <= 0)
      break;
    done += static_cast<uint64_t>(got);
  }
  // The checksum is compared when the end is reached.
  char past;
  bool isWhole = done == member.size && zip_fread(stream, &past, 1) == 0;
  std::string reason = zip_file_strerror(stream);
  zip_fclose(stream);
  if (!isWhole)
    return fail("damaged: " + reason);
  return Bytes{ArrayRef(storage.get(), member.size), storage};
}
