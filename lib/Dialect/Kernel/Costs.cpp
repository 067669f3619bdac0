// Counts the bytes and the operations of a kernel from the maps of its reads and the ops in its
// regions.
#include "kiln/Dialect/Kernel/Costs.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Kernel/Groups.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// The steps of a kernel.iterate, which data decides.
static constexpr int64_t typicalSteps = 32;

static bool isFloating(Type type) { return isa<FloatType, ComplexType>(type); }

/// Operations for one value of `op`.
static int64_t countFlops(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions() || !isFloating(op->getResult(0).getType()))
    return 0;
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::RemFOp,
            arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(
          [](auto) { return 1; })
      .Case([](math::FmaOp) { return 2; })
      .Case<complex::AddOp, complex::SubOp>([](auto) { return 2; })
      .Case([](complex::MulOp) { return 6; })
      .Case([](complex::DivOp) { return 11; })
      .Default([](Operation *other) {
        return other->getName().getDialectNamespace() == math::MathDialect::getDialectNamespace();
      });
}

/// Extents of dims that are all of a group, or of none.
static sym::Expr sizeOf(ArrayRef<sym::Expr> extents, const llvm::SmallBitVector &used) {
  sym::Expr size = 1;
  for (unsigned dim : used.set_bits())
    size = size * extents[dim];
  return size;
}

namespace {

/// Walks the regions of a structured op, with the dims that each value depends on.
class CostCounter {
public:
  explicit CostCounter(FuncOp func)
      : root(cast<StructuredOpInterface>(func.getRoot())), updates(func.getUpdates().has_value()) {}

  void count();
  sym::Expr getFlops() const;
  /// Bytes that are read of `tensor`.
  sym::Expr getReadBytes(Value tensor) const;

private:
  void visit(Region &region, ArrayRef<sym::Expr> extents, const llvm::SmallBitVector &ofArguments,
             int64_t times = 1);
  void visit(Operation &op, ArrayRef<sym::Expr> extents, int64_t times);
  llvm::SmallBitVector visitReduce(ReduceOp reduce, ArrayRef<sym::Expr> extents, int64_t times);
  llvm::SmallBitVector visitIterate(IterateOp iterate, ArrayRef<sym::Expr> extents, int64_t times);
  llvm::SmallBitVector getDims(Operation &op, unsigned count) const;
  llvm::SmallBitVector getDims(ValueRange values, unsigned count) const;
  void addFlops(sym::Expr evaluations, int64_t each) { flops[evaluations] += each; }
  void addContract(ContractOp contract);
  void addWinograd(WinogradOp winograd);
  void addAttention(AttentionOp attention);

  StructuredOpInterface root;
  bool updates; // the result is there already
  DenseMap<Value, llvm::SmallBitVector> dims;
  llvm::MapVector<sym::Expr, int64_t> flops; // by how often
  DenseMap<Value, llvm::SetVector<sym::Expr>> reads;
};

} // namespace

llvm::SmallBitVector CostCounter::getDims(ValueRange values, unsigned count) const {
  llvm::SmallBitVector used(count);
  for (Value value : values)
    if (auto known = dims.find(value); known != dims.end())
      for (unsigned dim : known->second.set_bits())
        if (dim < count)
          used.set(dim);
  return used;
}

llvm::SmallBitVector CostCounter::getDims(Operation &op, unsigned count) const {
  llvm::SmallBitVector used = getDims(op.getOperands(), count);
  if (sym::MapAttr map = getIndexMap(&op))
    for (sym::Expr result : map.getResults())
      result.walkLeaves([&](sym::Expr leaf) {
        if (leaf.kind() == sym::Kind::Dim && leaf.dimIndex() < count)
          used.set(leaf.dimIndex());
      });
  return used;
}

llvm::SmallBitVector CostCounter::visitReduce(ReduceOp reduce, ArrayRef<sym::Expr> extents,
                                              int64_t times) {
  SmallVector<sym::Expr> inner(extents);
  llvm::append_range(inner, reduce.getExtents().getSizes());
  visit(reduce.getBody(), inner, llvm::SmallBitVector(inner.size()), times);
  llvm::SmallBitVector used =
      getDims(reduce.getBody().front().getTerminator()->getOperands(), inner.size());
  used |= getDims(reduce.getInit(), inner.size());
  used.set(extents.size(), inner.size());
  visit(reduce.getCombine(), inner, used, times);
  used.resize(extents.size());
  return used;
}

llvm::SmallBitVector CostCounter::visitIterate(IterateOp iterate, ArrayRef<sym::Expr> extents,
                                               int64_t times) {
  llvm::SmallBitVector used = getDims(iterate.getInit(), extents.size());
  for (Operation &op : iterate.getBody().front())
    used |= getDims(op.getOperands(), extents.size());
  visit(iterate.getBody(), extents, used, times * typicalSteps);
  return used;
}

void CostCounter::visit(Operation &op, ArrayRef<sym::Expr> extents, int64_t times) {
  llvm::SmallBitVector used =
      llvm::TypeSwitch<Operation *, llvm::SmallBitVector>(&op)
          .Case([&](ReduceOp reduce) { return visitReduce(reduce, extents, times); })
          .Case([&](IterateOp iterate) { return visitIterate(iterate, extents, times); })
          .Default([&](Operation *other) { return getDims(*other, extents.size()); });
  for (Value result : op.getResults())
    dims[result] = used;
  if (auto read = dyn_cast<ReadOp>(op)) {
    // What it is read instead of says nothing of where.
    llvm::SmallBitVector places = getDims(read.getValues(), extents.size());
    for (sym::Expr result : read.getMap().getResults())
      result.walkLeaves([&](sym::Expr leaf) {
        if (leaf.kind() == sym::Kind::Dim && leaf.dimIndex() < extents.size())
          places.set(leaf.dimIndex());
      });
    reads[read.getTensor()].insert(sizeOf(extents, places));
  }
  if (int64_t each = countFlops(&op))
    addFlops(sizeOf(extents, used), times * each);
}

void CostCounter::visit(Region &region, ArrayRef<sym::Expr> extents,
                        const llvm::SmallBitVector &ofArguments, int64_t times) {
  if (region.empty())
    return;
  for (Value argument : region.getArguments())
    dims[argument] = ofArguments;
  for (Operation &op : region.front())
    visit(op, extents, times);
}

/// A multiplication and an addition for each step of the sum, of which an element may hold several.
void CostCounter::addContract(ContractOp contract) {
  Type type = contract.getLhs().front().getTerminator()->getOperand(0).getType();
  addFlops(sym::product(root.getExtents()),
           isa<ComplexType>(type) ? 8 : 2 * contract.getBytes().value_or(1));
}

/// A multiplication and an addition for each point, channel and feature of a tile.
void CostCounter::addWinograd(WinogradOp winograd) {
  auto tile = static_cast<int64_t>(winograd.getTile());
  sym::Expr tiles = sym::product(winograd.getBatch().getSizes());
  for (sym::Expr size : winograd.getPixels().getSizes())
    tiles = tiles * size.ceilDiv(tile);
  addFlops(tiles * winograd.getN().getValue() * winograd.getC().getValue(),
           2 * winograd.getPoints() * winograd.getPoints());
}

/// Two products, and for each pair of a query and a key: scale, greatest, difference, power, sum.
void CostCounter::addAttention(AttentionOp attention) {
  sym::Expr m = attention.getM().getValue(), n = attention.getN().getValue(), pairs = m * n;
  if (attention.getCausal()) {
    // Query i has i + 1 keys, if there are so many.
    sym::Expr growing = sym::Expr::min(m, n);
    pairs = (growing * (growing + 1)).floorDiv(2) + (m - growing) * n;
  }
  sym::Expr all = sym::product(attention.getBatch().getSizes()) * pairs;
  addFlops(all * attention.getD().getValue(), 2);
  addFlops(all * attention.getDv().getValue(), 2);
  addFlops(all, 5);
}

void CostCounter::count() {
  SmallVector<sym::Expr> extents = root.getExtents();
  for (Region &region : root->getRegions()) {
    llvm::SmallBitVector used = root.getRegionDims(region);
    // Each place is combined once, whatever its target.
    if (auto scatter = dyn_cast<ScatterOp>(root.getOperation());
        scatter && &region == &scatter.getCombine())
      used = root.getRegionDims(scatter.getUpdate());
    else if (scatter && &region == &scatter.getInit() && updates)
      continue;
    visit(region, extents, used);
  }
  if (auto contract = dyn_cast<ContractOp>(root.getOperation()))
    addContract(contract);
  else if (auto winograd = dyn_cast<WinogradOp>(root.getOperation()))
    addWinograd(winograd);
  else if (auto attention = dyn_cast<AttentionOp>(root.getOperation()))
    addAttention(attention);
}

sym::Expr CostCounter::getFlops() const {
  SmallVector<sym::Expr> terms;
  for (auto [evaluations, each] : flops)
    terms.push_back(evaluations * each);
  return sym::sum(terms);
}

sym::Expr CostCounter::getReadBytes(Value tensor) const {
  auto type = cast<RankedTensorType>(tensor.getType());
  sym::Expr all = sym::product(sym::getShape(type)), item = getElementBytes(type.getElementType());
  auto known = reads.find(tensor);
  if (known == reads.end())
    return 0;
  sym::Expr total = 0;
  for (sym::Expr elements : known->second) {
    if (elements == all)
      return all * item;
    total = total + elements;
  }
  return sym::Expr::min(all, total) * item;
}

/// The costs of all parts together. An operand that several read comes from memory once.
static KernelCosts getGroupCosts(FuncOp group) {
  SmallVector<Value> buffers(group.getBody().getArguments());
  llvm::append_range(buffers, getReturned(group));
  KernelCosts costs{0, SmallVector<sym::Expr>(buffers.size(), sym::Expr(0))};
  for (CallOp call : getParts(group)) {
    KernelCosts part = getCosts(getPart(call));
    costs.flops = costs.flops + part.flops;
    SmallVector<Value> own(call.getOperands());
    llvm::append_range(own, call.getResults());
    for (auto [buffer, bytes] : llvm::zip_equal(own, part.bytes))
      if (const auto *place = llvm::find(buffers, buffer); place != buffers.end()) {
        sym::Expr &all = costs.bytes[place - buffers.begin()];
        all = sym::Expr::max(all, bytes);
      }
  }
  return costs;
}

KernelCosts kernel::getCosts(FuncOp func) {
  if (isGroup(func))
    return getGroupCosts(func);
  CostCounter counter(func);
  counter.count();
  KernelCosts costs{counter.getFlops(), {}};
  for (Value operand : func.getBody().getArguments())
    costs.bytes.push_back(counter.getReadBytes(operand));
  for (Type result : func.getResultTypes()) {
    auto type = cast<RankedTensorType>(result);
    sym::Expr elements = sym::product(sym::getShape(type));
    if (func.getUpdates()) {
      auto scatter = cast<ScatterOp>(func.getRoot());
      elements = sym::Expr::min(elements, sym::product(scatter.getBatch().getSizes()) *
                                              sym::product(scatter.getPlaces().getSizes()));
    }
    costs.bytes.push_back(elements * getElementBytes(type.getElementType()));
  }
  return costs;
}
