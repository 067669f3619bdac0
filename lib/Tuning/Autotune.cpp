// Schedules that are measured: here, or by aot-tune on another machine, with a bundle that is written
// now and results that are read in a later compilation.
#include "kiln/Tuning/Autotune.h"
#include "MeasureHere.h"
#include "PlanCandidates.h"
#include "RunTuner.h"
#include "kiln/Link/OutputFile.h"
#include "llvm/Support/FormatVariadic.h"
#include <list>

using namespace mlir;
using namespace kiln;
using namespace kiln::tuning;

static llvm::Error checkTarget(const Target &target) {
  if (!target.getProgramWriter())
    return llvm::Error::success();
  return llvm::createStringError("--autotune: not with --target=" + target.getName());
}

/// The schedule that `file` has for a kernel; null: none is faster than the planner's.
static llvm::Expected<kernel::ScheduleAttrInterface>
getResult(const TunedKernel &kernel, const KernelResult *result, StringRef file, Bundler &bundler) {
  kernel::FuncOp func = kernel.func;
  if (!result || !result->failure.empty() || !result->best) {
    sayOf(func, "NotTuned", "not tuned",
          !result                   ? "there are no results for it"
          : result->failure.empty() ? "nothing is faster than the planner's schedule"
                                    : result->failure);
    return kernel::ScheduleAttrInterface();
  }
  const Outcome &best = result->candidates[static_cast<size_t>(result->best)];
  auto schedule = parseSchedule(best.schedule, func.getContext());
  if (!schedule || !bundler.plan(func, schedule))
    return llvm::createStringError("'" + file + "' has a schedule that kernel @" +
                                   func.getSymName() + " cannot be run with: " + best.schedule);
  return schedule;
}

/// Results of aot-tune in the place of measurements here.
static llvm::Error readGiven(ModuleOp module, const Target &target, StringRef compiler,
                             const Options &options, Bundler &bundler, const Points &points,
                             Choices &choices) {
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
  size_t found = 0, all = 0;
  for (size_t point = 0; point < points.size(); ++point) {
    for (TunedKernel &kernel : findKernels(module, target, compiler, options, point)) {
      const KernelResult *result = known.lookup(kernel.key);
      found += result != nullptr;
      ++all;
      auto schedule = getResult(kernel, result, options.results, bundler);
      if (!schedule)
        return schedule.takeError();
      if (*schedule)
        choices.set(kernel.func, point, *schedule,
                    llvm::formatv("tuned on {0}: takes {1:f2} of the time", results->device,
                                  result->candidates[static_cast<size_t>(result->best)].ratio));
    }
  }
  if (!found && all)
    return llvm::createStringError("'" + options.results +
                                   "' is of another model or other sizes: "
                                   "it has no results for the kernels of this one");
  return llvm::Error::success();
}

llvm::Error tuning::checkMachine(const Target &target) {
  const codegen::CPUInfo &host = target.getHost();
  llvm::Expected<codegen::CPUInfo> runnable = codegen::CPUInfo::getRunnable(host.name);
  if (!runnable)
    return runnable.takeError();
  if (runnable->cpu != host.cpu)
    return llvm::createStringError("--autotune: this machine does not run code for " + host.name +
                                   ": use --autotune=offline, and aot-tune on one that does");
  return llvm::Error::success();
}

/// The CPU or GPU that measurements here are of.
static llvm::Expected<std::string> findDevice(const Target &target, const Options &options) {
  if (!target.hasDevice())
    return describeCPU();
  llvm::Expected<std::pair<std::string, std::string>> found = findGpu(options);
  if (!found)
    return llvm::createStringError(
        "--autotune: " + llvm::toString(found.takeError()) +
        ": use --autotune=offline, and aot-tune on a machine with a GPU");
  auto &[architecture, name] = *found;
  if (architecture != target.getArchitecture())
    return llvm::createStringError("--autotune: kernels are planned for " +
                                   target.getArchitecture() + ", and this machine's " + name +
                                   " is an " + architecture);
  return name;
}

llvm::Error tuning::autotune(ModuleOp module, const Target &target, StringRef compiler,
                             const Options &options, const codegen::ObjectOptions &code) {
  if (llvm::Error error = checkTarget(target))
    return error;
  llvm::Expected<Points> points = getPoints(module, options);
  if (!points)
    return points.takeError();
  Bundler bundler(module, target, compiler, options, code);
  Choices choices(module, bundler, *points);
  if (options.mode == Mode::ReadResults) {
    if (llvm::Error error = readGiven(module, target, compiler, options, bundler, *points, choices))
      return error;
  } else {
    if (llvm::Error error = checkMachine(target))
      return error;
    llvm::Expected<std::string> device = findDevice(target, options);
    if (!device)
      return device.takeError();
    if (llvm::Error error =
            measureHere(module, target, compiler, *device, options, bundler, *points, choices))
      return error;
  }
  choices.apply();
  return llvm::Error::success();
}

llvm::Error tuning::writeBundle(ModuleOp module, const Target &target, StringRef compiler,
                                const Options &options, const codegen::ObjectOptions &code,
                                StringRef path) {
  if (llvm::Error error = checkTarget(target))
    return error;
  llvm::Expected<Points> points = getPoints(module, options);
  if (!points)
    return points.takeError();
  Bundler bundler(module, target, compiler, options, code);
  std::vector<PlannedModules> planned;
  std::vector<Bundler::Entry> entries;
  std::list<std::vector<TunedKernel>> kernels; // of each point
  std::vector<int64_t> sequence;
  llvm::StringMap<size_t> known; // entries by their keys
  bool isOpen = false;
  for (size_t point = 0; point < points->size(); ++point) {
    Launches launches;
    kernels.push_back(findKernels(module, target, compiler, options, point));
    for (TunedKernel &kernel : kernels.back()) {
      auto [entry, isNew] = known.try_emplace(kernel.key, entries.size());
      for (unsigned place : kernel.places)
        launches.emplace_back(place, entry->second);
      if (!isNew)
        continue;
      llvm::SmallDenseSet<Attribute> tried = {bundler.getSchedule(kernel.func)};
      PlannedModules candidates;
      planCandidates(bundler, target, kernel.func, options.candidates, tried, candidates);
      isOpen |= !candidates.empty();
      entries.push_back({&kernel, {kernel.func}});
      for (OwningOpRef<ModuleOp> &candidate : candidates)
        entries.back().candidates.push_back(getFunc(*candidate));
      planned.push_back(std::move(candidates));
    }
    llvm::append_range(sequence, getSequence(launches));
  }
  if (!isOpen)
    return llvm::createStringError("--autotune: the program has no kernels to tune");
  OutputFile file;
  if (llvm::Error error = file.create(path))
    return error;
  if (llvm::Error error = bundler.write(entries, file.getTemporaryPath(), std::move(sequence)))
    return error;
  return file.keep();
}
