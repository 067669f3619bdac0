// The properties of a CPU that planning and code generation need.
#ifndef KILN_CODEGEN_CPUINFO_H
#define KILN_CODEGEN_CPUINFO_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>

namespace llvm {
class TargetMachine;
}

namespace kiln::codegen {

enum class OptLevel { O0, O1, O2, O3 };
/// The level of LLVM's code generators.
llvm::CodeGenOptLevel getCodeGenLevel(OptLevel level);

/// The numbers of a CPU that kernels are planned with; `#cpu.target` has them in the IR, where they
/// are described. Defaults are those that plans have been made with on Zen 5, with AVX2.
struct CPUModel {
  int64_t vectorBytes = 32, vectorRegisters = 16;
  int64_t l1Bytes = 32 << 10, l2Bytes = 1 << 20, cacheLine = 64, setPeriod = 512;
  int64_t clock = 3000, memoryRate = 20000;
  int64_t fmaUnits = 2, fmaLatency = 4, tileCycles = 16;
  int64_t opRate = 2, accessCost = 2, elementCost = 1, functionCost = 12, stepCost = 8;
  int64_t cores = 8, maxTasks = 128, taskTime = 100, leastTask = 10, taskCycles = 16384;
  int64_t tileSums = 24, openTile = 14, unroll = 12, shortBody = 24, shortSum = 64, longSum = 256,
          openSum = 512;
  int64_t fewestRows = 144, manyRows = 256, longAxis = 256, epilogueOps = 400;
  int64_t fetchStreams = 0;

  bool operator==(const CPUModel &) const = default;

  double hertz() const { return double(clock) * 1e6; }
  double memoryBytesPerSecond() const { return double(memoryRate) * 1e6; }
  double taskSeconds() const { return double(taskTime) / 1e6; }
  double leastTaskSeconds() const { return double(leastTask) / 1e6; }
  /// Beyond this a single row is divided among tasks.
  double maxRowCycles() const { return 4 * double(taskCycles); }
};
llvm::hash_code hash_value(const CPUModel &model);

/// A number of a CPUModel: its name in `#cpu.target` and `--cpu-tune`, and what it may be.
struct CPUNumber {
  llvm::StringLiteral name;
  int64_t CPUModel::*value;
  int64_t least, most;

  /// Empty if `number` may be this one's value, otherwise why not.
  std::string check(int64_t number) const;
};
llvm::ArrayRef<CPUNumber> getCPUNumbers();
/// Null if there is none of that name.
const CPUNumber *findCPUNumber(llvm::StringRef name);

struct CPUInfo : CPUModel {
  /// As asked for: `get(name, tuning)` gives this again.
  std::string name, tuning;
  std::string triple;
  /// LLVM's name of the CPU, never "native".
  std::string cpu;
  /// LLVM's feature string beyond what `cpu` implies: of the host, whose hypervisor may hide
  /// features of the CPU it names, and those asked for.
  std::string features;

  // Every CPU has AVX2, FMA and F16C.
  bool avx512 = false; // F, BW, DQ and VL
  bool avx512bf16 = false, avx512fp16 = false, avx512vnni = false;
  bool avxvnni = false;
  // Tiles (AMX), and products of them.
  bool amxBf16 = false, amxInt8 = false;
  /// Instructions for tiles are calls of functions that do the same, in a file that the model is
  /// linked with: tests have one.
  bool emulatesTiles = false;
  bool fastGather = false;

  /// Elements of `type` in a vector register; 1 for types that vectors cannot hold (complex).
  int64_t lanes(mlir::Type type) const;

  /// `cpu` is an LLVM CPU name (`znver4`), a level (`x86-64-v3`) or `native`, the machine that this
  /// runs on; behind it may be features that it has, too, or has not (`sapphirerapids,-amx-tile`).
  /// An unknown name, or one below x86-64-v3, is an error that says so. Tests of code for
  /// lesser CPUs than this machine's set KILN_TEST_CPU to what `native` is to be. `tuning` has
  /// numbers to take the place of the CPU's: `l2=2097152,clock=4000`.
  static llvm::Expected<CPUInfo> get(llvm::StringRef cpu, llvm::StringRef tuning = "");

  /// For code that runs while the compiler does: `get(cpu)` if this machine has all that it asks
  /// for, otherwise `native`.
  static llvm::Expected<CPUInfo> getRunnable(llvm::StringRef cpu);

  /// Why kernels for this CPU cannot be planned with `model`; empty: they can.
  std::string check(const CPUModel &model) const;

  /// Position-independent code for this CPU; a new machine each time, for use on one thread.
  std::unique_ptr<llvm::TargetMachine> createTargetMachine(OptLevel level) const;
};

} // namespace kiln::codegen

#endif // KILN_CODEGEN_CPUINFO_H
