// Reads what runs have measured: the sums of a profile (docs/profiling.md).
#include "Validate.h"
#include "kiln/Report/Report.h"
#include <cmath>

using namespace kiln;
using namespace kiln::report;
using llvm::json::Array;
using llvm::json::Object;

static constexpr int64_t profileVersion = 1;

/// The part of a kernel or a launch that a report shows; nullopt: it is none.
static std::optional<Object> readStep(const llvm::json::Value &value) {
  const Object *step = value.getAsObject();
  auto name = step ? step->getString("name") : std::nullopt;
  auto milliseconds = step ? step->getNumber("ms") : std::nullopt;
  if (!name || !milliseconds || !std::isfinite(*milliseconds))
    return std::nullopt;
  Object kept{{"name", llvm::json::fixUTF8(*name)}, {"ms", *milliseconds}};
  if (auto launch = step->getInteger("launch"))
    kept["launch"] = *launch;
  if (auto share = step->getNumber("roofline"); share && std::isfinite(*share))
    kept["roofline"] = *share;
  if (auto bound = step->getString("bound"))
    kept["bound"] = bound->str();
  return kept;
}

llvm::Expected<llvm::json::Value> report::readProfile(llvm::StringRef path) {
  auto file = readBounded(path);
  if (!file)
    return file.takeError();
  llvm::Expected<llvm::json::Value> trace = parseJson((*file)->getBuffer(), path);
  if (!trace)
    return trace;
  const Object *sums = trace->getAsObject() ? trace->getAsObject()->getObject("kiln") : nullptr;
  std::optional<int64_t> version = sums ? sums->getInteger("version") : std::nullopt;
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError("'" + path + "': " + message);
  };
  if (!version)
    return fail("not a profile of aot-run");
  if (*version != profileVersion)
    return fail("a profile of version " + llvm::Twine(*version) + ", expected " +
                llvm::Twine(profileVersion));
  Object profile;
  for (llvm::StringRef key : {"threads", "runs", "run_ms"}) {
    auto number = sums->getNumber(key);
    if (!number || !std::isfinite(*number))
      return fail("not a profile of aot-run: no '" + key + "'");
    profile[key] = *number;
  }
  for (llvm::StringRef list : {"kernels", "launches"}) {
    const Array *entries = sums->getArray(list);
    if (!entries)
      return fail("not a profile of aot-run: no '" + list + "'");
    Array kept;
    for (const llvm::json::Value &entry : *entries)
      if (std::optional<Object> step = readStep(entry))
        kept.push_back(std::move(*step));
      else
        return fail("not a profile of aot-run: '" + list + "' has something else");
    profile[list] = std::move(kept);
  }
  return profile;
}
