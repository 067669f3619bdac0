// From the LLVM dialect to object files.
#include "CheckObject.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Target/CPU/CPU.h"
#include "kiln/Target/CPU/Passes.h"
#include "mlir/Dialect/Complex/IR/Complex.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

void cpu::registerTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registry
      .insert<kernel::KernelDialect, LLVM::LLVMDialect, arith::ArithDialect, cf::ControlFlowDialect,
              complex::ComplexDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
}

namespace {

/// Turns modules in the LLVM dialect into objects; one for each thread.
class ObjectCompiler {
public:
  ObjectCompiler(const TargetInfo &target, const CompileOptions &options)
      : target(target), options(options), machine(target.createTargetMachine(options.level)) {}

  /// Optimised LLVM IR.
  llvm::Expected<std::unique_ptr<llvm::Module>> translate(ModuleOp module,
                                                          llvm::LLVMContext &context) {
    // Verified by the pass manager already.
    std::unique_ptr<llvm::Module> result = translateModuleToLLVMIR(
        module, context, module.getName().value_or("kiln"), /*disableVerification=*/true);
    if (!result)
      return llvm::createStringError("internal error: cannot translate to LLVM IR");
    if (llvm::Error error = checkNumbers(*result))
      return error;
    result->setTargetTriple(machine->getTargetTriple());
    result->setDataLayout(machine->createDataLayout());
    result->setPICLevel(llvm::PICLevel::BigPIC);
    for (llvm::Function &function : *result) {
      if (function.isDeclaration())
        continue;
      function.addFnAttr("target-cpu", target.cpu);
      if (!target.features.empty())
        function.addFnAttr("target-features", target.features);
      // Some AVX-512 CPUs are tuned for half vectors, which is for code that uses few.
      if (target.avx512)
        function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
    optimize(*result);
    return result;
  }

  /// Refers to nothing but `known` (`checkSymbols`).
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> emitObject(llvm::Module &module,
                                                                 const llvm::StringSet<> &known) {
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile,
                                     /*DisableVerify=*/true))
      return llvm::createStringError("cannot emit objects for %s", target.triple.c_str());
    passes.run(module);
    auto object = std::make_unique<llvm::SmallVectorMemoryBuffer>(
        std::move(bytes), module.getModuleIdentifier(), /*RequiresNullTerminator=*/false);
    if (llvm::Error error = checkSymbols(*object, known))
      return error;
    return object;
  }

private:
  /// The input has no allocas, calls or loops to vectorise: cleaning up what the emitters repeat,
  /// hoisting out of loops and simple addressing are all that is left to do.
  void optimize(llvm::Module &module) {
    if (options.level == OptLevel::O0)
      return;
    llvm::PassBuilder builder(machine.get());
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
    llvm::FunctionPassManager passes;
    passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
    passes.addPass(llvm::SimplifyCFGPass());
    passes.addPass(llvm::InstCombinePass());
    llvm::LoopPassManager loopPasses;
    loopPasses.addPass(llvm::LoopRotatePass());
    loopPasses.addPass(llvm::LICMPass(llvm::LICMOptions()));
    loopPasses.addPass(llvm::IndVarSimplifyPass(/*WidenIndVars=*/false));
    passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loopPasses),
                                                         /*UseMemorySSA=*/true));
    passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    passes.addPass(llvm::InstCombinePass());
    passes.addPass(llvm::SimplifyCFGPass());
    for (llvm::Function &function : module)
      if (!function.isDeclaration())
        passes.run(function, functions);
  }

  const TargetInfo &target;
  const CompileOptions &options;
  std::unique_ptr<llvm::TargetMachine> machine;
};

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
OwningOpRef<ModuleOp> lowerKernels(ModuleOp module, const TargetInfo &target,
                                   const CompileOptions &options) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  (*kernels)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
  OpBuilder builder(kernels->getBodyRegion());
  for (auto func : module.getOps<kernel::FuncOp>())
    builder.clone(*func);

  PassManager pm(module.getContext());
  // Off: an IR dump asked for by environment would tear parallel runs apart.
  buildLowerKernelsPipeline(pm, target);
  TimingScope lowering;
  if (options.timing) {
    lowering = options.timing->nest("Lower kernels to the LLVM dialect");
    pm.enableTiming(lowering);
  }
  if (failed(pm.run(*kernels)))
    return {};
  return kernels;
}

/// Turns functions in the LLVM dialect into objects, one each, on several threads.
class ParallelCompiler {
public:
  /// Each function moves to a module of its own.
  ParallelCompiler(ArrayRef<LLVM::LLVMFuncOp> functions, const TargetInfo &target,
                   const CompileOptions &options)
      : target(target), options(options), functions(functions), objects(functions.size()),
        contexts(functions.size()), modules(functions.size()), errors(functions.size()) {
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
    size_t jobs = options.jobs ? options.jobs : llvm::hardware_concurrency().compute_thread_count();
    jobs = std::min(jobs, functions.size());
    std::atomic<size_t> next = 0;
    auto work = [&] {
      ObjectCompiler compiler(target, options);
      for (size_t i; (i = next++) < functions.size();)
        compile(i, compiler);
    };
    if (jobs == 1) {
      work();
    } else if (jobs > 1) {
      llvm::DefaultThreadPool pool(llvm::hardware_concurrency(jobs));
      for (size_t i = 0; i < jobs; ++i)
        pool.async(work);
      pool.wait();
    }
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
    auto context = std::make_unique<llvm::LLVMContext>();
    auto translated = compiler.translate(*sources[i], *context);
    if (!translated) {
      errors[i] = llvm::toString(translated.takeError());
      return;
    }
    if (options.onModule) {
      contexts[i] = std::move(context);
      modules[i] = llvm::CloneModule(**translated);
    }
    auto object = compiler.emitObject(**translated, shared);
    if (object)
      objects[i] = std::move(*object);
    else
      errors[i] = llvm::toString(object.takeError());
  }

  const TargetInfo &target;
  const CompileOptions &options;
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

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
cpu::compileToObject(ModuleOp module, const TargetInfo &target, const CompileOptions &options) {
  llvm::LLVMContext context;
  ObjectCompiler compiler(target, options);
  auto translated = compiler.translate(module, context);
  if (!translated)
    return translated.takeError();
  if (options.onModule)
    options.onModule(**translated);
  llvm::StringSet<> declared;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    StringRef name = function.getName();
    name.consume_front("\01"); // which tells LLVM to take the rest as it is
    if (function.isExternal())
      declared.insert(name);
  }
  for (auto global : module.getOps<LLVM::GlobalOp>())
    if (!global.getValueAttr() && !global.getInitializerBlock())
      declared.insert(global.getName());
  return compiler.emitObject(**translated, declared);
}

llvm::Expected<std::vector<std::unique_ptr<llvm::MemoryBuffer>>>
cpu::compileKernels(ModuleOp module, const TargetInfo &target, const CompileOptions &options) {
  OwningOpRef<ModuleOp> kernels = lowerKernels(module, target, options);
  if (!kernels)
    return llvm::createStringError("internal error: cannot lower the kernels");
  auto functions = llvm::to_vector(kernels->getOps<LLVM::LLVMFuncOp>());
  return ParallelCompiler(functions, target, options).run();
}
