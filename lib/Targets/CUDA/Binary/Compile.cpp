// From the LLVM and NVVM dialects to PTX and cubins.
#include "CUDA/Binary/Assemble.h"
#include "CUDA/Binary/CopyKernel.h"
#include "kiln/Codegen/LLVMAnalyses.h"
#include "kiln/Codegen/ObjectCompiler.h"
#include "kiln/Codegen/PassManagers.h"
#include "kiln/Codegen/Passes.h"
#include "kiln/Codegen/Threads.h"
#include "kiln/Link/Link.h"
#include "kiln/Targets/CUDA/CUDA.h"
#include "kiln/Targets/CUDA/CUDADialect.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

void cuda::registerTranslations(DialectRegistry &registry) {
  registry.insert<CUDADialect, NVVM::NVVMDialect>();
  registerNVVMDialectTranslation(registry);
}

/// More than kernels could have before PTX 8.1. A tensor map is 16 words.
static bool hasManyParameters(const DeviceKernel &kernel) {
  constexpr size_t most = 4352 / 8;
  return kernel.numBuffers + kernel.symbols.size() + 2 + 16 * kernel.maps.size() > most;
}

/// The PTX version: the oldest that knows the architecture (and that drivers of CUDA 12 read).
static const char *getPtxFeature(const Architecture &architecture, bool hasManyParameters) {
  return architecture.number >= 120   ? "+ptx87"
         : architecture.number >= 103 ? "+ptx88"
         : architecture.number >= 100 ? "+ptx86"
         : hasManyParameters          ? "+ptx81"
                                      : "+ptx80";
}

namespace {

/// Turns modules into PTX; one for each thread, architecture and version.
class PtxCompiler {
public:
  PtxCompiler(const Architecture &architecture, bool hasManyParameters, codegen::OptLevel level)
      : level(level), ordersGrids(architecture.number >= gridOrderArchitecture) {
    llvm::Triple triple("nvptx64-nvidia-cuda");
    std::string message;
    const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
    if (target)
      machine.reset(target->createTargetMachine(
          triple, architecture.name, getPtxFeature(architecture, hasManyParameters),
          llvm::TargetOptions(), std::nullopt, std::nullopt, codegen::getCodeGenLevel(level)));
  }

  llvm::Expected<std::string> compile(ModuleOp source) {
    if (!machine)
      return llvm::createStringError("this build of LLVM has no code generator for NVPTX");
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(source, context, "kiln");
    if (!module)
      return llvm::createStringError("cannot translate a kernel to LLVM IR");
    module->setTargetTriple(machine->getTargetTriple());
    module->setDataLayout(machine->createDataLayout());
    if (!ordersGrids)
      dropGridOrder(*module);
    optimize(*module);
    packConversions(*module);
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream stream(text);
    llvm::legacy::PassManager passes;
    if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
      return llvm::createStringError("cannot emit PTX");
    passes.run(*module);
    return text.str().str();
  }

private:
  /// For GPUs that run one kernel of a stream after the other.
  static void dropGridOrder(llvm::Module &module) {
    for (llvm::Function &function : module)
      for (llvm::Instruction &instruction :
           llvm::make_early_inc_range(llvm::instructions(function)))
        if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
            call &&
            (call->getIntrinsicID() == llvm::Intrinsic::nvvm_griddepcontrol_wait ||
             call->getIntrinsicID() == llvm::Intrinsic::nvvm_griddepcontrol_launch_dependents))
          call->eraseFromParent();
  }

  /// A number that has been computed, and is rounded to bf16 for what is computed next, is converted
  /// as one of two: that takes an ordinary instruction, which all lanes of a multiprocessor have.
  /// Neighbours in memory are put together by code generation, and sums of tensor cores ptxas would
  /// convert before they have been waited for.
  static void packConversions(llvm::Module &module) {
    for (llvm::Function &function : module)
      for (llvm::Instruction &instruction :
           llvm::make_early_inc_range(llvm::instructions(function)))
        if (auto *convert = llvm::dyn_cast<llvm::FPTruncInst>(&instruction);
            convert && convert->getType()->isBFloatTy() && convert->getSrcTy()->isFloatTy() &&
            llvm::isa<llvm::BinaryOperator, llvm::IntrinsicInst>(convert->getOperand(0)) &&
            llvm::any_of(convert->users(), llvm::IsaPred<llvm::FPExtInst>)) {
          llvm::IRBuilder<> builder(convert);
          llvm::Value *zero = llvm::ConstantFP::getZero(convert->getSrcTy());
          llvm::Value *pair = builder.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, {},
                                                      {zero, convert->getOperand(0)});
          convert->replaceAllUsesWith(builder.CreateExtractElement(pair, uint64_t{0}));
          convert->eraseFromParent();
        }
  }

  void optimize(llvm::Module &module) {
    if (level == codegen::OptLevel::O0)
      return;
    codegen::LLVMAnalyses analyses(machine.get());
    analyses.builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
        .run(module, analyses.modules);
  }

  /// The first whose kernels may begin before others have ended.
  static constexpr unsigned gridOrderArchitecture = 90;

  codegen::OptLevel level;
  bool ordersGrids;
  std::unique_ptr<llvm::TargetMachine> machine;
};

using Modules = std::vector<OwningOpRef<ModuleOp>>;

/// A module for each kernel of `module`, with what it refers to.
Modules split(ModuleOp module) {
  Modules parts;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    if (!function->hasAttr(symbolsAttrName))
      continue;
    parts.push_back(ModuleOp::create(function.getLoc(), function.getName()));
    OpBuilder builder(parts.back()->getBodyRegion());
    for (Operation &op : module.getOps()) {
      auto name = SymbolTable::getSymbolName(&op);
      StringRef suffix = name.getValue();
      bool isWanted =
          &op == function ||
          (suffix.consume_front(function.getName()) &&
           llvm::is_contained({"_emulated", "_parameters", "_maps", "_cluster"}, suffix));
      auto other = dyn_cast<LLVM::LLVMFuncOp>(op);
      isWanted |= other && other.isExternal();
      isWanted |= isa<LLVM::GlobalOp>(op) && !SymbolTable::symbolKnownUseEmpty(name, function);
      if (isWanted)
        builder.clone(op);
    }
    for (auto copy : parts.back()->getOps<LLVM::LLVMFuncOp>())
      for (StringRef attribute :
           {symbolsAttrName, buffersAttrName, sharedAttrName, variantAttrName, architectureAttrName,
            gridAttrName, mapsAttrName, workspaceAttrName, sharedWorkspaceAttrName})
        copy->removeAttr(attribute);
  }
  return parts;
}

class DeviceCompiler {
public:
  explicit DeviceCompiler(const ImageOptions &options) : options(options) {}

  llvm::Expected<std::vector<DeviceKernel>> compile(ModuleOp module) {
    lowered = ModuleOp::create(module.getLoc());
    (*lowered)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
    OpBuilder builder(lowered->getBodyRegion());
    for (auto func : module.getOps<kernel::FuncOp>())
      if (getThreads(func))
        builder.clone(*func);
    addCopyKernel(*lowered);
    PassManager pm(module.getContext());
    buildLowerKernelsPipeline(pm, listVariants());
    if (failed(codegen::applyCommandLine(pm, options.timing)) || failed(pm.run(*lowered)))
      return llvm::createStringError("cannot lower the kernels");
    for (auto function : lowered->getOps<LLVM::LLVMFuncOp>())
      kernels.push_back(describe(function));
    if (llvm::any_of(options.architectures, std::mem_fn(&Architecture::isEmulator)))
      if (llvm::Error error = compileEmulated())
        return error;
    // Instructions that LLVM does not know are PTX from here on.
    PassManager last(module.getContext());
    last.addPass(createConvertNVVMToLLVMPass());
    if (failed(codegen::applyCommandLine(last, options.timing)) || failed(last.run(*lowered)))
      return llvm::createStringError("cannot write the instructions of a GPU");
    device = split(*lowered);
    if (llvm::Error error = compileAll())
      return error;
    return std::move(kernels);
  }

private:
  /// The architectures of variants that something runs.
  SmallVector<unsigned> listVariants() const {
    SmallVector<unsigned> variants = {hopper, blackwell};
    llvm::erase_if(variants, [&](unsigned variant) {
      return llvm::none_of(options.architectures, [&](const Architecture &architecture) {
        return architecture.isEmulator() || architecture.number == variant;
      });
    });
    return variants;
  }

  static DeviceKernel describe(LLVM::LLVMFuncOp function) {
    DeviceKernel kernel;
    kernel.name = function.getName();
    for (auto symbol : function->getAttrOfType<ArrayAttr>(symbolsAttrName).getAsRange<StringAttr>())
      kernel.symbols.push_back(symbol.str());
    kernel.numBuffers = function->getAttrOfType<ArrayAttr>(buffersAttrName).size();
    kernel.threads =
        function->getAttrOfType<DenseI32ArrayAttr>(NVVM::NVVMDialect::getMaxntidAttrName())[0];
    kernel.sharedBytes = function->getAttrOfType<IntegerAttr>(sharedAttrName).getInt();
    kernel.cluster = getCluster(function);
    if (auto workspace = function->getAttrOfType<IntegerAttr>(workspaceAttrName))
      kernel.workspaceBytes = workspace.getInt();
    if (auto workspace = function->getAttrOfType<IntegerAttr>(sharedWorkspaceAttrName))
      kernel.sharedWorkspaceBytes = workspace.getInt();
    auto base = function->getAttrOfType<FlatSymbolRefAttr>(variantAttrName);
    if (!base)
      return kernel;
    kernel.variantOf = base.getValue();
    kernel.architecture = function->getAttrOfType<IntegerAttr>(architectureAttrName).getInt();
    kernel.geometry.push_back(function->getAttrOfType<sym::ExprAttr>(gridAttrName).getValue());
    for (auto map : function->getAttrOfType<ArrayAttr>(mapsAttrName).getAsRange<DictionaryAttr>()) {
      kernel.maps.push_back(
          {map.getAs<IntegerAttr>("buffer").getInt(), map.getAs<IntegerAttr>("bytes").getInt(),
           SmallVector<int64_t>(map.getAs<DenseI64ArrayAttr>("box").asArrayRef())});
      for (auto number : map.getAs<ArrayAttr>("numbers").getAsRange<sym::ExprAttr>())
        kernel.geometry.push_back(number.getValue());
    }
    return kernel;
  }

  llvm::Error compileEmulated() {
    llvm::Expected<codegen::CPUInfo> host = codegen::CPUInfo::getRunnable(options.cpu);
    if (!host)
      return host.takeError();
    OwningOpRef<ModuleOp> copy = cast<ModuleOp>(lowered->clone());
    PassManager pm(copy->getContext());
    pm.addPass(createCudaEmulate());
    // A GPU's instructions for small numbers are not the host's.
    pm.addNestedPass<LLVM::LLVMFuncOp>(codegen::createCodegenExpandSmallFloats());
    if (failed(codegen::applyCommandLine(pm, options.timing)) || failed(pm.run(*copy)))
      return llvm::createStringError("cannot emulate the kernels");
    for (auto [kernel, part] : llvm::zip_equal(kernels, split(*copy))) {
      auto object = codegen::compileToObject(*part, *host);
      if (!object)
        return object.takeError();
      llvm::Expected<std::string> image = linkImage((*object)->getMemBufferRef());
      if (!image)
        return image.takeError();
      kernel.images.push_back({kernel.architecture, ImageKind::Emulator, std::move(*image)});
    }
    return llvm::Error::success();
  }

  /// Every kernel for every GPU.
  llvm::Error compileAll() {
    SmallVector<Architecture> gpus(options.architectures);
    llvm::erase_if(gpus, std::mem_fn(&Architecture::isEmulator));
    struct Work {
      size_t kernel, gpu;
      std::vector<Image> images;
    };
    std::vector<Work> work;
    for (size_t kernel = 0; kernel < kernels.size(); ++kernel)
      for (size_t gpu = 0; gpu < gpus.size(); ++gpu)
        if (kernels[kernel].variantOf.empty() || gpus[gpu].number == kernels[kernel].architecture)
          work.push_back({kernel, gpu, {}});
    auto run = [&](std::atomic<size_t> &next) {
      llvm::StringMap<std::unique_ptr<PtxCompiler>> compilers;
      for (size_t i; (i = next++) < work.size();) {
        Architecture gpu = gpus[work[i].gpu];
        // Code that no later GPU runs.
        bool isVariant = !kernels[work[i].kernel].variantOf.empty();
        if (isVariant)
          gpu.name += "a";
        bool isLarge = hasManyParameters(kernels[work[i].kernel]);
        std::unique_ptr<PtxCompiler> &compiler = compilers[gpu.name + (isLarge ? "+" : "")];
        if (!compiler)
          compiler = std::make_unique<PtxCompiler>(gpu, isLarge, options.level);
        // All drivers of all these GPUs compile the oldest one's, those of later GPUs the newest
        // one's.
        bool keepsPtx = isVariant || work[i].gpu == 0 || work[i].gpu + 1 == gpus.size();
        auto images = compileOne(work[i].kernel, gpu, keepsPtx, *compiler);
        if (images)
          work[i].images = std::move(*images);
        else
          fail(images.takeError());
      }
    };
    codegen::runOnThreads(lowered->getContext(), options.jobs, work.size(), run);
    if (!problem.empty())
      return llvm::createStringError(problem);
    for (Work &done : work)
      llvm::move(done.images, std::back_inserter(kernels[done.kernel].images));
    return llvm::Error::success();
  }

  llvm::Expected<std::vector<Image>> compileOne(size_t number, const Architecture &gpu,
                                                bool keepsPtx, PtxCompiler &compiler) {
    llvm::Expected<std::string> ptx = compiler.compile(*device[number]);
    if (!ptx)
      return ptx.takeError();
    std::string name = kernels[number].name + "." + gpu.name;
    keep(name + ".ptx", *ptx);
    std::vector<Image> images;
    if (!options.ptxas.empty()) {
      std::string report;
      llvm::Expected<std::string> cubin = assemble(options.ptxas, gpu, *ptx, report);
      if (!cubin)
        return cubin.takeError();
      keep(name + ".txt", report);
      keep(name + ".cubin", *cubin);
      images.push_back({gpu.number, ImageKind::Cubin, std::move(*cubin)});
    }
    if (keepsPtx || options.ptxas.empty())
      images.push_back({gpu.number, ImageKind::Ptx, std::move(*ptx)});
    return images;
  }

  void keep(StringRef name, StringRef contents) {
    if (!options.onFile)
      return;
    std::scoped_lock lock(mutex);
    options.onFile(name, contents);
  }

  /// The first in program order would be nicer; one is enough.
  void fail(llvm::Error error) {
    std::scoped_lock lock(mutex);
    std::string message = llvm::toString(std::move(error));
    if (problem.empty())
      problem = message;
  }

  const ImageOptions &options;
  OwningOpRef<ModuleOp> lowered;
  Modules device;
  std::vector<DeviceKernel> kernels;
  std::mutex mutex;
  std::string problem;
};

} // namespace

llvm::Expected<std::vector<DeviceKernel>> cuda::compileKernels(ModuleOp module,
                                                               const ImageOptions &options) {
  return DeviceCompiler(options).compile(module);
}
