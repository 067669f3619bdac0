// The CPU that code is generated for: its instruction sets and the width and number of its vector
// registers, by LLVM's name or by level.
#include "kiln/Codegen/CPUInfo.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <cstdlib>
#include <mutex>

using namespace llvm;
using namespace kiln::codegen;

int64_t CPUInfo::lanes(mlir::Type type) const {
  if (!type.isIntOrFloat())
    return 1;
  return vectorBytes / std::max(1u, type.getIntOrFloatBitWidth() / 8);
}

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeAllTargetInfos();
    InitializeAllTargets();
    InitializeAllTargetMCs();
    InitializeAllAsmPrinters();
  });
}

/// The CPU that `native` is short for: this machine, or one that a test names.
static StringRef getNativeName() {
  const char *name = std::getenv("KILN_TEST_CPU");
  return name && *name ? name : "native";
}

static std::string hostFeatures() {
  SmallVector<std::string> features;
  for (const auto &feature : sys::getHostCPUFeatures())
    features.push_back((feature.second ? "+" : "-") + feature.first().str());
  sort(features);
  return join(features, ",");
}

static std::unique_ptr<TargetMachine> createMachine(const Triple &triple, StringRef cpu,
                                                    StringRef features, OptLevel level) {
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return nullptr;
  constexpr CodeGenOptLevel levels[] = {CodeGenOptLevel::None, CodeGenOptLevel::Less,
                                        CodeGenOptLevel::Default, CodeGenOptLevel::Aggressive};
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, cpu, features, TargetOptions(), Reloc::PIC_,
                                  /*CM=*/std::nullopt, levels[static_cast<int>(level)]));
}

static Expected<CPUInfo> makeCPUInfo(StringRef cpu) {
  initializeTarget();
  CPUInfo info;
  info.name = cpu;
  Triple triple(sys::getDefaultTargetTriple());
  info.triple = triple.str();
  bool native = cpu == "native";
  info.cpu = native ? sys::getHostCPUName() : cpu;
  if (native)
    info.features = hostFeatures();
  // Asked first: making a machine for a CPU that LLVM does not know prints a warning of its own.
  else if (triple.isX86() && X86::parseArchX86(cpu) == X86::CK_None)
    return createStringError("unknown CPU '%s'", info.cpu.c_str());

  std::unique_ptr<TargetMachine> machine =
      createMachine(triple, info.cpu, info.features, OptLevel::O2);
  if (!machine)
    return createStringError("this build of LLVM has no code generator for %s",
                             info.triple.c_str());
  const MCSubtargetInfo &subtarget = *machine->getMCSubtargetInfo();
  if (!subtarget.isCPUStringValid(info.cpu))
    return createStringError("unknown CPU '%s'", info.cpu.c_str());
  auto has = [&](const char *feature) {
    return subtarget.checkFeatures(std::string("+") + feature);
  };
  if (!triple.isX86())
    return info;
  if (!has("avx2") || !has("fma") || !has("f16c"))
    return createStringError("CPU '%s' is below x86-64-v3", info.cpu.c_str());
  info.avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  info.avx512bf16 = info.avx512 && has("avx512bf16");
  info.avx512fp16 = info.avx512 && has("avx512fp16");
  info.avx512vnni = info.avx512 && has("avx512vnni");
  info.fastGather = has("fast-gather");
  info.vectorBytes = info.avx512 ? 64 : 32;
  info.numVectorRegisters = info.avx512 ? 32 : 16;
  return info;
}

/// The instruction sets of a CPU beyond the architecture, without what it is merely tuned for.
static StringMap<bool> getInstructionSets(StringRef cpu) {
  if (cpu == "native")
    return sys::getHostCPUFeatures();
  SmallVector<StringRef> names;
  X86::getFeaturesForCPU(cpu, names);
  StringMap<bool> sets;
  for (StringRef name : names)
    sets[name] = true;
  return sets;
}

Expected<CPUInfo> CPUInfo::getRunnable(StringRef cpu) {
  Expected<CPUInfo> wanted = get(cpu);
  if (!wanted || wanted->name == getNativeName())
    return wanted;
  StringMap<bool> has = getInstructionSets(getNativeName());
  bool isHost = getNativeName() == "native"; // which is not asked for what every CPU has (x87)
  bool isRunnable = all_of(getInstructionSets(wanted->cpu), [&](const auto &set) {
    return has.lookup(set.first()) || (isHost && !has.contains(set.first()));
  });
  return isRunnable ? std::move(wanted) : get("native");
}

Expected<CPUInfo> CPUInfo::get(StringRef cpu) {
  if (cpu == "native")
    cpu = getNativeName();
  // Every pass asks for it, and an LLVM target machine takes a millisecond to make.
  static std::mutex mutex;
  static StringMap<CPUInfo> known;
  std::scoped_lock lock(mutex);
  if (auto it = known.find(cpu); it != known.end())
    return it->second;
  Expected<CPUInfo> info = makeCPUInfo(cpu);
  if (info)
    known[cpu] = *info;
  return info;
}

std::unique_ptr<TargetMachine> CPUInfo::createTargetMachine(OptLevel level) const {
  return createMachine(Triple(triple), cpu, features, level);
}
