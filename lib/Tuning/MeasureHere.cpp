// Finds the fastest schedules of a program's kernels on this machine.
//
// All kernels are timed with the schedules that planners chose. Those whose launches take a part of
// the run that counts are then tuned in rounds: the candidates of a round are neighbours of the best
// schedules so far, all are compiled into one bundle, and aot-tune times them in processes of its
// own. The planner's neighbours come first, as many as there are; later rounds go on from the few
// that were fastest, as long as there is time. What is found is kept with each kernel's key; a compilation that finds everything there
// measures nothing and gives the same bytes each time.
#include "MeasureHere.h"
#include "PlanCandidates.h"
#include "RunTuner.h"
#include "TuningCache.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace mlir;
using namespace kiln;
using namespace kiln::tuning;

/// A kernel is tuned if it takes at least this part of a run.
static constexpr double leastShare = 0.005;
/// More candidates are tried where there is more to be saved.
static constexpr double largeShare = 0.03;
static constexpr size_t fewCandidates = 12;
/// The least time of a kernel of which something can be saved: a launch takes less.
static constexpr double leastSeconds = 1e-6;
/// The rounds of a kernel that is no large part of the run.
static constexpr unsigned fewRounds = 3;
/// Schedules whose neighbours are tried.
static constexpr size_t beamWidth = 4;
/// About as long runs of the program are timed, if there is so much time.
static constexpr double replaySeconds = 12;

namespace {

/// A kernel that is being tuned.
struct Search {
  TunedKernel kernel;
  std::string cacheKey;
  TuningEntry entry;
  bool isKnown = false; // its time is
  bool isActive = false;
  kernel::ScheduleAttrInterface best;
  unsigned rounds = 0;
  /// The fastest ones beside the best, with their times as parts of the planner's.
  std::vector<std::pair<double, kernel::ScheduleAttrInterface>> beam;
  llvm::SmallDenseSet<Attribute> tried;
};

class Autotuner {
public:
  /// At the sizes of a point. The search ends after about `seconds`.
  Autotuner(ModuleOp module, const Target &target, StringRef compiler, StringRef device,
            const Options &options, Bundler &bundler, TuningCache &cache, size_t point,
            double seconds)
      : module(module), target(target), options(options), bundler(bundler), cache(cache),
        seconds(seconds) {
    std::string machine = llvm::formatv("{0}, {1} threads\n", device, options.threads);
    for (TunedKernel &kernel : findKernels(module, target, compiler, options, point)) {
      Search &search = searches.emplace_back();
      search.best = bundler.getSchedule(kernel.func);
      search.cacheKey =
          llvm::toHex(llvm::BLAKE3::hash<16>(llvm::arrayRefFromStringRef(machine + kernel.key)),
                      /*LowerCase=*/true);
      search.kernel = std::move(kernel);
    }
  }

  llvm::Error run() {
    readCache();
    if (llvm::Error error = measureFirst())
      return error;
    activate();
    if (llvm::Error error = runRounds())
      return error;
    return replay();
  }

  void addTo(Choices &choices, size_t point) const {
    for (const Search &search : searches) {
      kernel::FuncOp func = search.kernel.func;
      std::string why;
      llvm::raw_string_ostream(why)
          << llvm::formatv("tuned: takes {0:f2} of the time with ", search.entry.ratio)
          << bundler.getSchedule(func);
      choices.set(func, point, search.best, why);
    }
  }

private:
  double secondsSince() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void readCache() {
    for (Search &search : searches) {
      std::optional<TuningEntry> entry = cache.lookup(search.cacheKey);
      if (!entry)
        continue;
      if (!entry->schedule.empty()) {
        auto schedule = parseSchedule(entry->schedule, module.getContext());
        if (!schedule || !bundler.plan(search.kernel.func, schedule)) {
          sayOf(search.kernel.func, "NotTuned", "what the cache says of it is ignored",
                "it cannot be run with " + entry->schedule);
          continue;
        }
        search.best = schedule;
      }
      search.entry = *entry;
      search.isKnown = true;
    }
  }

  /// The times of all kernels with their planners' schedules.
  llvm::Error measureFirst() {
    std::vector<Bundler::Entry> entries;
    std::vector<Search *> measured;
    for (Search &search : searches)
      if (!search.isKnown) {
        entries.push_back({&search.kernel, {search.kernel.func}});
        measured.push_back(&search);
      }
    if (entries.empty())
      return llvm::Error::success();
    llvm::Expected<Results> results = measure(entries);
    if (!results)
      return results.takeError();
    for (auto [search, result] : llvm::zip_equal(measured, results->kernels)) {
      search->entry.seconds = result.seconds;
      search->entry.failure = result.failure;
      cache.store(search->cacheKey, search->entry);
    }
    return llvm::Error::success();
  }

  double getShare(const Search &search) const {
    double all = 0;
    for (const Search &other : searches)
      all += other.entry.seconds * other.kernel.launches;
    return all > 0 ? search.entry.seconds * search.kernel.launches / all : 0;
  }

  void activate() {
    for (Search &search : searches) {
      if (!search.entry.failure.empty())
        sayOf(search.kernel.func, "NotTuned", "not tuned", search.entry.failure);
      search.isActive = search.entry.failure.empty() && !search.entry.isTuned &&
                        search.entry.seconds >= leastSeconds && getShare(search) >= leastShare;
    }
  }

  llvm::Error runRounds() {
    double last = 0; // what the last round took
    // One round at least, so that each of these kernels is known to have been tuned.
    for (bool isFirst = seconds > 0; isAnyActive() && (isFirst || secondsSince() + last < seconds);
         isFirst = false) {
      double before = secondsSince();
      if (llvm::Error error = runRound())
        return error;
      last = secondsSince() - before;
    }
    return llvm::Error::success();
  }

  bool isAnyActive() const {
    return llvm::any_of(searches, [](const Search &search) { return search.isActive; });
  }

  /// Candidates of the next round, which go on from the best one and from those of the beam.
  PlannedModules planRound(Search &search, ModuleOp base) {
    size_t most = options.candidates;
    if (getShare(search) < largeShare)
      most = std::min(most, fewCandidates);
    PlannedModules candidates;
    planCandidates(bundler, target, getFunc(base), most, search.tried, candidates);
    for (auto &[ratio, schedule] : search.beam) {
      if (candidates.size() == most)
        break;
      if (OwningOpRef<ModuleOp> planned = bundler.plan(search.kernel.func, schedule))
        planCandidates(bundler, target, getFunc(*planned), most, search.tried, candidates);
    }
    return candidates;
  }

  llvm::Error runRound() {
    std::vector<PlannedModules> planned; // of the searches that are left
    std::vector<Bundler::Entry> entries;
    std::vector<Search *> measured;
    for (Search &search : searches) {
      if (!search.isActive)
        continue;
      search.tried.insert(search.best);
      OwningOpRef<ModuleOp> base = bundler.plan(search.kernel.func, search.best);
      auto candidates = planRound(search, *base);
      if (candidates.empty()) {
        finish(search);
        continue;
      }
      candidates.insert(candidates.begin(), std::move(base));
      Bundler::Entry &entry = entries.emplace_back(Bundler::Entry{&search.kernel, {}});
      for (OwningOpRef<ModuleOp> &candidate : candidates)
        entry.candidates.push_back(getFunc(*candidate));
      planned.push_back(std::move(candidates));
      measured.push_back(&search);
    }
    if (entries.empty())
      return llvm::Error::success();
    llvm::Expected<Results> results = measure(entries);
    if (!results)
      return results.takeError();
    for (auto [search, entry, result] : llvm::zip_equal(measured, entries, results->kernels))
      take(*search, entry, result);
    return llvm::Error::success();
  }

  void take(Search &search, const Bundler::Entry &entry, const KernelResult &result) {
    for (const Outcome &outcome : result.candidates)
      if (!outcome.failure.empty())
        sayOf(search.kernel.func, "NotTuned", "not run with " + outcome.schedule, outcome.failure);
    auto best = static_cast<size_t>(result.best);
    for (auto [candidate, outcome] : llvm::zip_equal(entry.candidates, result.candidates))
      if (outcome.ratio > 0)
        search.beam.emplace_back(search.entry.ratio * outcome.ratio,
                                 bundler.getSchedule(candidate));
    if (best) {
      search.best = bundler.getSchedule(entry.candidates[best]);
      search.entry.ratio *= result.candidates[best].ratio;
    }
    llvm::erase_if(search.beam, [&](auto &known) { return known.second == search.best; });
    llvm::sort(search.beam, llvm::less_first());
    search.beam.resize(std::min(search.beam.size(), beamWidth));
    finish(search, getShare(search) >= largeShare || (best && ++search.rounds < fewRounds));
  }

  /// Runs of the program decide on what kernels alone have promised.
  llvm::Error replay() {
    PlannedModules planned;
    std::vector<Bundler::Entry> entries;
    Launches launches;
    bool isOpen = false;
    for (Search &search : searches) {
      if (!search.entry.failure.empty())
        continue;
      for (unsigned place : search.kernel.places)
        launches.emplace_back(place, entries.size());
      Bundler::Entry &entry =
          entries.emplace_back(Bundler::Entry{&search.kernel, {search.kernel.func}});
      if (search.entry.isVerified || search.best == bundler.getSchedule(search.kernel.func))
        continue;
      isOpen = true;
      planned.push_back(bundler.plan(search.kernel.func, search.best));
      entry.candidates.push_back(getFunc(*planned.back()));
    }
    if (!isOpen)
      return llvm::Error::success();
    llvm::Expected<Results> results = measure(entries, getSequence(launches));
    if (!results)
      return results.takeError();
    llvm::StringMap<const KernelResult *> byKey;
    for (const KernelResult &result : results->kernels)
      byKey[result.key] = &result;
    for (Search &search : searches)
      if (const KernelResult *result = byKey.lookup(search.kernel.key);
          result && result->candidates.size() > 1)
        decide(search, *result);
    return llvm::Error::success();
  }

  void decide(Search &search, const KernelResult &result) {
    const Outcome &outcome = result.candidates.back();
    if (result.best) {
      search.entry.ratio = outcome.ratio;
    } else {
      sayOf(search.kernel.func, "NotTuned", "not run with " + outcome.schedule,
            !outcome.failure.empty() ? outcome.failure
                                     : llvm::formatv("in runs of the model it takes {0:f2} of the "
                                                     "time, alone {1:f2}",
                                                     outcome.ratio, search.entry.ratio)
                                           .str());
      search.best = bundler.getSchedule(search.kernel.func);
      search.entry.ratio = 1;
    }
    search.entry.isVerified = true;
    finish(search);
  }

  /// Keeps what is known so far, which is all if the search does not go on.
  void finish(Search &search, bool goesOn = false) {
    search.isActive = goesOn;
    search.entry.isTuned = true;
    search.entry.schedule.clear();
    if (search.best != bundler.getSchedule(search.kernel.func))
      llvm::raw_string_ostream(search.entry.schedule) << search.best;
    cache.store(search.cacheKey, search.entry);
  }

  /// Has aot-tune time candidates.
  llvm::Expected<Results> measure(ArrayRef<Bundler::Entry> entries,
                                  ArrayRef<int64_t> sequence = {}) {
    SmallString<128> bundle;
    if (llvm::Error error = createTemporary("bundle", bundle))
      return error;
    llvm::FileRemover remove(bundle);
    if (llvm::Error error = bundler.write(entries, bundle, sequence))
      return error;
    // For each kernel, or for the runs.
    double time = sequence.empty() ? std::min(seconds / (4 * double(entries.size())), 1.0)
                                   : std::clamp(seconds / 4, 1.0, replaySeconds);
    return runTuner(options, bundle, std::max(time, 0.05));
  }

  ModuleOp module;
  const Target &target;
  const Options &options;
  Bundler &bundler;
  TuningCache &cache;
  double seconds;
  std::vector<Search> searches;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace

llvm::Error tuning::measureHere(ModuleOp module, const Target &target, StringRef compiler,
                                StringRef device, const Options &options, Bundler &bundler,
                                const Points &points, Choices &choices) {
  TuningCache cache(options);
  for (size_t point = 0; point < points.size(); ++point) {
    Autotuner tuner(module, target, compiler, device, options, bundler, cache, point,
                    options.seconds / double(points.size()));
    if (llvm::Error error = tuner.run())
      return error;
    tuner.addTo(choices, point);
  }
  return llvm::Error::success();
}
