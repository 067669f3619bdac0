// One kernel on synthetic data: candidates are tried one by one, then timed in turns.
#ifndef KILN_AOT_TUNE_BENCH_H
#define KILN_AOT_TUNE_BENCH_H

#include "Library.h"
#include "Machine.h"
#include "kiln/Tuning/Bundle.h"
#include <memory>

namespace kiln::tune {

/// The most memory that kernels may need at the same time.
constexpr uint64_t mostMemory = uint64_t(8) << 30;

/// Fills a tensor with values in [-1, 1], or with an integer.
void fill(const tuning::Buffer &buffer, void *data, int64_t integer);

/// Tensors of the same kind have other contents, beyond what rounding does.
bool differ(const tuning::Buffer &buffer, const char *a, const char *b);

/// Times of candidates, as parts of the first one's.
struct Timing {
  double seconds = 0; // of the first one
  std::vector<double> ratios;
  size_t best = 0;
};

class Bench {
public:
  /// Allocates and fills the kernel's buffers, with no more than so many copies of the weights.
  /// `weightBytes` are those of the whole model.
  static llvm::Expected<std::unique_ptr<Bench>> create(const tuning::Kernel &kernel,
                                                       const Library &library, Machine &machine,
                                                       int64_t weightBytes,
                                                       uint64_t mostCopies = 4096);
  ~Bench();

  /// Runs a candidate for the first time; an error is why it cannot be used. The first candidate's
  /// results are what the others' must be.
  llvm::Error tryOut(size_t candidate);

  /// Times these candidates; the first one is among them. `seconds` is about the time that it may
  /// take.
  Timing time(llvm::ArrayRef<size_t> candidates, double seconds);

  /// Starts a run, of which nobody asks what becomes of it.
  void start(size_t candidate) { consumeError(run(candidate)); }

private:
  Bench(const tuning::Kernel &kernel, const Library &library, Machine &machine)
      : kernel(kernel), library(library), machine(machine) {}
  llvm::Error allocate(int64_t weightBytes, uint64_t mostCopies);
  void fillOperands(int64_t integer);
  void poisonResults();
  std::vector<char> readResult(const DLTensor &tensor, uint64_t bytes) const;
  llvm::Error run(size_t candidate);
  /// Seconds of a run, the mean of several.
  double sample(size_t candidate, unsigned count);
  /// The kernel's results differ from the first candidate's.
  bool differs() const;

  const tuning::Kernel &kernel;
  const Library &library;
  Machine &machine;
  std::vector<int32_t> steps;
  std::vector<void *> memory;
  /// Weights come from other memory in each run, as in a model they do from outside of the caches.
  std::vector<std::vector<DLTensor>> sets;
  std::vector<std::vector<const DLTensor *>> tensors;
  std::vector<std::vector<char>> expected; // of each result
  size_t turn = 0;
};

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_BENCH_H
