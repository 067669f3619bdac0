#include "kiln/Codegen/ObjectCompiler.h"
#include "kiln/Codegen/Passes.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Host/Passes.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Targets/CPU/CPU.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Targets/CUDA/CUDA.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Complex/IR/Complex.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void kiln::registerDialects(DialectRegistry &registry) {
  registry
      .insert<sym::SymDialect, torch::TorchDialect, kernel::KernelDialect, wrapper::WrapperDialect,
              func::FuncDialect, arith::ArithDialect, complex::ComplexDialect, math::MathDialect,
              scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect>();
  // Constant folding generates code.
  codegen::registerTranslations(registry);
  cuda::registerTranslations(registry);
}

void kiln::registerPasses() {
  registerTransformsPasses();
  codegen::registerCodegenPasses();
  host::registerHostPasses();
  cpu::registerCPUPasses();
  cuda::registerCUDAPasses();
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

struct KernelPipelineOptions : PassPipelineOptions<KernelPipelineOptions> {
  Option<int64_t> vectorBytes{*this, "vector-bytes", llvm::cl::desc("bytes of a vector register"),
                              llvm::cl::init(64)};
  Option<int64_t> registers{*this, "registers", llvm::cl::desc("number of vector registers"),
                            llvm::cl::init(32)};
  Option<unsigned> jobs{*this, "jobs", llvm::cl::desc("threads; 0: one for each core"),
                        llvm::cl::init(0)};
};
} // namespace

void kiln::registerPipelines() {
  PassPipelineRegistration<TorchPipelineOptions>(
      "torch-stage", "torch -> kernel", [](OpPassManager &pm, const TorchPipelineOptions &options) {
        buildTorchStage(pm,
                        {options.fallback, {options.customOps.begin(), options.customOps.end()}});
      });
  PassPipelineRegistration<KernelPipelineOptions>(
      "kernel-stage", "kernel: simplify, fuse, fold, outline",
      [](OpPassManager &pm, const KernelPipelineOptions &options) {
        buildKernelStage(pm, {options.jobs, options.vectorBytes, options.registers});
      });
  PassPipelineRegistration<>("wrapper-stage", "kernel -> wrapper, with memory planned",
                             buildWrapperStage);
  PassPipelineRegistration<>("entry-stage", "wrapper: what a run finds out first", buildEntryStage);
  cpu::registerCPUPipelines();
  cuda::registerCUDAPipelines();
}
