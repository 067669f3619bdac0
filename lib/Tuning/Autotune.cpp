// Finds the fastest schedules of a program's kernels.
//
// All kernels are timed with the schedules that planners chose. Those whose launches take a part of
// the run that counts are then tuned in rounds: the candidates of a round are neighbours of the best
// schedules so far, all are compiled into one bundle, and aot-tune times them in processes of its
// own. The planner's neighbours come first, as many as there are; later rounds go on from the few
// that were fastest, as long as there is time. What is found is kept with each kernel's key; a compilation that finds everything there
// measures nothing and gives the same bytes each time.
#include "kiln/Tuning/Autotune.h"
#include "KernelSet.h"
#include "TuningCache.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Link/OutputFile.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include <chrono>

using namespace mlir;
using namespace kiln;
using namespace kiln::tuning;

/// A kernel is tuned if it takes at least this part of a run.
static constexpr double leastShare = 0.005;
/// More candidates are tried where there is more to be saved.
static constexpr double largeShare = 0.03;
static constexpr size_t fewCandidates = 12;
/// What a kernel takes at least that there is something to be saved of: a launch takes less.
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

/// Adds schedules to try for `func` beside the one that it has, planned, until there are `most`:
/// those that are not in `tried`, which they are added to.
void planCandidates(Bundler &bundler, const Target &target, kernel::FuncOp func, size_t most,
                    llvm::SmallDenseSet<Attribute> &tried,
                    std::vector<OwningOpRef<ModuleOp>> &planned) {
  for (kernel::ScheduleAttrInterface schedule : target.enumerateSchedules(func)) {
    if (planned.size() == most)
      break;
    if (!tried.insert(schedule).second)
      continue;
    if (OwningOpRef<ModuleOp> module = bundler.plan(func, schedule))
      planned.push_back(std::move(module));
  }
}

/// Places in the program, and the entries of a bundle that are launched there.
using Launches = std::vector<std::pair<unsigned, int64_t>>;

std::vector<int64_t> getSequence(Launches launches) {
  llvm::sort(launches);
  std::vector<int64_t> sequence;
  for (auto [place, entry] : launches)
    sequence.push_back(entry);
  return sequence;
}

kernel::FuncOp getFunc(ModuleOp planned) { return *planned.getOps<kernel::FuncOp>().begin(); }

/// Null if `text` is no schedule.
kernel::ScheduleAttrInterface parseSchedule(StringRef text, MLIRContext *context) {
  ScopedDiagnosticHandler handler(context, [](Diagnostic &) { return success(); });
  return dyn_cast_if_present<kernel::ScheduleAttrInterface>(parseAttribute(text, context));
}

class Autotuner {
public:
  Autotuner(ModuleOp module, const Target &target, StringRef compiler, const Options &options,
            const codegen::ObjectOptions &code)
      : module(module), target(target), options(options),
        bundler(module, target, compiler, options, code),
        cache(options.cache, [&](const std::string &text) {
          if (options.onWarning)
            options.onWarning("--autotune: " + text);
        }) {
    std::string device = llvm::formatv("{0}, {1} threads\n", describeCPU(), options.threads);
    for (TunedKernel &kernel : findKernels(module, target, compiler, options)) {
      Search &search = searches.emplace_back();
      search.best = kernel.func.getScheduleAttr();
      search.cacheKey =
          llvm::toHex(llvm::BLAKE3::hash<16>(llvm::arrayRefFromStringRef(device + kernel.key)),
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
    if (llvm::Error error = replay())
      return error;
    for (Search &search : searches)
      apply(search);
    return llvm::Error::success();
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
    while (isAnyActive() && secondsSince() + last < options.seconds) {
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
  std::vector<OwningOpRef<ModuleOp>> planRound(Search &search, ModuleOp base) {
    size_t most = options.candidates;
    if (getShare(search) < largeShare)
      most = std::min(most, fewCandidates);
    std::vector<OwningOpRef<ModuleOp>> candidates;
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
    std::vector<std::vector<OwningOpRef<ModuleOp>>> planned; // of the searches that are left
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
                                 kernel::FuncOp(candidate).getScheduleAttr());
    if (best) {
      search.best = kernel::FuncOp(entry.candidates[best]).getScheduleAttr();
      search.entry.ratio *= result.candidates[best].ratio;
    }
    llvm::erase_if(search.beam, [&](auto &known) { return known.second == search.best; });
    llvm::sort(search.beam, llvm::less_first());
    search.beam.resize(std::min(search.beam.size(), beamWidth));
    finish(search, getShare(search) >= largeShare || (best && ++search.rounds < fewRounds));
  }

  /// Runs of the program decide on what kernels alone have promised.
  llvm::Error replay() {
    std::vector<OwningOpRef<ModuleOp>> planned;
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
      if (search.entry.isVerified || search.best == search.kernel.func.getScheduleAttr())
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
      search.best = search.kernel.func.getScheduleAttr();
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
    if (search.best != search.kernel.func.getScheduleAttr())
      llvm::raw_string_ostream(search.entry.schedule) << search.best;
    cache.store(search.cacheKey, search.entry);
  }

  void apply(Search &search) {
    kernel::FuncOp func = search.kernel.func;
    if (search.best == func.getScheduleAttr())
      return;
    OwningOpRef<ModuleOp> planned = bundler.plan(func, search.best);
    std::string before;
    llvm::raw_string_ostream(before) << func.getScheduleAttr();
    func.setScheduleAttr(search.best);
    func.setLaunchAttr(getFunc(*planned).getLaunchAttr());
    sayOf(func, "Tuned", describeSchedule(func),
          llvm::formatv("tuned: takes {0:f2} of the time with {1}", search.entry.ratio, before)
              .str());
  }

  /// Has aot-tune time candidates.
  llvm::Expected<Results> measure(ArrayRef<Bundler::Entry> entries,
                                  ArrayRef<int64_t> sequence = {}) {
    auto createFile = [](StringRef suffix, SmallString<128> &path) -> llvm::Error {
      if (std::error_code error = llvm::sys::fs::createTemporaryFile("kiln-tune", suffix, path))
        return llvm::createStringError(error, "cannot create a temporary file: " + error.message());
      llvm::sys::RemoveFileOnSignal(path);
      return llvm::Error::success();
    };
    SmallString<128> bundle, output, messages;
    if (llvm::Error error = llvm::joinErrors(
            createFile("bundle", bundle),
            llvm::joinErrors(createFile("results", output), createFile("txt", messages))))
      return error;
    llvm::FileRemover removeBundle(bundle), removeOutput(output), removeMessages(messages);
    if (llvm::Error error = bundler.write(entries, bundle, sequence))
      return error;
    std::string seconds =
        llvm::formatv("--seconds={0}",
                      sequence.empty() ? 1 : std::clamp(options.seconds / 4, 1.0, replaySeconds));
    StringRef arguments[] = {options.tuner, bundle, "-o", output, "--quiet", seconds};
    std::optional<StringRef> redirects[] = {StringRef(""), StringRef(""), StringRef(messages)};
    std::string problem;
    int status = llvm::sys::ExecuteAndWait(options.tuner, arguments, std::nullopt, redirects,
                                           /*SecondsToWait=*/0, /*MemoryLimit=*/0, &problem);
    if (status == 0)
      return readResults(output);
    if (auto text = llvm::MemoryBuffer::getFile(messages); text && (*text)->getBufferSize())
      problem = (*text)->getBuffer().split('\n').first;
    return llvm::createStringError("--autotune: cannot measure with '" + options.tuner +
                                   "': " + problem);
  }

  ModuleOp module;
  const Target &target;
  const Options &options;
  Bundler bundler;
  TuningCache cache;
  std::vector<Search> searches;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace

static llvm::Error checkTarget(const Target &target) {
  if (!target.hasDevice() && !target.getProgramWriter())
    return llvm::Error::success();
  return llvm::createStringError("--autotune: not with --target=" + target.getName());
}

/// Results of aot-tune in the place of measurements here.
static llvm::Error readGiven(ModuleOp module, const Target &target, StringRef compiler,
                             const Options &options, const codegen::ObjectOptions &code) {
  llvm::Expected<Results> results = readResults(options.results);
  if (!results)
    return results.takeError();
  std::string wanted = describeTarget(target);
  if (results->target != wanted)
    return llvm::createStringError("'" + options.results + "' is for the target " +
                                   results->target + ", not for " + wanted);
  if (results->compiler != compiler)
    return llvm::createStringError("'" + options.results + "' is of " + results->compiler +
                                   ", not of " + compiler);
  llvm::StringMap<const KernelResult *> known;
  for (const KernelResult &kernel : results->kernels)
    known[kernel.key] = &kernel;
  Bundler bundler(module, target, compiler, options, code);
  size_t found = 0;
  std::vector<TunedKernel> kernels = findKernels(module, target, compiler, options);
  for (TunedKernel &kernel : kernels) {
    const KernelResult *result = known.lookup(kernel.key);
    found += result != nullptr;
    if (!result || !result->failure.empty() || !result->best) {
      sayOf(kernel.func, "NotTuned", "not tuned",
            !result                   ? "there are no results for it"
            : result->failure.empty() ? "nothing is faster than the planner's schedule"
                                      : result->failure);
      continue;
    }
    const Outcome &best = result->candidates[static_cast<size_t>(result->best)];
    auto schedule = parseSchedule(best.schedule, module.getContext());
    OwningOpRef<ModuleOp> planned;
    if (schedule)
      planned = bundler.plan(kernel.func, schedule);
    if (!planned)
      return llvm::createStringError("'" + options.results + "' has a schedule that kernel @" +
                                     kernel.func.getSymName() +
                                     " cannot be run with: " + best.schedule);
    kernel.func.setScheduleAttr(schedule);
    kernel.func.setLaunchAttr(getFunc(*planned).getLaunchAttr());
    sayOf(
        kernel.func, "Tuned", describeSchedule(kernel.func),
        llvm::formatv("tuned on {0}: takes {1:f2} of the time", results->device, best.ratio).str());
  }
  if (!found && !kernels.empty())
    return llvm::createStringError("'" + options.results +
                                   "' is of another model or other sizes: "
                                   "it has no results for the kernels of this one");
  return llvm::Error::success();
}

llvm::Error tuning::autotune(ModuleOp module, const Target &target, StringRef compiler,
                             const Options &options, const codegen::ObjectOptions &code) {
  if (llvm::Error error = checkTarget(target))
    return error;
  if (options.mode == Mode::ReadResults)
    return readGiven(module, target, compiler, options, code);
  const codegen::CPUInfo &host = target.getHost();
  llvm::Expected<codegen::CPUInfo> runnable = codegen::CPUInfo::getRunnable(host.name);
  if (!runnable)
    return runnable.takeError();
  if (runnable->cpu != host.cpu)
    return llvm::createStringError("--autotune: this machine does not run code for " + host.name +
                                   ": use --autotune=offline, and aot-tune on one that does");
  return Autotuner(module, target, compiler, options, code).run();
}

llvm::Error tuning::writeBundle(ModuleOp module, const Target &target, StringRef compiler,
                                const Options &options, const codegen::ObjectOptions &code,
                                StringRef path) {
  if (llvm::Error error = checkTarget(target))
    return error;
  Bundler bundler(module, target, compiler, options, code);
  std::vector<std::vector<OwningOpRef<ModuleOp>>> planned;
  std::vector<Bundler::Entry> entries;
  std::vector<TunedKernel> kernels = findKernels(module, target, compiler, options);
  Launches launches;
  bool isOpen = false;
  for (TunedKernel &kernel : kernels) {
    llvm::SmallDenseSet<Attribute> tried = {kernel.func.getScheduleAttr()};
    std::vector<OwningOpRef<ModuleOp>> candidates;
    planCandidates(bundler, target, kernel.func, options.candidates, tried, candidates);
    isOpen |= !candidates.empty();
    for (unsigned place : kernel.places)
      launches.emplace_back(place, entries.size());
    Bundler::Entry &entry = entries.emplace_back(Bundler::Entry{&kernel, {kernel.func}});
    for (OwningOpRef<ModuleOp> &candidate : candidates)
      entry.candidates.push_back(getFunc(*candidate));
    planned.push_back(std::move(candidates));
  }
  if (!isOpen)
    return llvm::createStringError("--autotune: the program has no kernels to tune");
  OutputFile file;
  if (llvm::Error error = file.create(path))
    return error;
  if (llvm::Error error = bundler.write(entries, file.getTemporaryPath(), getSequence(launches)))
    return error;
  return file.keep();
}
