// Decides whether a candidate is faster than another one by more than noise.
#include "Duel.h"
#include <algorithm>
#include <cmath>

using namespace kiln::tune;

/// A coin is as far away once in 4000 times. The test is looked at after each round, and so comes
/// there more often, in about one of 200 duels of a hundred rounds.
static constexpr double farAway = 3.5;

void Duel::add(double before, double after) {
  ratios.push_back(after / before);
  wins += ratios.back() < 1 - leastGain;
  leastBefore = std::min(leastBefore, before);
  leastAfter = std::min(leastAfter, after);
}

double Duel::getDeviations() const {
  auto rounds = static_cast<double>(ratios.size());
  return (static_cast<double>(wins) - rounds / 2) / (std::sqrt(rounds) / 2);
}

bool Duel::isWon() const {
  return ratios.size() >= leastRounds && getDeviations() >= farAway && getRatio() < 1 - leastGain;
}

bool Duel::isLost() const { return ratios.size() >= leastRounds && getDeviations() <= -farAway; }

double Duel::getRatio() const {
  if (ratios.empty())
    return 1;
  std::vector<double> sorted = ratios;
  auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::max(*middle, leastAfter / leastBefore);
}
