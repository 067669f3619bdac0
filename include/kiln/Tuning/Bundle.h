// Files between the compiler and aot-tune: a bundle of kernels to measure, and what was measured.
// Depends on LLVM's support library alone, so that aot-tune has nothing of the compiler.
//
// A bundle is a library of steps (runtime/steps.c), one for each candidate, and behind it the
// manifest, as JSON, that says what they are (docs/autotuning.md).
#ifndef KILN_TUNING_BUNDLE_H
#define KILN_TUNING_BUNDLE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <cstdint>
#include <string>
#include <vector>

namespace kiln::tuning {

/// A tensor that a kernel is given.
struct Buffer {
  uint8_t code = 0, bits = 0; // DLPack's
  std::vector<int64_t> sizes;
  bool isResult = false;
  /// A weight, which a model reads once in a run.
  bool isConstant = false;

  /// Nullopt: more than can be.
  std::optional<uint64_t> getBytes() const;
};

struct Candidate {
  std::string schedule;
  std::string step;
  /// Values of the symbols that the step computes with, in its order.
  std::vector<int64_t> symbols;
};

struct Kernel {
  /// The name in the program, for people.
  std::string name;
  /// Equal for kernels that compute the same on the same sizes, for the same target.
  std::string key;
  std::vector<Buffer> buffers;
  /// The first one is what the others are compared with.
  std::vector<Candidate> candidates;
};

struct Manifest {
  std::string compiler, target;
  /// Instruction sets that the host's code may use, as LLVM calls them.
  std::vector<std::string> features;
  /// The kind of GPU that the kernels are for (`sm_90`); empty: the host.
  std::string architecture;
  /// 0: all cores.
  int64_t threads = 0;
  /// Bytes of weights that a run of the model reads: what is in no cache when a kernel begins.
  int64_t weightBytes = 0;
  std::vector<Kernel> kernels;
  /// Kernels in the order of a run. If there are any, runs with the first candidates and with the
  /// fastest ones are timed, too; kernels of two candidates in nothing but runs.
  std::vector<int64_t> sequence;
};

/// The result of a candidate.
struct Outcome {
  std::string schedule;
  /// Its time as a part of the first candidate's; 0 if it failed.
  double ratio = 0;
  /// The reason why it cannot be used; empty: it can.
  std::string failure;
};

struct KernelResult {
  std::string name, key;
  /// Taken by the first candidate.
  double seconds = 0;
  /// The candidate to take. 0: none is faster than the first by more than noise.
  int64_t best = 0;
  std::vector<Outcome> candidates;
  /// The reason why nothing could be measured; empty: something was.
  std::string failure;
};

struct Results {
  std::string compiler, target;
  /// The CPU or GPU that they were measured on.
  std::string device;
  int64_t threads = 0;
  std::vector<KernelResult> kernels;
};

/// The model of this machine's CPU.
std::string describeCPU();

/// Puts the manifest behind the library at `path`.
llvm::Error appendManifest(llvm::StringRef path, const Manifest &manifest);
/// Reads a file that is whole; any other is an error of one line that names it.
llvm::Expected<Manifest> readManifest(llvm::StringRef path);

std::string printResults(const Results &results);
llvm::Expected<Results> readResults(llvm::StringRef path);

/// `text` with a hash in front, and back; nullopt if the hash is not the text's.
std::string seal(llvm::StringRef text);
std::optional<llvm::StringRef> unseal(llvm::StringRef sealed);

} // namespace kiln::tuning

#endif // KILN_TUNING_BUNDLE_H
