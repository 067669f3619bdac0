// From the LLVM dialect to relocatable objects: translation, LLVM's optimizations, code generation.
#include "kiln/Codegen/ObjectCompiler.h"
#include "CheckObject.h"
#include "EmulateTiles.h"
#include "FenceMaskedLoads.h"
#include "StoreSingleLanes.h"
#include "kiln/Codegen/CodegenDialect.h"
#include "kiln/Codegen/LLVMAnalyses.h"
#include "mlir/Dialect/Complex/IR/Complex.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

void codegen::registerTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registry.insert<kernel::KernelDialect, CodegenDialect, LLVM::LLVMDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, complex::ComplexDialect, math::MathDialect,
                  scf::SCFDialect, vector::VectorDialect>();
}

ObjectCompiler::ObjectCompiler(const CPUInfo &target, const ObjectOptions &options)
    : target(target), options(options), machine(target.createTargetMachine(options.level)) {}

ObjectCompiler::~ObjectCompiler() = default;

llvm::Expected<std::unique_ptr<llvm::Module>>
ObjectCompiler::translate(ModuleOp module, llvm::LLVMContext &context) {
  // Verified by the pass manager already.
  std::unique_ptr<llvm::Module> result = translateModuleToLLVMIR(
      module, context, module.getName().value_or("kiln"), /*disableVerification=*/true);
  if (!result)
    return llvm::createStringError("internal error: cannot translate to LLVM IR");
  if (llvm::Error error = checkNumbers(*result))
    return error;
  if (target.emulatesTiles)
    emulateTiles(*result);
  prepare(*result);
  optimize(*result);
  if (target.avx512) {
    fenceMaskedLoads(*result);
    storeSingleLanes(*result);
  }
  return result;
}

void ObjectCompiler::prepare(llvm::Module &module) {
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  // The linker marks a library for indirect branch tracking and shadow stacks if all of its objects
  // are marked.
  if (machine->getTargetTriple().isX86())
    for (StringRef flag : {"cf-protection-branch", "cf-protection-return"})
      module.setModuleFlag(llvm::Module::Override, flag, 1);
  for (llvm::Function &function : module) {
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
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
ObjectCompiler::emitObject(llvm::Module &module, const llvm::StringSet<> &known) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile,
                                   /*DisableVerify=*/true))
    return llvm::createStringError("cannot emit objects for %s", target.triple.c_str());
  passes.run(module);
  auto object = std::make_unique<llvm::SmallVectorMemoryBuffer>(
      std::move(bytes), module.getModuleIdentifier(), /*RequiresNullTerminator=*/false);
  llvm::StringSet<> allowed = known;
  if (target.emulatesTiles)
    for (const llvm::Function &function : module)
      if (function.getName().starts_with(tileFunctions))
        allowed.insert(function.getName());
  if (llvm::Error error = checkSymbols(*object, allowed))
    return error;
  return object;
}

/// The input has no allocas, calls or loops to vectorise: cleaning up what the emitters repeat,
/// hoisting out of loops and simple addressing are all that is left to do.
void ObjectCompiler::optimize(llvm::Module &module) {
  if (options.level == OptLevel::O0)
    return;
  LLVMAnalyses analyses(machine.get());
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
      passes.run(function, analyses.functions);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
codegen::compileToObject(ModuleOp module, const CPUInfo &target, const ObjectOptions &options) {
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

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
codegen::compileTextToObject(StringRef name, StringRef text, const CPUInfo &target,
                             const ObjectOptions &options) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> module =
      llvm::parseIR(llvm::MemoryBufferRef(text, name), problem, context);
  if (!module)
    return llvm::createStringError(name + ":" + llvm::Twine(problem.getLineNo()) + ":" +
                                   llvm::Twine(problem.getColumnNo() + 1) + ": " +
                                   problem.getMessage());
  ObjectCompiler compiler(target, options);
  compiler.prepare(*module);
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(*module, &stream))
    return llvm::createStringError(name + ": " + StringRef(message).split('\n').first);
  if (target.avx512) {
    fenceMaskedLoads(*module);
    storeSingleLanes(*module);
  }
  if (options.onModule)
    options.onModule(*module);
  llvm::StringSet<> declared;
  for (const llvm::GlobalValue &value : module->global_values())
    if (value.isDeclaration())
      declared.insert(value.getName());
  return compiler.emitObject(*module, declared);
}
