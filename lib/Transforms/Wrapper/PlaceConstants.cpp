#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/MathExtras.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERPLACECONSTANTS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

/// What a change of parameters and buffers changes.
class Dependences {
public:
  explicit Dependences(ProgramOp program) {
    torch::StateNames state(program->getParentOfType<ModuleOp>());
    Block &body = program.getBody().front();
    unsigned count = 0;
    for (ConstantOp constant : body.getOps<ConstantOp>())
      if (state.contains(constant.getName()))
        numbers[constant] = count++;
    for (auto [constant, number] : numbers)
      sets.try_emplace(constant, count).first->second.set(number);
    for (FoldOp fold : body.getOps<FoldOp>()) {
      llvm::BitVector all = of(fold);
      for (Value out : fold.getOuts())
        sets[out] = all;
    }
  }

  /// What `fold` depends on, by number.
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
  DenseMap<Value, unsigned> numbers;
  DenseMap<Value, llvm::BitVector> sets;
};

struct PlaceConstants : kiln::impl::WrapperPlaceConstantsBase<PlaceConstants> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    Builder builder(&getContext());
    Dependences dependences(program);
    dropFolds(dependences);
    // Who replaces a named constant replaces only that one; what is written to is never shared, nor
    // is what a fold makes, which changes with what it is made of.
    DenseMap<std::pair<Attribute, Attribute>, int64_t> places;
    int64_t end = 0;
    for (ConstantOp constant : program.getBody().front().getOps<ConstantOp>()) {
      if (!needsPlace(constant, dependences))
        continue;
      std::optional<int64_t> bytes = constant.getType().getBytes().constant();
      if (!bytes || *bytes > INT64_MAX - end - bufferAlignment) {
        constant.emitError("the weights are larger than 64 bits can address");
        return signalPassFailure();
      }
      int64_t next = end + llvm::alignTo(*bytes, bufferAlignment);
      int64_t place = end;
      if (!constant.getMutated() && !isFolded(constant))
        place =
            places.try_emplace({constant.getValue(), constant.getNameAttr()}, end).first->second;
      if (place == end)
        end = next;
      constant.setOffsetAttr(builder.getI64IntegerAttr(place));
    }
    program.setWeightsBytesAttr(builder.getI64IntegerAttr(end));
  }

  /// Folds that depend on nothing that can be replaced, or make what nothing reads any more.
  void dropFolds(const Dependences &dependences) {
    SmallVector<FoldOp> folds(getOperation().getBody().front().getOps<FoldOp>());
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

  static bool isFolded(ConstantOp constant) {
    return llvm::any_of(constant->getUses(), [](OpOperand &use) {
      auto fold = dyn_cast<FoldOp>(use.getOwner());
      return fold && use.getOperandNumber() >= fold.getIns().size();
    });
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
