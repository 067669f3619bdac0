// Makes dialects, passes and stages known to tools.
#include "PluginDialects.h"
#include "kiln/Codegen/ObjectCompiler.h"
#include "kiln/Codegen/Passes.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Extern/Passes.h"
#include "kiln/Host/Passes.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Reference/Passes.h"
#include "kiln/Targets/CPU/CPU.h"
#include "kiln/Targets/CUDA/CUDA.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Complex/IR/Complex.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

// Here alone: a function for each pass is a third of the time that a source file takes.
namespace kiln {
#define GEN_PASS_REGISTRATION
#include "kiln/Transforms/Passes.h.inc"
namespace externs {
#define GEN_PASS_REGISTRATION
#include "kiln/Extern/Passes.h.inc"
} // namespace externs
namespace reference {
#define GEN_PASS_REGISTRATION
#include "kiln/Reference/Passes.h.inc"
} // namespace reference
namespace codegen {
#define GEN_PASS_REGISTRATION
#include "kiln/Codegen/Passes.h.inc"
} // namespace codegen
namespace host {
#define GEN_PASS_REGISTRATION
#include "kiln/Host/Passes.h.inc"
} // namespace host
} // namespace kiln

void kiln::registerTargets() {
  [[maybe_unused]] static bool done = [] {
    cpu::registerCPUTarget();
    cuda::registerCUDATarget();
    return true;
  }();
}

void kiln::registerDialects(DialectRegistry &registry) {
  registry
      .insert<sym::SymDialect, torch::TorchDialect, kernel::KernelDialect, wrapper::WrapperDialect,
              func::FuncDialect, arith::ArithDialect, complex::ComplexDialect, math::MathDialect,
              scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect>();
  // Constant folding generates code.
  registerTargets();
  for (const TargetRegistration &target : getRegisteredTargets())
    if (target.registerDialects)
      target.registerDialects(registry);
  registerPluginDialects(registry);
}

void kiln::registerPasses() {
  registerTransformsPasses();
  externs::registerExternGenerators();
  externs::registerExternPasses();
  reference::registerReferencePasses();
  codegen::registerCodegenPasses();
  host::registerHostPasses();
  for (const TargetRegistration &target : getRegisteredTargets())
    if (target.registerPasses)
      target.registerPasses();
  // Upstream passes that tests of a single stage want around ours.
  registerCanonicalizerPass();
  registerCSEPass();
  registerStripDebugInfoPass();
}

namespace {
struct TorchPipelineOptions : PassPipelineOptions<TorchPipelineOptions> {
  Option<std::string> fallback{*this, "fallback",
                               llvm::cl::desc("library that runs what has no lowering, or none"),
                               llvm::cl::init("none")};
  ListOption<std::string> customOps{*this, "custom-ops",
                                    llvm::cl::desc("custom operators and their C functions")};
};

struct TargetPipelineOptions : PassPipelineOptions<TargetPipelineOptions> {
  Option<std::string> target{*this, "target", llvm::cl::desc("NAME or NAME{OPTIONS}"),
                             llvm::cl::init("cpu")};
  Option<std::string> cpu{*this, "cpu", llvm::cl::desc("LLVM's name of the host's CPU"),
                          llvm::cl::init("native")};
  Option<unsigned> jobs{*this, "jobs", llvm::cl::desc("threads; 0: one for each core"),
                        llvm::cl::init(0)};

  std::unique_ptr<Target> create(StringRef spec) const {
    llvm::Expected<std::unique_ptr<Target>> created = Target::create(spec, cpu);
    if (!created)
      llvm::reportFatalUsageError(created.takeError());
    return std::move(*created);
  }
};
} // namespace

void kiln::registerPipelines() {
  PassPipelineRegistration<TorchPipelineOptions>(
      "torch-stage", "torch -> kernel", [](OpPassManager &pm, const TorchPipelineOptions &options) {
        buildTorchStage(pm,
                        {options.fallback, {options.customOps.begin(), options.customOps.end()}});
      });
  PassPipelineRegistration<TargetPipelineOptions>(
      "kernel-stage", "kernel: simplify, fuse, fold, prepare for a target, outline",
      [](OpPassManager &pm, const TargetPipelineOptions &options) {
        buildKernelStage(pm, *options.create(options.target), {options.jobs});
      });
  PassPipelineRegistration<TargetPipelineOptions>(
      "wrapper-stage", "kernel -> wrapper, with memory planned",
      [](OpPassManager &pm, const TargetPipelineOptions &options) {
        buildWrapperStage(pm, *options.create(options.target));
      });
  PassPipelineRegistration<TargetPipelineOptions>(
      "schedule-stage", "wrapper: a schedule for each kernel",
      [](OpPassManager &pm, const TargetPipelineOptions &options) {
        buildScheduleStage(pm, *options.create(options.target), *options.create("cpu"));
      });
  PassPipelineRegistration<>("entry-stage", "wrapper: what a run finds out first",
                             [](OpPassManager &pm) { buildEntryStage(pm); });
}
