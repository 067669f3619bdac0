// Reductions whose result is one number for all lanes: a loop of theirs runs in vectors.
#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Codegen/LoopNest.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

/// The loop to run in vectors: the one whose accesses are cheapest.
static size_t chooseVectorLoop(ArrayRef<DimGroup> loops, ArrayRef<Access> accesses) {
  size_t best = loops.size() - 1;
  int64_t bestCost = std::numeric_limits<int64_t>::max();
  for (size_t i = loops.size(); i-- > 0;) {
    int64_t cost = 0;
    for (const Access &access : accesses) {
      Walk walk = classify(access.expr, loops[i].lastDim());
      bool far = walk == Walk::Strided || walk == Walk::Irregular;
      cost += access.isOffset && far ? 16 : 1;
    }
    // A loop that does not fill a vector.
    if (estimate(loops[i].extent) < 8)
      cost += 8;
    if (cost < bestCost) {
      best = i;
      bestCost = cost;
    }
  }
  return best;
}

namespace kiln::codegen {

/// The loops of a group, the accumulators of each copy and lane, and their sum in the end.
class BodyEmitter::UniformReduction {
public:
  UniformReduction(BodyEmitter &body, ArrayRef<kernel::ReduceOp> group)
      : body(body), frame(body.frame), group(group) {
    chooseLoops();
  }

  Accumulators emit() {
    Accumulators identity;
    for (kernel::ReduceOp reduce : group)
      for (Value init : reduce.getInit())
        identity.push_back(body.values.lookup(init));
    count = identity.size();
    body.setLanes(width);
    for (Value &value : identity)
      value = body.splat(value);
    Accumulators accumulators;
    for (int64_t i = 0; i < copies; ++i)
      llvm::append_range(accumulators, identity);
    return joinLanes(joinCopies(emitLoops(loops, accumulators)));
  }

private:
  void chooseLoops() {
    kernel::ReduceOp front = group.front();
    unsigned first = kernel::getDimExtents(front->getParentRegion()).size();
    SmallVector<Access> accesses;
    for (kernel::ReduceOp reduce : group) {
      body.setLanes(1);
      body.emitBlock(reduce.getBody().front()); // what does not depend on the reduced dims
      llvm::append_range(accesses, collectAccesses(reduce.getBody()));
    }
    loops = collapseDims(first, front.getExtents().getSizes(), accesses);
    inner = {first, 0, 1, {}};
    if (!loops.empty()) {
      size_t vectorLoop = chooseVectorLoop(loops, accesses);
      inner = loops[vectorLoop];
      loops.erase(loops.begin() + vectorLoop);
    }
    extent = inner.extent.constant();
    ReductionShape shape = getShape();
    width = shape.lanes;
    copies = shape.copies;
    if (extent) {
      while (width > 1 && width / 2 >= *extent)
        width /= 2;
      while (copies > 1 && copies * width > *extent)
        copies /= 2;
    }
    step = copies * width;
  }

  ReductionShape getShape() const {
    std::optional<ReductionShape> fewest;
    for (kernel::ReduceOp reduce : group) {
      auto given = body.shapes.find(reduce);
      if (given == body.shapes.end())
        return chooseReductionShape(group, frame.target);
      ReductionShape shape = fewest.value_or(given->second);
      fewest = ReductionShape{std::min(shape.lanes, given->second.lanes),
                              std::min(shape.copies, given->second.copies)};
    }
    return *fewest;
  }

  Accumulators emitLoops(ArrayRef<DimGroup> rest, ValueRange carried) {
    if (rest.empty())
      return extent ? emitKnown(emitWhole(carried)) : emitUnknown(emitWhole(carried));
    return frame.emitLoop(frame.constant(0), frame.emit(rest.front().extent), 1, carried,
                          [&](Value iv, ValueRange values) {
                            Scope scope(body);
                            rest.front().bind(body, frame.addVariable(iv, rest.front().extent));
                            return emitLoops(rest.drop_front(), values);
                          });
  }

  /// `base` + copy*width + lane, into that copy's accumulators.
  void iterate(sym::Expr base, int64_t copy, Accumulators &all, Value laneMask) {
    Scope scope(body);
    sym::Expr position = base + body.setLanes(width, laneMask);
    if (inner.count)
      inner.bind(body, position);
    MutableArrayRef<Value> mine = MutableArrayRef(all).slice(copy * count, count);
    Accumulators next = body.accumulate(group, mine);
    for (kernel::ReduceOp reduce : group)
      for (auto [result, row] : body.keptElements.lookup(reduce)) {
        Value element = reduce.getBody().front().getTerminator()->getOperand(result);
        body.store(row, element.getType(), position, body.values.lookup(element));
      }
    for (auto [old, value] : llvm::zip(mine, next))
      old = laneMask ? arith::SelectOp::create(frame.builder, frame.loc, laneMask, value, old)
                     : value;
  }

  /// The steps that all copies take.
  Accumulators emitWhole(ValueRange carried) {
    whole = frame.assumptions.simplify(inner.extent.floorDiv(step) * step);
    return frame.emitLoop(frame.constant(0), frame.emit(whole), step, carried,
                          [&](Value iv, ValueRange values) {
                            Accumulators next(values);
                            sym::Expr base = frame.addSteppedVariable(iv, step, whole);
                            for (int64_t copy = 0; copy < copies; ++copy)
                              iterate(base + copy * width, copy, next, Value());
                            return next;
                          });
  }

  /// The elements that are left after them.
  Accumulators emitKnown(Accumulators all) {
    int64_t at = *extent / step * step, copy = 0;
    for (; at + width <= *extent; at += width)
      iterate(at, copy++, all, Value());
    if (at < *extent)
      iterate(at, copy, all, emitTailMask(frame, at, *extent, width));
    return all;
  }

  Accumulators emitUnknown(Accumulators all) {
    sym::Expr vectors = frame.assumptions.simplify(inner.extent.floorDiv(width) * width);
    if (copies > 1)
      all = frame.emitLoop(
          frame.emit(whole), frame.emit(vectors), width, all, [&](Value iv, ValueRange values) {
            Accumulators next(values);
            iterate(frame.addSteppedVariable(iv, width, vectors), 0, next, Value());
            return next;
          });
    sym::Expr left = frame.assumptions.simplify(inner.extent - vectors);
    if (left.isConstant(0))
      return all;
    OpBuilder &b = frame.builder;
    Value some = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::ne, frame.emit(left),
                                       frame.constant(0));
    auto branch = scf::IfOp::create(b, frame.loc, ValueRange(all).getTypes(), some, true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, frame.loc, all);
    b.setInsertionPointToStart(branch.thenBlock());
    iterate(vectors, 0, all, emitTailMask(frame, vectors, inner.extent, width));
    scf::YieldOp::create(b, frame.loc, all);
    return Accumulators(branch.getResults());
  }

  Accumulators joinCopies(Accumulators all) {
    for (int64_t left = copies; left > 1; left /= 2) {
      Accumulators sums;
      for (int64_t copy = 0; copy < left / 2; ++copy)
        llvm::append_range(sums,
                           body.combine(group, ArrayRef(all).slice(copy * count, count),
                                        ArrayRef(all).slice((copy + left / 2) * count, count)));
      all = sums;
    }
    return all;
  }

  /// Halves of the vectors.
  Accumulators joinLanes(Accumulators all) {
    OpBuilder &b = frame.builder;
    for (int64_t left = width; left > 1; left /= 2) {
      Accumulators low, high;
      for (Value value : all) {
        if (left == 2) {
          low.push_back(vector::ExtractOp::create(b, frame.loc, value, 0));
          high.push_back(vector::ExtractOp::create(b, frame.loc, value, 1));
          continue;
        }
        auto half = llvm::to_vector(llvm::seq<int64_t>(0, left / 2));
        low.push_back(vector::ShuffleOp::create(b, frame.loc, value, value, half));
        for (int64_t &i : half)
          i += left / 2;
        high.push_back(vector::ShuffleOp::create(b, frame.loc, value, value, half));
      }
      all = body.combine(group, low, high);
    }
    return all;
  }

  BodyEmitter &body;
  KernelFrame &frame;
  ArrayRef<kernel::ReduceOp> group;
  SmallVector<DimGroup> loops; // around the inner one
  DimGroup inner;
  std::optional<int64_t> extent; // of the inner loop, if known
  sym::Expr whole = 0;
  int64_t width = 1, copies = 1, step = 1;
  size_t count = 0; // accumulators of a copy
};

} // namespace kiln::codegen

BodyEmitter::Accumulators BodyEmitter::reduceUniform(ArrayRef<kernel::ReduceOp> group) {
  return UniformReduction(*this, group).emit();
}
