// Writes what shows an internal error: a module and the passes that fail on it.
#include "Reproducer.h"
#include "kiln/Pipeline/Compile.h"
#include "mlir/IR/AsmState.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <atomic>

using namespace mlir;
using namespace kiln;

/// Data of constants beyond this (in characters of text) is left out.
static constexpr int64_t maxResourceText = 1 << 16;

static std::string &chosenPath() {
  static std::string path;
  return path;
}

void kiln::setCrashReproducerPath(StringRef path) { chosenPath() = path.str(); }

static std::atomic<Reproducer *> current;

static void writeCurrent(void *) {
  // Once, even if writing it crashes too.
  if (Reproducer *reproducer = current.exchange(nullptr))
    reproducer->write();
}

Reproducer::Reproducer(ModuleOp module, const OpPassManager *passes)
    : input(module.clone()), threads(module.getContext()->isMultithreadingEnabled()) {
  if (passes) {
    llvm::raw_string_ostream stream(pipeline);
    passes->printAsTextualPipeline(stream);
  }
  [[maybe_unused]] static bool registered = [] {
    llvm::sys::AddSignalHandler(writeCurrent, nullptr);
    return true;
  }();
  current = this;
}

Reproducer::~Reproducer() { current = nullptr; }

std::string Reproducer::write() {
  SmallString<128> path(chosenPath());
  if (path.empty()) {
    SmallString<128> model;
    llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, model);
    llvm::sys::path::append(model, "aot-compile-%%%%%%.mlir");
    llvm::sys::fs::createUniquePath(model, path, /*MakeAbsolute=*/false);
  }
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (error)
    return "";
  AsmState state(*input, OpPrintingFlags()
                             .enableDebugInfo()
                             .elideLargeElementsAttrs(maxResourceText)
                             .elideLargeResourceString(maxResourceText));
  state.attachResourcePrinter("mlir_reproducer", [&](Operation *, AsmResourceBuilder &builder) {
    builder.buildString("pipeline", pipeline);
    builder.buildBool("disable_threading", !threads);
    builder.buildBool("verify_each", true);
  });
  input->getOperation()->print(file, state);
  file << '\n';
  return path.str().str();
}
