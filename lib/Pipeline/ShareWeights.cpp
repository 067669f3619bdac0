// One set of weights for several programs: constants that always have the same value become one cell,
// and each cell gets its place in the model's weights.
#include "ShareWeights.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/Weights.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

/// Tells constants apart by their bytes.
class Contents {
public:
  /// The first value that has the same type and bytes.
  ElementsAttr getFirst(ElementsAttr value, const kernel::ConstantBytes &bytes) {
    ArrayRef<char> data = bytes.data();
    uint64_t hash =
        xxh3_64bits(ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(data.data()), data.size()));
    SmallVector<ElementsAttr> &known = values[{value.getType(), hash}];
    for (ElementsAttr other : known) {
      std::optional<kernel::ConstantBytes> others =
          other == value ? bytes : kernel::getConstantBytes(other);
      if (others && others->data() == data)
        return other;
    }
    return known.emplace_back(value);
  }

private:
  llvm::DenseMap<std::pair<Type, uint64_t>, SmallVector<ElementsAttr>> values;
};

class WeightSharer {
public:
  WeightSharer(ArrayRef<host::ModelEntry> entries, ArrayRef<SharedNames> state)
      : entries(entries), state(state) {}

  SharedWeights run() {
    for (auto [i, entry] : llvm::enumerate(entries)) {
      ProgramOp program = entry.program;
      // Others write to what this one may only read.
      for (ConstantOp constant : getConstants(program))
        if (constant.getName() && state[i].contains(*constant.getName()))
          constant.setMutated(true);
      for (ConstantOp constant : getConstants(program))
        if (!isMade(constant))
          assign(constant, describe(constant, i));
      // Each comes after those whose results it reads.
      for (FoldOp fold : getFolds(program))
        assign(fold);
    }
    return place();
  }

private:
  static bool isMade(ConstantOp constant) {
    return llvm::any_of(constant->getUsers(), [&](Operation *user) {
      auto fold = dyn_cast<FoldOp>(user);
      return fold && llvm::is_contained(fold.getOuts(), constant.getResult());
    });
  }

  void assign(ConstantOp constant, StringRef identity) {
    auto [cell, isNew] = identities.try_emplace(identity, members.size());
    if (isNew)
      members.emplace_back();
    shared.cells[constant] = cell->second;
    members[cell->second].push_back(constant);
  }

  /// Equal for constants that have the same value whatever is replaced.
  std::string describe(ConstantOp constant, unsigned entry) {
    std::string type;
    llvm::raw_string_ostream(type) << constant.getType();
    StringRef name = constant.getName().value_or("");
    if (constant.getMutated()) {
      auto group = state[entry].find(name);
      if (!name.empty() && group != state[entry].end())
        return ("shared " + Twine(group->second)).str();
      return ("own " + Twine(entry) + " " + name + " at " +
              Twine(constant.getOffsetAttr().getInt()))
          .str();
    }
    // Who replaces a named constant replaces only that one.
    std::string identity = (Twine(name.empty() ? "data" : "named ") + name + " ").str();
    std::optional<kernel::ConstantBytes> bytes = kernel::getConstantBytes(constant.getValue());
    if (bytes) {
      ElementsAttr value = contents.getFirst(constant.getValue(), *bytes);
      return identity + std::to_string(numbers.try_emplace(value, numbers.size()).first->second);
    }
    // The host gives them, by the name.
    return identity + (name.empty() ? std::to_string(members.size()) + " alone" : type);
  }

  /// Its results are what the same kernel makes of the same constants.
  void assign(FoldOp fold) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(fold, fold.getKernelAttr());
    std::string text = kernel::getFingerprint(kernel) + " of";
    for (Value in : fold.getIns())
      text += " " + std::to_string(shared.cells.lookup(in));
    for (auto [i, out] : llvm::enumerate(fold.getOuts()))
      assign(out.getDefiningOp<ConstantOp>(), "made " + std::to_string(i) + " by " + text);
  }

  /// First what each session has for itself, then what the library carries.
  SharedWeights place() {
    OpBuilder builder(entries.front().program->getContext());
    int64_t end = 0;
    enum Part { State, Known, Later };
    for (Part part : {State, Known, Later}) {
      for (ArrayRef<ConstantOp> cell : members) {
        ConstantOp any = cell.front();
        Part own = any.getMutated() ? State : isLater(any) ? Later : Known;
        if (own != part || llvm::none_of(cell, [](ConstantOp c) { return c.getOffset(); }))
          continue;
        for (ConstantOp constant : cell)
          constant.setOffsetAttr(builder.getI64IntegerAttr(end));
        end += llvm::alignTo(*any.getType().getBytes().constant(), bufferAlignment);
      }
      if (part == Known)
        shared.knownBytes = end;
    }
    for (const host::ModelEntry &entry : entries)
      ProgramOp(entry.program).setWeightsBytesAttr(builder.getI64IntegerAttr(end));
    return std::move(shared);
  }

  ArrayRef<host::ModelEntry> entries;
  ArrayRef<SharedNames> state;
  SharedWeights shared;
  llvm::StringMap<int64_t> identities;             // cells
  std::vector<SmallVector<ConstantOp, 2>> members; // of cells
  Contents contents;
  llvm::DenseMap<Attribute, size_t> numbers; // of values
};

} // namespace

SharedWeights kiln::shareWeights(ArrayRef<host::ModelEntry> entries, ArrayRef<SharedNames> state) {
  if (entries.size() > 1)
    return WeightSharer(entries, state).run();
  SharedWeights alone;
  alone.knownBytes = getKnownWeightsBytes(ProgramOp(entries.front().program));
  return alone;
}

void kiln::unifyConstants(ArrayRef<std::pair<std::string, ModuleOp>> modules) {
  Contents contents;
  llvm::StringMap<ElementsAttr> later;
  for (const auto &module : modules)
    ModuleOp(module.second).walk([&](torch::ConstantOp constant) {
      ElementsAttr value = constant.getValue();
      if (std::optional<kernel::ConstantBytes> bytes = kernel::getConstantBytes(value)) {
        constant.setValueAttr(contents.getFirst(value, *bytes));
      } else if (!kernel::hasConstantBytes(value)) {
        std::string type;
        llvm::raw_string_ostream(type) << constant.getType();
        constant.setValueAttr(
            later.try_emplace((constant.getName() + " " + type).str(), value).first->second);
      }
    });
}

std::string kiln::describeOwnState(ArrayRef<host::ModelEntry> entries,
                                   const SharedWeights &shared) {
  // By name: the first entry that has it, and its cell.
  llvm::MapVector<StringRef, std::pair<StringRef, int64_t>> first;
  llvm::SetVector<StringRef> names;
  std::string text;
  for (const host::ModelEntry &entry : entries)
    for (ConstantOp constant : getConstants(ProgramOp(entry.program))) {
      StringRef name = constant.getName().value_or("");
      if (!constant.getMutated() || name.empty() || name == "kiln.random")
        continue;
      int64_t cell = shared.cells.lookup(constant);
      auto [known, isNew] = first.try_emplace(name, entry.name, cell);
      if (isNew || known->second.second == cell || !names.insert(name) || names.size() > 1)
        continue;
      text = ("' is a buffer of the entry '" + known->second.first + "' and another one of '" +
              entry.name + "'")
                 .str();
    }
  if (names.empty())
    return "";
  std::string more =
      names.size() > 1 ? (" (as " + Twine(names.size() - 1) + " more)").str() : std::string();
  return ("'" + names.front() + text + more + ": --share-state=" + names.front() +
          " makes them one")
      .str();
}
