// Compiles the kernel.funcs of an MLIR file for this machine, or for --target-cpu, and runs one on .npy files:
//
//   kiln-run-kernel FILE.mlir [--kernel=NAME] [--sym=s0=5] --inputs=a.npy,b.npy --outputs=y.npy
//
// With --repeat it prints nanoseconds of a run on one thread, and how long compiling took. Numeric
// tests (test/Targets/CPU/*.py) are written against it.
#include "Npy.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Targets/CPU/CPU.h"
#include "kiln/Targets/CPU/CPUDialect.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

using namespace mlir;
using namespace kiln;
namespace cl = llvm::cl;

static cl::opt<std::string> file(cl::Positional, cl::Required, cl::desc("FILE.mlir"));
static cl::opt<std::string> kernelName("kernel",
                                       cl::desc("the kernel to run (default: the first)"));
static cl::opt<std::string> targetCPU("target-cpu", cl::init("native"),
                                      cl::desc("as aot-compile's --cpu"));
static cl::list<std::string> inputs("inputs", cl::CommaSeparated, cl::desc("operands, as .npy"));
static cl::list<std::string> outputs("outputs", cl::CommaSeparated, cl::desc("results, as .npy"));
static cl::list<std::string> symbols("sym", cl::desc("NAME=VALUE"));
static cl::opt<unsigned> repeat("repeat", cl::desc("time this many runs"));
static cl::opt<unsigned> threads("run-threads", cl::init(1), cl::desc("threads of a run"));
static cl::opt<unsigned> jobs("compile-jobs", cl::init(1), cl::desc("threads of compilation"));
static cl::opt<bool> printLLVM("print-llvm", cl::desc("print the optimised LLVM IR"));
static cl::opt<bool> timePasses("time-compile", cl::desc("print where compile time goes"));

static llvm::ExitOnError exitOnError("kiln-run-kernel: ");

static std::string npyType(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return "c" + std::to_string(complex.getElementType().getIntOrFloatBitWidth() / 4);
  if (type.isInteger(1))
    return "b1";
  std::string bytes = std::to_string(type.getIntOrFloatBitWidth() / 8);
  if (type.isBF16())
    return "V" + bytes;
  return (isa<FloatType>(type) ? "f" : type.isUnsignedInteger() ? "u" : "i") + bytes;
}

static int64_t elementBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * complex.getElementType().getIntOrFloatBitWidth() / 8;
  return std::max(1u, type.getIntOrFloatBitWidth() / 8);
}

/// Memory that a write past either end of shows: the guards around it change.
class Buffer {
public:
  explicit Buffer(size_t bytes) : bytes(bytes), memory(bytes + 2 * guard + 64, fill) {}
  char *data() {
    return reinterpret_cast<char *>(llvm::alignAddr(memory.data() + guard, llvm::Align(64)));
  }
  bool isIntact() {
    auto isFill = [](char c) { return c == fill; };
    return std::all_of(memory.data(), data(), isFill) &&
           std::all_of(data() + bytes, memory.data() + memory.size(), isFill);
  }

private:
  static constexpr size_t guard = 256;
  static constexpr char fill = 0x5a;
  size_t bytes;
  std::vector<char> memory;
};

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "Runs a kernel\n");
  DialectRegistry registry;
  codegen::registerTranslations(registry);
  registry.insert<cpu::CPUDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(file, &context);
  if (!module)
    return 1;
  auto kernels = module->getOps<kernel::FuncOp>();
  if (kernels.empty()) {
    llvm::errs() << "no kernel.func in " << file << '\n';
    return 1;
  }
  kernel::FuncOp func = *kernels.begin();
  if (!kernelName.empty())
    func = module->lookupSymbol<kernel::FuncOp>(kernelName);
  if (!func) {
    llvm::errs() << "no kernel.func @" << kernelName << '\n';
    return 1;
  }

  auto jit = exitOnError(cpu::KernelJit::create(targetCPU));
  DefaultTimingManager timingManager;
  timingManager.setEnabled(timePasses);
  auto begin = std::chrono::steady_clock::now();
  {
    TimingScope timing = timingManager.getRootScope();
    codegen::ObjectOptions options;
    options.jobs = jobs;
    if (timePasses)
      options.timing = &timing;
    if (printLLVM)
      options.onModule = [](const llvm::Module &m) { m.print(llvm::outs(), nullptr); };
    exitOnError(jit->add(*module, options));
  }
  std::chrono::duration<double, std::milli> compiled = std::chrono::steady_clock::now() - begin;
  auto kernel = exitOnError(jit->lookup(func.getName()));

  SmallVector<std::pair<StringRef, int64_t>> values;
  for (const std::string &text : symbols) {
    auto [name, value] = StringRef(text).split('=');
    int64_t number = 0;
    if (value.getAsInteger(10, number)) {
      llvm::errs() << "--sym takes NAME=VALUE\n";
      return 1;
    }
    values.push_back({name, number});
  }
  llvm::sort(values); // the order of sym.symbols
  auto sizesOf = [&](Type type) {
    std::vector<int64_t> sizes;
    for (sym::Expr size : sym::getShape(cast<RankedTensorType>(type)))
      sizes.push_back(size.evaluate([&](sym::Expr leaf) -> int64_t {
                            for (auto &value : values)
                              if (value.first == leaf.symbolName())
                                return value.second;
                            return 0;
                          })
                          .value_or(0));
    return sizes;
  };

  std::vector<Buffer> buffers;
  std::vector<void *> pointers;
  SmallVector<Type> types(func.getArgumentTypes());
  llvm::append_range(types, func.getResultTypes());
  for (auto [i, type] : llvm::enumerate(types)) {
    size_t bytes = elementBytes(cast<RankedTensorType>(type).getElementType());
    for (int64_t size : sizesOf(type))
      bytes *= size;
    buffers.emplace_back(bytes);
    if (i >= inputs.size() || i >= func.getArgumentTypes().size())
      continue;
    NpyArray array = exitOnError(readNpy(inputs[i]));
    if (array.bytes.size() != bytes) {
      llvm::errs() << inputs[i] << ": has " << array.bytes.size() << " bytes, expected " << bytes
                   << '\n';
      return 1;
    }
    memcpy(buffers.back().data(), array.bytes.data(), bytes);
  }
  for (Buffer &buffer : buffers)
    pointers.push_back(buffer.data());

  std::unique_ptr<llvm::DefaultThreadPool> pool;
  if (threads > 1)
    pool = std::make_unique<llvm::DefaultThreadPool>(llvm::hardware_concurrency(threads));
  exitOnError(jit->run(kernel, pointers, values, pool.get()));
  for (Buffer &buffer : buffers)
    if (!buffer.isIntact()) {
      llvm::errs() << "the kernel wrote outside of a buffer\n";
      return 1;
    }
  if (repeat) {
    double best = 1e30;
    for (unsigned i = 0; i < repeat; ++i) {
      auto start = std::chrono::steady_clock::now();
      exitOnError(jit->run(kernel, pointers, values, pool.get()));
      std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
      best = std::min(best, time.count());
    }
    llvm::outs() << "compile_ms " << llvm::format("%.2f", compiled.count()) << "\nns "
                 << llvm::format("%.0f", best) << "\n";
  }
  size_t numInputs = func.getArgumentTypes().size();
  for (size_t i = 0; i < outputs.size() && numInputs + i < types.size(); ++i) {
    Type type = types[numInputs + i];
    Type element = cast<RankedTensorType>(type).getElementType();
    NpyArray array{npyType(element), sizesOf(type), {}};
    size_t bytes = elementBytes(element);
    for (int64_t size : array.shape)
      bytes *= size;
    char *data = buffers[numInputs + i].data();
    array.bytes.assign(data, data + bytes);
    exitOnError(writeNpy(outputs[i], array));
  }
  return 0;
}
