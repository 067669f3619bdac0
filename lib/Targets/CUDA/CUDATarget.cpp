// The target `cuda`.
#include "CUDA/Hopper/Variants.h"
#include "kiln/Targets/CUDA/CUDA.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Targets/Target.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include <map>

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace kiln::cuda {
#define GEN_PASS_REGISTRATION
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

namespace {

struct Options : PassPipelineOptions<Options> {
  ListOption<std::string> arch{*this, "arch", llvm::cl::desc("sm_80,sm_90,... or emulator")};
  Option<std::string> ptxas{*this, "ptxas", llvm::cl::desc("assembles PTX; none: drivers do"),
                            llvm::cl::init("")};
  Option<std::string> tune{*this, "tune", llvm::cl::desc("the GPU that kernels are planned for"),
                           llvm::cl::init(defaultArchitecture.str())};
  Option<unsigned> tf32{*this, "tf32", llvm::cl::desc("products of TF32 for one of f32: 0, 1, 3"),
                        llvm::cl::init(0)};
};

class CUDATarget : public Target {
public:
  CUDATarget(llvm::SmallVector<Architecture> architectures, const Options &options,
             codegen::CPUInfo host)
      : Target("cuda", std::move(host)), architectures(std::move(architectures)),
        ptxas(options.ptxas), tune(options.tune), tf32(options.tf32) {}

  void buildRewriteProducts(OpPassManager &pm) const override {
    pm.addPass(createCudaKeepSmallWeights());
    pm.addPass(createCudaNarrowOperands());
  }

  void buildPrepareKernels(OpPassManager &pm) const override {
    pm.addPass(createCudaSetTarget({tune}));
    // Before what divides and packs products, and after fusion into operands.
    pm.addPass(createCudaExpandAttention());
    // After fusion, which would put the parts back together.
    pm.addPass(createCudaSplitReductions());
    // Before products become graphs, from which constants are not seen.
    pm.addPass(createCudaPackWindows());
    pm.addPass(createCudaPackOperands());
    pm.addPass(createCudaSplitContracts());
    pm.addPass(createCudaSplitAttention());
    // After fusion, as it wants to see what reads positions.
    pm.addPass(createCudaSplitSorts());
  }

  void buildGroupLaunches(OpPassManager &pm) const override {
    pm.addPass(createCudaGroupLaunches());
  }

  void buildScheduleKernels(OpPassManager &pm) const override {
    pm.addPass(createCudaChooseSchedule({tf32}));
  }

  SmallVector<kernel::ScheduleAttrInterface>
  enumerateSchedules(kernel::FuncOp kernel) const override {
    return cuda::enumerateSchedules(kernel, getTunedSchedule(kernel));
  }

  kernel::ScheduleAttrInterface getTunedSchedule(kernel::FuncOp kernel) const override {
    const char *reason = nullptr;
    FailureOr<std::optional<KernelPlan>> variant = std::optional<KernelPlan>();
    if (runsVariants())
      variant = planVariant(kernel, hopper, reason);
    return succeeded(variant) && *variant ? (*variant)->schedule : kernel.getScheduleAttr();
  }

  void setTunedSchedule(kernel::FuncOp kernel,
                        kernel::ScheduleAttrInterface schedule) const override {
    if (getVariantArchitecture(schedule))
      kernel->setAttr(variantScheduleAttrName, schedule);
    else
      kernel.setScheduleAttr(schedule);
  }

  bool hasDevice() const override { return true; }
  StringRef getArchitecture() const override { return tune; }

  llvm::Error chooseCode(ModuleOp module) const override {
    return chooseTritonImages(module, architectures);
  }

  llvm::Expected<Objects> compileKernels(ModuleOp module,
                                         const CodeOptions &options) const override {
    Files files;
    auto kernels = compile(module, options, ptxas, options.onFile ? &files : nullptr);
    if (!kernels)
      return kernels.takeError();
    for (const auto &[name, contents] : files)
      if (llvm::Error error = options.onFile(name, contents))
        return error;
    auto table = writeKernelTable(module, *kernels, getHost());
    if (!table)
      return table.takeError();
    Objects objects;
    objects.push_back(std::move(*table));
    return objects;
  }

  /// PTX of all kernels for the newest GPU.
  llvm::Expected<std::string> emitAssembly(ModuleOp module,
                                           const CodeOptions &options) const override {
    Files files;
    auto kernels = compile(module, options, /*assembler=*/"", &files);
    if (!kernels)
      return kernels.takeError();
    std::string ptx, suffix = "." + architectures.back().name + ".ptx";
    for (const auto &[name, contents] : files)
      if (StringRef(name).ends_with(suffix))
        ptx += contents;
    return ptx;
  }

private:
  /// The GPU that kernels are planned for launches variants where there are any.
  bool runsVariants() const {
    return tune == "sm_90" && llvm::any_of(architectures, [](const Architecture &architecture) {
             return architecture.isEmulator() || architecture.number == hopper;
           });
  }

  /// Contents by name, in an order that does not depend on threads.
  using Files = std::map<std::string, std::string>;

  /// `files` gets what is on the way to images; null: nobody wants it.
  llvm::Expected<std::vector<DeviceKernel>> compile(ModuleOp module, const CodeOptions &options,
                                                    StringRef assembler, Files *files) const {
    ImageOptions image;
    image.architectures = architectures;
    image.ptxas = assembler;
    image.cpu = getHost().name;
    image.level = options.object.level;
    image.jobs = options.object.jobs;
    image.timing = options.object.timing;
    if (files)
      image.onFile = [&](StringRef name, StringRef contents) {
        (*files)[name.str()] = contents.str();
      };
    auto kernels = cuda::compileKernels(module, image);
    if (!kernels)
      return kernels.takeError();
    llvm::move(describeTritonKernels(module), std::back_inserter(*kernels));
    return kernels;
  }

  llvm::SmallVector<Architecture> architectures;
  std::string ptxas, tune;
  unsigned tf32;
};

} // namespace

void cuda::registerCUDATarget() {
  TargetRegistration target;
  target.name = "cuda";
  target.summary = "an NVIDIA GPU, with the host program on the CPU";
  target.emits = {"ptx"};
  target.create = [](StringRef text,
                     codegen::CPUInfo host) -> llvm::Expected<std::unique_ptr<Target>> {
    llvm::Expected<std::unique_ptr<Options>> options = parseTargetOptions<Options>(text);
    if (!options)
      return options.takeError();
    std::string names =
        (*options)->arch.empty() ? "sm_80,sm_90" : llvm::join((*options)->arch, ",");
    auto architectures = parseArchitectures(names);
    if (!architectures)
      return architectures.takeError();
    if (!llvm::is_contained(getKnownArchitectures(), (*options)->tune.getValue()))
      return llvm::createStringError("kernels cannot be planned for '" +
                                     (*options)->tune.getValue() + "': expected one of " +
                                     llvm::join(getKnownArchitectures(), ", "));
    if (!llvm::is_contained({0U, 1U, 3U}, (*options)->tf32.getValue()))
      return llvm::createStringError("tf32=" + llvm::Twine((*options)->tf32) +
                                     ": expected 1 or 3 products");
    return std::make_unique<CUDATarget>(std::move(*architectures), **options, std::move(host));
  };
  target.registerDialects = registerTranslations;
  target.registerPasses = [] {
    registerCUDAPasses();
    registerCUDAPipelines();
    // Upstream's, which --mlir-print-ir-after knows by name only then.
    registerPass([] { return createConvertNVVMToLLVMPass(); });
  };
  registerTarget(std::move(target));
}
