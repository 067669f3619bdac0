//===- Weights.cpp - Writing the weights blob -----------------------------===//
#include "Weights.h"

#include "../../runtime/weights_file.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

using namespace llvm;
using namespace kiln;

uint64_t kiln::hashWeights(const WeightsBlob &weights) {
  std::vector<uint64_t> parts = {weights.bytes};
  for (const WeightsPiece &piece : weights.pieces) {
    ArrayRef<uint8_t> data(reinterpret_cast<const uint8_t *>(piece.data.data()), piece.data.size());
    parts.insert(parts.end(), {piece.offset, piece.data.size(), xxh3_64bits(data)});
  }
  return xxh3_64bits(ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(parts.data()),
                                       parts.size() * sizeof(uint64_t)));
}

Error kiln::verifyWeights(const WeightsBlob &weights) {
  std::vector<WeightsPiece> sorted(weights.pieces.begin(), weights.pieces.end());
  llvm::sort(sorted,
             [](const WeightsPiece &a, const WeightsPiece &b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (const WeightsPiece &piece : sorted) {
    if (piece.data.empty())
      continue;
    if (piece.offset < end || piece.offset > weights.bytes ||
        piece.data.size() > weights.bytes - piece.offset)
      return createStringError("weights piece at offset %llu overlaps another or the blob's end",
                               static_cast<unsigned long long>(piece.offset));
    end = piece.offset + piece.data.size();
  }
  return Error::success();
}

namespace {

/// Writes at given places of an existing file; holes read as zeros.
class FileWriter {
public:
  explicit FileWriter(const OutputFile &output) : path(output.getFinalPath().str()) {
    failure =
        sys::fs::openFileForWrite(output.getTemporaryPath(), descriptor, sys::fs::CD_OpenExisting);
    if (!failure)
      file.emplace(descriptor, /*shouldClose=*/true);
  }

  void resize(uint64_t size) {
    if (!failure)
      failure = sys::fs::resize_file(descriptor, size);
  }

  void write(uint64_t offset, const void *data, size_t size) {
    if (failure || !file)
      return;
    file->seek(offset);
    file->write(static_cast<const char *>(data), size);
  }

  void write(uint64_t offset, const WeightsBlob &weights) {
    for (const WeightsPiece &piece : weights.pieces)
      write(offset + piece.offset, piece.data.data(), piece.data.size());
  }

  Error finish() {
    if (file) {
      file->close();
      if (!failure)
        failure = file->error();
      file->clear_error();
    }
    if (failure)
      return createStringError(failure, "cannot write '" + path + "': " + failure.message());
    return Error::success();
  }

private:
  std::string path;
  int descriptor = -1;
  std::optional<raw_fd_ostream> file;
  std::error_code failure;
};

/// The header fields of a linked shared object that name the weights' place.
struct WeightsHeaders {
  uint64_t segmentAt = 0, sectionAt = 0; // offsets of the headers in the file
  ELF::Elf64_Phdr segment;
  ELF::Elf64_Shdr section;
};

template <typename T> bool readAt(StringRef file, uint64_t offset, T &value) {
  if (offset > file.size() || file.size() - offset < sizeof(T))
    return false;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return true;
}

} // namespace

/// Finds the one section without contents that is a segment of its own.
static Expected<WeightsHeaders> findHeaders(StringRef file, uint64_t bytes) {
  WeightsHeaders headers;
  ELF::Elf64_Ehdr elf;
  if (!readAt(file, 0, elf))
    return createStringError("the linked object is not ELF");

  uint64_t lastAddress = 0;
  for (unsigned i = 0; i < elf.e_phnum; ++i) {
    ELF::Elf64_Phdr segment;
    uint64_t at = elf.e_phoff + i * sizeof(segment);
    if (!readAt(file, at, segment) || segment.p_type != ELF::PT_LOAD)
      continue;
    lastAddress = std::max<uint64_t>(lastAddress, segment.p_vaddr);
    if (segment.p_filesz == 0 && segment.p_memsz == bytes && segment.p_flags == ELF::PF_R) {
      headers.segmentAt = at;
      headers.segment = segment;
    }
  }
  for (unsigned i = 0; i < elf.e_shnum && headers.segmentAt; ++i) {
    ELF::Elf64_Shdr section;
    uint64_t at = elf.e_shoff + i * sizeof(section);
    if (readAt(file, at, section) && section.sh_type == ELF::SHT_NOBITS &&
        section.sh_addr == headers.segment.p_vaddr && section.sh_size == bytes) {
      headers.sectionAt = at;
      headers.section = section;
    }
  }
  if (!headers.sectionAt || headers.segment.p_vaddr != lastAddress ||
      headers.segment.p_vaddr % KILN_RT_WEIGHTS_ALIGN != 0)
    return createStringError("no object refers to 'kiln_weights', but there are weights to embed");
  return headers;
}

Error kiln::writeWithWeights(const OutputFile &file, std::string image,
                             const WeightsBlob &weights) {
  Expected<WeightsHeaders> headers = findHeaders(image, weights.bytes);
  if (!headers)
    return headers.takeError();
  uint64_t offset = alignTo(image.size(), KILN_RT_WEIGHTS_ALIGN);
  headers->segment.p_offset = offset;
  headers->segment.p_filesz = weights.bytes;
  headers->section.sh_type = ELF::SHT_PROGBITS;
  headers->section.sh_offset = offset;
  std::memcpy(image.data() + headers->segmentAt, &headers->segment, sizeof(headers->segment));
  std::memcpy(image.data() + headers->sectionAt, &headers->section, sizeof(headers->section));

  FileWriter writer(file);
  writer.resize(offset + weights.bytes);
  writer.write(0, image.data(), image.size());
  writer.write(offset, weights);
  return writer.finish();
}

std::string kiln::getWeightsPath(StringRef output) {
  return (output + KILN_RT_WEIGHTS_SUFFIX).str();
}

Error kiln::writeExternalWeights(const OutputFile &file, const WeightsBlob &weights,
                                 uint64_t hash) {
  Expected<std::string> front = makeWeightsFront(weights, hash);
  if (!front)
    return front.takeError();
  FileWriter writer(file);
  writer.resize(front->size() + weights.bytes);
  writer.write(0, front->data(), front->size());
  writer.write(front->size(), weights);
  return writer.finish();
}
