// Two candidates that take turns: the first one and one that is to replace it.
#ifndef KILN_AOT_TUNE_DUEL_H
#define KILN_AOT_TUNE_DUEL_H

#include <cstddef>
#include <vector>

namespace kiln::tune {

/// A sequential sign test. The question of a round is whether the challenger saves more than
/// `leastGain`: a coin would say yes in half of them if it saved exactly that. The duel goes on until
/// the number of yeses is so far from half that a coin would hardly ever have made it.
class Duel {
public:
  /// The part of the time that a challenger must save.
  static constexpr double leastGain = 0.005;
  static constexpr int leastRounds = 15;

  void add(double before, double after);
  bool isDecided() const { return isWon() || isLost(); }
  bool isWon() const;
  bool isLost() const;
  /// The challenger's time as a part of the first one's: by the median of the rounds, or by the
  /// least times if they are closer to each other, since noise seldom makes both small.
  double getRatio() const;
  double getLeastBefore() const { return leastBefore; }

private:
  /// Standard deviations of the number of yeses from half of the rounds.
  double getDeviations() const;

  size_t wins = 0;
  std::vector<double> ratios;
  double leastBefore = 1e30, leastAfter = 1e30;
};

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_DUEL_H
