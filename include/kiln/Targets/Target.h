// A kind of machine that programs are compiled for. Targets are registered by name; the compiler
// asks a target for its passes and its code, and nothing else in it knows which one it is
// (docs/adding-a-target.md).
#ifndef KILN_TARGETS_TARGET_H
#define KILN_TARGETS_TARGET_H

#include "kiln/Codegen/ObjectCompiler.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace kiln {

struct CodeOptions {
  codegen::ObjectOptions object;
  /// Called with each file on the way to the code ("KERNEL.sm_90.ptx"), in an order that does not
  /// depend on threads. An error ends the compilation.
  std::function<llvm::Error(llvm::StringRef name, llvm::StringRef contents)> onFile = {};
};

class ProgramWriter;

class Target {
public:
  using Objects = std::vector<std::unique_ptr<llvm::MemoryBuffer>>;

  /// `spec` is the name of a registered target, or NAME{OPTIONS} with options of its own, written
  /// as those of a pass: `cuda{arch=sm_90 tf32=1}`. `cpu` is an LLVM CPU name, a level, or
  /// `native`: what runs the host program, and the kernels of the target `cpu`.
  static llvm::Expected<std::unique_ptr<Target>> create(llvm::StringRef spec,
                                                        llvm::StringRef cpu = "native");
  virtual ~Target();

  llvm::StringRef getName() const { return name; }
  /// The CPU of the host program.
  const codegen::CPUInfo &getHost() const { return host; }

  /// Passes over a program before constants are folded and maps are fused: operators are still
  /// apart, and what this target has other products for can be told from their bodies.
  virtual void buildRewriteProducts(mlir::OpPassManager & /*pm*/) const {}

  /// Passes over a fused program that make its ops such as this target has good kernels for:
  /// layouts of constants, long sums in parts. Each op becomes one kernel afterwards.
  virtual void buildPrepareKernels(mlir::OpPassManager &pm) const = 0;

  /// Passes over a host program before its buffers have places, that make one launch of several.
  virtual void buildGroupLaunches(mlir::OpPassManager & /*pm*/) const {}

  /// Passes that give each kernel.func its schedule, and what the host program must know of it.
  /// They fail for a kernel that the target has no code for. Kernels that constants are folded with
  /// (`wrapper.fold`) run on the host; a target with a device leaves them alone. Bodies have been
  /// simplified before (codegen::buildSimplifyBodiesPipeline).
  virtual void buildScheduleKernels(mlir::OpPassManager &pm) const = 0;

  /// Schedules to try for a kernel that is planned, beside `getTunedSchedule`: the most promising
  /// first. Some may be none that this kernel can be run with, which buildScheduleKernels says.
  virtual llvm::SmallVector<kernel::ScheduleAttrInterface>
  enumerateSchedules(kernel::FuncOp /*kernel*/) const {
    return {};
  }

  /// Layouts of the operands of a contract, before kernels are prepared: the one that is planned,
  /// and those to try beside it, the most promising first. None: nothing is to be tried.
  virtual llvm::SmallVector<mlir::Attribute> enumerateLayouts(kernel::ContractOp) const {
    return {};
  }
  /// Has buildPrepareKernels lay out the operands so.
  virtual void setLayout(kernel::ContractOp, mlir::Attribute) const {}

  /// Lays out alike what fused programs have in common: equal constants have one value attribute.
  virtual void shareLayouts(llvm::ArrayRef<mlir::ModuleOp>) const {}

  /// The schedule that tuning replaces: that of the code which the machine that is planned for runs.
  virtual kernel::ScheduleAttrInterface getTunedSchedule(kernel::FuncOp kernel) const {
    return kernel.getScheduleAttr();
  }
  virtual void setTunedSchedule(kernel::FuncOp kernel,
                                kernel::ScheduleAttrInterface schedule) const {
    kernel.setScheduleAttr(schedule);
  }

  /// Kernels are launched on a device, with the runtime for it (runtime/cuda/device.h).
  virtual bool hasDevice() const { return false; }
  /// The kind of device that kernels are planned for (`sm_90`); empty: the host.
  virtual llvm::StringRef getArchitecture() const { return ""; }

  /// Chooses from the code that a program brings with it, which is in the kernel dialect. The error
  /// is the program's fault.
  virtual llvm::Error chooseCode(mlir::ModuleOp) const { return llvm::Error::success(); }

  /// The target's own writer of finished programs, or null.
  virtual const ProgramWriter *getProgramWriter() const { return nullptr; }

  /// Relocatable objects with the code of the scheduled kernels of `module`, which stays as it is,
  /// and with the tables that launches need. The result depends on the module and the target alone.
  virtual llvm::Expected<Objects> compileKernels(mlir::ModuleOp module,
                                                 const CodeOptions &options) const = 0;

  /// Some kernel of `module` has instructions for tiles (AMX), which no other code has.
  virtual bool usesTiles(mlir::ModuleOp /*module*/) const { return false; }

  /// The result of compileKernels as text in the target's assembly language.
  virtual llvm::Expected<std::string> emitAssembly(mlir::ModuleOp module,
                                                   const CodeOptions &options) const;

protected:
  Target(llvm::StringRef name, codegen::CPUInfo host) : name(name), host(std::move(host)) {}

private:
  std::string name;
  codegen::CPUInfo host;
};

/// A model once its kernels are fused and its buffers have their places.
struct FinishedProgram {
  /// One `wrapper.program`, the functions of its nested graphs, and the kernels that they launch.
  mlir::ModuleOp module;
  /// The model's name.
  std::string name;
  /// The text of `kiln_model_info` (kiln-c/model.h).
  std::string description;
};

/// A file of the output. The suffix comes behind the output's path; the output itself has none.
struct ProgramFile {
  std::string suffix;
  std::string contents;
};

/// A target that gives no machine code: it takes the finished program and writes something of its
/// own, such as the source code of another language. No pass has changed kernels for it and none has
/// a schedule, unless its own passes do so.
class ProgramWriter : public Target {
public:
  /// The files of the output. What it has no words for it reports as an error on that op.
  virtual mlir::FailureOr<std::vector<ProgramFile>>
  writeProgram(const FinishedProgram &program) const = 0;

  void buildPrepareKernels(mlir::OpPassManager &) const override {}
  void buildScheduleKernels(mlir::OpPassManager &) const override {}
  const ProgramWriter *getProgramWriter() const final { return this; }
  llvm::Expected<Objects> compileKernels(mlir::ModuleOp module,
                                         const CodeOptions &options) const final;

protected:
  using Target::Target;
};

/// A target before one is made.
struct TargetRegistration {
  llvm::StringRef name;
  llvm::StringRef summary;
  /// Kinds of `--emit` that it has beside those that all have: "llvm", "obj" or "ptx".
  llvm::SmallVector<llvm::StringRef> emits;
  /// The suffix of a ProgramWriter's output (".c"); it has no `emits`.
  llvm::StringRef outputSuffix = "";
  /// `options` is the text between the braces, or empty.
  std::function<llvm::Expected<std::unique_ptr<Target>>(llvm::StringRef options,
                                                        codegen::CPUInfo host)>
      create;
  /// May be null.
  void (*registerDialects)(mlir::DialectRegistry &registry) = nullptr;
  /// Passes and pipelines, for kiln-opt. May be null.
  void (*registerPasses)() = nullptr;
};

/// Makes a target known; once for each name, before any other thread asks.
void registerTarget(TargetRegistration registration);
llvm::ArrayRef<TargetRegistration> getRegisteredTargets();
/// Null if there is none; of NAME{OPTIONS}, too.
const TargetRegistration *lookupTarget(llvm::StringRef spec);

/// Parses a target's options, a struct derived from mlir::PassPipelineOptions.
template <typename Options>
llvm::Expected<std::unique_ptr<Options>> parseTargetOptions(llvm::StringRef text) {
  auto options = std::make_unique<Options>();
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (mlir::failed(options->parseFromString(text, stream)))
    return llvm::createStringError("options of the target: " + llvm::StringRef(message).trim());
  return options;
}

} // namespace kiln

#endif // KILN_TARGETS_TARGET_H
