// Interprets a program after every pass, and the kernels that a run has recorded.
#include "kiln/Pipeline/Bisect.h"
#include "kiln/Dialect/Kernel/Sort.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Reference/Interpreter.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kiln;
using reference::Interpreter;
using reference::Tensor;

namespace {

//===-- What a run has recorded -------------------------------------------------------------===//

/// A tensor in a file; its element type is that of who takes it.
struct Saved {
  std::string file;
  SmallVector<int64_t> sizes;
};

/// A kernel's launch, or the inputs of the program.
struct Launch {
  std::string kernel, where;
  int64_t step = 0;
  std::vector<Saved> operands, results; // before it, after it
};

struct Recording {
  std::string folder;
  Launch inputs;
  std::vector<Launch> launches;
};

llvm::Error addEntry(Recording &recording, const llvm::json::Object &entry) {
  std::optional<int64_t> step = entry.getInteger("step"), index = entry.getInteger("index");
  std::optional<StringRef> time = entry.getString("time"), role = entry.getString("role"),
                           kernel = entry.getString("kernel"), file = entry.getString("file");
  const llvm::json::Array *shape = entry.getArray("shape");
  if (!step || !index || !time || !role || !kernel || !file || !shape)
    return llvm::createStringError("a line does not say all of a tensor");
  // A file of this folder, and no other.
  if (file->empty() || llvm::sys::path::filename(*file) != *file)
    return llvm::createStringError("a tensor is in another folder");
  Saved saved = {file->str(), {}};
  for (const llvm::json::Value &size : *shape)
    saved.sizes.push_back(size.getAsInteger().value_or(-1));
  bool isInput = *time == "inputs";
  auto &launches = recording.launches;
  if (!isInput && (launches.empty() || launches.back().step != *step))
    launches.push_back({kernel->str(), entry.getString("where").value_or("").str(), *step, {}, {}});
  Launch &launch = isInput ? recording.inputs : launches.back();
  bool isOperand = *role == "operand";
  if (isOperand != (isInput || *time == "before_launch"))
    return llvm::Error::success();
  std::vector<Saved> &list = isOperand ? launch.operands : launch.results;
  if (*index != static_cast<int64_t>(list.size()))
    return llvm::createStringError("tensors are not in order");
  list.push_back(std::move(saved));
  return llvm::Error::success();
}

llvm::Expected<Recording> readRecording(const std::string &folder) {
  SmallString<128> path(folder);
  llvm::sys::path::append(path, "index.jsonl");
  auto text = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!text)
    return llvm::createStringError(text.getError(),
                                   path + ": " + text.getError().message() +
                                       " (a model compiled with --debug-print=1 writes it)");
  Recording recording;
  recording.folder = folder;
  SmallVector<StringRef> lines;
  (*text)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (auto [i, line] : llvm::enumerate(lines)) {
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(line);
    llvm::Error error = value ? llvm::Error::success() : value.takeError();
    if (!error) {
      const llvm::json::Object *entry = value->getAsObject();
      error = entry ? addEntry(recording, *entry) : llvm::createStringError("expected an object");
    }
    if (error)
      return llvm::createStringError(path + ":" + Twine(i + 1) + ": " +
                                     llvm::toString(std::move(error)));
  }
  return recording;
}

llvm::Expected<Tensor> readTensor(const Recording &recording, const Saved &saved,
                                  Type elementType) {
  SmallString<128> path(recording.folder);
  llvm::sys::path::append(path, saved.file);
  if (llvm::Expected<int64_t> count = reference::countElements(saved.sizes); !count)
    return count.takeError();
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError(file.getError(), path + ": " + file.getError().message());
  // Format 1 of .npy: 6 bytes, the version, the length of the header, the header.
  StringRef bytes = (*file)->getBuffer();
  constexpr size_t start = 10;
  size_t header = 0;
  if (bytes.size() >= start && bytes.starts_with("\x93NUMPY\x01"))
    header = start + llvm::support::endian::read16le(bytes.data() + 8);
  StringRef data = header && header <= bytes.size() ? bytes.drop_front(header) : StringRef();
  FailureOr<Tensor> tensor =
      header ? Tensor::fromBytes(elementType, saved.sizes, {data.data(), data.size()})
             : FailureOr<Tensor>();
  if (failed(tensor))
    return llvm::createStringError(path + ": not a tensor of this size");
  return *tensor;
}

llvm::Expected<SmallVector<Tensor>> readTensors(const Recording &recording,
                                                const std::vector<Saved> &saved, TypeRange types) {
  if (saved.size() != types.size())
    return llvm::createStringError("the run is of another program: " + Twine(saved.size()) +
                                   " tensors instead of " + Twine(types.size()));
  SmallVector<Tensor> tensors;
  for (auto [one, type] : llvm::zip(saved, types)) {
    llvm::Expected<Tensor> tensor =
        readTensor(recording, one, cast<RankedTensorType>(type).getElementType());
    if (!tensor)
      return tensor.takeError();
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

//===-- Passes ------------------------------------------------------------------------------===//

using Symbols = llvm::DenseMap<sym::Expr, int64_t>;

/// Findings so far; they outlive the pass managers.
struct Progress {
  explicit Progress(const Recording &recording) : recording(recording) {}

  const Recording &recording;
  BisectResult result;
  std::string problem; // no pass can be judged
  /// The program's first results, rounded and wide, if the run does not fail.
  SmallVector<Tensor> rounded, wide;
  bool fails = false, hasResults = false;
  Symbols symbols;
};

class PassCheck : public PassInstrumentation {
public:
  explicit PassCheck(Progress &progress) : progress(progress) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    if (!progress.problem.empty() || !progress.result.culprit.empty())
      return;
    auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
    func::FuncOp main;
    for (auto function : module.getOps<func::FuncOp>())
      if (function.isPublic())
        main = function;
    bool isLowered =
        main && !module
                     ->walk([](Operation *inner) {
                       bool isTorch = isa_and_nonnull<torch::TorchDialect>(inner->getDialect());
                       return isTorch ? WalkResult::interrupt() : WalkResult::advance();
                     })
                     .wasInterrupted();
    if (!isLowered)
      return;
    OperationFingerPrint now(module);
    if (before && *before == now)
      return;
    before = now;
    std::string difference = check(main);
    if (!difference.empty())
      progress.result.culprit =
          ("the pass " + pass->getArgument() + " changes " + difference).str();
    else
      ++progress.result.passes;
  }

private:
  /// The difference between the function's results and the first ones.
  std::string check(func::FuncOp main) {
    llvm::Expected<SmallVector<Tensor>> inputs = readTensors(
        progress.recording, progress.recording.inputs.operands, main.getArgumentTypes());
    if (!inputs) {
      progress.problem = llvm::toString(inputs.takeError());
      return {};
    }
    SmallVector<Tensor> results;
    bool fails = !run(main, *inputs, /*wide=*/false, results);
    if (!progress.problem.empty())
      return {};
    if (!std::exchange(progress.hasResults, true)) {
      progress.fails = fails;
      progress.rounded = results;
      if (!fails)
        run(main, *inputs, /*wide=*/true, progress.wide);
      return {};
    }
    if (fails != progress.fails)
      return fails ? "a run that succeeds to one that fails"
                   : "a run that fails to one that succeeds";
    if (results.size() != progress.rounded.size())
      return "the number of results";
    for (auto [i, got] : llvm::enumerate(results)) {
      // A run that fails in double precision alone has no other yardstick than its own results.
      const Tensor &wide = progress.wide.empty() ? progress.rounded[i] : progress.wide[i];
      std::string difference = reference::compareTensors(got, progress.rounded[i], wide);
      if (!difference.empty())
        return llvm::formatv("result {0}: {1}", i, difference).str();
    }
    return {};
  }

  /// False if the run fails.
  bool run(func::FuncOp main, ArrayRef<Tensor> inputs, bool wide, SmallVector<Tensor> &results) {
    reference::InterpreterOptions options;
    options.wide = wide;
    Interpreter interpreter(options);
    llvm::Expected<SmallVector<Tensor>> outputs = interpreter.run(main, inputs);
    if (!wide)
      progress.symbols = interpreter.symbols;
    if (outputs) {
      results = std::move(*outputs);
      return true;
    }
    bool isFailure = outputs.errorIsA<reference::RunFailure>();
    std::string message = llvm::toString(outputs.takeError());
    if (!isFailure)
      progress.problem = message;
    return false;
  }

  Progress &progress;
  std::optional<OperationFingerPrint> before;
};

//===-- Kernels -----------------------------------------------------------------------------===//

/// Sizes that the host program computes get names.
void addDefined(ModuleOp module, Symbols &symbols) {
  module.walk([&](wrapper::DefineOp define) {
    if (!define.getExpr())
      return;
    bool isKnown = true;
    std::optional<int64_t> value = define.getExpr()->getValue().evaluate([&](sym::Expr leaf) {
      isKnown &= symbols.contains(leaf);
      return symbols.lookup(leaf);
    });
    if (isKnown && value)
      symbols[sym::Expr::symbol(define.getSymbol())] = *value;
  });
}

/// The reason why a launch is wrong; empty if it is right, and nullopt if that cannot be told.
llvm::Expected<std::optional<std::string>> checkLaunch(kernel::FuncOp kernel, const Launch &launch,
                                                       const Progress &progress) {
  auto operands = readTensors(progress.recording, launch.operands, kernel.getArgumentTypes());
  if (!operands)
    return operands.takeError();
  auto got = readTensors(progress.recording, launch.results, kernel.getResultTypes());
  if (!got)
    return got.takeError();
  SmallVector<Tensor> want[2];
  for (bool wide : {false, true}) {
    reference::InterpreterOptions options;
    options.wide = wide;
    Interpreter interpreter(options);
    interpreter.symbols = progress.symbols;
    auto results = interpreter.run(kernel, *operands);
    if (!results) {
      llvm::consumeError(results.takeError());
      return std::nullopt;
    }
    want[wide] = std::move(*results);
  }
  auto sort = dyn_cast<kernel::SortOp>(kernel.getRoot());
  for (auto [i, tensor] : llvm::enumerate(*got)) {
    if (sort && (i > 0 || kernel::getFirst(sort)))
      break; // memory to work in; positions that nobody reads
    std::string difference = reference::compareTensors(tensor, want[false][i], want[true][i]);
    if (!difference.empty())
      return llvm::formatv("launch {0}, of the kernel {1} ({2}), gives a wrong result {3}: {4}",
                           launch.step, launch.kernel, launch.where, i, difference)
          .str();
  }
  return std::string();
}

llvm::Error checkLaunches(ModuleOp module, Progress &progress) {
  addDefined(module, progress.symbols);
  for (const Launch &launch : progress.recording.launches) {
    auto kernel = module.lookupSymbol<kernel::FuncOp>(launch.kernel);
    if (!kernel) { // a call of a library
      ++progress.result.skipped;
      continue;
    }
    llvm::Expected<std::optional<std::string>> problem = checkLaunch(kernel, launch, progress);
    if (!problem)
      return problem.takeError();
    if (!*problem) {
      ++progress.result.skipped;
    } else if ((*problem)->empty()) {
      ++progress.result.launches;
    } else {
      progress.result.culprit = **problem;
      return llvm::Error::success();
    }
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<BisectResult> kiln::bisect(CompileOptions options, const std::string &run) {
  llvm::Expected<Recording> recording = readRecording(run);
  if (!recording)
    return recording.takeError();
  SmallString<128> path;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("aot-compile-bisect", "mlir", path))
    return llvm::createStringError(error, "cannot make a temporary file: " + error.message());
  llvm::FileRemover remover(path);
  Progress progress(*recording);
  options.emit = EmitKind::Wrapper;
  options.output = path.str().str();
  options.jobs = 1; // one pass after the other
  options.instrument = [&]() -> std::unique_ptr<PassInstrumentation> {
    return std::make_unique<PassCheck>(progress);
  };
  llvm::Error error = compile(options);
  if (!progress.result.culprit.empty()) { // a later pass may have tripped over it
    llvm::consumeError(std::move(error));
    return progress.result;
  }
  if (error)
    return std::move(error);
  if (!progress.problem.empty())
    return llvm::createStringError(options.input + ": " + progress.problem);
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path.str(), &context);
  if (!module)
    return llvm::createStringError(options.input + ": its kernels cannot be read back");
  if (llvm::Error error = checkLaunches(*module, progress))
    return std::move(error);
  return progress.result;
}
