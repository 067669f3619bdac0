// Proofs about bytes whose places are expressions: which are before which, and which have been written.
#include "MemoryProof.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;
using sym::Expr;

MemoryProof::MemoryProof(HostFunctionOpInterface function) {
  kernel::addSymbolRanges(function->getParentOp(), known);
  // The program has a table of its own.
  for (auto program : function->getParentOfType<ModuleOp>().getOps<ProgramOp>())
    if (DictionaryAttr symbols = program.getSymbolsAttr())
      for (NamedAttribute symbol : symbols)
        if (auto range = dyn_cast<DictionaryAttr>(symbol.getValue())) {
          auto bound = [&](StringRef name) -> std::optional<int64_t> {
            if (auto value = range.getAs<IntegerAttr>(name))
              return value.getInt();
            return std::nullopt;
          };
          known.setRange(Expr::symbol(symbol.getName()), {bound("min"), bound("max")});
        }
  for (Operation &op : function.getFunctionBody().front())
    if (auto output = dyn_cast<OutputOp>(op))
      outputs.try_emplace(output.getIndex(), output);
  auto add = [&](Value buffer) {
    BufferSpan span = getSpan(buffer);
    views[span.storage].push_back(span);
  };
  for (BlockArgument argument : function.getArguments())
    add(argument);
  for (Operation &op : function.getFunctionBody().front())
    for (Value result : op.getResults())
      add(result);
}

/// One value stands for all that are the same memory.
Value MemoryProof::getRoot(Value storage) const {
  auto output = storage.getDefiningOp<OutputOp>();
  return output ? outputs.lookup(output.getIndex()) : storage;
}

BufferSpan MemoryProof::getSpan(Value buffer) const {
  BufferSpan span;
  span.type = cast<BufferType>(buffer.getType());
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    span.begin =
        span.begin + view.getOffset().getValue() * getElementBytes(view.getType().getElementType());
    buffer = view.getBuffer();
  }
  span.end = span.begin + span.type.getBytes();
  span.storage = getRoot(buffer);
  return span;
}

ArrayRef<Span> MemoryProof::getViews(Value storage) const {
  auto found = views.find(storage);
  return found == views.end() ? ArrayRef<Span>() : found->second;
}

bool MemoryProof::isAtMost(Expr a, Expr b) const {
  Expr distance = b - a;
  return distance.isValid() && (known.isNonNegative(distance) || Expr::max(a, b) == b);
}

bool MemoryProof::isReached(Expr a, Expr b, ArrayRef<Span> steps) const {
  if (isAtMost(a, b))
    return true;
  // No way leads back.
  if (known.isPositive(a - b))
    return false;
  SmallVector<Expr> reached = {a};
  llvm::BitVector taken(steps.size());
  while (!reached.empty()) {
    Expr here = reached.pop_back_val();
    for (auto [i, step] : llvm::enumerate(steps)) {
      if (taken.test(i) || (step.begin - here).constant().value_or(-1) < 0)
        continue;
      if (isAtMost(step.end, b))
        return true;
      taken.set(i);
      reached.push_back(step.end);
    }
  }
  return false;
}

bool MemoryProof::areApart(const Span &a, const Span &b, ArrayRef<Span> steps) const {
  // No bytes overlap nothing.
  if ((a.end - a.begin).isConstant(0) || (b.end - b.begin).isConstant(0))
    return true;
  return isAtMost(a.end, b.begin) || isAtMost(b.end, a.begin) || isReached(a.end, b.begin, steps) ||
         isReached(b.end, a.begin, steps);
}

void MemoryProof::setWritten(const BufferSpan &span) {
  Written &state = written[span.storage];
  if (!BufferType(span.type).isContiguous()) {
    state.strided.push_back(span);
    return;
  }
  // Neighbours become one span.
  Span grown = span;
  for (size_t i = 0; i < state.spans.size();) {
    const Span &other = state.spans[i];
    bool isBefore = other.end == grown.begin, isAfter = other.begin == grown.end;
    if (!isBefore && !isAfter) {
      ++i;
      continue;
    }
    grown = isBefore ? Span{other.begin, grown.end} : Span{grown.begin, other.end};
    state.spans.erase(state.spans.begin() + i);
    i = 0;
  }
  state.spans.push_back(grown);
}

bool MemoryProof::isWritten(const BufferSpan &span) const {
  if ((span.end - span.begin).isConstant(0) || BufferType(span.type).getNumElements().isConstant(0))
    return true;
  auto found = written.find(span.storage);
  if (found == written.end())
    return isAtMost(span.end, span.begin);
  const Written &state = found->second;
  if (llvm::any_of(state.strided, [&](const BufferSpan &other) {
        return other.begin == span.begin && other.type.getSizes() == span.type.getSizes() &&
               other.type.getStrides() == span.type.getStrides() &&
               getElementBytes(other.type.getElementType()) ==
                   getElementBytes(span.type.getElementType());
      }))
    return true;
  // From the beginning on, as far as spans go on where others end.
  Expr here = span.begin;
  llvm::BitVector taken(state.spans.size());
  while (!isAtMost(span.end, here)) {
    size_t next = 0;
    while (next < state.spans.size() &&
           (taken.test(next) ||
            !(areEqual(state.spans[next].begin, here) ||
              (isAtMost(state.spans[next].begin, here) && isAtMost(here, state.spans[next].end)))))
      ++next;
    if (next == state.spans.size())
      return false;
    taken.set(next);
    here = state.spans[next].end;
  }
  return true;
}
