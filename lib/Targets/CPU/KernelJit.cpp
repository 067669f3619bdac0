// Kernels compiled into this process and run there, for constant folding.
#include "../../../runtime/ir_interface.h"
#include "kiln/Codegen/PassManagers.h"
#include "kiln/Codegen/Passes.h"
#include "kiln/Codegen/RuntimeStruct.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Targets/CPU/CPU.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Passes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/Memory.h"
#include "llvm/Support/ThreadPool.h"
#include <cstring>

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static_assert(std::is_same_v<KernelJit::Function, kiln_rt_kernel>);

struct KernelJit::Impl {
  CPUInfo target;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::StringMap<Kernel> kernels;
};

KernelJit::KernelJit(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
KernelJit::~KernelJit() = default;

llvm::Expected<std::unique_ptr<KernelJit>> KernelJit::create(StringRef cpu) {
  auto impl = std::make_unique<Impl>();
  llvm::Expected<CPUInfo> target = CPUInfo::getRunnable(cpu);
  if (!target)
    return target.takeError();
  impl->target = *target;
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  impl->jit = std::move(*jit);
  // All that kernels may call.
  llvm::orc::SymbolMap symbols;
  auto define = [&](StringRef name, auto *function) {
    symbols[impl->jit->mangleAndIntern(name)] = llvm::orc::ExecutorSymbolDef(
        llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported);
  };
  define("memcpy", &std::memcpy);
  define("memset", &std::memset);
  define("memmove", &std::memmove);
  if (llvm::Error error =
          impl->jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))))
    return error;
  return std::unique_ptr<KernelJit>(new KernelJit(std::move(impl)));
}

llvm::Error KernelJit::add(ModuleOp module, const ObjectOptions &options) {
  OwningOpRef<ModuleOp> planned = ModuleOp::create(module.getLoc());
  (*planned)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
  // The program may be for a CPU that this machine is not.
  auto target = module->getAttrOfType<TargetAttr>(targetAttrName);
  if (target && target.getCpu() != impl->target.name)
    (*planned)->removeAttr(targetAttrName);
  OpBuilder builder(planned->getBodyRegion());
  for (auto func : module.getOps<kernel::FuncOp>())
    builder.clone(*func);
  PassManager pm(module.getContext());
  pm.addPass(createCpuSetTarget({impl->target.name, impl->target.tuning}));
  buildSimplifyBodiesPipeline(pm);
  pm.addNestedPass<kernel::FuncOp>(createCpuChooseSchedule());
  if (failed(applyCommandLine(pm, options.timing)) || failed(pm.run(*planned)))
    return llvm::createStringError("internal error: cannot plan the kernels");
  for (auto func : planned->getOps<kernel::FuncOp>())
    impl->kernels[func.getName()] = {nullptr, getGrid(func), getScratchBytes(func)};
  auto objects = compileKernels(*planned, impl->target, options);
  if (!objects)
    return objects.takeError();
  for (std::unique_ptr<llvm::MemoryBuffer> &object : *objects)
    if (llvm::Error error = impl->jit->addObjectFile(std::move(object)))
      return error;
  for (auto func : planned->getOps<kernel::FuncOp>()) {
    auto address = impl->jit->lookup(func.getName());
    if (!address)
      return address.takeError();
    impl->kernels[func.getName()].function = address->toPtr<Function>();
  }
  return llvm::Error::success();
}

llvm::Expected<KernelJit::Kernel> KernelJit::lookup(StringRef name) const {
  auto it = impl->kernels.find(name);
  if (it == impl->kernels.end())
    return llvm::createStringError("no kernel is called '%s'", name.str().c_str());
  return it->second;
}

llvm::Error KernelJit::run(const Kernel &kernel, ArrayRef<void *> buffers,
                           ArrayRef<std::pair<StringRef, int64_t>> symbols,
                           llvm::ThreadPoolInterface *pool) const {
  SmallVector<int64_t> values;
  for (auto &symbol : symbols)
    values.push_back(symbol.second);
  std::optional<int64_t> grid = kernel.grid.evaluate([&](sym::Expr leaf) -> int64_t {
    for (auto &symbol : symbols)
      if (symbol.first == leaf.symbolName())
        return symbol.second;
    return 0;
  });
  if (!grid || *grid < 0)
    return llvm::createStringError("the number of tasks is out of range");
  std::atomic<int64_t> next = 0;
  std::atomic<int32_t> status = 0;
  auto work = [&] {
    int32_t error = 0;
    // Aligned as the runtime's scratch memory is.
    constexpr size_t alignment = 64;
    void *scratch = ::operator new(kernel.scratchBytes + alignment, std::align_val_t(alignment));
    for (int64_t task; (task = next++) < *grid;)
      kernel.function(buffers.data(), values.data(), task, scratch, &error);
    ::operator delete(scratch, std::align_val_t(alignment));
    if (error)
      status = error;
  };
  if (pool && *grid > 1) {
    llvm::ThreadPoolTaskGroup group(*pool);
    for (unsigned i = 0, e = pool->getMaxConcurrency(); i < e; ++i)
      group.async(work);
    group.wait();
  } else {
    work();
  }
  if (status)
    return llvm::createStringError("an index is out of range");
  return llvm::Error::success();
}
