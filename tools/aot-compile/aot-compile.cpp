// Compiles an exported PyTorch program (.pt2) ahead of time.
//
// The compilation runs in a child process, so that a crash in it (or in LLVM) still ends with a
// message, the path of a reproducer and exit status 2.
#include "../CommandLine.h"
#include "../DebugOption.h"
#include "../PluginOption.h"
#include "CPUOptions.h"
#include "EntryOptions.h"
#include "Sandbox.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Lowering/Lowering.h"
#include "kiln/Pipeline/Bisect.h"
#include "kiln/Pipeline/Compile.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Targets/CUDA/Architecture.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Pass.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/Signals.h"
#include <atomic>
#include <csignal>
#include <new>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;
using namespace kiln;

namespace {

constexpr int userError = 1, internalError = 2;

cl::OptionCategory category("aot-compile options");

cl::opt<std::string> input(cl::Positional, cl::desc("MODEL.pt2"), cl::cat(category));
cl::opt<std::string> output("o", cl::value_desc("file"), cl::cat(category),
                            cl::desc("output; default: the input's stem with the suffix of what is "
                                     "emitted; '-': standard output, for text"));
cl::opt<std::string> target("target", cl::init("cpu"), cl::value_desc("name"), cl::cat(category));
cl::opt<std::string> gpuArch("gpu-arch", cl::value_desc("list"), cl::cat(category),
                             cl::desc("sm_80,sm_90,...: one cubin each, and PTX of the newest "
                                      "(--target=cuda)"));
cl::opt<std::string> gpuTune("gpu-tune", cl::init("sm_90"), cl::value_desc("arch"),
                             cl::cat(category),
                             cl::desc("the GPU that tiles and parts are chosen for; default sm_90 "
                                      "(--target=cuda)"));
cl::opt<std::string> ptxas("ptxas", cl::value_desc("path"), cl::cat(category),
                           cl::desc("assembles PTX; default: $CUDA_HOME/bin/ptxas, or as found"));
cl::opt<std::string> tf32("tf32", cl::value_desc("3"), cl::ValueOptional, cl::cat(category),
                          cl::desc("let tensor cores round f32 operands of products to TF32; 3: "
                                   "sum three products for one (--target=cuda)"));
cl::opt<std::string>
    int4Layout("int4-layout", cl::init("native"), cl::value_desc("avx512|avx2|none"),
               cl::cat(category),
               cl::desc("vectors of the CPU on which PyTorch has packed int4 weights, which decide "
                        "their layout; default: what the weights tell, or this one's"));
cl::opt<std::string>
    emitKind("emit", cl::init("so"), cl::value_desc("kind"), cl::cat(category),
             cl::desc("so (default), fx, obj, llvm, ptx, json, or MLIR after a stage: "
                      "torch, kernel, wrapper"));
cl::opt<std::string>
    weights("weights", cl::init("embed"), cl::value_desc("embed|external|later"), cl::cat(category),
            cl::desc("in the output (default), beside it as OUT.safetensors, or set by the "
                     "host before the first run"));
cl::opt<std::string> fallback("fallback", cl::init("none"), cl::value_desc("none|torch"),
                              cl::cat(category),
                              cl::desc("an op without a lowering: an error (default), or a call "
                                       "into LibTorch"));
cl::opt<unsigned> ranks("ranks", cl::init(0), cl::value_desc("n"), cl::cat(category),
                        cl::desc("the processes of a group of which the program does not say how "
                                 "many it has (docs/collectives.md)"));
cl::list<std::string>
    customOps("custom-op", cl::value_desc("schema=function"), cl::cat(category),
              cl::desc("a custom operator is a C function (kiln-c/custom_op.h): "
                       "'lib::scale(Tensor x, float factor=1.) -> Tensor=my_scale'"));
cl::list<std::string> linkFiles("link", cl::value_desc("file"), cl::cat(category),
                                cl::desc("an object, archive or shared library that defines such "
                                         "functions"));
cl::opt<std::string>
    externList("extern", cl::value_desc("list"), cl::cat(category),
               cl::desc("external code generators that may take over parts, in order: "
                        "NAME or NAME{OPTIONS} (docs/extern.md); default: none"));
cl::opt<std::string>
    autotune("autotune", cl::ValueOptional, cl::value_desc("offline|results"), cl::cat(category),
             cl::desc("time candidate schedules on this machine and keep the fastest; offline: the "
                      "output is a bundle that aot-tune times on another machine; a file: the "
                      "results that it has written"));
cl::opt<std::string> autotuneCache("autotune-cache", cl::value_desc("dir"), cl::cat(category),
                                   cl::desc("where times are kept; default "
                                            "$XDG_CACHE_HOME/kiln/tune; empty: nowhere"));
cl::opt<std::string> autotuneThreads("autotune-threads", cl::init("0"), cl::value_desc("n"),
                                     cl::cat(category),
                                     cl::desc("threads that kernels are timed with; default: all "
                                              "cores"));
cl::opt<std::string> autotuneCandidates("autotune-candidates", cl::init("32"), cl::value_desc("n"),
                                        cl::cat(category),
                                        cl::desc("the most schedules of a kernel that are timed "
                                                 "together; default 32"));
cl::opt<std::string> autotuneSeconds("autotune-seconds", cl::init("50"), cl::value_desc("s"),
                                     cl::cat(category),
                                     cl::desc("about as long candidates are tried; default 50"));
cl::list<std::string>
    autotuneSizes("autotune-size", cl::value_desc("name=value,..."), cl::cat(category),
                  cl::desc("the size that a symbol has while kernels are timed; "
                           "one may have several, which the model then chooses between"));
cl::opt<std::string> debugPrint("debug-print", cl::init("0"), cl::value_desc("0|1|2|3"),
                                cl::cat(category),
                                cl::desc("what a run shows of kernels: nothing (0, default), their "
                                         "tensors in files (1) or printed (2), their names (3)"));
cl::list<std::string> debugFilter("debug-filter", cl::value_desc("names"), cl::CommaSeparated,
                                  cl::cat(category),
                                  cl::desc("the kernels that --debug-print is for; default: all"));
cl::opt<std::string> jobs("jobs", cl::init("0"), cl::value_desc("n"), cl::cat(category),
                          cl::desc("threads; default: one for each core"));
cl::opt<std::string> level("O", cl::Prefix, cl::init("3"), cl::value_desc("0..3"),
                           cl::cat(category), cl::desc("optimization level; default -O3"));
bool timePasses = false; // LLVM has the option already
cl::opt<std::string> saveTemps("save-temps", cl::value_desc("dir"), cl::cat(category),
                               cl::desc("keep what each stage leaves in this folder"));
cl::opt<std::string> remarks("remarks", cl::ValueOptional, cl::value_desc("file.yaml"),
                             cl::cat(category),
                             cl::desc("say what passes have chosen and left, and why: on standard "
                                      "error, or in this file"));
cl::opt<std::string> remarksFilter("remarks-filter", cl::init(".*"), cl::value_desc("regex"),
                                   cl::cat(category),
                                   cl::desc("the passes that say so; default: all"));
cl::opt<std::string> report("report", cl::value_desc("file.html"), cl::cat(category),
                            cl::desc("write a page to look at: the graph before and after fusion, "
                                     "kernels, memory, weights, findings"));
cl::opt<std::string> reportCompare("report-compare", cl::value_desc("other.html"),
                                   cl::cat(category),
                                   cl::desc("the report of another build, shown beside this one"));
cl::opt<std::string> reportProfile("report-profile", cl::value_desc("file.json"), cl::cat(category),
                                   cl::desc("times of a run (aot-run --profile), shown beside "
                                            "those that are estimated"));
cl::opt<std::string> progress("progress", cl::init("auto"), cl::value_desc("auto|never"),
                              cl::cat(category),
                              cl::desc("a progress line, if standard error is a terminal"));

cl::opt<std::string> maxUnpacked("max-unpacked", cl::init("4"), cl::value_desc("GiB"),
                                 cl::cat(category),
                                 cl::desc("the most memory that an archive may take beyond its own "
                                          "size when it is unpacked; default 4"));
cl::opt<bool> sandbox("sandbox", cl::cat(category),
                      cl::desc("compile in a process that opens no files but the input, the "
                               "output's folder and a temporary one, and has no network and no "
                               "other programs (docs/security.md)"));
cl::opt<std::string>
    bisectRun("bisect", cl::value_desc("dir"), cl::cat(category),
              cl::desc("find the first pass or kernel that is wrong in this run, which a model "
                       "compiled with --debug-print=1 has saved"));
cl::opt<bool> listOps("list-ops", cl::cat(category),
                      cl::desc("print every known operator and whether it is compiled (native), "
                               "left to --fallback (fallback) or neither (refused)"));

int fail(const Twine &message) {
  errs() << "aot-compile: error: " << message << '\n';
  return userError;
}

/// A program that is installed with this one.
std::string getProgramBeside(StringRef name) {
  static int anchor;
  SmallString<256> path(sys::fs::getMainExecutable(nullptr, &anchor));
  sys::path::remove_filename(path);
  sys::path::append(path, name);
  return path.str().str();
}

/// The folder of the libraries that belong to this compiler: lib beside bin.
std::string getLibraryFolder() {
  SmallString<256> folder(getProgramBeside(".."));
  sys::path::append(folder, "lib");
  sys::path::remove_dots(folder, /*remove_dot_dot=*/true);
  return folder.str().str();
}

/// The help of --target, with the targets that are registered.
std::string describeTargets() {
  std::string text = "what the model runs on; default cpu";
  for (const TargetRegistration &target : getRegisteredTargets())
    text += ("\n" + target.name + ": " + target.summary).str();
  return text;
}

/// The options of `cuda` from those of the command line.
Error getCudaOptions(CompileOptions &options) {
  if (gpuArch.empty() && gpuArch.getNumOccurrences())
    return createStringError("--gpu-arch: expected a list, such as sm_80,sm_90");
  std::string names = gpuArch.empty() ? "sm_80,sm_90" : gpuArch.getValue();
  auto architectures = cuda::parseArchitectures(names);
  if (!architectures)
    return architectures.takeError();
  std::string assembler = sandbox ? "" : cuda::findPtxas(ptxas);
  if (!ptxas.empty() && !sys::fs::can_execute(ptxas))
    return createStringError("--ptxas=" + ptxas + ": not a program");
  if (assembler.empty() &&
      any_of(*architectures, [](const cuda::Architecture &gpu) { return !gpu.isEmulator(); }))
    errs() << "aot-compile: warning: " << (sandbox ? "no ptxas in a sandbox" : "no ptxas (--ptxas)")
           << ": the model carries PTX alone, which the driver compiles when it is loaded\n";
  StringRef products = !tf32.getNumOccurrences() ? "0" : tf32.empty() ? "1" : StringRef(tf32);
  options.target = formatv("cuda{{arch={0} tune={1} ptxas='{2}' tf32='{3}'}", names,
                           gpuTune.getValue(), assembler, products);
  return Error::success();
}

Error getTuningOptions(CompileOptions &options) {
  tuning::Options &tune = options.tuning;
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{
           &autotuneCache, &autotuneThreads, &autotuneCandidates, &autotuneSeconds,
           std::addressof(autotuneSizes)})
    if (option->getNumOccurrences() && !autotune.getNumOccurrences())
      return createStringError("--" + option->ArgStr + ": there is no --autotune that it is for");
  if (!autotune.getNumOccurrences())
    return Error::success();
  tune.mode = autotune.empty()        ? tuning::Mode::Measure
              : autotune == "offline" ? tuning::Mode::WriteBundle
                                      : tuning::Mode::ReadResults;
  tune.results = autotune;
  tune.cache =
      autotuneCache.getNumOccurrences() ? autotuneCache.getValue() : tuning::getDefaultCache();
  if (StringRef(autotuneThreads).getAsInteger(10, tune.threads) || tune.threads > 1024)
    return createStringError("--autotune-threads=" + autotuneThreads +
                             ": expected a number up to 1024");
  if (StringRef(autotuneCandidates).getAsInteger(10, tune.candidates) || tune.candidates < 1 ||
      tune.candidates > 1024)
    return createStringError("--autotune-candidates=" + autotuneCandidates +
                             ": expected a number from 1 to 1024");
  if (StringRef(autotuneSeconds).getAsDouble(tune.seconds) ||
      !(tune.seconds >= 0 && tune.seconds <= 86400))
    return createStringError("--autotune-seconds=" + autotuneSeconds +
                             ": expected a time up to 86400");
  for (StringRef setting : autotuneSizes) {
    auto [name, text] = setting.split('=');
    if (name.empty() || text.empty())
      return createStringError("--autotune-size=" + setting + ": expected NAME=VALUE");
    std::vector<int64_t> &values = tune.sizes[name];
    values.clear();
    for (StringRef number : split(text, ',')) {
      int64_t value;
      if (number.getAsInteger(10, value) || value < 0)
        return createStringError("--autotune-size=" + setting + ": expected NAME=VALUE");
      if (!values.empty() && value <= values.back())
        return createStringError("--autotune-size=" + setting + ": expected rising values");
      values.push_back(value);
    }
  }
  tune.tuner = getProgramBeside("aot-tune");
  tune.onWarning = options.onWarning;
  return Error::success();
}

Error getDebugOptions(CompileOptions &options) {
  if (StringRef(debugPrint).getAsInteger(10, options.debug.level) || options.debug.level > 3)
    return createStringError("--debug-print=" + debugPrint + ": expected 0, 1, 2 or 3");
  options.debug.filter = debugFilter;
  if (debugFilter.getNumOccurrences() && !options.debug.level)
    return createStringError("--debug-filter: there is no --debug-print that it is for");
  if (is_contained(options.debug.filter, ""))
    return createStringError("--debug-filter: expected names of kernels");
  return Error::success();
}

Error getReportOptions(CompileOptions &options) {
  options.report = {report, reportCompare, reportProfile};
  for (const cl::opt<std::string> *option : {&report, &reportCompare, &reportProfile})
    if (option->getNumOccurrences() && option->empty())
      return createStringError("--" + option->ArgStr + ": expected a file name");
  if (report.empty() && !(reportCompare.empty() && reportProfile.empty()))
    return createStringError("--" + (reportCompare.empty() ? reportProfile : reportCompare).ArgStr +
                             ": there is no --report that it is for");
  if (report.empty())
    return Error::success();
  if (is_contained({EmitKind::Torch, EmitKind::Kernel}, options.emit))
    return createStringError("--report: not with --emit=" + emitKind);
  for (const std::string &file : {options.input, options.output, options.report.profile})
    if (bool same = false; file == report || (!sys::fs::equivalent(file, report, same) && same))
      return createStringError("--report=" + report + ": it would replace '" + file + "'");
  return Error::success();
}

/// Reads the kind of output, and its path.
Error getOutputOptions(CompileOptions &options) {
  struct Kind {
    StringRef name;
    EmitKind kind;
    StringRef suffix;
  };
  static const Kind kinds[] = {{"so", EmitKind::SharedObject, ".so"},
                               {"fx", EmitKind::Fx, ".py"},
                               {"obj", EmitKind::Object, ".o"},
                               {"llvm", EmitKind::LLVM, ".ll"},
                               {"ptx", EmitKind::Assembly, ".ptx"},
                               {"json", EmitKind::Json, ".json"},
                               {"torch", EmitKind::Torch, ".torch.mlir"},
                               {"kernel", EmitKind::Kernel, ".kernel.mlir"},
                               {"wrapper", EmitKind::Wrapper, ".wrapper.mlir"}};
  const TargetRegistration &registration = *lookupTarget(target);
  bool isWriter = !registration.outputSuffix.empty();
  bool isOfTarget = is_contained({"llvm", "obj", "ptx"}, StringRef(emitKind)) ||
                    (emitKind == "so" && emitKind.getNumOccurrences() && isWriter);
  if (isOfTarget && !is_contained(registration.emits, StringRef(emitKind)))
    return createStringError("--emit=" + emitKind + ": not with --target=" + target);
  const Kind program = {"", EmitKind::Program, registration.outputSuffix};
  const Kind *kind = find_if(kinds, [](const Kind &kind) { return kind.name == emitKind; });
  if (isWriter && emitKind == "so")
    kind = &program;
  if (kind == std::end(kinds))
    return createStringError("--emit=" + emitKind +
                             ": expected so, fx, obj, llvm, ptx, json, torch, kernel or wrapper");
  options.emit = kind->kind;
  bool isBundle = options.tuning.mode == tuning::Mode::WriteBundle;
  if (isBundle && emitKind.getNumOccurrences())
    return createStringError("--autotune=offline: not with --emit, since the output is a bundle");
  options.output = output;
  if (output.empty()) {
    options.output = (sys::path::stem(options.input) + (isBundle ? ".tune" : kind->suffix)).str();
    if (output.getNumOccurrences())
      return createStringError("-o: expected a file name");
  }
  bool isBinary =
      is_contained({EmitKind::SharedObject, EmitKind::Fx, EmitKind::Object}, kind->kind);
  if (options.output == "-" && isBinary)
    return createStringError("-o -: --emit=" + emitKind + " is not text");
  auto isOutput = [&](StringRef file) {
    bool same = false;
    return !sys::fs::equivalent(file, options.output, same) && same;
  };
  if (isOutput(options.input) ||
      any_of(options.entries, [&](const EntryOption &entry) { return isOutput(entry.file); }))
    return createStringError("-o " + options.output + ": the output would replace the input");

  if (kind->kind == EmitKind::Fx) {
    if (target != "cpu")
      return createStringError("--emit=fx: not with --target=" + target);
    if (debugPrint != "0")
      return createStringError("--emit=fx: not with --debug-print");
    if (!StringRef(options.output).ends_with(".py"))
      return createStringError("-o " + options.output +
                               ": expected NAME.py, beside which NAME.so is written");
  }

  if (weights != "embed" && weights != "external" && weights != "later")
    return createStringError("--weights=" + weights + ": expected embed, external or later");
  options.laterWeights = weights == "later";
  if (options.laterWeights && (options.emit == EmitKind::Fx || options.emit == EmitKind::Object))
    return createStringError("--weights=later: not with --emit=" + emitKind);
  options.weights = weights == "external" ? WeightsPlace::External : WeightsPlace::Embedded;
  options.saveTemps = saveTemps;
  if (saveTemps.getNumOccurrences() && saveTemps.empty())
    return createStringError("--save-temps: expected a folder");
  return Error::success();
}

Error getExterns(CompileOptions &options) {
  if (externList.empty())
    return externList.getNumOccurrences()
               ? createStringError("--extern: expected a list of external code generators")
               : Error::success();
  Expected<std::vector<std::string>> list = externs::splitExternList(externList);
  if (!list)
    return createStringError("--extern=" + toString(list.takeError()));
  options.externs = std::move(*list);
  return Error::success();
}

Error getCustomOps(CompileOptions &options) {
  StringSet<> targets;
  for (const std::string &declaration : customOps) {
    Expected<torch::CustomOp> op = torch::parseCustomOp(declaration);
    if (!op)
      return createStringError("--custom-op=" + toString(op.takeError()));
    if (!targets.insert(op->schema.name).second)
      return createStringError("--custom-op: " + op->schema.name + " is declared twice");
  }
  for (const std::string &file : linkFiles)
    if (!sys::fs::exists(file))
      return createStringError("--link=" + file + ": there is no such file");
  options.customOps = customOps;
  options.linkFiles = linkFiles;
  return Error::success();
}

Error checkSandboxOptions(const CompileOptions &options) {
  if (!sandbox)
    return Error::success();
  for (const cl::Option *option :
       std::initializer_list<const cl::Option *>{&ptxas, &externList, &bisectRun})
    if (option->getNumOccurrences())
      return createStringError("--sandbox: not with --" + option->ArgStr +
                               ", which needs other programs or libraries");
  if (options.tuning.mode == tuning::Mode::Measure)
    return createStringError("--sandbox: not with --autotune, which runs kernels in processes of "
                             "their own; --autotune=offline is allowed");
  return checkSandbox();
}

Error checkBisectOptions() {
  if (!bisectRun.getNumOccurrences())
    return Error::success();
  if (bisectRun.empty())
    return createStringError("--bisect: expected a folder");
  for (const cl::Option *option :
       std::initializer_list<const cl::Option *>{&output, &emitKind, &report, &autotune, &sandbox})
    if (option->getNumOccurrences())
      return createStringError("--bisect: not with " +
                               StringRef(option->ArgStr.size() > 1 ? "--" : "-") + option->ArgStr);
  return Error::success();
}

/// The command line, or a message why it is wrong.
Expected<CompileOptions> getOptions() {
  auto error = [](const Twine &message) { return createStringError(message); };
  CompileOptions options;
  options.input = input;
  if (Error problem = readEntryOptions(options))
    return std::move(problem);
  if (options.input.empty())
    return error("no input file (aot-compile MODEL.pt2 -o OUT)");
  options.onWarning = [](StringRef text) { errs() << "aot-compile: warning: " << text << '\n'; };

  if (!lookupTarget(target)) {
    auto names = map_range(getRegisteredTargets(), [](const auto &known) { return known.name; });
    return error("--target=" + target + ": expected " + join(names, " or "));
  }
  options.target = target;
  for (const cl::Option *option :
       std::initializer_list<const cl::Option *>{&gpuArch, &gpuTune, &ptxas, &tf32})
    if (target != "cuda" && option->getNumOccurrences())
      return error("--" + option->ArgStr + " is for --target=cuda");
  if (Error problem = readCPUOptions(options))
    return std::move(problem);
  // Other targets' output is their own affair.
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{
           &debugPrint, std::addressof(debugFilter), &weights, &level, std::addressof(linkFiles)})
    if (!lookupTarget(target)->outputSuffix.empty() && option->getNumOccurrences())
      return error("--" + option->ArgStr + " is not for --target=" + target);
  if (Error problem = getDebugOptions(options))
    return problem;
  if (Error problem = getTuningOptions(options))
    return problem;
  if (Error problem = getOutputOptions(options))
    return problem;

  if (Error problem = getReportOptions(options))
    return problem;

  if (fallback != "none" && fallback != "torch")
    return error("--fallback=" + fallback + ": expected none or torch");
  options.fallback = fallback;
  if (Error problem = getCustomOps(options))
    return problem;
  if (Error problem = getExterns(options))
    return problem;
  if (!is_contained({"native", "avx512", "avx2", "none"}, StringRef(int4Layout)))
    return error("--int4-layout=" + int4Layout + ": expected avx512, avx2 or none");
  options.int4Layout = int4Layout;
  options.ranks = ranks;
  options.libraryFolder = getLibraryFolder();
  if (StringRef(jobs).getAsInteger(10, options.jobs) || options.jobs > 1024)
    return error("--jobs=" + jobs + ": expected a number up to 1024");
  uint64_t gigabytes;
  if (StringRef(maxUnpacked).getAsInteger(10, gigabytes) || gigabytes > UINT32_MAX)
    return error("--max-unpacked=" + maxUnpacked + ": expected a number of GiB");
  options.maxUnpacked = gigabytes << 30;
  unsigned number;
  if (StringRef(level).getAsInteger(10, number) || number > 3)
    return error("-O" + level + ": expected -O0, -O1, -O2 or -O3");
  options.level = static_cast<codegen::OptLevel>(number);
  if (progress != "auto" && progress != "never")
    return error("--progress=" + progress + ": expected auto or never");
  options.remarks.file = remarks;
  options.remarks.filter = remarksFilter;
  if (std::string problem; !Regex(remarksFilter).isValid(problem))
    return error("--remarks-filter=" + remarksFilter + ": " + problem);
  if (Error problem = checkSandboxOptions(options))
    return problem;
  if (Error problem = checkBisectOptions())
    return problem;
  // Last, since it warns.
  if (target == "cuda")
    if (Error problem = getCudaOptions(options))
      return problem;
  return options;
}

/// The support of an operator that a lowering has, or a pass before it.
lowering::Support getSupport(StringRef name) {
  std::string ofList = torch::getForeachTarget(name);
  if (torch::isRnn(name) || torch::isEncoderLayer(name))
    return lowering::Support::Native;
  return lowering::getSupport(ofList.empty() ? name : ofList);
}

void printOps() {
  SmallVector<StringRef> lines;
  torch::schemaTable().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    StringRef name = line.split('(').first;
    lowering::Support support = getSupport(name);
    outs() << name << ' '
           << (support == lowering::Support::Native     ? "native"
               : support == lowering::Support::Fallback ? "fallback"
                                                        : "refused")
           << '\n';
  }
  // Some lowerings are of operators whose schemas are not PyTorch's own.
  SmallVector<StringRef> others;
  for (StringRef name : lowering::loweringTable().all().keys())
    if (!torch::lookupSchema(name) && !name.starts_with("aten.") && !name.starts_with("prims."))
      others.push_back(name);
  sort(others);
  for (StringRef name : others)
    outs() << name << " native\n";
}

/// One line on a terminal that says which stage is running.
class ProgressLine {
public:
  explicit ProgressLine(StringRef model) : model(model) {}
  ~ProgressLine() { clear(); }
  void show(StringRef stage) {
    errs() << "\r\x1b[K" << "aot-compile: " << model << ": " << stage;
    shown = true;
  }
  void clear() {
    if (shown)
      errs() << "\r\x1b[K";
    shown = false;
  }

private:
  StringRef model;
  bool shown = false;
};

/// LLVM's handler restores the default action first of all: a second thread that crashes while the
/// first one writes the reproducer would end the process. Here it waits. (A crash in here ends it
/// too: the kernel does that when a signal comes that is blocked.)
void handleCrash(int signal) {
  static std::atomic_flag crashing = ATOMIC_FLAG_INIT;
  if (crashing.test_and_set())
    while (true)
      pause();
  sys::RunSignalHandlers();
  sys::RunInterruptHandlers(); // removes unfinished files
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
}

/// Memory has run out. Nothing that allocates can be done any more, so the model's name is not said.
[[noreturn]] void sayOutOfMemory() {
  static std::atomic_flag ending = ATOMIC_FLAG_INIT;
  while (ending.test_and_set())
    pause();                   // another thread says so
  sys::RunInterruptHandlers(); // removes unfinished files
  static constexpr StringLiteral message =
      "aot-compile: error: internal error: out of memory (fewer --jobs need less)\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, message.data(), message.size());
  _exit(internalError);
}

/// Static objects of the libraries allocate before main, and before those of this program are made.
[[gnu::section(".preinit_array"), gnu::used]] void (*const beforeAll)() = [] {
  std::set_new_handler(sayOutOfMemory);
  install_bad_alloc_error_handler([](void *, const char *, bool) { sayOutOfMemory(); });
};

int sayFound(const BisectResult &found) {
  outs() << found.passes << " passes and " << found.launches << " launches are right";
  if (found.skipped)
    outs() << ", " << found.skipped << " launches could not be checked";
  outs() << '\n';
  if (found.culprit.empty())
    return 0;
  outs() << found.culprit << '\n';
  return userError;
}

/// The child's work; returns its exit status.
int runCompilation(CompileOptions &options) {
  // A limit of the size of files is an error of the write that would go beyond it.
  ::signal(SIGXFSZ, SIG_IGN);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction action = {};
    action.sa_handler = handleCrash;
    action.sa_flags = SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
  install_fatal_error_handler([](void *, const char *reason, bool) {
    errs() << "aot-compile: error: internal error: " << reason << '\n';
    // As a signal would: the reproducer is written by its handler.
    raise(SIGABRT);
  });
  mlir::DefaultTimingManager timing;
  mlir::applyDefaultTimingManagerCLOptions(timing); // --mlir-timing
  if (timePasses)
    timing.setEnabled(true);
  mlir::TimingScope root = timing.getRootScope();
  if (timing.isEnabled())
    options.timing = &root;

  std::string model = sys::path::filename(options.input).str();
  ProgressLine line(model);
  if (progress == "auto" && sys::Process::StandardErrIsDisplayed())
    options.progress = [&](StringRef stage) { line.show(stage); };

  if (remarks.getNumOccurrences() && remarks.empty())
    options.remarks.onLine = [&](StringRef remark) {
      line.clear();
      errs() << "aot-compile: remark: " << remark << '\n';
    };

  BisectResult found;
  Error error = bisectRun.empty() ? compile(options) : bisect(options, bisectRun).moveInto(found);
  line.clear();
  if (!error)
    return bisectRun.empty() ? 0 : sayFound(found);
  int status = userError;
  handleAllErrors(
      std::move(error),
      [&](const InternalError &internal) {
        status = internalError;
        errs() << "aot-compile: error: internal error: ";
        internal.log(errs());
        if (!internal.getReproducer().empty())
          errs() << "; reproducer: " << internal.getReproducer();
        errs() << '\n';
      },
      [&](const ErrorInfoBase &user) { fail(user.message()); });
  return status;
}

/// Writes the rest of the standard output; a failure is an error of its own.
int finishOutput(int status) {
  outs().flush();
  std::error_code problem = outs().error();
  outs().clear_error();
  return problem ? fail("cannot write to standard output: " + problem.message()) : status;
}

/// The temporary folder of a sandbox. Reproducers stay.
class TemporaryFolder {
public:
  Error create() {
    SmallString<128> parent;
    sys::path::system_temp_directory(/*erasedOnReboot=*/true, parent);
    sys::path::append(parent, "aot-compile");
    if (std::error_code error = sys::fs::createUniqueDirectory(parent, path))
      return createStringError("cannot make a temporary folder: " + error.message());
    setenv("TMPDIR", path.c_str(), 1);
    return Error::success();
  }
  ~TemporaryFolder() { remove(); }
  void remove() {
    if (path.empty())
      return;
    std::error_code error;
    for (sys::fs::directory_iterator file(path, error), end; !error && file != end;
         file.increment(error))
      if (!StringRef(file->path()).ends_with(".mlir"))
        (void)sys::fs::remove(file->path());
    (void)sys::fs::remove(path);
    path.clear();
  }

  SmallString<128> path;
};

/// Runs the compilation in a child process and says so if it crashed.
int supervise(CompileOptions &options) {
  TemporaryFolder temporary;
  SandboxFiles files;
  if (sandbox) {
    if (Error problem = temporary.create())
      return fail(toString(std::move(problem)));
    Expected<SandboxFiles> found = getSandboxFiles(options);
    if (!found)
      return fail(toString(found.takeError()));
    files = std::move(*found);
    files.writableFolders.push_back(temporary.path.str().str());
  }
  SmallString<128> model, reproducer;
  sys::path::system_temp_directory(/*erasedOnReboot=*/true, model);
  sys::path::append(model, "aot-compile-%%%%%%%%.mlir");
  sys::fs::createUniquePath(model, reproducer, /*MakeAbsolute=*/false);
  setCrashReproducerPath(reproducer);

  errs().flush();
  pid_t parent = getpid(), child = fork();
  if (child < 0 && sandbox)
    return fail("--sandbox: cannot start a process: " + sys::StrError());
  if (child < 0)
    return runCompilation(options);
  if (child == 0) {
    // Who ends the parent, with whatever signal, does not want the output any more.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
      raise(SIGTERM);
    if (sandbox)
      if (Error problem = enterSandbox(files))
        _exit(fail(toString(std::move(problem))));
    int status = runCompilation(options);
    status = finishOutput(status);
    errs().flush();
    // Static objects of LLVM have nothing to do that the end of the process does not.
    _exit(status);
  }
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return internalError;
  temporary.remove();
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  int signal = WTERMSIG(status);
  if (llvm::is_contained({SIGINT, SIGTERM, SIGHUP, SIGPIPE}, signal)) {
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
  errs() << "aot-compile: error: internal error: " << options.input << ": the compiler ";
  if (signal == SIGKILL)
    errs() << "was killed (is there enough memory?)";
  else
    errs() << "crashed (" << strsignal(signal) << ')';
  if (sys::fs::exists(reproducer))
    errs() << "; reproducer: " << reproducer;
  errs() << '\n';
  return internalError;
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  setBugReportMsg("");
  cl::SetVersionPrinter([](raw_ostream &os) {
    os << getCompilerVersion() << " (LLVM " << LLVM_VERSION_STRING << ")\n";
  });
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  // The options for printing take the names of passes.
  registerTargets();
  registerPasses();
  if (Error error = loadPlugins(argc, argv, category))
    return fail(toString(std::move(error)));
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  std::string targets = describeTargets();
  target.setDescription(targets);
  cl::Option *timing = cl::getRegisteredOptions().lookup("time-passes");
  timing->addCategory(category);
  timing->setHiddenFlag(cl::NotHidden);
  timing->setDescription("print the time of each stage and pass");
  addCPUOptions(category);
  addEntryOptions(category);
  cl::HideUnrelatedOptions(category);
  registerDebugOption();

  if (Error error = parseCommandLine(argc, argv, "Compiles an exported PyTorch program.\n"))
    return fail(toString(std::move(error)));
  // Ours alone: LLVM's own report would come out once for each kernel.
  timePasses = std::exchange(TimePassesIsEnabled, false);
  if (listOps) {
    printOps();
    return finishOutput(0);
  }
  Expected<CompileOptions> options = getOptions();
  if (!options)
    return fail(toString(options.takeError()));
  return supervise(*options);
}
