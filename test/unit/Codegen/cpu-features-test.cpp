// Instruction sets of CPUs: each that LLVM knows is asked for or known not to be needed, and levels
// have those that their definitions say.
#include "../../../runtime/cpu_features.h"
#include "kiln/Codegen/CPUFeatures.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <gtest/gtest.h>
#include <set>

using namespace kiln::codegen;

namespace {

#define NAME(name, ...) name,
const std::set<std::string> checked = {KILN_CPU_FEATURES(NAME)};
#undef NAME

// LLVM uses these only where a program names their instructions, or the runtime itself needs them.
const std::set<std::string> unchecked = {
    // x86-64-v2
    "x87", "mmx", "fxsr", "cmov", "cx8", "cx16", "sahf", "popcnt", "crc32", "sse", "sse2", "sse3",
    "ssse3", "sse4.1", "sse4.2",
    // by their own instructions alone
    "adx", "aes", "vaes", "sha", "sha512", "sm3", "sm4", "kl", "widekl", "avx512vp2intersect",
    "rdrnd", "rdseed", "rdpid", "rdpru", "fsgsbase", "invpcid", "lwp", "mwaitx", "waitpkg",
    "cldemote", "clflushopt", "clwb", "clzero", "cmpccxadd", "enqcmd", "hreset", "movdir64b",
    "movdiri", "movrs", "amx-movrs", "pconfig", "pku", "prefetchi", "prfchw", "ptwrite",
    "serialize", "sgx", "shstk", "tsxldtrk", "uintr", "usermsr", "wbnoinvd", "xsave", "xsavec",
    "xsaveopt", "xsaves", "rtm",
    // with "egpr", of which CPUID has one bit for all
    "ccmp", "cf", "ndd", "nf", "ppx", "push2pop2", "zu"};

uint64_t featuresOf(llvm::StringRef cpu, bool usesTiles = true) {
  llvm::Expected<CPUInfo> info = CPUInfo::get(cpu);
  if (info)
    return getCodeFeatures(*info, usesTiles);
  ADD_FAILURE() << llvm::toString(info.takeError());
  return 0;
}

bool has(uint64_t features, llvm::StringRef wanted) {
  uint64_t bit = 1;
#define TEST_ONE(name, ...)                                                                        \
  if (wanted == name)                                                                              \
    return (features & bit) != 0;                                                                  \
  bit <<= 1;
  KILN_CPU_FEATURES(TEST_ONE)
#undef TEST_ONE
  return false;
}

TEST(CPUFeatures, EachIsCheckedOrNeedsNoCheck) {
  llvm::SmallVector<llvm::StringRef> cpus;
  llvm::X86::fillValidCPUArchList(cpus, /*Only64Bit=*/true);
  for (llvm::StringRef cpu : cpus) {
    llvm::SmallVector<llvm::StringRef> features;
    llvm::X86::getFeaturesForCPU(cpu, features);
    for (llvm::StringRef feature : features)
      EXPECT_NE(checked.count(feature.str()) != 0, unchecked.count(feature.str()) != 0)
          << feature.str() << " of " << cpu.str();
  }
}

TEST(CPUFeatures, LevelsAreWhatTheRuntimeTakesThemFor) {
  EXPECT_EQ(featuresOf("x86-64-v3"), KILN_CPU_V3);
  EXPECT_EQ(featuresOf("x86-64-v4"), KILN_CPU_V4);
}

TEST(CPUFeatures, AreThoseOfTheCPU) {
  EXPECT_TRUE(has(featuresOf("sapphirerapids"), "amx-int8"));
  EXPECT_FALSE(has(featuresOf("sapphirerapids"), "amx-fp16"));
  EXPECT_TRUE(has(featuresOf("graniterapids"), "amx-fp16"));
  EXPECT_TRUE(has(featuresOf("znver5"), "avxvnni"));
  EXPECT_FALSE(has(featuresOf("znver4"), "avxvnni"));
  EXPECT_TRUE(has(featuresOf("diamondrapids"), "egpr"));
  EXPECT_TRUE(has(featuresOf("diamondrapids"), "avx10.2"));
  EXPECT_FALSE(has(featuresOf("haswell"), "avx512f"));
}

TEST(CPUFeatures, OfTilesAreNeededByTheirInstructionsAlone) {
  uint64_t without = featuresOf("sapphirerapids", /*usesTiles=*/false);
  for (const char *name : {"amx-tile", "amx-int8", "amx-bf16"})
    EXPECT_FALSE(has(without, name));
  EXPECT_TRUE(has(without, "avx512bf16"));
}

TEST(CPUFeatures, MayBeNamedBehindTheCPU) {
  EXPECT_EQ(featuresOf("sapphirerapids,-amx-tile"), featuresOf("sapphirerapids", false));
  EXPECT_TRUE(has(featuresOf("x86-64-v4,+avx512bf16"), "avx512bf16"));
  EXPECT_EQ(featuresOf("x86-64-v3,+emulated-amx"), KILN_CPU_V3);
  auto problemOf = [](llvm::StringRef cpu) {
    llvm::Expected<CPUInfo> info = CPUInfo::get(cpu);
    return info ? "" : llvm::toString(info.takeError());
  };
  EXPECT_EQ(problemOf("x86-64-v4,+amx-tiles"), "unknown feature '+amx-tiles' of a CPU");
  EXPECT_EQ(problemOf("x86-64-v4,amx-tile"),
            "'amx-tile' behind the name of a CPU: expected +FEATURE or -FEATURE");
  EXPECT_EQ(problemOf("x86-64-v4,-avx2"), "CPU 'x86-64-v4' is below x86-64-v3");
}

} // namespace
