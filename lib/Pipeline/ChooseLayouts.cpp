// Measures layouts of the operands of contracts, before they are prepared for a target.
//
// A contract becomes a program of its own, whose other inputs are synthetic: what is packed or copied
// while it runs is part of its time, what is made of constants is not. It is compiled with each layout,
// and aot-tune times the models in turns. Contracts of one structure are measured once. In the end the
// whole model has to be faster with all that has won than without.
#include "ChooseLayouts.h"
#include "LoneProgram.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Sym/Hints.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Tuning/Duels.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <map>

using namespace mlir;
using namespace kiln;

/// Contracts of a structure that make at least this part of a program's products are measured.
static constexpr double leastShare = 0.03;
/// The part of its time that a layout has to save: kernels around a contract are not there.
static constexpr double leastGain = 0.03;
/// The part of the time for tuning after which no other contract is measured.
static constexpr double mostTime = 0.35;

static bool isConstant(Value value) {
  auto constant = value.getDefiningOp<kernel::ConstantOp>();
  return constant && !constant->hasAttr(kernel::mutatedAttrName) &&
         kernel::hasConstantBytes(constant.getValue());
}

static std::string describe(Attribute layout) {
  std::string text;
  llvm::raw_string_ostream(text) << layout;
  return text;
}

namespace {

/// Contracts of one structure.
struct Contracts {
  SmallVector<kernel::ContractOp> ops;
  SmallVector<Attribute> layouts; // the planned one first
  double products = 0;
};

class LayoutChooser {
public:
  LayoutChooser(ModuleOp module, const Target &target, const CompileOptions &options)
      : module(module), target(target), options(options) {}

  void find() {
    module.walk([&](kernel::ContractOp contract) {
      SmallVector<Attribute> layouts = target.enumerateLayouts(contract);
      std::string key = layouts.size() < 2 ? "" : identify(contract);
      if (key.empty())
        return;
      Contracts &same = found[key];
      same.ops.push_back(contract);
      same.layouts = std::move(layouts);
      same.products += countProducts(contract);
    });
  }

  void measure() {
    double all = 0;
    for (auto &[key, same] : found)
      all += same.products;
    SmallVector<std::pair<StringRef, Contracts *>> order;
    for (auto &[key, same] : found)
      if (same.products >= leastShare * all)
        order.emplace_back(key, &same);
    llvm::sort(order, [](auto &a, auto &b) {
      return std::pair(-a.second->products, a.first) < std::pair(-b.second->products, b.first);
    });
    for (auto &[key, same] : order)
      measure(key, *same);
    verify();
  }

  void apply(const llvm::StringMap<std::string> &layouts) {
    for (auto &[key, same] : found)
      if (auto layout = layouts.find(key); layout != layouts.end())
        for (kernel::ContractOp contract : same.ops)
          target.setLayout(contract, parseAttribute(layout->second, module.getContext()));
  }

  const llvm::StringMap<std::string> &getChosen() const { return chosen; }

  double secondsSince() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

private:
  size_t numPoints() const {
    size_t most = 1;
    for (const auto &size : options.tuning.sizes)
      most = std::max(most, size.second.size());
    return most;
  }

  std::optional<int64_t> getSize(StringRef symbol, size_t point) const {
    return getTunedSize(module, options.tuning, symbol, point);
  }

  double countProducts(kernel::ContractOp contract) const {
    // The operand on the right is read even if there are few rows.
    constexpr double fewRows = 16;
    auto count = [&](sym::ShapeAttr sizes) {
      return static_cast<double>(
          sym::product(sizes.getSizes())
              .evaluate([&](sym::Expr leaf) { return getSize(leaf.symbolName(), 0).value_or(1); })
              .value_or(1));
    };
    return count(contract.getBatch()) * std::max(count(contract.getM()), fewRows) *
           count(contract.getN()) * count(contract.getK());
  }

  /// A program that is the contract alone; null: the value of a size is not known.
  OwningOpRef<ModuleOp> makeProgram(kernel::ContractOp contract, Attribute layout, size_t point,
                                    bool hasConstants) {
    llvm::SetVector<Value> used;
    getUsedValuesDefinedAbove(contract->getRegions(), used);
    SmallVector<Value> inputs;
    SmallVector<kernel::ConstantOp> constants;
    for (Value value : used) {
      if (!isa<RankedTensorType>(value.getType()))
        return {};
      if (hasConstants && isConstant(value))
        constants.push_back(value.getDefiningOp<kernel::ConstantOp>());
      else
        inputs.push_back(value);
    }
    LoneProgram program(contract, inputs, contract->getResultTypes());
    for (kernel::ConstantOp constant : constants)
      program.mapping.map(constant.getResult(),
                          kernel::ConstantOp::create(program.builder, constant.getLoc(),
                                                     constant.getType(), constant.getValue(),
                                                     StringAttr()));
    auto copy = cast<kernel::ContractOp>(program.builder.clone(*contract, program.mapping));
    if (layout)
      target.setLayout(copy, layout);
    std::string unknown = program.finish(
        copy->getResults(), [](sym::Expr expr) { return expr; },
        [&](StringRef symbol) { return getSize(symbol, point); });
    return unknown.empty() ? std::move(program.module) : OwningOpRef<ModuleOp>();
  }

  /// Equal for contracts of one structure, which differ in weights at most; empty: it cannot be
  /// measured.
  std::string identify(kernel::ContractOp contract) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (size_t point = 0; point < numPoints(); ++point) {
      OwningOpRef<ModuleOp> program = makeProgram(contract, {}, point, /*hasConstants=*/false);
      if (!program)
        return "";
      program->print(stream);
    }
    llvm::SetVector<Value> used;
    getUsedValuesDefinedAbove(contract->getRegions(), used);
    for (Value value : used)
      stream << (isConstant(value) ? 'c' : 't');
    // An open size is planned in another way than a number.
    for (sym::Expr extent : contract.getExtents())
      stream << (extent.isConstant() ? 'n' : 's');
    return llvm::toHex(llvm::BLAKE3::hash<16>(llvm::arrayRefFromStringRef(text)),
                       /*LowerCase=*/true);
  }

  std::string getContext() const {
    const codegen::CPUInfo &host = target.getHost();
    return llvm::formatv("{0}, {1} on {2} {3} {4}, level {5}\n", getCompilerVersion(),
                         options.target, host.cpu, host.tuning, host.features,
                         static_cast<int>(options.level));
  }

  void measure(StringRef key, Contracts &same) {
    kernel::ContractOp contract = same.ops.front();
    std::vector<std::string> texts;
    for (Attribute layout : ArrayRef(same.layouts).drop_front())
      texts.push_back(describe(layout));
    tuning::Duel result;
    for (size_t point = 0; point < numPoints(); ++point) {
      if (point)
        texts = {result.winner};
      std::string whole = getContext() + llvm::formatv("layouts of {0} at {1}\n", key, point).str();
      if (point)
        whole += result.winner;
      auto build = [&](StringRef text, StringRef path) -> llvm::Error {
        Attribute layout =
            text.empty() ? same.layouts.front() : parseAttribute(text, module.getContext());
        OwningOpRef<ModuleOp> program = makeProgram(contract, layout, point, /*hasConstants=*/true);
        llvm::Expected<std::string> lone = writeLone(*program);
        return lone ? compileLone(*lone, options, /*isExtern=*/false, path) : lone.takeError();
      };
      llvm::Expected<tuning::Duel> duel =
          tuning::runDuels({"layout", whole, texts, /*seconds=*/1, leastGain,
                            mostTime * options.tuning.seconds - secondsSince()},
                           options.tuning, build);
      if (!duel)
        return say(contract, "layout not tuned", llvm::toString(duel.takeError()));
      result = std::move(*duel);
      if (result.winner.empty())
        return say(contract, "layout kept as planned",
                   !result.failure.empty() ? result.failure : "no other one is faster");
    }
    chosen[key] = result.winner;
    ratios[key] = result.ratio;
  }

  /// Gives all up unless the model is faster with them, at each of the sizes.
  void verify() {
    if (chosen.empty())
      return;
    std::string failure;
    double ratio = 0;
    for (size_t point = 0; point < numPoints() && failure.empty(); ++point) {
      llvm::Expected<tuning::Duel> duel = runModels(point);
      if (!duel) {
        failure = llvm::toString(duel.takeError());
        continue;
      }
      ratio = std::max(ratio, duel->ratio);
      if (duel->winner.empty())
        failure = !duel->failure.empty()
                      ? duel->failure
                      : llvm::formatv("the model with all such layouts {0:f2}", duel->ratio).str();
    }
    for (auto &[key, same] : found)
      if (auto layout = chosen.find(key); layout != chosen.end())
        say(same.ops.front(), (failure.empty() ? "layout " : "not layout ") + layout->second,
            llvm::formatv("alone it takes {0:f2} of the time, ", ratios[key]).str() +
                (failure.empty()
                     ? llvm::formatv("the model with all such layouts {0:f2}", ratio).str()
                     : failure));
    if (!failure.empty())
      chosen.clear();
  }

  /// The model with what has been chosen against the one without.
  llvm::Expected<tuning::Duel> runModels(size_t point) {
    std::string whole = getContext();
    llvm::raw_string_ostream stream(whole);
    stream << "the model at " << point << "\n";
    for (auto &[key, same] : found)
      if (chosen.contains(key))
        stream << key << " has " << chosen[key] << " in " << same.ops.size() << " places\n";
    module->print(stream, OpPrintingFlags().elideLargeElementsAttrs(0).elideLargeResourceString(0));
    tuning::DuelOptions duel = {"layouts", whole, {"chosen"}, /*seconds=*/4};
    if (auto hints = module->getAttrOfType<DictionaryAttr>(sym::hintsAttrName))
      for (NamedAttribute hint : hints)
        if (std::optional<int64_t> size = getSize(hint.getName(), point))
          duel.sizes.push_back((hint.getName().getValue() + "=" + Twine(*size)).str());
    return tuning::runDuels(duel, options.tuning, [&](StringRef challenger, StringRef path) {
      CompileOptions own = options;
      own.tuning = {};
      own.layouts = challenger.empty() ? llvm::StringMap<std::string>() : chosen;
      own.emit = EmitKind::SharedObject;
      own.weights = WeightsPlace::Embedded;
      own.output = path;
      own.report = {};
      own.remarks = {};
      own.saveTemps = "";
      own.debug = {};
      own.timing = nullptr;
      own.instrument = nullptr;
      own.progress = nullptr;
      return compile(own);
    });
  }

  void say(kernel::ContractOp contract, const std::string &text, const std::string &reason) {
    emitRemark(RemarkKind::Chosen, contract, "autotune", "Layout",
               [&] { return RemarkText{text, reason}; });
  }

  ModuleOp module;
  const Target &target;
  const CompileOptions &options;
  llvm::MapVector<std::string, Contracts, std::map<std::string, unsigned>> found;
  llvm::StringMap<std::string> chosen;
  llvm::StringMap<double> ratios;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace

double kiln::chooseLayouts(ModuleOp module, const Target &target, const CompileOptions &options) {
  LayoutChooser chooser(module, target, options);
  chooser.find();
  chooser.measure();
  chooser.apply(chooser.getChosen());
  return chooser.secondsSince();
}

void kiln::setLayouts(ModuleOp module, const Target &target, const CompileOptions &options) {
  LayoutChooser chooser(module, target, options);
  chooser.find();
  chooser.apply(options.layouts);
}
