// From kernels to object files.
#include "kiln/Codegen/PassManagers.h"
#include "kiln/Codegen/Threads.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Targets/CPU/CPU.h"
#include "kiln/Targets/CPU/Passes.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

/// Declares in a module of `function` alone what it calls.
void declareCallees(LLVM::LLVMFuncOp function) {
  SymbolTable symbols(function->getParentOp());
  function.walk([&](LLVM::CallOp call) {
    if (!call.getCallee() || symbols.lookup(*call.getCallee()))
      return;
    OpBuilder builder(function);
    auto callee = LLVM::LLVMFuncOp::create(builder, call.getLoc(), *call.getCallee(),
                                           call.getCalleeFunctionType());
    callee.setVisibility_(LLVM::Visibility::Hidden);
    symbols.insert(callee);
  });
}

/// The kernels of `module`, lowered to the LLVM dialect, in a module of their own; null if that
/// fails.
OwningOpRef<ModuleOp> lowerKernels(ModuleOp module, const CPUInfo &target,
                                   const ObjectOptions &options) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  (*kernels)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
  OpBuilder builder(kernels->getBodyRegion());
  for (auto func : module.getOps<kernel::FuncOp>())
    builder.clone(*func);

  TimingScope lowering;
  if (options.timing)
    lowering = options.timing->nest("Lower kernels to the LLVM dialect");
  PassManager pm(module.getContext());
  buildLowerKernelsPipeline(pm, target);
  if (failed(applyCommandLine(pm, options.timing ? &lowering : nullptr)) ||
      failed(pm.run(*kernels)))
    return {};
  return kernels;
}

/// Turns functions in the LLVM dialect into objects, one each, on several threads.
class ParallelCompiler {
public:
  /// Each function moves to a module of its own.
  ParallelCompiler(MLIRContext *context, ArrayRef<LLVM::LLVMFuncOp> functions,
                   const CPUInfo &target, const ObjectOptions &options)
      : context(context), target(target), options(options), functions(functions),
        objects(functions.size()), contexts(functions.size()), modules(functions.size()),
        errors(functions.size()) {
    for (LLVM::LLVMFuncOp function : functions) {
      sources.push_back(ModuleOp::create(function.getLoc(), function.getName()));
      function->moveBefore(sources.back()->getBody(), sources.back()->getBody()->end());
      declareCallees(function);
      if (function.getLinkage() != LLVM::Linkage::External)
        shared.insert(function.getName());
    }
    if (options.timing)
      timing = options.timing->nest("Generate code of kernels");
  }

  llvm::Expected<std::vector<std::unique_ptr<llvm::MemoryBuffer>>> run() {
    runOnThreads(context, options.jobs, functions.size(), [&](std::atomic<size_t> &next) {
      ObjectCompiler compiler(target, options);
      for (size_t i; (i = next++) < functions.size();)
        compile(i, compiler);
    });
    for (const std::string &error : errors)
      if (!error.empty())
        return llvm::createStringError(error);
    if (options.onModule)
      for (const std::unique_ptr<llvm::Module> &translated : modules)
        options.onModule(*translated);
    return std::move(objects);
  }

private:
  void compile(size_t i, ObjectCompiler &compiler) {
    TimingScope timer;
    if (options.timing)
      timer = timing.nest(LLVM::LLVMFuncOp(functions[i]).getName());
    auto llvmContext = std::make_unique<llvm::LLVMContext>();
    auto translated = compiler.translate(*sources[i], *llvmContext);
    if (!translated) {
      errors[i] = llvm::toString(translated.takeError());
      return;
    }
    if (options.onModule) {
      contexts[i] = std::move(llvmContext);
      modules[i] = llvm::CloneModule(**translated);
    }
    auto object = compiler.emitObject(**translated, shared);
    if (object)
      objects[i] = std::move(*object);
    else
      errors[i] = llvm::toString(object.takeError());
  }

  MLIRContext *context;
  const CPUInfo &target;
  const ObjectOptions &options;
  ArrayRef<LLVM::LLVMFuncOp> functions;
  std::vector<OwningOpRef<ModuleOp>> sources;
  /// Functions that several kernels call.
  llvm::StringSet<> shared;
  TimingScope timing;
  // By function; contexts and modules only if `onModule` wants to see them.
  std::vector<std::unique_ptr<llvm::MemoryBuffer>> objects;
  std::vector<std::unique_ptr<llvm::LLVMContext>> contexts;
  std::vector<std::unique_ptr<llvm::Module>> modules;
  std::vector<std::string> errors;
};
} // namespace

llvm::Expected<std::vector<std::unique_ptr<llvm::MemoryBuffer>>>
cpu::compileKernels(ModuleOp module, const CPUInfo &target, const ObjectOptions &options) {
  OwningOpRef<ModuleOp> kernels = lowerKernels(module, target, options);
  if (!kernels)
    return llvm::createStringError("internal error: cannot lower the kernels");
  auto functions = llvm::to_vector(kernels->getOps<LLVM::LLVMFuncOp>());
  return ParallelCompiler(module.getContext(), functions, target, options).run();
}
