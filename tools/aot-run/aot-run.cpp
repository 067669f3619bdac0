//===- aot-run.cpp - Run a compiled model ---------------------------------===//
//
// Loads a shared object made by aot-compile through its C ABI, runs it on the
// arrays of a .npz file or on random ones, writes the outputs to a .npz file, and
// measures. Links no part of the compiler.
//
//===----------------------------------------------------------------------===//
#include "../CommandLine.h"
#include "Array.h"
#include "CompareDebug.h"
#include "Model.h"
#include "Npz.h"
#include "RandomInput.h"
#include "SizeExpr.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <csignal>
#include <sys/resource.h>
#include <thread>

using namespace llvm;
using namespace kiln::run;

/// libLLVM has an option of this name, which would clash with ours below.
[[maybe_unused]] static const bool cleared = [] {
  auto &registered = cl::getRegisteredOptions();
  if (auto option = registered.find("threads"); option != registered.end())
    option->second->removeArgument();
  return true;
}();

static cl::OptionCategory category("aot-run options");
static cl::list<std::string> paths(cl::Positional, cl::desc("MODEL.so"), cl::cat(category));
static cl::opt<std::string> inputsPath("inputs", cl::value_desc("IN.npz"), cl::cat(category),
                                       cl::desc("inputs, keyed by position or name; without, "
                                                "random ones"));
static cl::opt<std::string> outputsPath("outputs", cl::value_desc("OUT.npz"), cl::cat(category),
                                        cl::desc("where the first run's outputs and mutated "
                                                 "inputs go"));
static cl::opt<std::string> entryName("entry", cl::value_desc("NAME"), cl::cat(category),
                                      cl::desc("the program to run, of a model that has several"));
static cl::opt<unsigned> repeat("repeat", cl::value_desc("N"), cl::cat(category),
                                cl::desc("timed runs after the first"));
static cl::opt<unsigned> warmup("warmup", cl::value_desc("N"), cl::cat(category),
                                cl::desc("untimed runs between the first and the timed ones"));
static cl::opt<int> threads("threads", cl::value_desc("N"), cl::cat(category),
                            cl::desc("threads, 0 (default): all cores this process may use"));
static cl::opt<std::string> jsonPath("json", cl::value_desc("FILE"), cl::cat(category),
                                     cl::desc("write the measurements as JSON"));
static cl::opt<std::string>
    profilePath("profile", cl::value_desc("FILE.json"), cl::cat(category),
                cl::desc("print what the kernels of the timed runs take, 10 without --repeat, and "
                         "write a trace for Perfetto or chrome://tracing"));
static cl::opt<bool> showInfo("info", cl::cat(category),
                              cl::desc("print the model's description and exit"));
static cl::list<std::string> symbolValues("sym", cl::value_desc("NAME=VALUE"), cl::cat(category),
                                          cl::desc("value of a symbol for random inputs; default: "
                                                   "its smallest"));
static cl::opt<bool>
    compareFolders("compare-debug", cl::cat(category),
                   cl::desc("find the first tensor that differs between two folders "
                            "A B that runs with debug printing have saved; exit "
                            "status 1 if one does"));
static cl::opt<double>
    relativeTolerance("rtol", cl::value_desc("X"), cl::init(0), cl::cat(category),
                      cl::desc("relative error that --compare-debug allows, default 0"));
static cl::opt<double>
    absoluteTolerance("atol", cl::value_desc("X"), cl::init(0), cl::cat(category),
                      cl::desc("absolute error that --compare-debug allows, default 0"));
static cl::opt<uint64_t> seed("seed", cl::value_desc("N"), cl::cat(category),
                              cl::desc("seed of the random inputs, default 0"));

using Clock = std::chrono::steady_clock;

//===-- Options that nothing comes of -------------------------------------===//

/// Fails if one of these is given.
static Error refuse(ArrayRef<StringRef> names, const Twine &reason) {
  for (StringRef name : names)
    if (cl::getRegisteredOptions().lookup(name)->getNumOccurrences())
      return createStringError("--" + name + " has no effect " + reason);
  return Error::success();
}

/// Timed runs.
static unsigned countRuns() {
  return repeat.getNumOccurrences() || profilePath.empty() ? repeat : 10;
}

/// Refuses options of which nothing comes beside the others.
static Error checkOptions() {
  constexpr StringRef ofRuns[] = {"inputs",  "outputs", "entry",   "repeat", "warmup",
                                  "threads", "json",    "profile", "sym",    "seed"};
  if (compareFolders) {
    if (Error error = refuse({"info"}, "with --compare-debug"))
      return error;
    return refuse(ofRuns, "with --compare-debug");
  }
  if (Error error = refuse({"rtol", "atol"}, "without --compare-debug"))
    return error;
  if (showInfo)
    return refuse(ofRuns, "with --info");
  if (entryName.getNumOccurrences() && entryName.empty())
    return createStringError("--entry: expected a name");
  if (!inputsPath.empty())
    if (Error error = refuse({"sym", "seed"}, "with --inputs"))
      return error;
  if (warmup && !countRuns())
    return refuse({"warmup"}, "without timed runs (--repeat)");
  return countRuns() ? Error::success() : refuse({"profile"}, "without timed runs (--repeat)");
}

static double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

//===-- Inputs ------------------------------------------------------------===//

/// Whether some input's size is computed with the symbol.
static bool usesSymbol(const ModelInfo &info, StringRef name) {
  auto isWord = [](char c) { return isAlnum(c) || c == '_' || c == '.' || c == '$'; };
  for (const TensorInfo &input : info.inputs)
    for (const Size &size : input.shape)
      for (StringRef rest = size.expression; !rest.empty();) {
        StringRef word = rest.take_while(isWord);
        if (word == name)
          return true;
        rest = rest.drop_front(std::max<size_t>(word.size(), 1));
      }
  return false;
}

/// The values of the symbols: as given, else the smallest allowed.
static Expected<StringMap<int64_t>> chooseSymbols(const ModelInfo &info) {
  StringMap<int64_t> values;
  for (const SymbolInfo &symbol : info.symbols)
    values[symbol.name] = symbol.min.value_or(1);
  StringSet<> given;
  for (StringRef setting : symbolValues) {
    auto [name, text] = setting.split('=');
    int64_t value;
    if (text.getAsInteger(10, value))
      return createStringError("--sym=" + setting + ": expected NAME=VALUE");
    if (none_of(info.symbols, [&](const SymbolInfo &s) { return s.name == name; }))
      return createStringError("--sym=" + setting + ": the model has no symbol '" + name + "'");
    if (!usesSymbol(info, name))
      return createStringError("--sym=" + setting +
                               " has no effect: the size of no input is computed with '" + name +
                               "'");
    if (!given.insert(name).second)
      return createStringError("--sym=" + setting + ": '" + name + "' has a value already");
    values[name] = value;
  }
  return values;
}

static Expected<std::vector<Array>> drawInputs(const ModelInfo &info) {
  Expected<StringMap<int64_t>> symbols = chooseSymbols(info);
  if (!symbols)
    return symbols.takeError();
  std::mt19937_64 generator(seed);
  std::vector<Array> inputs;
  for (auto [i, input] : enumerate(info.inputs)) {
    std::string where = formatv("input {0} \"{1}\": ", i, input.name);
    if (!input.dtype)
      return createStringError(where + "its dtype is unknown to this tool");
    SmallVector<int64_t> shape;
    for (const Size &size : input.shape) {
      Expected<int64_t> value =
          size.expression.empty() ? size.number : evaluateSize(size.expression, *symbols);
      if (!value)
        return createStringError(where + "size '" + size.expression +
                                 "': " + toString(value.takeError()));
      shape.push_back(*value);
    }
    Expected<Array> array = Array::allocate(*input.dtype, shape);
    if (!array)
      return createStringError(where + toString(array.takeError()));
    fillRandom(*array, generator);
    inputs.push_back(std::move(*array));
  }
  return inputs;
}

/// Which input an array is for: by position, else by name.
static std::optional<size_t> findInput(const ModelInfo &info, StringRef key) {
  size_t position;
  if (!key.getAsInteger(10, position) && position < info.inputs.size() &&
      std::to_string(position) == key)
    return position;
  for (auto [i, input] : enumerate(info.inputs))
    if (input.name == key)
      return i;
  return std::nullopt;
}

static Expected<std::vector<Array>> readInputs(const ModelInfo &info) {
  auto resolve = [&](StringRef key, unsigned bytes) -> const DType * {
    std::optional<size_t> i = findInput(info, key);
    const DType *dtype = i ? info.inputs[*i].dtype : nullptr;
    return dtype && dtype->descr == ("|V" + Twine(bytes)).str() ? dtype : nullptr;
  };
  Expected<std::map<std::string, Array>> arrays = readNpz(inputsPath, resolve);
  if (!arrays)
    return arrays.takeError();
  std::vector<Array> inputs(info.inputs.size());
  for (auto &[key, array] : *arrays) {
    std::optional<size_t> i = findInput(info, key);
    if (!i)
      return createStringError(inputsPath + ": the model has no input " + quote(key) +
                               "; arrays are named by position (0, 1, ...) or as --info says");
    if (inputs[*i].dtype)
      return createStringError(formatv("{0}: input {1} \"{2}\" is given by position and by name",
                                       inputsPath, *i, info.inputs[*i].name));
    inputs[*i] = std::move(array);
  }
  for (auto [i, input] : enumerate(inputs))
    if (!input.dtype)
      return createStringError(
          formatv("{0}: no array for input {1} \"{2}\"", inputsPath, i, info.inputs[i].name));
  return inputs;
}

//===-- Measurements ------------------------------------------------------===//

/// The smallest time that is not exceeded in `percent` of the runs.
static double percentile(ArrayRef<double> sorted, unsigned percent) {
  size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

static json::Object summarize(ArrayRef<double> sorted) {
  return json::Object{{"min", sorted.front()},
                      {"median", percentile(sorted, 50)},
                      {"p90", percentile(sorted, 90)},
                      {"p99", percentile(sorted, 99)}};
}

/// The number of threads that a model takes 0 to mean, but for a cgroup's quota.
static int usableCpus() { return static_cast<int>(std::thread::hardware_concurrency()); }

static json::Array describeOutputs(ArrayRef<Output> outputs) {
  json::Array result;
  for (const Output &output : outputs) {
    if (!output) {
      result.push_back(nullptr);
      continue;
    }
    const DLTensor &tensor = output->dl_tensor;
    const DType *dtype = findDType(tensor.dtype);
    result.push_back(
        json::Object{{"dtype", dtype ? dtype->name : "?"},
                     {"shape", json::Array(ArrayRef<int64_t>(tensor.shape, tensor.ndim))}});
  }
  return result;
}

static Error writeJson(json::Object report) {
  std::error_code error;
  raw_fd_ostream stream(jsonPath, error);
  if (!error) {
    stream << formatv("{0:2}\n", json::Value(std::move(report)));
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  return error ? createStringError(error, "cannot write " + jsonPath + ": " + error.message())
               : Error::success();
}

//===-- The run -----------------------------------------------------------===//

/// The inputs as they were, to find what a run wrote to, and to put it back so
/// that every run does the same work.
class InputsKeeper {
public:
  explicit InputsKeeper(MutableArrayRef<Array> inputs) : inputs(inputs) {
    for (const Array &input : inputs)
      saved.emplace_back(input.data.get(), input.bytes);
  }

  bool changed(size_t i) const {
    return memcmp(inputs[i].data.get(), saved[i].data(), saved[i].size()) != 0;
  }

  void restore() {
    for (auto [input, bytes] : zip(inputs, saved))
      if (memcmp(input.data.get(), bytes.data(), bytes.size()) != 0)
        memcpy(input.data.get(), bytes.data(), bytes.size());
  }

private:
  MutableArrayRef<Array> inputs;
  std::vector<std::string> saved;
};

/// Writes outputs "0", "1", ... and mutated inputs "mutated_0", ...
static Error writeOutputs(ArrayRef<Output> outputs, const ModelInfo &info,
                          MutableArrayRef<Array> inputs, const InputsKeeper &keeper) {
  std::vector<std::pair<std::string, Array>> copies;
  auto add = [&](std::string name, const DLTensor &tensor) -> Error {
    Expected<Array> copy = Array::copy(tensor);
    if (!copy)
      return copy.takeError();
    copies.emplace_back(std::move(name), std::move(*copy));
    return Error::success();
  };
  for (auto [i, output] : enumerate(outputs))
    if (output)
      if (Error error = add(std::to_string(i), output->dl_tensor))
        return error;
  for (auto [i, input] : enumerate(inputs))
    if (info.inputs[i].mutated || keeper.changed(i))
      if (Error error = add("mutated_" + std::to_string(i), input.tensor()))
        return error;
  std::vector<std::pair<std::string, const Array *>> arrays;
  arrays.reserve(copies.size());
  for (const auto &[name, array] : copies)
    arrays.emplace_back(name, &array);
  return writeNpz(outputsPath, arrays);
}

static Error runModel() {
  if (paths.empty())
    return createStringError("no model (aot-run MODEL.so [--inputs IN.npz])");
  if (paths.size() > 1)
    return createStringError("more than one input file: " + join(paths, ", "));
  Clock::time_point start = Clock::now();
  Expected<Model> model = Model::load(paths.front());
  if (!model)
    return model.takeError();
  Expected<json::Value> json = json::parse(model->infoText());
  if (!json)
    return createStringError("the model's description is malformed: " + toString(json.takeError()));
  if (showInfo) {
    outs() << formatv("{0:2}\n", *json);
    return Error::success();
  }
  Expected<ModelInfo> info = ModelInfo::parse(*json, entryName);
  if (!info)
    return info.takeError();
  Profile profile;
  if (Error error = model->create(threads, profilePath.empty() ? nullptr : &profile))
    return error;
  if (!entryName.empty())
    if (Error error = model->enter(entryName))
      return error;
  double loadTime = millisecondsSince(start);

  Expected<std::vector<Array>> inputs = inputsPath.empty() ? drawInputs(*info) : readInputs(*info);
  if (!inputs)
    return inputs.takeError();
  std::vector<DLTensor> tensors;
  for (Array &input : *inputs)
    tensors.push_back(input.tensor());
  InputsKeeper keeper(*inputs);

  std::vector<Output> outputs(info->outputs.size());
  start = Clock::now();
  if (Error error = model->run(tensors, outputs))
    return error;
  double firstTime = millisecondsSince(start);
  json::Array outputsReport = describeOutputs(outputs);
  if (!outputsPath.empty())
    if (Error error = writeOutputs(outputs, *info, *inputs, keeper))
      return error;

  std::vector<double> times;
  unsigned numTimed = countRuns();
  for (unsigned i = 0; i < warmup + numTimed; ++i) {
    keeper.restore();
    if (i == warmup)
      profile.start();
    for (Output &output : outputs)
      output.reset();
    start = Clock::now();
    if (Error error = model->run(tensors, outputs))
      return error;
    if (i >= warmup)
      times.push_back(millisecondsSince(start));
  }
  if (times.empty())
    times.push_back(firstTime);

  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  unsigned runs = times.size();
  llvm::sort(times);
  outs() << format("load %.1f ms, first run %.3f ms, median of %u run%s %.3f ms\n", loadTime,
                   firstTime, runs, runs == 1 ? "" : "s", percentile(times, 50));
  for (auto [i, output] : enumerate(outputs)) {
    outs() << "output " << i << " \"" << info->outputs[i].name << "\": ";
    if (output)
      outs() << describe(findDType(output->dl_tensor.dtype),
                         ArrayRef(output->dl_tensor.shape, output->dl_tensor.ndim));
    else
      outs() << "None";
    outs() << "\n";
  }
  int usedThreads = threads ? threads.getValue() : usableCpus();
  if (!profilePath.empty()) {
    profile.finish(usedThreads, info->target != "cpu");
    profile.print(outs());
    if (Error error = profile.write(profilePath, *json))
      return error;
  }
  if (jsonPath.empty())
    return Error::success();
  return writeJson(json::Object{{"load_ms", loadTime},
                                {"first_run_ms", firstTime},
                                {"latency_ms", summarize(times)},
                                {"runs", runs},
                                {"threads", usedThreads},
                                {"peak_rss_mb", usage.ru_maxrss / 1024.0},
                                {"outputs", std::move(outputsReport)}});
}

/// Writes out what has been printed; a failure counts unless there was another one before.
static Error finishOutput(Error before) {
  outs().flush();
  std::error_code error = outs().error();
  outs().clear_error();
  if (before || !error)
    return before;
  return createStringError(error, "cannot write to standard output: " + error.message());
}

/// Exit status, as of `diff`: 0 if nothing differs, 1 if something does, 2 for an error.
static int compareSavedRuns() {
  Expected<bool> same = paths.size() == 2
                            ? compareDebug(paths[0], paths[1],
                                           Tolerance{relativeTolerance, absoluteTolerance}, outs())
                            : createStringError("--compare-debug: expected two folders");
  Error error = finishOutput(same.takeError());
  if (!error)
    return *same ? 0 : 1;
  errs() << "aot-run: error: " << toString(std::move(error)) << "\n";
  return 2;
}

int main(int argc, char **argv) {
  // A limit of the size of files is an error of the write that would go beyond it.
  ::signal(SIGXFSZ, SIG_IGN);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](raw_ostream &stream) { stream << "aot-run (Kiln) " KILN_VERSION "\n"; });
  Error error = kiln::parseCommandLine(argc, argv, "Runs a model that aot-compile compiled.\n");
  if (!error)
    error = checkOptions();
  if (!error && compareFolders)
    return compareSavedRuns();
  if (!error)
    error = runModel();
  error = finishOutput(std::move(error));
  if (!error)
    return 0;
  errs() << "aot-run: error: " << toString(std::move(error)) << "\n";
  return compareFolders ? 2 : 1;
}
