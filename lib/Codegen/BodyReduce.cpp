// The body emitter's reductions.
#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

void BodyEmitter::emitReduces(ArrayRef<kernel::ReduceOp> candidates) {
  auto isVaryingReduce = [&](kernel::ReduceOp reduce) {
    const Needs &need = needs(reduce);
    return llvm::any_of(need.dims, [&](unsigned dim) { return isVarying(dimValue(dim)); }) ||
           llvm::any_of(need.values, [&](Value value) {
             return isa<VectorType>(values.lookup(value).getType());
           });
  };
  bool varying = isVaryingReduce(candidates.front());
  SmallVector<kernel::ReduceOp> group;
  for (kernel::ReduceOp reduce : candidates)
    if (isVaryingReduce(reduce) == varying)
      group.push_back(reduce);
  Accumulators results;
  {
    // Values that are emitted inside the loops die with them.
    Scope scope(*this);
    results = varying ? reduceVarying(group) : team ? reduceTogether(group) : reduceUniform(group);
  }
  size_t next = 0;
  for (kernel::ReduceOp reduce : group)
    for (Value result : reduce.getResults())
      define(result, results[next++]);
}

BodyEmitter::Accumulators BodyEmitter::combine(ArrayRef<kernel::ReduceOp> group, ValueRange a,
                                               ValueRange b) {
  Accumulators results;
  size_t first = 0;
  for (kernel::ReduceOp reduce : group) {
    Scope scope(*this);
    Block &block = reduce.getCombine().front();
    size_t count = reduce.getNumResults();
    for (size_t i = 0; i < count; ++i) {
      define(block.getArgument(i), a[first + i]);
      define(block.getArgument(count + i), b[first + i]);
    }
    first += count;
    for (Operation &op : block.without_terminator())
      emitElementwise(&op, values, [&](Value from, Value to) { define(from, to); });
    for (Value operand : block.getTerminator()->getOperands())
      results.push_back(values.lookup(operand));
  }
  return results;
}

/// One iteration: the bodies' values are combined into the accumulators.
BodyEmitter::Accumulators BodyEmitter::accumulate(ArrayRef<kernel::ReduceOp> group,
                                                  ValueRange accumulators) {
  Accumulators next;
  for (kernel::ReduceOp reduce : group) {
    emitBlock(reduce.getBody().front());
    for (Value operand : reduce.getBody().front().getTerminator()->getOperands())
      next.push_back(splat(values.lookup(operand)));
  }
  return combine(group, accumulators, next);
}

static Value initialValue(kernel::ReduceOp reduce, unsigned i) { return reduce.getInit()[i]; }

BodyEmitter::Accumulators BodyEmitter::reduceVarying(ArrayRef<kernel::ReduceOp> group) {
  kernel::ReduceOp front = group.front();
  unsigned first = kernel::getDimExtents(front->getParentRegion()).size();
  ArrayRef<sym::Expr> extents = front.getExtents().getSizes();
  Accumulators accumulators;
  for (kernel::ReduceOp reduce : group) {
    emitBlock(reduce.getBody().front()); // what does not depend on the reduced dims
    for (unsigned i = 0; i < reduce.getNumResults(); ++i)
      accumulators.push_back(splat(values.lookup(initialValue(reduce, i))));
  }

  std::optional<int64_t> total = sym::product(extents).constant();
  if (total && *total <= maxUnrolledReduction) {
    for (int64_t i = 0; i < *total; ++i) {
      Scope scope(*this);
      for (auto [k, value] : llvm::enumerate(sym::delinearize(i, extents)))
        setDim(first + k, value);
      accumulators = accumulate(group, accumulators);
    }
    return accumulators;
  }

  SmallVector<Access> accesses;
  for (kernel::ReduceOp reduce : group)
    llvm::append_range(accesses, collectAccesses(reduce.getBody()));
  SmallVector<DimGroup> loops = collapseDims(first, extents, accesses);
  auto nest = [&](auto &&self, ArrayRef<DimGroup> rest, ValueRange carried) -> Accumulators {
    if (rest.empty())
      return accumulate(group, carried);
    return frame.emitLoop(frame.constant(0), frame.emit(rest.front().extent), 1, carried,
                          [&](Value iv, ValueRange values) {
                            Scope scope(*this);
                            rest.front().bind(*this, frame.addVariable(iv, rest.front().extent));
                            return self(self, rest.drop_front(), values);
                          });
  };
  return nest(nest, loops, accumulators);
}

/// Operations for each element.
static int64_t countOps(ArrayRef<kernel::ReduceOp> group) {
  int64_t ops = 0;
  for (kernel::ReduceOp reduce : group)
    reduce->walk([&](Operation *op) {
      // exp and its like become some twenty instructions.
      if (op->getDialect()->getNamespace() == math::MathDialect::getDialectNamespace())
        ops += 20;
      else if (!op->hasTrait<OpTrait::IsTerminator>())
        ops += 1;
    });
  return ops;
}

/// More than this of each element hides the latency of a sum by itself.
static constexpr int64_t manyOps = 16;

/// As many sums as hide the latency of one, or half of them if there is something else to do.
static int64_t chooseCopies(ArrayRef<kernel::ReduceOp> group, const CPUInfo &target) {
  constexpr int64_t fewOps = 6;
  auto all = static_cast<int64_t>(llvm::bit_floor<uint64_t>(target.fmaLatency));
  int64_t ops = countOps(group);
  return ops <= fewOps ? all : ops <= manyOps ? std::max<int64_t>(all / 2, 1) : 1;
}

ReductionShape codegen::chooseReductionShape(ArrayRef<kernel::ReduceOp> group,
                                             const CPUInfo &target) {
  ReductionShape shape{target.vectorBytes, chooseCopies(group, target)};
  for (kernel::ReduceOp reduce : group)
    shape.lanes = std::min(shape.lanes, preferredLanes(reduce.getBody(), target));
  // A function is a chain of operations: those of two vectors take turns.
  auto hasFunction = [](kernel::ReduceOp reduce) {
    return kernel::getCost(reduce.getBody()).transcendental > 0;
  };
  if (shape.lanes > 1 && llvm::any_of(group, hasFunction))
    shape.lanes *= 2;
  return shape;
}

/// More steps than this are not written one by one.
static constexpr int64_t maxSteps = 16;

ArrayRef<Team::Step> Team::getSteps(KernelFrame &frame, sym::Expr total) {
  std::optional<int64_t> number = total.constant();
  if (!number || *number > maxSteps * size ||
      static_cast<int64_t>(llvm::divideCeil(*number, size)) * vector > maxKept)
    return {};
  auto [it, isNew] = steps.try_emplace(total);
  OpBuilder &b = frame.builder;
  for (int64_t first = 0; isNew && first < *number; first += size) {
    Value at = arith::AddIOp::create(b, frame.loc, rank, frame.constant(first));
    Value exists;
    if (first + size > *number) {
      exists = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::slt, at,
                                     frame.constant(*number));
      at = arith::MinSIOp::create(b, frame.loc, at, frame.constant(*number - 1));
    }
    it->second.push_back({frame.addVariable(at, total), exists});
  }
  return it->second;
}

void BodyEmitter::setTeam(Team *threads) {
  team = threads;
  if (threads && keepingBlock != frame.builder.getInsertionBlock()) {
    kept.clear();
    keepingBlock = frame.builder.getInsertionBlock();
  }
}

void BodyEmitter::readAhead() {
  if (!team || frame.builder.getInsertionBlock() != keepingBlock)
    return;
  for (auto reduce : region.front().getOps<kernel::ReduceOp>()) {
    bool isPlaced =
        llvm::all_of(needs(reduce).dims, [&](unsigned dim) { return dims.contains(dim); });
    if (!isPlaced || isReady(reduce) || team->vector > 1)
      continue;
    unsigned first = kernel::getDimExtents(reduce->getParentRegion()).size();
    auto loops =
        collapseDims(first, reduce.getExtents().getSizes(), collectAccesses(reduce.getBody()));
    SmallVector<sym::Expr> extents;
    for (const DimGroup &loop : loops)
      extents.push_back(loop.extent);
    sym::Expr total = frame.assumptions.simplify(sym::product(extents));
    isKeeping = true;
    for (const Team::Step &step : team->getSteps(frame, total)) {
      Scope scope(*this);
      for (auto [loop, index] : llvm::zip(loops, sym::delinearize(step.number, extents)))
        loop.bind(*this, index);
      for (auto read : reduce.getBody().front().getOps<kernel::ReadOp>())
        if (!read.getMask() && read.getValues().empty())
          emitRead(read);
    }
    isKeeping = false;
  }
}

BodyEmitter::Accumulators BodyEmitter::reduceTogether(ArrayRef<kernel::ReduceOp> group) {
  // An iteration belongs to one thread.
  Team *threads = std::exchange(team, nullptr);
  kernel::ReduceOp front = group.front();
  unsigned first = kernel::getDimExtents(front->getParentRegion()).size();
  SmallVector<Access> accesses;
  Accumulators identity;
  setLanes(1);
  for (kernel::ReduceOp reduce : group) {
    emitBlock(reduce.getBody().front()); // what does not depend on the reduced dims
    llvm::append_range(accesses, collectAccesses(reduce.getBody()));
    for (unsigned i = 0; i < reduce.getNumResults(); ++i)
      identity.push_back(values.lookup(initialValue(reduce, i)));
  }
  SmallVector<DimGroup> loops = collapseDims(first, front.getExtents().getSizes(), accesses);
  SmallVector<sym::Expr> extents;
  for (const DimGroup &loop : loops)
    extents.push_back(loop.extent);
  int64_t vector = threads->vector;
  if (extents.empty() || !frame.assumptions.isMultipleOf(extents.back(), vector))
    vector = 1;
  if (vector > 1)
    extents.back() = frame.assumptions.simplify(extents.back().floorDiv(vector));
  sym::Expr total = frame.assumptions.simplify(sym::product(extents));
  auto step = [&](sym::Expr number, ValueRange carried) {
    Accumulators sums(carried);
    auto indices = sym::delinearize(number, extents);
    for (int64_t i = 0; i < vector; ++i) {
      Scope scope(*this);
      for (auto [loop, index] : llvm::zip(loops, indices))
        loop.bind(*this,
                  vector > 1 && loop.first == loops.back().first ? vector * index + i : index);
      sums = accumulate(group, sums);
    }
    return sums;
  };
  Accumulators mine(identity);
  ArrayRef<Team::Step> steps;
  if (frame.builder.getInsertionBlock() == keepingBlock && vector == threads->vector)
    steps = threads->getSteps(frame, total);
  if (!steps.empty()) {
    isKeeping = true;
    for (const Team::Step &known : steps) {
      Accumulators next = step(known.number, mine);
      for (auto [sum, value] : llvm::zip(mine, next))
        sum = known.exists
                  ? arith::SelectOp::create(frame.builder, frame.loc, known.exists, value, sum)
                        .getResult()
                  : value;
    }
    isKeeping = false;
  } else {
    bool isLight = vector == 1 || countOps(group) <= manyOps;
    mine = frame.emitStridedLoop(threads->rank, total, threads->size,
                                 isLight ? Team::stepsAtOnce : Team::stepsAtOnce / 2, identity,
                                 [&](ArrayRef<sym::Expr> numbers, ValueRange carried) {
                                   Accumulators sums(carried);
                                   for (sym::Expr number : numbers)
                                     sums = step(number, sums);
                                   return sums;
                                 });
  }
  team = threads;
  return threads->combineAll(frame, mine,
                             [&](ValueRange a, ValueRange b) { return combine(group, a, b); });
}
