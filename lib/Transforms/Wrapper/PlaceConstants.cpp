// Gives each constant that the library has to carry its place among the weights.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/Refusal.h"
#include "kiln/Dialect/Wrapper/Weights.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERPLACECONSTANTS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

/// The constants and folds that a change of parameters and buffers changes.
class Dependences {
public:
  explicit Dependences(ProgramOp program) {
    torch::StateNames state(program->getParentOfType<ModuleOp>());
    // A parameter is one, in however many functions it is used.
    llvm::StringMap<unsigned> numbers;
    SmallVector<ConstantOp> constants = getConstants(program);
    for (ConstantOp constant : constants)
      if (state.contains(constant.getName()))
        numbers.try_emplace(*constant.getName(), numbers.size());
    for (ConstantOp constant : constants)
      if (state.contains(constant.getName()))
        sets.try_emplace(constant, numbers.size())
            .first->second.set(numbers.lookup(*constant.getName()));
    for (FoldOp fold : getFolds(program)) {
      llvm::BitVector all = of(fold);
      for (Value out : fold.getOuts())
        sets[out] = all;
    }
  }

  /// The constants that `fold` depends on, by number.
  llvm::BitVector of(FoldOp fold) const {
    llvm::BitVector all;
    for (Value in : fold.getIns())
      if (auto set = sets.find(in); set != sets.end())
        all |= set->second;
    return all;
  }

  /// Whether something can change what `fold` makes and leave what `constant` holds: then there
  /// must be a `constant` to read.
  bool dependsOnMore(FoldOp fold, ConstantOp constant) const {
    auto set = sets.find(constant);
    return set == sets.end() || set->second != of(fold);
  }

private:
  DenseMap<Value, llvm::BitVector> sets;
};

struct PlaceConstants : kiln::impl::WrapperPlaceConstantsBase<PlaceConstants> {
  void runOnOperation() override {
    Builder builder(&getContext());
    auto programs = getOperation().getOps<ProgramOp>();
    if (programs.empty())
      return;
    ProgramOp program = *programs.begin();
    Dependences dependences(program);
    dropFolds(program, dependences);
    // A constant with a name has a place wherever it is used, or nowhere.
    llvm::StringSet<> named;
    for (ConstantOp constant : getConstants(program))
      if (constant.getName() && needsPlace(constant, dependences))
        named.insert(*constant.getName());
    // Constants that are written to are never shared.
    DenseMap<Value, Attribute> identities = identify(program);
    DenseMap<Attribute, int64_t> places;
    int64_t end = 0;
    auto place = [&](ConstantOp constant) {
      if (constant.getName() ? !named.contains(*constant.getName())
                             : !needsPlace(constant, dependences))
        return WalkResult::advance();
      std::optional<int64_t> bytes = constant.getType().getBytes().constant();
      if (!bytes || *bytes > INT64_MAX - end - bufferAlignment) {
        emitRefusal(constant, "the weights are larger than 64 bits can address");
        return WalkResult::interrupt();
      }
      int64_t next = end + llvm::alignTo(*bytes, bufferAlignment);
      int64_t offset = end;
      if (!constant.getMutated())
        offset = places.try_emplace(identities.lookup(constant), end).first->second;
      if (offset == end)
        end = next;
      constant.setOffsetAttr(builder.getI64IntegerAttr(offset));
      return WalkResult::advance();
    };
    // First what each session has for itself, then what the library carries.
    enum Part { State, Known, Later };
    auto getPart = [](ConstantOp constant) {
      return constant.getMutated() ? State : isLater(constant) ? Later : Known;
    };
    for (Part part : {State, Known, Later})
      if (getOperation()
              ->walk([&](ConstantOp constant) {
                return getPart(constant) == part ? place(constant) : WalkResult::advance();
              })
              .wasInterrupted())
        return signalPassFailure();
    program.setWeightsBytesAttr(builder.getI64IntegerAttr(end));
  }

  /// Folds that depend on nothing that can be replaced, or make what nothing reads any more.
  static void dropFolds(ProgramOp program, const Dependences &dependences) {
    SmallVector<FoldOp> folds = getFolds(program);
    for (FoldOp fold : llvm::reverse(folds)) {
      bool isRead = llvm::any_of(fold.getOuts(), [](Value out) { return !out.hasOneUse(); });
      if (isRead && dependences.of(fold).any())
        continue;
      SmallVector<Value> constants(fold.getOperands());
      fold.erase();
      for (Value value : constants)
        if (auto constant = value.getDefiningOp<ConstantOp>(); constant && value.use_empty())
          constant.erase();
    }
  }

  /// Equal for constants that stay equal whatever is replaced. Who replaces a named constant
  /// replaces only that one; what a fold makes changes with what it is made of.
  static DenseMap<Value, Attribute> identify(ProgramOp program) {
    Builder builder(program.getContext());
    DenseMap<Value, Attribute> identities;
    for (ConstantOp constant : getConstants(program)) {
      SmallVector<Attribute> parts = {constant.getValue()};
      if (constant.getName())
        parts.push_back(constant.getNameAttr());
      identities[constant] = builder.getArrayAttr(parts);
    }
    for (FoldOp fold : getFolds(program)) {
      SmallVector<Attribute> parts = {fold.getKernelAttr(), Attribute()};
      for (Value in : fold.getIns())
        parts.push_back(identities.lookup(in));
      for (auto [i, out] : llvm::enumerate(fold.getOuts())) {
        parts[1] = builder.getI64IntegerAttr(i);
        identities[out] = builder.getArrayAttr(parts);
      }
    }
    return identities;
  }

  static bool needsPlace(ConstantOp constant, const Dependences &dependences) {
    if (constant.getMutated() || constant->use_empty())
      return true;
    return llvm::any_of(constant->getUses(), [&](OpOperand &use) {
      auto fold = dyn_cast<FoldOp>(use.getOwner());
      return !fold || (use.getOperandNumber() < fold.getIns().size() &&
                       dependences.dependsOnMore(fold, constant));
    });
  }
};

} // namespace
