// Reads and writes the cache of tuning results.
#include "TuningCache.h"
#include "kiln/Link/OutputFile.h"
#include "kiln/Tuning/Autotune.h"
#include "kiln/Tuning/Bundle.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace kiln;
using namespace kiln::tuning;

std::string tuning::getDefaultCache() {
  SmallString<128> path;
  if (std::optional<std::string> root = sys::Process::GetEnv("XDG_CACHE_HOME");
      root && sys::path::is_absolute(*root))
    path = *root;
  else if (sys::path::home_directory(path))
    sys::path::append(path, ".cache");
  else
    return "";
  sys::path::append(path, "kiln", "tune");
  return path.str().str();
}

std::string TuningCache::getPath(StringRef key) const {
  SmallString<256> path(folder);
  sys::path::append(path, key + ".json");
  return path.str().str();
}

namespace kiln::tuning {
static bool fromJSON(const json::Value &value, TuningEntry &entry, json::Path path) {
  json::ObjectMapper map(value, path);
  return map && map.map("seconds", entry.seconds) && map.map("tuned", entry.isTuned) &&
         map.map("verified", entry.isVerified) && map.map("schedule", entry.schedule) &&
         map.map("ratio", entry.ratio) && map.map("failure", entry.failure);
}
} // namespace kiln::tuning

std::optional<TuningEntry> TuningCache::lookup(StringRef key) {
  if (auto found = known.find(key); found != known.end())
    return found->second;
  if (folder.empty())
    return std::nullopt;
  std::string path = getPath(key);
  ErrorOr<std::unique_ptr<MemoryBuffer>> file =
      MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return std::nullopt;
  TuningEntry entry;
  json::Path::Root root;
  if (std::optional<StringRef> text = unseal((*file)->getBuffer())) {
    Expected<json::Value> value = json::parse(*text);
    if (value && fromJSON(*value, entry, root))
      return entry;
    consumeError(value.takeError());
    consumeError(root.getError());
  }
  report("ignored the damaged entry '" + path + "'");
  return std::nullopt;
}

void TuningCache::store(StringRef key, const TuningEntry &entry) {
  known[key] = entry;
  if (folder.empty() || *options.isCacheBroken)
    return;
  std::string path = getPath(key), text;
  raw_string_ostream(text) << formatv("{0:2}",
                                      json::Value(json::Object{{"seconds", entry.seconds},
                                                               {"tuned", entry.isTuned},
                                                               {"verified", entry.isVerified},
                                                               {"schedule", entry.schedule},
                                                               {"ratio", entry.ratio},
                                                               {"failure", entry.failure}}))
                           << '\n';
  auto write = [&]() -> Error {
    if (std::error_code error = sys::fs::create_directories(folder))
      return createStringError(error, error.message());
    OutputFile file;
    if (Error error = file.create(path))
      return error;
    if (Error error = file.write(seal(text)))
      return error;
    return file.keep();
  };
  if (Error error = write()) {
    *options.isCacheBroken = true;
    report("cannot write the cache '" + folder + "': " + toString(std::move(error)));
  }
}
