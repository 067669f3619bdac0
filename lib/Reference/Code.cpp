// From regions to steps: reads, dims, sums; the scalar ops are in ScalarSteps.cpp.
#include "Code.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::reference;

CodeBuilder::CodeBuilder(const llvm::DenseMap<Value, Tensor> &tensors,
                         const llvm::DenseMap<sym::Expr, int64_t> &symbols, bool wide, bool strict)
    : tensors(tensors), symbols(symbols), wide(wide), strict(strict) {}

//===-- Expressions -------------------------------------------------------------------------===//

static int64_t floorDiv(int64_t a, int64_t b) {
  if (b == -1) // which overflows at the least integer
    return static_cast<int64_t>(-static_cast<uint64_t>(a));
  return b == 0 ? 0 : llvm::divideFloorSigned(a, b);
}

static Index makeIndex(sym::Expr expr) {
  auto fold = [&](auto combine) -> Index {
    std::vector<Index> parts;
    for (sym::Expr operand : expr.operands())
      parts.push_back(makeIndex(operand));
    return [=](const int64_t *dims) {
      int64_t value = parts[0](dims);
      for (size_t i = 1; i < parts.size(); ++i)
        value = combine(value, parts[i](dims));
      return value;
    };
  };
  auto wrapping = [](auto combine) {
    return [=](int64_t a, int64_t b) {
      return static_cast<int64_t>(combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    };
  };
  switch (expr.kind()) {
  case sym::Kind::Constant:
    return [value = *expr.constant()](const int64_t *) { return value; };
  case sym::Kind::Dim:
    return [dim = expr.dimIndex()](const int64_t *dims) { return dims[dim]; };
  case sym::Kind::Add:
    return fold(wrapping([](uint64_t a, uint64_t b) { return a + b; }));
  case sym::Kind::Mul:
    return fold(wrapping([](uint64_t a, uint64_t b) { return a * b; }));
  case sym::Kind::FloorDiv:
    return fold(floorDiv);
  case sym::Kind::Min:
    return fold([](int64_t a, int64_t b) { return std::min(a, b); });
  case sym::Kind::Max:
    return fold([](int64_t a, int64_t b) { return std::max(a, b); });
  case sym::Kind::Symbol:
  case sym::Kind::Invalid:
    break;
  }
  llvm_unreachable("symbols have been replaced");
}

llvm::Expected<Index> CodeBuilder::build(sym::Expr expr) {
  std::string unknown;
  sym::Expr known = expr.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
    if (leaf.kind() != sym::Kind::Symbol)
      return std::nullopt;
    auto found = symbols.find(leaf);
    if (found != symbols.end())
      return sym::Expr(found->second);
    unknown = leaf.str();
    return std::nullopt;
  });
  if (!unknown.empty())
    return llvm::createStringError("the symbol " + unknown + " has no value");
  if (!known.isValid()) // a quotient by a size that is zero: there is no element to address
    return [](const int64_t *) { return INT64_MIN; };
  numDims = std::max(numDims, known.numDimsUsed());
  return makeIndex(known);
}

llvm::Expected<int64_t> CodeBuilder::evaluate(sym::Expr expr) const {
  std::string unknown;
  std::optional<int64_t> value = expr.evaluate([&](sym::Expr leaf) {
    auto found = symbols.find(leaf);
    if (found != symbols.end())
      return found->second;
    unknown = leaf.str();
    return int64_t(1);
  });
  if (!unknown.empty())
    return llvm::createStringError("the symbol " + unknown + " has no value");
  if (!value)
    return llvm::createStringError(expr.str() + " has no value");
  return *value;
}

llvm::Expected<SmallVector<int64_t>> CodeBuilder::evaluate(ArrayRef<sym::Expr> exprs) const {
  SmallVector<int64_t> values;
  for (sym::Expr expr : exprs) {
    llvm::Expected<int64_t> value = evaluate(expr);
    if (!value)
      return value.takeError();
    values.push_back(*value);
  }
  return values;
}

void reference::forEach(Frame &frame, ArrayRef<int64_t> extents, unsigned first,
                        llvm::function_ref<void()> visit) {
  if (llvm::any_of(extents, [](int64_t extent) { return extent <= 0; }))
    return;
  for (unsigned i = 0; i < extents.size(); ++i)
    frame.dims[first + i] = 0;
  while (frame.error.empty()) {
    visit();
    size_t i = extents.size();
    while (i > 0 && ++frame.dims[first + i - 1] == extents[i - 1])
      frame.dims[first + --i] = 0;
    if (i == 0)
      return;
  }
}

//===-- Code --------------------------------------------------------------------------------===//

unsigned CodeBuilder::getSlot(Value value) {
  return slots.try_emplace(value, slots.size()).first->second;
}

Frame CodeBuilder::makeFrame(int64_t maxSteps) const {
  Frame frame;
  frame.slots.resize(slots.size(), Scalar::ofInteger(0));
  frame.dims.resize(numDims, 0);
  frame.stepsLeft = maxSteps;
  return frame;
}

llvm::Expected<Code> CodeBuilder::build(Region &region) {
  Code code;
  Block &block = region.front();
  for (BlockArgument argument : block.getArguments())
    code.arguments.push_back(getSlot(argument));
  // Nothing that is not used is computed: it might fail.
  llvm::SmallPtrSet<Operation *, 32> used{block.getTerminator()};
  for (Operation &op : llvm::reverse(block))
    if (used.contains(&op))
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *definition = operand.getDefiningOp())
            used.insert(definition);
      });
  for (Operation &op : block.without_terminator())
    if (used.contains(&op))
      if (llvm::Error error = add(&op, code))
        return error;
  for (Value result : block.getTerminator()->getOperands())
    code.results.push_back(getSlot(result));
  // Constants from around the structured op.
  Operation *root = region.getParentOp();
  while (!kernel::isStructured(root))
    root = root->getParentOp();
  for (Operation *op : used)
    if (!root->isAncestor(op))
      if (llvm::Error error = addOutside(op, code))
        return error;
  return code;
}

llvm::Error CodeBuilder::addOutside(Operation *op, Code &code) {
  std::optional<Scalar> constant = getConstant(op);
  if (!constant)
    return llvm::Error::success(); // a tensor, which reads look up
  unsigned slot = getSlot(op->getResult(0));
  code.steps.insert(code.steps.begin(), [=](Frame &f) { f.slots[slot] = *constant; });
  return llvm::Error::success();
}

llvm::Error CodeBuilder::add(Operation *op, Code &code) {
  if (std::optional<Scalar> constant = getConstant(op)) {
    unsigned slot = getSlot(op->getResult(0));
    code.steps.push_back([slot, value = *constant](Frame &f) { f.slots[slot] = value; });
    return llvm::Error::success();
  }
  if (auto read = dyn_cast<kernel::ReadOp>(op))
    return addRead(read, code);
  if (auto inside = dyn_cast<kernel::InsideOp>(op))
    return addInside(inside, code);
  if (auto reduce = dyn_cast<kernel::ReduceOp>(op))
    return addReduce(reduce, code);
  if (auto iterate = dyn_cast<kernel::IterateOp>(op))
    return addIterate(iterate, code);
  if (auto index = dyn_cast<kernel::IndexOp>(op)) {
    llvm::Expected<Indices> map = buildMap(op);
    if (!map)
      return map.takeError();
    code.steps.push_back(
        [at = (*map)[0], bind = bindValues(index), result = getSlot(index)](Frame &f) {
          bind(f);
          f.slots[result] = Scalar::ofInteger(at(f.dims.data()));
        });
    return llvm::Error::success();
  }
  if (auto expect = dyn_cast<kernel::ExpectOp>(op)) {
    unsigned value = getSlot(expect.getValue()), condition = getSlot(expect.getCondition());
    code.steps.push_back(
        [=, result = getSlot(expect), message = expect.getMessage().str()](Frame &f) {
          if (!f.slots[condition].integer)
            f.fail(message);
          f.slots[result] = f.slots[value];
        });
    return llvm::Error::success();
  }
  ScalarOp scalar = {op, {}, 0, wide, strict};
  if (op->getNumResults() == 1) {
    for (Value operand : op->getOperands())
      scalar.operands.push_back(getSlot(operand));
    scalar.result = getSlot(op->getResult(0));
    if (Step step = makeScalarStep(scalar)) {
      code.steps.push_back(std::move(step));
      return llvm::Error::success();
    }
  }
  return llvm::createStringError("the interpreter does not know " + op->getName().getStringRef());
}

llvm::Expected<CodeBuilder::Indices> CodeBuilder::buildMap(Operation *op) {
  Indices indices;
  sym::MapAttr map = kernel::getIndexMap(op);
  numDims = std::max(numDims, map.getNumDims());
  for (sym::Expr expr : map.getResults()) {
    llvm::Expected<Index> index = build(expr);
    if (!index)
      return index.takeError();
    indices.push_back(std::move(*index));
  }
  return indices;
}

std::function<void(Frame &)> CodeBuilder::bindValues(kernel::IndexedOpInterface op) {
  SmallVector<unsigned> values;
  for (Value value : op.getValues())
    values.push_back(getSlot(value));
  unsigned first = op.getMap().getNumDims() - values.size();
  return [=](Frame &f) {
    for (unsigned i = 0; i < values.size(); ++i)
      f.dims[first + i] = f.slots[values[i]].integer;
  };
}

llvm::Error CodeBuilder::addRead(kernel::ReadOp op, Code &code) {
  auto found = tensors.find(op.getTensor());
  if (found == tensors.end())
    return llvm::createStringError("a tensor is read that has no value");
  llvm::Expected<Indices> map = buildMap(op);
  if (!map)
    return map.takeError();
  Tensor tensor = found->second;
  if (tensor.sizes.size() != map->size())
    return llvm::createStringError("a tensor of another rank is read");
  std::optional<unsigned> mask, other;
  if (op.getMask()) {
    mask = getSlot(op.getMask());
    other = getSlot(op.getOther());
  }
  bool isData = !op.getValues().empty();
  code.steps.push_back([=, bind = bindValues(op), map = *map, result = getSlot(op)](Frame &f) {
    if (mask && !f.slots[*mask].integer) {
      f.slots[result] = f.slots[*other];
      return;
    }
    bind(f);
    int64_t offset = 0;
    for (size_t i = 0; i < map.size(); ++i) {
      int64_t index = map[i](f.dims.data()), size = tensor.sizes[i];
      if (index < 0 || index >= size) {
        f.stop((isData ? "the index " : "a kernel.read outside of its tensor: the index ") +
                   Twine(index) + " in a dim of size " + Twine(size),
               isData);
        return;
      }
      offset = offset * size + index;
    }
    f.slots[result] = (*tensor.elements)[offset];
  });
  return llvm::Error::success();
}

llvm::Error CodeBuilder::addInside(kernel::InsideOp op, Code &code) {
  llvm::Expected<Indices> map = buildMap(op);
  if (!map)
    return map.takeError();
  llvm::Expected<SmallVector<int64_t>> bounds = evaluate(op.getBounds().getSizes());
  if (!bounds)
    return bounds.takeError();
  code.steps.push_back(
      [=, bind = bindValues(op), map = *map, bounds = *bounds, result = getSlot(op)](Frame &f) {
        bind(f);
        bool isInside = true;
        for (auto [index, bound] : llvm::zip(map, bounds)) {
          int64_t value = index(f.dims.data());
          isInside &= value >= 0 && value < bound;
        }
        f.slots[result] = Scalar::ofInteger(isInside);
      });
  return llvm::Error::success();
}

namespace {

/// A reduction keeps its last results: deep inside a loop it is often that of a whole row.
struct Memory {
  std::vector<int64_t> key;
  std::vector<Scalar> results;
};

} // namespace

llvm::Error CodeBuilder::addReduce(kernel::ReduceOp op, Code &code) {
  unsigned first = kernel::getDimExtents(op->getParentRegion()).size();
  llvm::Expected<SmallVector<int64_t>> extents = evaluate(op.getExtents().getSizes());
  if (!extents)
    return extents.takeError();
  numDims = std::max<unsigned>(numDims, first + extents->size());
  llvm::Expected<Code> body = build(op.getBody());
  if (!body)
    return body.takeError();
  llvm::Expected<Code> combine = build(op.getCombine());
  if (!combine)
    return combine.takeError();
  SmallVector<unsigned> init, results, dims, values;
  for (Value value : op.getInit())
    init.push_back(getSlot(value));
  for (Value value : op.getResults())
    results.push_back(getSlot(value));
  llvm::SmallSetVector<unsigned, 8> usedDims, usedSlots;
  op->walk([&](Operation *inner) {
    if (sym::MapAttr map = kernel::getIndexMap(inner))
      for (sym::Expr expr : map.getResults())
        expr.walkLeaves([&](sym::Expr leaf) {
          if (leaf.kind() == sym::Kind::Dim && leaf.dimIndex() < first)
            usedDims.insert(leaf.dimIndex());
        });
    for (Value operand : inner->getOperands())
      if (!isa<RankedTensorType>(operand.getType()) &&
          !op->isAncestor(operand.getParentRegion()->getParentOp()))
        usedSlots.insert(getSlot(operand));
  });
  code.steps.push_back([=, extents = *extents, body = *body, combine = *combine,
                        dims = usedDims.takeVector(), values = usedSlots.takeVector(),
                        memory = std::make_shared<Memory>()](Frame &f) {
    std::vector<int64_t> key;
    for (unsigned dim : dims)
      key.push_back(f.dims[dim]);
    for (unsigned slot : values) {
      key.push_back(f.slots[slot].integer);
      key.push_back(llvm::bit_cast<int64_t>(f.slots[slot].imaginary));
    }
    if (!memory->results.empty() && key == memory->key) {
      for (auto [slot, value] : llvm::zip(results, memory->results))
        f.slots[slot] = value;
      return;
    }
    size_t count = results.size();
    std::vector<Scalar> state;
    for (unsigned slot : init)
      state.push_back(f.slots[slot]);
    forEach(f, extents, first, [&] {
      body.run(f);
      for (size_t i = 0; i < count; ++i) {
        f.slots[combine.arguments[i]] = state[i];
        f.slots[combine.arguments[count + i]] = body.getResult(f, i);
      }
      combine.run(f);
      for (size_t i = 0; i < count; ++i)
        state[i] = combine.getResult(f, i);
    });
    for (auto [slot, value] : llvm::zip(results, state))
      f.slots[slot] = value;
    memory->key = std::move(key);
    memory->results = std::move(state);
  });
  return llvm::Error::success();
}

llvm::Error CodeBuilder::addIterate(kernel::IterateOp op, Code &code) {
  llvm::Expected<Code> body = build(op.getBody());
  if (!body)
    return body.takeError();
  SmallVector<unsigned> init, results;
  for (Value value : op.getInit())
    init.push_back(getSlot(value));
  for (Value value : op.getResults())
    results.push_back(getSlot(value));
  int64_t limit = op.getLimit();
  code.steps.push_back([=, body = *body](Frame &f) {
    for (auto [from, to] : llvm::zip(init, results))
      f.slots[to] = f.slots[from];
    bool isDone = false;
    for (int64_t round = 0; round < limit && !isDone; ++round) {
      for (auto [from, to] : llvm::zip(results, body.arguments))
        f.slots[to] = f.slots[from];
      body.run(f);
      isDone = !body.getResult(f, 0).integer;
      for (auto [i, to] : llvm::enumerate(results))
        f.slots[to] = body.getResult(f, i + 1);
    }
  });
  return llvm::Error::success();
}
