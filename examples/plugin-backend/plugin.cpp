// The target `c`: `aot-compile --load-plugin=kiln-c.so --target=c MODEL.pt2 -o MODEL.c`.
#include "kiln/Pipeline/Plugin.h"
#include "Passes.h"
#include "ProgramWriter.h"

using namespace kiln;

namespace {

struct TargetOptions : mlir::PassPipelineOptions<TargetOptions> {
  Option<std::string> function{*this, "function", llvm::cl::init(""),
                               llvm::cl::desc("the name of the function; default: the model's")};
  Option<std::string> weights{*this, "weights", llvm::cl::init("array"),
                              llvm::cl::desc("array: in the C file; file: in OUT.weights")};
};

class CTarget : public ProgramWriter {
public:
  CTarget(cbackend::Options options, codegen::CPUInfo host)
      : ProgramWriter("c", std::move(host)), options(std::move(options)) {}

  void buildScheduleKernels(mlir::OpPassManager &pm) const override {
    pm.addPass(std::make_unique<cbackend::CommentLaunches>());
  }

  mlir::FailureOr<std::vector<ProgramFile>>
  writeProgram(const FinishedProgram &program) const override {
    return cbackend::ModelWriter(program, options).write();
  }

private:
  cbackend::Options options;
};

llvm::Expected<std::unique_ptr<Target>> createTarget(llvm::StringRef text, codegen::CPUInfo host) {
  llvm::Expected<std::unique_ptr<TargetOptions>> parsed = parseTargetOptions<TargetOptions>(text);
  if (!parsed)
    return parsed.takeError();
  const TargetOptions &options = **parsed;
  if (options.weights != "array" && options.weights != "file")
    return llvm::createStringError("weights=" + options.weights + ": expected array or file");
  return std::make_unique<CTarget>(cbackend::Options{options.function, options.weights == "file"},
                                   std::move(host));
}

void addTo(PluginRegistry &registry) {
  TargetRegistration target;
  target.name = "c";
  target.summary = "C source code, for any compiler";
  target.outputSuffix = ".c";
  target.create = createTarget;
  registry.addTarget(std::move(target));
  registry.addPass<cbackend::CommentLaunches>();
}

} // namespace

KILN_PLUGIN("kiln-c", addTo)
