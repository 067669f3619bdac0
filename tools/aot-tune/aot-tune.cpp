// Measures the kernels of a tuning bundle on this machine (docs/autotuning.md). Links no part of the
// compiler.
#include "../CommandLine.h"
#include "Calibrate.h"
#include "Gpu.h"
#include "Models.h"
#include "Worker.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;
using namespace kiln;

/// libLLVM has an option of this name, which would clash with ours below.
[[maybe_unused]] static const bool cleared = [] {
  auto &registered = cl::getRegisteredOptions();
  if (auto option = registered.find("threads"); option != registered.end())
    option->second->removeArgument();
  return true;
}();

static cl::OptionCategory category("aot-tune options");
static cl::opt<std::string> input(cl::Positional, cl::desc("BUNDLE"), cl::cat(category));
static cl::opt<std::string> output("o", cl::value_desc("file"), cl::cat(category),
                                   cl::desc("results; default: BUNDLE.results"));
static cl::opt<std::string> threads("threads", cl::value_desc("n"), cl::cat(category),
                                    cl::desc("default: as the bundle says"));
static cl::opt<double> seconds("seconds", cl::value_desc("s"), cl::init(2), cl::cat(category),
                               cl::desc("about as long for each kernel; default 2"));
static cl::opt<double> trialSeconds("trial-seconds", cl::value_desc("s"), cl::init(10),
                                    cl::cat(category),
                                    cl::desc("the most that a first run may take; default 10"));
static cl::opt<std::string> against("against", cl::value_desc("model"), cl::cat(category),
                                    cl::desc("BUNDLE is a model, and is timed beside this one of "
                                             "the same program"));
static cl::list<std::string> sizes("size", cl::value_desc("name=n"), cl::cat(category),
                                   cl::desc("a size of the models' inputs, with --against"));
static cl::opt<bool> quiet("quiet", cl::cat(category), cl::desc("no progress line"));
static cl::opt<bool> gpu("gpu", cl::cat(category), cl::desc("print what GPU there is, and end"));
static cl::opt<bool> calibrate("calibrate", cl::cat(category),
                               cl::desc("print the numbers of this CPU, measured, as aot-compile "
                                        "--cpu-tune takes them, and end"));

/// The results have their name when they are complete.
static Error writeResults(StringRef path, const tuning::Results &results) {
  auto cannot = [&](std::error_code code) {
    return createStringError(code, "cannot write '" + path + "': " + code.message());
  };
  Expected<sys::fs::TempFile> file = sys::fs::TempFile::create(path + ".%%%%%%");
  if (!file)
    return cannot(errorToErrorCode(file.takeError()));
  raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
  stream << tuning::printResults(results);
  stream.flush();
  if (std::error_code code = stream.error()) {
    stream.clear_error();
    consumeError(file->discard());
    return cannot(code);
  }
  return file->keep(path);
}

/// Kernels for a CPU with other instructions would crash one by one, and those for another GPU say
/// nothing about it. `device` gets the name of the machine.
static Error checkMachine(const tuning::Manifest &manifest, std::string &device) {
  StringMap<bool> has = sys::getHostCPUFeatures();
  for (const std::string &feature : manifest.features)
    // LLVM does not ask for what every CPU of the architecture has.
    if (has.contains(feature) && !has.lookup(feature))
      return createStringError("'" + input + "' is for " + manifest.target +
                               ", and this machine has no " + feature);
  device = tuning::describeCPU();
  if (manifest.architecture.empty())
    return Error::success();
  Expected<tune::GpuModel> found = tune::describeGpu();
  if (!found)
    return createStringError("'" + input + "' is for " + manifest.target +
                             ", and not for this machine: " + toString(found.takeError()));
  if (found->architecture != manifest.architecture)
    return createStringError("'" + input + "' is for " + manifest.target + ", and this machine's " +
                             found->name + " is an " + found->architecture);
  device = found->name;
  return Error::success();
}

static Error printGpu() {
  Expected<tune::GpuModel> found = tune::describeGpu();
  if (!found)
    return found.takeError();
  outs() << found->architecture << ' ' << found->name << '\n';
  return Error::success();
}

static Error printNumbers() {
  Expected<std::string> numbers = tune::calibrate();
  if (!numbers)
    return numbers.takeError();
  outs() << *numbers << '\n';
  return Error::success();
}

static Error tuneModels(int64_t threads) {
  tune::Sizes values;
  for (StringRef size : sizes) {
    auto [name, value] = size.split('=');
    if (value.getAsInteger(10, values[name]) || values[name] < 0)
      return createStringError("--size=" + size + ": expected NAME=NUMBER");
  }
  auto compared = tune::compareModels(input, against, static_cast<int>(threads), seconds, values);
  if (!compared)
    return createStringError("'" + input + "': " + toString(compared.takeError()));
  tuning::Results results{"", "", tuning::describeCPU(), threads, {std::move(*compared)}};
  return writeResults(output.empty() ? input + ".results" : output, results);
}

static Error tuneBundle() {
  if (gpu)
    return printGpu();
  if (calibrate)
    return printNumbers();
  if (input.empty())
    return createStringError("no bundle (aot-tune BUNDLE -o RESULTS)");
  int64_t given = 0;
  if (!threads.empty() && (StringRef(threads).getAsInteger(10, given) || given < 0 || given > 1024))
    return createStringError("--threads=" + threads + ": expected a number up to 1024");
  if (!(seconds > 0 && seconds <= 3600) || !(trialSeconds > 0 && trialSeconds <= 3600))
    return createStringError("--seconds and --trial-seconds: expected a time up to 3600");
  if (!against.empty())
    return tuneModels(given);
  Expected<tuning::Manifest> manifest = tuning::readManifest(input);
  if (!manifest)
    return manifest.takeError();
  std::string device;
  if (Error error = checkMachine(*manifest, device))
    return error;
  if (!threads.empty())
    manifest->threads = given;
  tune::Options options{input, static_cast<int>(manifest->threads), !manifest->architecture.empty(),
                        seconds, trialSeconds};
  bool isShown = !quiet && sys::Process::StandardErrIsDisplayed();
  size_t done = 0;
  auto measured = tune::measure(*manifest, options, [&](StringRef kernel) {
    if (isShown)
      errs() << "\r\x1b[K" << "aot-tune: kernel " << ++done << " of " << manifest->kernels.size()
             << ", " << kernel;
  });
  if (isShown)
    errs() << "\r\x1b[K";
  if (!measured)
    return createStringError("'" + input + "': " + toString(measured.takeError()));
  tuning::Results results{manifest->compiler, manifest->target, device, manifest->threads,
                          std::move(*measured)};
  return writeResults(output.empty() ? input + ".results" : output, results);
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter(
      [](raw_ostream &stream) { stream << "aot-tune (Kiln) " KILN_VERSION "\n"; });
  Error error =
      parseCommandLine(argc, argv, "Measures the kernels of a tuning bundle on this machine.\n");
  if (!error)
    error = tuneBundle();
  if (!error)
    return 0;
  errs() << "aot-tune: error: " << toString(std::move(error)) << "\n";
  return 1;
}
