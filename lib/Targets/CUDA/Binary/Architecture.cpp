// Parses lists of GPU architectures.
#include "kiln/Targets/CUDA/Architecture.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace llvm;
using namespace kiln::cuda;

/// Architectures that LLVM writes PTX for and that have what kernels use: bf16 arithmetic and
/// cp.async begin with 8.0.
static constexpr unsigned known[] = {80, 86, 87, 89, 90, 100, 103, 120};

Expected<SmallVector<Architecture>> kiln::cuda::parseArchitectures(StringRef list) {
  SmallVector<Architecture> result;
  for (StringRef name : split(list, ',')) {
    Architecture architecture{name.str()};
    StringRef digits = name;
    bool isNumber = digits.consume_front("sm_") && !digits.getAsInteger(10, architecture.number) &&
                    is_contained(known, architecture.number);
    if (!isNumber && name != "emulator")
      return createStringError("--gpu-arch=%s: expected a list of sm_80, sm_86, sm_87, sm_89, "
                               "sm_90, sm_100, sm_103 and sm_120",
                               list.str().c_str());
    if (none_of(result, [&](const Architecture &other) { return other.name == name; }))
      result.push_back(architecture);
  }
  sort(result, [](const Architecture &a, const Architecture &b) { return a.number < b.number; });
  return result;
}

std::string kiln::cuda::findPtxas(StringRef given) {
  if (!given.empty())
    return given.str();
  for (StringRef variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::optional<std::string> home = sys::Process::GetEnv(variable)) {
      SmallString<128> path(*home);
      sys::path::append(path, "bin", "ptxas");
      if (sys::fs::can_execute(path))
        return path.str().str();
    }
  if (ErrorOr<std::string> found = sys::findProgramByName("ptxas"))
    return *found;
  StringRef usual = "/usr/local/cuda/bin/ptxas";
  return sys::fs::can_execute(usual) ? usual.str() : "";
}
