// Runs of a whole program, one kernel after the other.
#ifndef KILN_AOT_TUNE_REPLAY_H
#define KILN_AOT_TUNE_REPLAY_H

#include "Bench.h"
#include "Duel.h"

namespace kiln::tune {

/// Times kernels where a run of the model has them: code, weights and activations of the kernels in
/// front have been in the caches meanwhile.
class Replay {
public:
  /// `results` say what cannot be run, and which candidate challenges the first one: the best.
  Replay(const tuning::Manifest &manifest, const Library &library, Machine &machine,
         llvm::ArrayRef<tuning::KernelResult> results);

  /// `seconds` is about the time that it may take.
  void run(double seconds);

  bool isWon(size_t kernel) const { return duels[kernel].isWon(); }
  double getRatio(size_t kernel) const { return duels[kernel].getRatio(); }
  /// Seconds of a launch with the first candidate.
  double getSeconds(size_t kernel) const {
    return duels[kernel].getLeastBefore() / double(launches[kernel]);
  }

private:
  bool isDecided() const;
  /// Adds up what each kernel takes in a run with the first candidates, or with the challengers.
  std::vector<double> time(bool challenged);

  const tuning::Manifest &manifest;
  Machine &machine;
  std::vector<std::unique_ptr<Bench>> benches; // null: the kernel cannot be run
  std::vector<size_t> launches, challengers;
  std::vector<Duel> duels;
};

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_REPLAY_H
