// The properties of a CPU that code generation needs.
#ifndef KILN_CODEGEN_CPUINFO_H
#define KILN_CODEGEN_CPUINFO_H

#include "mlir/IR/Types.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>

namespace llvm {
class TargetMachine;
}

namespace kiln::codegen {

enum class OptLevel { O0, O1, O2, O3 };

struct CPUInfo {
  /// As asked for: `get(name)` gives this again.
  std::string name;
  std::string triple;
  /// LLVM's name of the CPU, never "native".
  std::string cpu;
  /// LLVM's feature string beyond what `cpu` implies: only set for the host, whose hypervisor may
  /// hide features of the CPU it names.
  std::string features;

  // Every CPU has AVX2, FMA and F16C.
  bool avx512 = false; // F, BW, DQ and VL
  bool avx512bf16 = false, avx512fp16 = false, avx512vnni = false;
  bool fastGather = false;

  /// Bytes of a vector register: 64 with AVX-512, otherwise 32.
  unsigned vectorBytes = 32;
  unsigned numVectorRegisters = 16;
  int64_t l1Bytes = 32 << 10, l2Bytes = 1 << 20, l3Bytes = 16 << 20;

  /// Elements of `type` in a vector register; 1 for types that vectors cannot hold (complex).
  int64_t lanes(mlir::Type type) const;

  /// `cpu` is an LLVM CPU name (`znver4`), a level (`x86-64-v3`) or `native`, the machine that this
  /// runs on. An unknown name, or one below x86-64-v3, is an error that says so. Tests of code for
  /// lesser CPUs than this machine's set KILN_TEST_CPU to what `native` is to be.
  static llvm::Expected<CPUInfo> get(llvm::StringRef cpu);

  /// For code that runs while the compiler does: `get(cpu)` if this machine has all that it asks
  /// for, otherwise `native`.
  static llvm::Expected<CPUInfo> getRunnable(llvm::StringRef cpu);

  /// Position-independent code for this CPU; a new machine each time, for use on one thread.
  std::unique_ptr<llvm::TargetMachine> createTargetMachine(OptLevel level) const;
};

} // namespace kiln::codegen

#endif // KILN_CODEGEN_CPUINFO_H
