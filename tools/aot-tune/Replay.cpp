// Times the candidates of all kernels of a program in runs of that program.
//
// Runs with the first candidates and with the challengers take turns. The launches of a kernel are
// timed one by one and added up; a duel decides for each kernel on its own.
#include "Replay.h"
#include <chrono>

using namespace llvm;
using namespace kiln;
using namespace kiln::tune;

Replay::Replay(const tuning::Manifest &manifest, const Library &library, Machine &machine,
               ArrayRef<tuning::KernelResult> results)
    : manifest(manifest), machine(machine), launches(results.size()), duels(results.size()) {
  for (int64_t kernel : manifest.sequence)
    ++launches[static_cast<size_t>(kernel)];
  for (auto [k, result] : enumerate(results)) {
    challengers.push_back(static_cast<size_t>(result.best));
    benches.emplace_back();
    if (!launches[k] || !result.failure.empty())
      continue;
    // Each launch has weights of its own.
    Expected<std::unique_ptr<Bench>> bench =
        Bench::create(manifest.kernels[k], library, machine, manifest.weightBytes, launches[k]);
    Error error = bench ? (*bench)->tryOut(0) : bench.takeError();
    if (!error && challengers[k])
      error = (*bench)->tryOut(challengers[k]);
    if (error)
      consumeError(std::move(error));
    else
      benches[k] = std::move(*bench);
  }
}

std::vector<double> Replay::time(bool challenged) {
  std::vector<double> seconds(benches.size());
  std::vector<size_t> timed;
  machine.start();
  machine.mark();
  for (int64_t number : manifest.sequence) {
    auto k = static_cast<size_t>(number);
    if (!benches[k])
      continue;
    benches[k]->start(challenged ? challengers[k] : 0);
    machine.mark();
    timed.push_back(k);
  }
  for (auto [k, time] : zip_equal(timed, machine.finish()))
    seconds[k] += time;
  return seconds;
}

bool Replay::isDecided() const {
  for (size_t k = 0; k < benches.size(); ++k)
    if (benches[k] && challengers[k] && !duels[k].isDecided())
      return false;
  return true;
}

void Replay::run(double seconds) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  auto isOver = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() > seconds;
  };
  time(false);
  time(true);
  for (int round = 0; !isDecided() && (round < Duel::leastRounds || !isOver()); ++round) {
    std::vector<double> before, after;
    if (round % 2 == 0)
      before = time(false);
    after = time(true);
    if (round % 2 != 0)
      before = time(false);
    for (size_t k = 0; k < benches.size(); ++k)
      if (benches[k] && challengers[k] && !duels[k].isDecided())
        duels[k].add(before[k], after[k]);
  }
}
