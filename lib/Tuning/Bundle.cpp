// Bundles of kernels to measure and results, read and written.
#include "kiln/Tuning/Bundle.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;
using namespace kiln::tuning;
using json::Path;

static constexpr StringLiteral bundleMagic = "KILNTUNE", resultsFormat = "kiln tuning results 1",
                               manifestFormat = "kiln tuning bundle 1";

std::optional<uint64_t> Buffer::getBytes() const {
  constexpr int64_t most = int64_t(1) << 40;
  int64_t bytes = std::max(bits / 8, 1);
  for (int64_t size : sizes)
    if (size < 0 || MulOverflow(bytes, size, bytes) || bytes > most)
      return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

std::string kiln::tuning::describeCPU() {
  std::string name = sys::getHostCPUName().str();
  ErrorOr<std::unique_ptr<MemoryBuffer>> info =
      MemoryBuffer::getFile("/proc/cpuinfo", /*IsText=*/true);
  if (!info)
    return name;
  SmallVector<StringRef> lines;
  (*info)->getBuffer().split(lines, '\n');
  for (StringRef line : lines)
    if (line.consume_front("model name"))
      return (line.ltrim("\t :") + " (" + name + ")").str();
  return name;
}

//===-- Sealed text -------------------------------------------------------------------------===//

static std::string hash(StringRef text) {
  return toHex(SHA256::hash(arrayRefFromStringRef(text)), /*LowerCase=*/true);
}

std::string kiln::tuning::seal(StringRef text) { return hash(text) + "\n" + text.str(); }

std::optional<StringRef> kiln::tuning::unseal(StringRef sealed) {
  auto [expected, text] = sealed.split('\n');
  return hash(text) == expected ? std::optional(text) : std::nullopt;
}

//===-- JSON --------------------------------------------------------------------------------===//

namespace kiln::tuning {

static json::Value toJSON(const Buffer &buffer) {
  return json::Object{{"code", buffer.code},
                      {"bits", buffer.bits},
                      {"sizes", buffer.sizes},
                      {"result", buffer.isResult},
                      {"constant", buffer.isConstant}};
}

static bool fromJSON(const json::Value &value, Buffer &buffer, Path path) {
  json::ObjectMapper map(value, path);
  int64_t code = 0, bits = 0;
  if (!map || !map.map("code", code) || !map.map("bits", bits) || !map.map("sizes", buffer.sizes) ||
      !map.map("result", buffer.isResult) || !map.map("constant", buffer.isConstant))
    return false;
  if (code < 0 || code > 255 || bits < 8 || bits > 128 || bits % 8 != 0) {
    path.report("there is no such type of elements");
    return false;
  }
  buffer.code = static_cast<uint8_t>(code);
  buffer.bits = static_cast<uint8_t>(bits);
  if (!buffer.getBytes()) {
    path.report("the buffer is too large");
    return false;
  }
  return true;
}

static json::Value toJSON(const Candidate &candidate) {
  return json::Object{
      {"schedule", candidate.schedule}, {"step", candidate.step}, {"symbols", candidate.symbols}};
}

static bool fromJSON(const json::Value &value, Candidate &candidate, Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("schedule", candidate.schedule) && map.map("step", candidate.step) &&
         map.map("symbols", candidate.symbols);
}

static json::Value toJSON(const Kernel &kernel) {
  return json::Object{{"name", kernel.name},
                      {"key", kernel.key},
                      {"buffers", kernel.buffers},
                      {"candidates", kernel.candidates}};
}

static bool fromJSON(const json::Value &value, Kernel &kernel, Path path) {
  json::ObjectMapper map(value, path);
  if (!map || !map.map("name", kernel.name) || !map.map("key", kernel.key) ||
      !map.map("buffers", kernel.buffers) || !map.map("candidates", kernel.candidates))
    return false;
  if (kernel.candidates.empty())
    path.report("the kernel has no candidates");
  return !kernel.candidates.empty();
}

static json::Value toJSON(const Outcome &outcome) {
  json::Object object{{"schedule", outcome.schedule}, {"ratio", outcome.ratio}};
  if (!outcome.failure.empty())
    object["failure"] = outcome.failure;
  return object;
}

static bool fromJSON(const json::Value &value, Outcome &outcome, Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("schedule", outcome.schedule) && map.map("ratio", outcome.ratio) &&
         map.mapOptional("failure", outcome.failure);
}

static json::Value toJSON(const KernelResult &kernel) {
  json::Object object{{"name", kernel.name},
                      {"key", kernel.key},
                      {"seconds", kernel.seconds},
                      {"best", kernel.best},
                      {"candidates", kernel.candidates}};
  if (!kernel.failure.empty())
    object["failure"] = kernel.failure;
  return object;
}

static bool fromJSON(const json::Value &value, KernelResult &kernel, Path path) {
  json::ObjectMapper map(value, path);
  if (!map || !map.map("name", kernel.name) || !map.map("key", kernel.key) ||
      !map.map("seconds", kernel.seconds) || !map.map("best", kernel.best) ||
      !map.map("candidates", kernel.candidates) || !map.mapOptional("failure", kernel.failure))
    return false;
  if (kernel.best < 0 || (kernel.best && uint64_t(kernel.best) >= kernel.candidates.size())) {
    path.field("best").report("there is no such candidate");
    return false;
  }
  return true;
}

/// The first line of manifests and results.
template <typename File>
static bool mapHeader(json::ObjectMapper &map, File &file, Path path, StringRef expected) {
  std::string format;
  if (!map || !map.map("format", format))
    return false;
  if (format != expected) {
    path.field("format").report("it is of another version");
    return false;
  }
  return map.map("compiler", file.compiler) && map.map("target", file.target) &&
         map.map("threads", file.threads) && map.map("kernels", file.kernels);
}

static bool checkSequence(const Manifest &manifest, Path path) {
  auto count = static_cast<int64_t>(manifest.kernels.size());
  if (all_of(manifest.sequence, [&](int64_t kernel) { return kernel >= 0 && kernel < count; }))
    return true;
  path.field("sequence").report("there is no such kernel");
  return false;
}

static bool fromJSON(const json::Value &value, Manifest &manifest, Path path) {
  json::ObjectMapper map(value, path);
  return mapHeader(map, manifest, path, manifestFormat) &&
         map.map("weight_bytes", manifest.weightBytes) &&
         map.mapOptional("features", manifest.features) &&
         map.mapOptional("architecture", manifest.architecture) &&
         map.mapOptional("sequence", manifest.sequence) && checkSequence(manifest, path);
}

static bool fromJSON(const json::Value &value, Results &results, Path path) {
  json::ObjectMapper map(value, path);
  return mapHeader(map, results, path, resultsFormat) && map.map("device", results.device);
}

} // namespace kiln::tuning

/// `text` as a File, or why it is none.
template <typename File> static Expected<File> parse(StringRef text, const Twine &what) {
  Expected<json::Value> value = json::parse(text);
  if (!value) {
    consumeError(value.takeError());
    return createStringError(what + ": it is not JSON");
  }
  File file;
  Path::Root root;
  if (!fromJSON(*value, file, root))
    return createStringError(what + ": " + toString(root.getError()));
  return file;
}

static Expected<std::unique_ptr<MemoryBuffer>> readFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> file =
      MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return createStringError(file.getError(),
                             "cannot read '" + path + "': " + file.getError().message());
  return std::move(*file);
}

//===-- Bundles -----------------------------------------------------------------------------===//

namespace {
/// The last bytes of a bundle.
struct Trailer {
  char hash[64]; // of everything before it
  uint64_t manifestBytes;
  char magic[8];
};
} // namespace

Error kiln::tuning::appendManifest(StringRef path, const Manifest &manifest) {
  std::string text;
  raw_string_ostream(text) << json::Value(json::Object{{"format", manifestFormat},
                                                       {"compiler", manifest.compiler},
                                                       {"target", manifest.target},
                                                       {"threads", manifest.threads},
                                                       {"weight_bytes", manifest.weightBytes},
                                                       {"features", manifest.features},
                                                       {"architecture", manifest.architecture},
                                                       {"kernels", manifest.kernels},
                                                       {"sequence", manifest.sequence}});
  Expected<std::unique_ptr<MemoryBuffer>> library = readFile(path);
  if (!library)
    return library.takeError();
  Trailer trailer = {{}, text.size(), {}};
  llvm::copy(hash(((*library)->getBuffer() + text).str()), trailer.hash);
  llvm::copy(bundleMagic, trailer.magic);
  std::error_code error;
  raw_fd_ostream stream(path, error, sys::fs::CD_OpenExisting, sys::fs::FA_Write,
                        sys::fs::OF_Append);
  if (!error) {
    stream << text << StringRef(reinterpret_cast<const char *>(&trailer), sizeof(trailer));
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  if (error)
    return createStringError(error, "cannot write '" + path + "': " + error.message());
  return Error::success();
}

Expected<Manifest> kiln::tuning::readManifest(StringRef path) {
  Expected<std::unique_ptr<MemoryBuffer>> file = readFile(path);
  if (!file)
    return file.takeError();
  StringRef text = (*file)->getBuffer();
  Trailer trailer;
  if (text.size() < sizeof(trailer) || !text.ends_with(bundleMagic))
    return createStringError("'" + path + "' is no tuning bundle, or not all of one");
  memcpy(&trailer, text.end() - sizeof(trailer), sizeof(trailer));
  text = text.drop_back(sizeof(trailer));
  if (trailer.manifestBytes > text.size() ||
      hash(text) != StringRef(trailer.hash, sizeof(trailer.hash)))
    return createStringError("'" + path + "' is damaged: its contents do not fit their hash");
  return parse<Manifest>(text.take_back(trailer.manifestBytes), "'" + path + "' is damaged");
}

//===-- Results -----------------------------------------------------------------------------===//

std::string kiln::tuning::printResults(const Results &results) {
  std::string text;
  raw_string_ostream(text) << formatv("{0:2}",
                                      json::Value(json::Object{{"format", resultsFormat},
                                                               {"compiler", results.compiler},
                                                               {"target", results.target},
                                                               {"device", results.device},
                                                               {"threads", results.threads},
                                                               {"kernels", results.kernels}}))
                           << '\n';
  return seal(text);
}

Expected<Results> kiln::tuning::readResults(StringRef path) {
  Expected<std::unique_ptr<MemoryBuffer>> file = readFile(path);
  if (!file)
    return file.takeError();
  std::optional<StringRef> text = unseal((*file)->getBuffer());
  if (!text)
    return createStringError("'" + path + "' has no results of aot-tune, or they are damaged");
  return parse<Results>(*text, "'" + path + "'");
}
