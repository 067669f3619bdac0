// kernel-merge-equal: computes only once what equal ops compute. MLIR's own pass tells ops with
// regions apart by comparing each with all others that have its operands and types, and structured
// ops have no operands.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/ScopedHashTable.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELMERGEEQUAL
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// Hashes an op with all that is in its regions, where values are numbered in order.
class Hasher {
public:
  llvm::hash_code operator()(Operation *op) {
    auto hash = OperationEquivalence::computeHash(
        op, [&](Value operand) { return hashValue(operand); },
        [](Value) { return llvm::hash_code(0); }, OperationEquivalence::IgnoreLocations);
    for (Value result : op->getResults())
      define(result);
    for (Region &region : op->getRegions())
      for (Block &block : region) {
        for (BlockArgument argument : block.getArguments()) {
          hash = llvm::hash_combine(hash, argument.getType());
          define(argument);
        }
        for (Operation &inner : block)
          hash = llvm::hash_combine(hash, (*this)(&inner));
      }
    return hash;
  }

private:
  void define(Value value) { numbers.try_emplace(value, numbers.size()); }

  llvm::hash_code hashValue(Value value) const {
    auto number = numbers.find(value);
    return number == numbers.end() ? hash_value(value) : llvm::hash_value(number->second);
  }

  llvm::SmallDenseMap<Value, size_t, 8> numbers;
};

struct OperationInfo : llvm::DenseMapInfo<Operation *> {
  static unsigned getHashValue(const Operation *op) {
    return static_cast<unsigned>(size_t(Hasher()(const_cast<Operation *>(op))));
  }
  static bool isEqual(const Operation *a, const Operation *b) {
    if (a == b || a == getTombstoneKey() || a == getEmptyKey() || b == getTombstoneKey() ||
        b == getEmptyKey())
      return a == b;
    return OperationEquivalence::isEquivalentTo(const_cast<Operation *>(a),
                                                const_cast<Operation *>(b),
                                                OperationEquivalence::IgnoreLocations);
  }
};

struct MergeEqual : kiln::impl::KernelMergeEqualBase<MergeEqual> {
  using Known = llvm::ScopedHashTable<Operation *, Operation *, OperationInfo>;

  void runOnOperation() override {
    Known known;
    for (Region &region : getOperation()->getRegions())
      run(region, known);
  }

  static void run(Region &region, Known &known) {
    for (Block &block : region) {
      Known::ScopeTy scope(known);
      for (Operation &op : llvm::make_early_inc_range(block))
        run(op, known);
    }
  }

  static void run(Operation &op, Known &known) {
    if (isOpTriviallyDead(&op))
      return op.erase();
    if (op.hasTrait<OpTrait::IsIsolatedFromAbove>()) {
      Known inside;
      for (Region &region : op.getRegions())
        run(region, inside);
      return;
    }
    for (Region &region : op.getRegions())
      run(region, known);
    if (op.hasTrait<OpTrait::IsTerminator>() || !isMemoryEffectFree(&op))
      return;
    Operation *equal = known.lookup(&op);
    if (!equal)
      return known.insert(&op, &op);
    if (isa<UnknownLoc>(equal->getLoc()))
      equal->setLoc(op.getLoc());
    op.replaceAllUsesWith(equal);
    op.erase();
  }
};

} // namespace
