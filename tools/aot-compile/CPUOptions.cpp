// --cpu, --cpu-tune and --winograd
#include "CPUOptions.h"
#include "kiln/Codegen/CPUInfo.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace llvm;
using namespace kiln;

static cl::opt<std::string> name("cpu", cl::init("native"), cl::value_desc("name"),
                                 cl::desc("LLVM CPU name (znver4, ...), level (x86-64-v3, ...) or "
                                          "native, with features more or less (native,-amx-tile); "
                                          "default: native, for GPUs x86-64-v3"));
static cl::opt<std::string> tune("cpu-tune", cl::value_desc("numbers"),
                                 cl::desc("numbers that kernels are planned with, in the place of "
                                          "the CPU's: l2=2097152,clock=4000 (--target=cpu)"));
static cl::opt<unsigned>
    winograd("winograd", cl::init(0), cl::value_desc("2|4"),
             cl::desc("convolutions of 3x3 pixels by tiles of so many rows at most, with fewer "
                      "multiplications and other rounding errors (docs/numerics.md)"));

void addCPUOptions(cl::OptionCategory &category) {
  for (cl::Option *option : std::initializer_list<cl::Option *>{&name, &tune, &winograd})
    option->addCategory(category);
}

Error readCPUOptions(CompileOptions &options) {
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{&tune, &winograd})
    if (options.target != "cpu" && option->getNumOccurrences())
      return createStringError("--" + option->ArgStr + " is for --target=cpu");
  if (winograd.getNumOccurrences() && winograd != 2 && winograd != 4)
    return createStringError("--winograd=" + Twine(winograd) + ": expected 2 or 4");
  options.cpu = name;
  // Machines with GPUs are others than those that compile for them.
  if (options.target == "cuda" && !name.getNumOccurrences() &&
      Triple(sys::getDefaultTargetTriple()).isX86())
    options.cpu = "x86-64-v3";
  std::string numbers;
  if (!tune.empty()) {
    if (Expected<codegen::CPUInfo> tuned = codegen::CPUInfo::get(options.cpu, tune); !tuned)
      return createStringError("--cpu-tune: " + toString(tuned.takeError()));
    numbers = "tune=" + tune + " ";
  }
  if (!tune.empty() || winograd.getNumOccurrences())
    options.target = formatv("cpu{{{0}winograd={1}}", numbers, winograd.getValue());
  return Error::success();
}
