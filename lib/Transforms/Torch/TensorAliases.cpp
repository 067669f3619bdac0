// Tensors of a program that share memory, and what each holds after a write.
#include "TensorAliases.h"
#include "InvertView.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

static bool isCertain(const ViewStep &step) { return step.certain; }

Storage *TensorAliases::addStorage(Value base) {
  storages.push_back(std::make_unique<Storage>(Storage{base, base}));
  return storages.back().get();
}

Alias &TensorAliases::get(Value value) {
  Alias *&alias = aliases[value];
  if (!alias) {
    owned.push_back(std::make_unique<Alias>(Alias{addStorage(value), {}, value, 0}));
    alias = owned.back().get();
  }
  return *alias;
}

FailureOr<Value> TensorAliases::getCurrent(Value value, Operation *user) {
  auto found = aliases.find(value);
  if (found == aliases.end())
    return value;
  Alias &alias = *found->second;
  checked |= alias.pending;
  alias.pending.reset();
  if (alias.storage->cut)
    return user->emitError("cannot tell whether a tensor shares memory with one that was "
                           "written: it was reshaped (")
           << describe(user->getLoc()) << ")";
  if (alias.writes == alias.storage->writes)
    return alias.current;
  Value now = alias.storage->base;
  for (const ViewStep &step : alias.chain) {
    if (!step.certain)
      return user->emitError("cannot tell whether '")
             << CallOp(step.call).getNode() << "' shares memory with what was written ("
             << describe(user->getLoc()) << ")";
    now = repeat(step, now);
  }
  alias.current = now;
  alias.writes = alias.storage->writes;
  return now;
}

/// The view call again, of another tensor.
Value TensorAliases::repeat(const ViewStep &step, Value source) {
  auto clone = cast<CallOp>(builder.clone(*step.call));
  clone->setOperand(0, source);
  clone.removeDefinesAttr(); // the first one has
  return clone->getResult(step.result);
}

void TensorAliases::addViews(CallOp call, Value source, bool certain, const Conditions &decidedBy) {
  Alias &viewed = get(source);
  hasDecisions |= decidedBy.any();
  for (unsigned i = 0; i < call->getNumResults(); ++i) {
    SmallVector<ViewStep> chain = viewed.chain;
    chain.push_back({call, i, certain, decidedBy});
    owned.push_back(std::make_unique<Alias>(
        Alias{viewed.storage, std::move(chain), call->getResult(i), viewed.storage->writes}));
    aliases[call->getResult(i)] = owned.back().get();
  }
}

void TensorAliases::addCopy(CallOp call, Value source, Conditions decidedBy) {
  if (!decidedBy.any())
    return;
  hasDecisions = true;
  get(source);
  get(call->getResult(0));
  copies.push_back({source, call->getResult(0), std::move(decidedBy)});
}

/// The storages that would be this one if copies were views, and what decides that they are not.
std::pair<llvm::SmallPtrSet<Storage *, 4>, Conditions>
TensorAliases::getDecidedCopies(Storage *storage) {
  llvm::SmallPtrSet<Storage *, 4> reached = {storage};
  Conditions decidedBy;
  size_t before = 0;
  while (before != reached.size()) {
    before = reached.size();
    for (const DecidedCopy &copy : copies) {
      Storage *source = get(copy.source).storage, *result = get(copy.result).storage;
      if (!reached.contains(source) && !reached.contains(result))
        continue;
      reached.insert(source);
      reached.insert(result);
      decidedBy |= copy.decidedBy;
    }
  }
  return {reached, decidedBy};
}

/// Other tensors see what was written, or do not see it, under conditions.
void TensorAliases::notePending(const Alias &written) {
  if (!hasDecisions)
    return;
  auto [related, copied] = getDecidedCopies(written.storage);
  auto decidedAlong = [](ArrayRef<ViewStep> chain) {
    Conditions all;
    for (const ViewStep &step : chain)
      all |= step.decidedBy;
    return all;
  };
  auto isSame = [](const ViewStep &a, const ViewStep &b) {
    return a.call == b.call && a.result == b.result;
  };
  for (Storage *storage : related) {
    storage->pending |= decidedAlong(written.chain);
    if (storage != written.storage)
      storage->pending |= copied;
  }
  for (const std::unique_ptr<Alias> &other : owned) {
    if (other.get() == &written || !related.contains(other->storage))
      continue;
    ArrayRef<ViewStep> a = written.chain, b = other->chain;
    bool isRelated = other->storage != written.storage;
    // Views that both have passed make no difference between them.
    while (!isRelated && !a.empty() && !b.empty() && isSame(a.front(), b.front())) {
      a = a.drop_front();
      b = b.drop_front();
    }
    other->pending |= decidedAlong(a);
    other->pending |= decidedAlong(b);
    if (isRelated)
      other->pending |= copied;
  }
}

LogicalResult TensorAliases::write(Alias &alias, Value value, CallOp call) {
  if (failed(cutAtUncertainStep(alias, call)))
    return failure();
  StringRef obstacle;
  Value base = undo(alias, value, &obstacle);
  if (!base)
    return call.emitError() << call.getTarget() << ": cannot write through '" << obstacle << "' ("
                            << describe(call.getLoc()) << ")";
  alias.current = value;
  alias.storage->base = base;
  alias.writes = ++alias.storage->writes;
  notePending(alias);
  return success();
}

/// The base through which `alias` sees `value`; null if a view, the `obstacle`, has no inverse.
Value TensorAliases::undo(const Alias &alias, Value value, StringRef *obstacle) {
  // The values along the chain, before the write.
  SmallVector<Value> sources = {alias.storage->base};
  for (const ViewStep &step : alias.chain)
    sources.push_back(repeat(step, sources.back()));
  for (size_t i = alias.chain.size(); i-- > 0;) {
    CallOp view = alias.chain[i].call;
    value = invertView(builder, view, alias.chain[i].result, sources[i], value);
    if (value)
      continue;
    if (obstacle)
      *obstacle = view.getTarget();
    return Value();
  }
  return value;
}

/// The result of a call that may have copied becomes a storage of its own. The one it came from
/// must not be looked at any more.
LogicalResult TensorAliases::cutAtUncertainStep(Alias &alias, CallOp call) {
  while (true) {
    auto step = llvm::find_if_not(alias.chain, isCertain);
    if (step == alias.chain.end())
      return success();
    size_t length = step - alias.chain.begin() + 1;
    ViewStep at = *step;
    Storage *old = alias.storage;
    if (isa<BlockArgument>(old->root) || old->root.getDefiningOp<ConstantOp>())
      return call.emitError() << call.getTarget() << ": cannot tell whether it writes an input "
                              << "or a buffer, through '" << at.call.getTarget() << "' ("
                              << describe(call.getLoc()) << ")";
    Storage *fresh = addStorage(at.call->getResult(at.result));
    for (std::unique_ptr<Alias> &other : owned) {
      bool passes = other->storage == old && other->chain.size() >= length &&
                    other->chain[length - 1].call == at.call &&
                    other->chain[length - 1].result == at.result;
      if (!passes)
        continue;
      other->storage = fresh;
      other->chain.erase(other->chain.begin(), other->chain.begin() + length);
      other->writes = 0;
    }
    old->cut = true;
  }
}

void TensorAliases::resize(Alias &alias, Value value) {
  *alias.storage = Storage{value, value};
  alias.storage->resized = true;
  alias.current = value;
  alias.writes = 0;
}

bool TensorAliases::isAlone(const Alias &alias) const {
  Value root = alias.storage->root;
  return alias.chain.empty() && !alias.storage->resized && !isa<BlockArgument>(root) &&
         !root.getDefiningOp<ConstantOp>() &&
         llvm::none_of(owned, [&](const std::unique_ptr<Alias> &other) {
           return other.get() != &alias && other->storage == alias.storage;
         });
}

bool TensorAliases::canWrite(const Alias &alias) {
  for (const std::unique_ptr<Alias> &other : owned)
    if (other->storage == alias.storage && !llvm::all_of(other->chain, isCertain))
      return false;
  // Whether all views have an inverse shows when they are undone; what that made is not used.
  auto atStart = [&] { return builder.getInsertionPoint() == builder.getBlock()->begin(); };
  Operation *before = atStart() ? nullptr : &*std::prev(builder.getInsertionPoint());
  bool isInvertible = static_cast<bool>(undo(alias, alias.current));
  while (!atStart() && &*std::prev(builder.getInsertionPoint()) != before)
    std::prev(builder.getInsertionPoint())->erase();
  return isInvertible;
}
