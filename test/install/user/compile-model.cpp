// Compiles an exported program for this machine. No option of a command line is registered.
#include "kiln/Pipeline/Compile.h"
#include "kiln/Pipeline/Pipeline.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  kiln::registerTargets();
  kiln::CompileOptions options;
  options.input = argv[1];
  options.output = argv[2];
  llvm::Error error = kiln::compile(options);
  bool isWrong = static_cast<bool>(error);
  llvm::logAllUnhandledErrors(std::move(error), llvm::errs());
  return isWrong;
}
