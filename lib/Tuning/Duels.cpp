// Has aot-tune time two models of the same program.
#include "kiln/Tuning/Duels.h"
#include "RunTuner.h"
#include "TuningCache.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace kiln;
using namespace kiln::tuning;

/// About as long the two are timed.
static constexpr double seconds = 2;

static Expected<TuningEntry> measure(const Options &options,
                                     function_ref<Error(bool challenger, StringRef path)> build) {
  SmallString<128> models[2];
  for (SmallString<128> &path : models)
    if (Error error = createTemporary("so", path))
      return error;
  FileRemover removeOwn(models[0]), removeOther(models[1]);
  TuningEntry entry;
  if (Error error = build(/*challenger=*/false, models[0]))
    return error;
  if (Error error = build(/*challenger=*/true, models[1])) {
    entry.failure = toString(std::move(error));
    return entry;
  }
  std::string against = ("--against=" + models[1]).str(),
              threads = "--threads=" + std::to_string(options.threads);
  Expected<Results> results = runTuner(options, models[0], seconds, {against, threads});
  if (!results)
    return results.takeError();
  const KernelResult &result = results->kernels.front();
  entry.seconds = result.seconds;
  entry.failure = result.candidates.back().failure;
  entry.ratio = result.candidates.back().ratio;
  if (result.best)
    entry.schedule = "extern";
  return entry;
}

Expected<Duel> tuning::runDuel(StringRef key, const Options &options,
                               function_ref<Error(bool challenger, StringRef path)> build) {
  TuningCache cache(options.cache, [&](const std::string &text) {
    if (options.onWarning)
      options.onWarning("--autotune: " + text);
  });
  std::string whole = formatv("duel 1, {0}, {1} threads\n", describeCPU(), options.threads);
  whole += key;
  std::string name = toHex(BLAKE3::hash<16>(arrayRefFromStringRef(whole)), /*LowerCase=*/true);
  std::optional<TuningEntry> entry = cache.lookup(name);
  if (!entry) {
    Expected<TuningEntry> measured = measure(options, build);
    if (!measured)
      return measured.takeError();
    entry = *measured;
    entry->isTuned = entry->isVerified = true;
    cache.store(name, *entry);
  }
  return Duel{!entry->schedule.empty(), entry->ratio, entry->failure};
}
