// The schedules that have been chosen, for one value of each size or for several of one.
#ifndef KILN_LIB_TUNING_CHOICES_H
#define KILN_LIB_TUNING_CHOICES_H

#include "KernelSet.h"
#include "llvm/ADT/MapVector.h"

namespace kiln::tuning {

/// The values that one symbol is given; none: each symbol has a single one.
struct Points {
  std::string symbol;
  std::vector<int64_t> values;

  size_t size() const { return std::max<size_t>(values.size(), 1); }
  /// At least zero for the sizes that are closer to this point than to those below, as ratios.
  sym::Expr getCondition(size_t point) const;
};

/// An error: the program has no such symbol, or two have several values.
llvm::Expected<Points> getPoints(mlir::ModuleOp module, const Options &options);

/// Kernels get one schedule, or become several kernels that launches choose between.
class Choices {
public:
  Choices(mlir::ModuleOp module, Bundler &bundler, const Points &points)
      : module(module), bundler(bundler), points(points) {}

  /// `why` is for remarks.
  void set(kernel::FuncOp func, size_t point, kernel::ScheduleAttrInterface schedule,
           const std::string &why);
  void apply();

private:
  struct Choice {
    kernel::ScheduleAttrInterface schedule;
    std::string why;
  };
  /// Gives `func` a schedule.
  void schedule(kernel::FuncOp func, const Choice &choice, llvm::StringRef range);
  void apply(kernel::FuncOp func, llvm::ArrayRef<Choice> chosen);

  mlir::ModuleOp module;
  Bundler &bundler;
  const Points &points;
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<Choice>> all;
};

} // namespace kiln::tuning

#endif // KILN_LIB_TUNING_CHOICES_H
