// The CPU that code is generated for: its instruction sets and the width and number of its vector
// registers, by LLVM's name or by level.
#include "kiln/Codegen/CPUInfo.h"
#include "Subtarget.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <cstdlib>
#include <cstring>
#include <mutex>

using namespace llvm;
using namespace kiln;
using namespace kiln::codegen;

ArrayRef<CPUNumber> codegen::getCPUNumbers() {
  static constexpr int64_t many = int64_t(1) << 30;
  static constexpr CPUNumber numbers[] = {
      {"vector_bytes", &CPUModel::vectorBytes, 32, 64},
      {"vector_registers", &CPUModel::vectorRegisters, 8, 32},
      {"l1", &CPUModel::l1Bytes, 1 << 12, 1 << 20},
      {"l2", &CPUModel::l2Bytes, 1 << 12, many},
      {"cache_line", &CPUModel::cacheLine, 16, 1024},
      {"set_period", &CPUModel::setPeriod, 64, 1 << 20},
      {"clock", &CPUModel::clock, 1, many},
      {"memory_rate", &CPUModel::memoryRate, 1, many},
      {"fma_units", &CPUModel::fmaUnits, 1, 8},
      {"fma_latency", &CPUModel::fmaLatency, 1, 8},
      {"tile_cycles", &CPUModel::tileCycles, 1, 1024},
      {"op_rate", &CPUModel::opRate, 1, 64},
      {"access_cost", &CPUModel::accessCost, 1, many},
      {"element_cost", &CPUModel::elementCost, 1, many},
      {"function_cost", &CPUModel::functionCost, 1, many},
      {"step_cost", &CPUModel::stepCost, 1, many},
      {"cores", &CPUModel::cores, 1, 4096},
      {"max_tasks", &CPUModel::maxTasks, 1, many},
      {"task_time", &CPUModel::taskTime, 1, many},
      {"least_task", &CPUModel::leastTask, 1, many},
      {"task_cycles", &CPUModel::taskCycles, 1, 1 << 20},
      {"tile_sums", &CPUModel::tileSums, 2, 512},
      {"open_tile", &CPUModel::openTile, 2, 32},
      {"unroll", &CPUModel::unroll, 1, 64},
      {"short_body", &CPUModel::shortBody, 1, many},
      {"short_sum", &CPUModel::shortSum, 1, many},
      {"long_sum", &CPUModel::longSum, 1, many},
      {"open_sum", &CPUModel::openSum, 1, many},
      {"fewest_rows", &CPUModel::fewestRows, 1, many},
      {"many_rows", &CPUModel::manyRows, 1, many},
      {"long_axis", &CPUModel::longAxis, 1, many},
      {"epilogue_ops", &CPUModel::epilogueOps, 1, many},
      {"fetch_streams", &CPUModel::fetchStreams, 0, 1},
  };
  return numbers;
}

const CPUNumber *codegen::findCPUNumber(StringRef name) {
  const CPUNumber *found =
      find_if(getCPUNumbers(), [&](const CPUNumber &number) { return number.name == name; });
  return found == getCPUNumbers().end() ? nullptr : found;
}

std::string CPUNumber::check(int64_t number) const {
  if (number >= least && number <= most)
    return "";
  return formatv("{0} = {1}, which has to be {2} to {3}", name, number, least, most);
}

hash_code codegen::hash_value(const CPUModel &model) {
  hash_code hash = 0;
  for (const CPUNumber &number : getCPUNumbers())
    hash = hash_combine(hash, model.*number.value);
  return hash;
}

std::string CPUInfo::check(const CPUModel &model) const {
  for (const CPUNumber &number : getCPUNumbers())
    if (std::string problem = number.check(model.*number.value); !problem.empty())
      return problem;
  if (!isPowerOf2_64(model.vectorBytes))
    return formatv("vector_bytes = {0}, which has to be a power of two", model.vectorBytes);
  if (model.vectorBytes > (avx512 ? 64 : 32) || model.vectorRegisters > (avx512 ? 32 : 16))
    return formatv("{0} vectors of {1} bytes, of which {2} has no more than {3} of {4}",
                   model.vectorRegisters, model.vectorBytes, name, avx512 ? 32 : 16,
                   avx512 ? 64 : 32);
  if (model.l1Bytes > model.l2Bytes)
    return formatv("l1 = {0}, which has to be at most l2 = {1}", model.l1Bytes, model.l2Bytes);
  return "";
}

/// Puts the numbers of `tuning` in the place of those of `info`.
static Error tune(CPUInfo &info, StringRef tuning) {
  SmallVector<StringRef> settings;
  tuning.split(settings, ',', -1, /*KeepEmpty=*/false);
  for (StringRef setting : settings) {
    auto [name, text] = setting.split('=');
    const CPUNumber *number = findCPUNumber(name);
    if (!number) {
      auto names = map_range(getCPUNumbers(), [](const CPUNumber &known) { return known.name; });
      return createStringError("'" + name + "' is no number of a CPU: expected " +
                               join(names, ", "));
    }
    if (!to_integer(text, info.*number->value, 10))
      return createStringError("'" + setting + "': expected " + name + "=NUMBER");
  }
  if (std::string problem = info.check(info); !problem.empty())
    return createStringError(problem);
  return Error::success();
}

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
    InitializeAllAsmParsers();
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

CodeGenOptLevel kiln::codegen::getCodeGenLevel(OptLevel level) {
  switch (level) {
  case OptLevel::O0:
    return CodeGenOptLevel::None;
  case OptLevel::O1:
    return CodeGenOptLevel::Less;
  case OptLevel::O2:
    return CodeGenOptLevel::Default;
  case OptLevel::O3:
    return CodeGenOptLevel::Aggressive;
  }
  llvm_unreachable("an optimization level");
}

static const Target *findTarget(const Triple &triple) {
  std::string message;
  return TargetRegistry::lookupTarget(triple, message);
}

std::unique_ptr<MCSubtargetInfo> codegen::createSubtarget(const Triple &triple, StringRef cpu,
                                                          StringRef features) {
  initializeTarget();
  const Target *target = findTarget(triple);
  if (!target)
    return nullptr;
  return std::unique_ptr<MCSubtargetInfo>(target->createMCSubtargetInfo(triple, cpu, features));
}

static std::unique_ptr<TargetMachine> createMachine(const Triple &triple, StringRef cpu,
                                                    StringRef features, OptLevel level) {
  const Target *target = findTarget(triple);
  if (!target)
    return nullptr;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, cpu, features, TargetOptions(), Reloc::PIC_,
                                  /*CM=*/std::nullopt, getCodeGenLevel(level)));
}

/// A feature that LLVM does not know: calls in the place of instructions for tiles.
static constexpr StringLiteral emulatedTiles = "emulated-amx";

/// Adds those of `names` (`+avx512bf16,-amx-tile`) to what `info` says of its CPU.
static Error addFeatures(CPUInfo &info, StringRef names) {
  SmallVector<StringRef> features;
  names.split(features, ',', -1, /*KeepEmpty=*/false);
  for (StringRef feature : features) {
    if (!feature.starts_with("+") && !feature.starts_with("-"))
      return createStringError("'" + feature + "' behind the name of a CPU: expected +FEATURE or " +
                               "-FEATURE");
    StringRef name = feature.drop_front();
    if (name == emulatedTiles) {
      info.emulatesTiles = feature.front() == '+';
      continue;
    }
    if (!info.features.empty())
      info.features += ',';
    info.features += feature;
  }
  return Error::success();
}

/// The first of the features asked for that LLVM does not know; empty: there is none.
static StringRef findUnknownFeature(const MCSubtargetInfo &subtarget, StringRef features) {
  SmallVector<StringRef> names;
  features.split(names, ',', -1, /*KeepEmpty=*/false);
  for (StringRef name : names)
    if (none_of(subtarget.getAllProcessorFeatures(),
                [&](const SubtargetFeatureKV &known) { return name.drop_front() == known.Key; }))
      return name;
  return "";
}

/// All of LLVM's names with AVX2 but those of AMD and the levels.
static bool isIntel(StringRef cpu) {
  return !cpu.starts_with("znver") && !cpu.starts_with("bdver") && !cpu.starts_with("x86-64");
}

static Expected<CPUInfo> makeCPUInfo(StringRef name) {
  CPUInfo info;
  info.name = name;
  auto [cpu, asked] = name.split(',');
  Triple triple(sys::getDefaultTargetTriple());
  info.triple = triple.str();
  bool native = cpu == "native";
  info.cpu = native ? sys::getHostCPUName() : cpu;
  if (native)
    info.features = hostFeatures();
  // Asked first: LLVM prints a warning of its own about a CPU that it does not know.
  else if (triple.isX86() && X86::parseArchX86(cpu) == X86::CK_None)
    return createStringError("unknown CPU '%s'", info.cpu.c_str());
  if (Error problem = addFeatures(info, asked))
    return problem;

  std::unique_ptr<MCSubtargetInfo> subtarget = createSubtarget(triple, info.cpu, info.features);
  if (!subtarget)
    return createStringError("this build of LLVM has no code generator for %s",
                             info.triple.c_str());
  if (!subtarget->isCPUStringValid(info.cpu))
    return createStringError("unknown CPU '%s'", info.cpu.c_str());
  if (!asked.empty())
    if (StringRef unknown = findUnknownFeature(*subtarget, info.features); !unknown.empty())
      return createStringError("unknown feature '" + unknown + "' of a CPU");
  auto has = [&](const char *feature) {
    return subtarget->checkFeatures(std::string("+") + feature);
  };
  if (!triple.isX86())
    return info;
  if (!has("avx2") || !has("fma") || !has("f16c"))
    return createStringError("CPU '%s' is below x86-64-v3", info.cpu.c_str());
  info.avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  info.avx512bf16 = info.avx512 && has("avx512bf16");
  info.avx512fp16 = info.avx512 && has("avx512fp16");
  info.avx512vnni = info.avx512 && has("avx512vnni");
  info.avxvnni = has("avxvnni");
  bool hasTiles = has("amx-tile");
  info.amxBf16 = info.emulatesTiles || (hasTiles && has("amx-bf16"));
  info.amxInt8 = info.emulatesTiles || (hasTiles && has("amx-int8"));
  info.fastGather = has("fast-gather");
  info.vectorBytes = info.avx512 ? 64 : 32;
  info.vectorRegisters = info.avx512 ? 32 : 16;
  info.fetchStreams = isIntel(info.cpu);
  if (info.amxBf16 && !info.emulatesTiles) { // all CPUs with tiles so far
    info.l1Bytes = 48 << 10;
    info.l2Bytes = 2 << 20;
  }
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
  // This machine is not asked for the others, which were given by name.
  if (!wanted->features.empty() || wanted->emulatesTiles)
    return get("native");
  StringMap<bool> has = getInstructionSets(getNativeName());
  bool isHost = getNativeName() == "native"; // which is not asked for what every CPU has (x87)
  bool isRunnable = all_of(getInstructionSets(wanted->cpu), [&](const auto &set) {
    return has.lookup(set.first()) || (isHost && !has.contains(set.first()));
  });
  return isRunnable ? std::move(wanted) : get("native");
}

static Expected<CPUInfo> getUntuned(StringRef cpu) {
  std::string renamed;
  if (cpu.split(',').first == "native") {
    renamed = getNativeName().str() + cpu.drop_front(strlen("native")).str();
    cpu = renamed;
  }
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

Expected<CPUInfo> CPUInfo::get(StringRef cpu, StringRef tuning) {
  Expected<CPUInfo> info = getUntuned(cpu);
  if (!info || tuning.empty())
    return info;
  info->tuning = tuning;
  if (Error problem = tune(*info, tuning))
    return problem;
  return info;
}

std::unique_ptr<TargetMachine> CPUInfo::createTargetMachine(OptLevel level) const {
  return createMachine(Triple(triple), cpu, features, level);
}
