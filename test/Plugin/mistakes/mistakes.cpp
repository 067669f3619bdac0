// A plug-in that adds what it may not, as the environment variable MISTAKE says.
#include "kiln/Pipeline/Plugin.h"
#include "mlir/IR/Dialect.h"
#include <cstdlib>

using namespace kiln;

namespace {

struct Pass : mlir::PassWrapper<Pass, mlir::OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Pass)
  llvm::StringRef getArgument() const final { return "kernel-outline"; }
  void runOnOperation() final {}
};

struct Dialect : mlir::Dialect {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Dialect)
  explicit Dialect(mlir::MLIRContext *context)
      : mlir::Dialect("kernel", context, mlir::TypeID::get<Dialect>()) {}
  static constexpr llvm::StringLiteral getDialectNamespace() { return "kernel"; }
};

/// Writes nothing, or more than one file.
struct Writer : ProgramWriter {
  Writer(llvm::StringRef mistake, codegen::CPUInfo host)
      : ProgramWriter("mistaken", std::move(host)), mistake(mistake) {}
  mlir::FailureOr<std::vector<ProgramFile>> writeProgram(const FinishedProgram &) const override {
    if (mistake == "silent")
      return mlir::failure();
    if (mistake == "crash")
      __builtin_trap();
    std::vector<ProgramFile> files;
    if (mistake != "no output")
      files.push_back({"", "output"});
    if (mistake != "one file")
      files.push_back({mistake == "folder" ? "/no/such/folder" : ".more", "more"});
    return files;
  }
  std::string mistake;
};

void addTo(PluginRegistry &registry) {
  llvm::StringRef mistake = std::getenv("MISTAKE");
  if (mistake == "nothing")
    return;
  if (mistake == "pass")
    return registry.addPass<Pass>();
  if (mistake == "dialect")
    return registry.addDialects<Dialect>();
  if (mistake == "generator" || mistake == "empty generator") {
    externs::ExternRegistration generator = {"c", "the name is taken", nullptr};
    if (mistake == "generator")
      generator.create =
          [](llvm::StringRef,
             mlir::MLIRContext *) -> llvm::Expected<std::unique_ptr<externs::ExternGenerator>> {
        return llvm::createStringError("is never made");
      };
    return registry.addExternGenerator(generator);
  }
  TargetRegistration target;
  target.name = mistake == "target" ? "cuda" : "mistaken";
  target.outputSuffix = ".txt";
  target.create = [mistake](llvm::StringRef, codegen::CPUInfo host) {
    return std::make_unique<Writer>(mistake, std::move(host));
  };
  if (mistake == "no function")
    target.create = nullptr;
  registry.addTarget(target);
  if (mistake == "twice")
    registry.addTarget(target);
}

} // namespace

KILN_PLUGIN("mistakes", addTo)
