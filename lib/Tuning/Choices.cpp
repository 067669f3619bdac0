// Gives kernels the schedules that have been chosen.
//
// A size that is open may have been measured at several values. Where different schedules are best,
// each becomes a kernel, and launches choose by the size: a range of it ends half way between two
// values, as a ratio.
#include "Choices.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::tuning;

sym::Expr Points::getCondition(size_t point) const {
  double between = std::sqrt(double(values[point - 1]) * double(values[point]));
  return sym::Expr::symbol(symbol) - static_cast<int64_t>(std::ceil(between));
}

llvm::Expected<Points> tuning::getPoints(ModuleOp module, const Options &options) {
  auto program = *module.getOps<wrapper::ProgramOp>().begin();
  DictionaryAttr symbols = program.getSymbolsAttr();
  std::vector<StringRef> names(options.sizes.keys().begin(), options.sizes.keys().end());
  llvm::sort(names);
  Points points;
  for (StringRef name : names) {
    if (!symbols || !symbols.contains(name))
      return llvm::createStringError("--autotune-size=" + name +
                                     ": the program has no size of this name");
    const std::vector<int64_t> &values = options.sizes.find(name)->second;
    if (values.size() == 1)
      continue;
    if (!points.values.empty())
      return llvm::createStringError("--autotune-size=" + name + ": " + points.symbol +
                                     " has several values already, and only one size may");
    points = {name.str(), values};
  }
  return points;
}

void Choices::set(kernel::FuncOp func, size_t point, kernel::ScheduleAttrInterface schedule,
                  const std::string &why) {
  SmallVector<Choice> &chosen = all[func];
  if (chosen.empty())
    chosen.assign(points.size(), {bundler.getSchedule(func), "the planner's schedule"});
  chosen[point] = {schedule, why};
}

void Choices::schedule(kernel::FuncOp func, const Choice &choice, StringRef range) {
  if (choice.schedule != bundler.getSchedule(func))
    bundler.setSchedule(func, choice.schedule);
  else if (range.empty())
    return;
  std::string text = describeSchedule(func);
  if (choice.schedule != func.getScheduleAttr()) // a variant's
    llvm::raw_string_ostream(text) << ", variant " << choice.schedule;
  sayOf(func, "Tuned", text, (range + choice.why).str());
}

void Choices::apply(kernel::FuncOp func, ArrayRef<Choice> chosen) {
  bool isOne = llvm::all_of(
      chosen, [&](const Choice &choice) { return choice.schedule == chosen.front().schedule; });
  if (isOne)
    return schedule(func, chosen.front(), "");
  OpBuilder builder(func.getContext());
  SymbolTable symbols(module);
  SmallVector<std::pair<kernel::ScheduleAttrInterface, kernel::FuncOp>> kernels;
  SmallVector<Attribute> alternatives, when;
  for (auto [point, choice] : llvm::enumerate(chosen)) {
    if (point && choice.schedule == chosen[point - 1].schedule)
      continue;
    auto known = llvm::find_if(kernels, [&](auto &pair) { return pair.first == choice.schedule; });
    kernel::FuncOp kernel = known == kernels.end() ? kernel::FuncOp() : known->second;
    if (!kernel) {
      kernel = cast<kernel::FuncOp>(func->clone());
      kernel.setSymName((func.getSymName() + "_from_" + Twine(points.values[point])).str());
      symbols.insert(kernel, func->getIterator());
      schedule(kernel, choice,
               "from " + points.symbol + " = " + std::to_string(points.values[point]) + " on: ");
      kernels.emplace_back(choice.schedule, kernel);
    }
    alternatives.push_back(FlatSymbolRefAttr::get(kernel));
    if (point)
      when.push_back(sym::ExprAttr::get(func.getContext(), points.getCondition(point)));
  }
  auto uses = SymbolTable::getSymbolUses(func, module);
  for (SymbolTable::SymbolUse use : *uses) {
    auto launch = dyn_cast<wrapper::LaunchOp>(use.getUser());
    if (!launch)
      continue; // folds keep the kernel that it was
    launch.setKernelAttr(cast<FlatSymbolRefAttr>(alternatives.front()));
    launch.setAlternativesAttr(builder.getArrayAttr(ArrayRef(alternatives).drop_front()));
    launch.setWhenAttr(builder.getArrayAttr(when));
  }
  if (SymbolTable::symbolKnownUseEmpty(func, module))
    func.erase();
}

void Choices::apply() {
  for (auto &[func, chosen] : all)
    apply(cast<kernel::FuncOp>(func), chosen);
}
