// Has aot-tune time models of the same program.
#include "kiln/Tuning/Duels.h"
#include "RunTuner.h"
#include "TuningCache.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include <chrono>

using namespace llvm;
using namespace kiln;
using namespace kiln::tuning;

using Build = function_ref<Error(StringRef challenger, StringRef path)>;

static bool areEqual(StringRef first, StringRef second) {
  auto a = MemoryBuffer::getFile(first), b = MemoryBuffer::getFile(second);
  return a && b && (*a)->getBuffer() == (*b)->getBuffer();
}

/// Each challenger against the fastest one so far.
static Expected<TuningEntry> measure(const DuelOptions &duel, const Options &options, Build build) {
  TuningEntry entry;
  SmallString<128> first, other, best;
  for (SmallString<128> *path : {&first, &other, &best})
    if (Error error = createTemporary("so", *path))
      return error;
  FileRemover removeFirst(first), removeOther(other), removeBest(best);
  auto start = std::chrono::steady_clock::now();
  auto isOver = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >=
           duel.mostSeconds;
  };
  if (isOver())
    return entry;
  if (Error error = build("", first))
    return error;
  double ratio = 1;
  std::string winner;
  for (const std::string &challenger : duel.challengers) {
    if (isOver())
      break;
    if (Error error = build(challenger, other)) {
      entry.failure = toString(std::move(error));
      continue;
    }
    if (areEqual(first, other))
      continue;
    std::vector<std::string> arguments = {("--against=" + other).str(),
                                          "--threads=" + std::to_string(options.threads)};
    for (const std::string &size : duel.sizes)
      arguments.push_back("--size=" + size);
    Expected<Results> results =
        runTuner(options, winner.empty() ? first : best, duel.seconds, arguments);
    if (!results)
      return results.takeError();
    const KernelResult &result = results->kernels.front();
    entry.failure = result.candidates.back().failure;
    if (winner.empty()) {
      entry.seconds = result.seconds;
      entry.ratio = result.candidates.back().ratio;
    }
    if (!result.best)
      continue;
    winner = challenger;
    ratio *= result.candidates.back().ratio;
    std::swap(best, other);
  }
  if (!winner.empty())
    entry.ratio = ratio;
  if (ratio <= 1 - duel.leastGain)
    entry.schedule = winner;
  return entry;
}

Expected<Duel> tuning::runDuels(const DuelOptions &duel, const Options &options, Build build) {
  TuningCache cache(options);
  std::string whole =
      formatv("duel 3, {0}, {1} threads\n{2}\n", describeCPU(), options.threads, duel.key);
  std::string name = (duel.kind + "-").str() +
                     toHex(BLAKE3::hash<16>(arrayRefFromStringRef(whole)), /*LowerCase=*/true);
  std::optional<TuningEntry> entry = cache.lookup(name);
  bool isKnown =
      entry && (entry->schedule.empty() || llvm::is_contained(duel.challengers, entry->schedule));
  if (!isKnown) {
    Expected<TuningEntry> measured = measure(duel, options, build);
    if (!measured)
      return measured.takeError();
    entry = *measured;
    entry->isTuned = entry->isVerified = true;
    // A later compilation may have time where this one has none.
    if (options.seconds > 0)
      cache.store(name, *entry);
  }
  return Duel{entry->schedule, entry->ratio, entry->failure};
}
