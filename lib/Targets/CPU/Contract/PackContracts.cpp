// cpu-pack-contracts: lays out constant right operands of contracts in panels.
#include "CPU/Contract/ContractRegions.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"
#include <numeric>

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUPACKCONTRACTS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

/// Whether some index map of `region` uses dim `dim`.
static bool usesDim(Region &region, unsigned dim) {
  return region
      .walk([&](Operation *op) {
        auto map = kernel::getIndexMap(op);
        bool uses = map && llvm::any_of(map.getResults(), [&](sym::Expr expr) {
                      return expr.dependsOn(sym::Expr::dim(dim));
                    });
        return uses ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The k dims in the order in which the left operand lies in memory, outermost first; the order
/// given where that is not known.
static SmallVector<unsigned> orderSums(ContractOp contract) {
  unsigned first = contract.getExtents().size() - contract.getNumK();
  SmallVector<unsigned> order(contract.getNumK());
  std::iota(order.begin(), order.end(), 0);
  ReadOp largest;
  sym::Assumptions assumptions = getAssumptions(&contract.getLhs());
  contract.getLhs().walk([&](ReadOp read) {
    auto rank = [](ReadOp r) { return cast<RankedTensorType>(r.getTensor().getType()).getRank(); };
    if (read->getParentRegion() == &contract.getLhs() && read.getValues().empty() &&
        (!largest || rank(read) > rank(largest)))
      largest = read;
  });
  if (!largest)
    return order;
  sym::Expr offset = assumptions.simplify(
      sym::linearize(largest.getMap().getResults(), sym::getShape(largest.getTensor())));
  SmallVector<int64_t> strides;
  for (unsigned i = 0; i < order.size(); ++i) {
    std::optional<sym::Linear> linear = sym::splitLinear(offset, sym::Expr::dim(first + i));
    std::optional<int64_t> stride =
        linear ? linear->coefficient.constant() : std::optional<int64_t>();
    if (!stride)
      return order;
    strides.push_back(std::abs(*stride));
  }
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : a < b;
  });
  return order;
}

namespace {

/// The dims that are a contract's columns: its n dims, or the last batch dim.
struct Columns {
  explicit Columns(ContractOp contract) : isBatch(columnsAreBatch(contract)) {
    first = isBatch ? contract.getNumBatch() - 1 : contract.getNumBatch() + contract.getNumM();
    extents = isBatch ? contract.getBatch().getSizes().take_back() : contract.getN().getSizes();
  }
  bool isBatch;
  unsigned first;
  ArrayRef<sym::Expr> extents;
};

} // namespace

/// Elements of the right operand.
static std::optional<int64_t> getElements(ContractOp contract) {
  sym::Expr count =
      sym::product(contract.getN().getSizes()) * sym::product(contract.getK().getSizes());
  for (auto [i, size] : llvm::enumerate(contract.getBatch().getSizes()))
    if (usesDim(contract.getRhs(), i))
      count = count * size;
  return count.constant();
}

/// The operand takes much less memory as what it is computed from, small integers for example,
/// and so less time to read. (Folding would refuse it, too.)
static bool isNarrow(ContractOp contract, ArrayRef<Value> tensors) {
  Type element = contract.getRhs().front().getTerminator()->getOperand(0).getType();
  std::optional<int64_t> elements = getElements(contract);
  int64_t bytes = 0;
  for (Value tensor : llvm::SetVector<Value>(tensors.begin(), tensors.end()))
    if (auto type = cast<RankedTensorType>(tensor.getType()); type.hasStaticShape())
      bytes += getByteSize(type);
  return elements && 2 * bytes < *elements * getByteSize(RankedTensorType::get({1}, element));
}

const char *cpu::whyNeverPacked(ContractOp contract) {
  if (contract.getPart())
    return "its sums are cut";
  if (readTensors(contract.getRhs()).empty())
    return "it reads nothing";
  if (!contract.getEpilogue().getArgument(0).getType().isIntOrFloat())
    return "its elements are complex";
  if (sym::product(contract.getN().getSizes()).isConstant(1) && !columnsAreBatch(contract))
    return "it has one column";
  return nullptr;
}

const char *cpu::whyNotPacked(ContractOp contract) {
  SmallVector<Value> tensors = readTensors(contract.getRhs());
  if (tensors.empty() || !llvm::all_of(tensors, isKnownConstant))
    return "it is not a constant";
  if (isNarrow(contract, tensors))
    return "it is computed of much smaller constants, which take less time to read";
  return whyNeverPacked(contract);
}

static ContractTarget getTiles(ContractOp contract, const codegen::CPUInfo &target) {
  Type sumType = contract.getEpilogue().getArgument(0).getType();
  return {std::max<int64_t>(target.lanes(sumType), 1), target.vectorRegisters};
}

int64_t cpu::choosePanel(ContractOp contract, const codegen::CPUInfo &target) {
  auto guess = [](ArrayRef<sym::Expr> sizes) {
    constexpr int64_t unknown = 64;
    return sym::product(sizes)
        .evaluate([](sym::Expr) { return unknown; })
        .value_or(int64_t(1) << 40);
  };
  return chooseContractPanel(guess(contract.getM().getSizes()), guess(Columns(contract).extents),
                             getTiles(contract, target));
}

namespace {

/// How a contract's right operand is laid out.
struct Packing {
  explicit Packing(ContractOp contract) : contract(contract), order(orderSums(contract)) {}
  ContractOp contract;
  SmallVector<unsigned> order; // of the k dims
  int64_t panel = 0;

  SmallVector<sym::Expr> getSums() const {
    ArrayRef<sym::Expr> sizes = ContractOp(contract).getK().getSizes();
    SmallVector<sym::Expr> sums;
    for (unsigned dim : order)
      sums.push_back(sizes[dim]);
    return sums;
  }

  /// Equal for products with one weight that may share its layout; null if it is not a constant.
  Attribute identify() const {
    MLIRContext *context = contract->getContext();
    SmallVector<Attribute> parts;
    for (Value tensor : readTensors(ContractOp(contract).getRhs())) {
      auto constant = tensor.getDefiningOp<ConstantOp>();
      if (!constant)
        return {};
      parts.push_back(constant.getValue());
      if (constant.getName())
        parts.push_back(constant.getNameAttr());
    }
    parts.push_back(sym::ShapeAttr::get(context, Columns(contract).extents));
    parts.push_back(sym::ShapeAttr::get(context, getSums()));
    return ArrayAttr::get(context, parts);
  }
};

struct PackContracts : kiln::cpu::impl::CpuPackContractsBase<PackContracts> {
  using CpuPackContractsBase::CpuPackContractsBase;

  void runOnOperation() override {
    FailureOr<codegen::CPUInfo> known = cpu::getTarget(getOperation());
    if (failed(known))
      return signalPassFailure();
    target = *known;
    SmallVector<Packing> packings;
    SmallVector<ContractOp> chosen;
    bool isWrong = false;
    getOperation()->walk([&](ContractOp contract) {
      if (contract->hasAttr(layoutAttrName))
        chosen.push_back(contract);
      if (contract.getPanel())
        return;
      isWrong |= failed(checkPanel(contract));
      const char *reason = whyNot(contract);
      if (!reason) {
        packings.emplace_back(contract);
        return;
      }
      emitRemark(RemarkKind::NotDone, contract, getArgument(), "NotPacked",
                 [&] { return RemarkText{"right operand not packed into panels", reason}; });
    });
    if (isWrong)
      return signalPassFailure();
    unifyPanels(packings);
    for (ContractOp contract : chosen)
      contract->removeAttr(layoutAttrName);
    IRRewriter rewriter(&getContext());
    for (Packing &packing : packings) {
      emitRemark(RemarkKind::Done, packing.contract, getArgument(), "Packed", [&] {
        return RemarkText{"right operand packed into panels of " + std::to_string(packing.panel) +
                          " columns"};
      });
      pack(packing, rewriter);
    }
  }

private:
  LogicalResult checkPanel(ContractOp contract) {
    LayoutAttr layout = getLayout(contract);
    int64_t lanes = getTiles(contract, target).lanes;
    if (layout.getPanel() % lanes == 0)
      return success();
    return contract.emitOpError() << "cannot have " << layout << ": panels are whole vectors of "
                                  << lanes << " columns";
  }

  /// Null if the right operand is to be packed.
  static const char *whyNot(ContractOp contract) {
    switch (getLayout(contract).getRhs()) {
    case OperandPlace::Planned:
      return whyNotPacked(contract);
    case OperandPlace::Kept:
      return "its layout says that it is kept";
    case OperandPlace::Copied:
      return whyNeverPacked(contract);
    }
    llvm_unreachable("there is no other place");
  }

  /// Products with one weight share its panels, unless they sum in another order.
  void unifyPanels(MutableArrayRef<Packing> packings) {
    llvm::MapVector<Attribute, SmallVector<Packing *>> uses;
    for (Packing &packing : packings) {
      int64_t given = getLayout(packing.contract).getPanel();
      packing.panel = given ? given : choosePanel(packing.contract, target);
      if (Attribute weight = packing.identify())
        uses[weight].push_back(&packing);
    }
    for (auto &[weight, same] : uses) {
      SmallVector<int64_t> panels;
      for (Packing *packing : same)
        panels.push_back(packing->panel);
      auto given = llvm::find_if(
          same, [](Packing *packing) { return getLayout(packing->contract).getPanel() != 0; });
      int64_t shared = given != same.end()
                           ? (*given)->panel
                           : chooseSharedPanel(panels, getTiles(same.front()->contract, target));
      for (Packing *packing : same)
        packing->panel = shared;
    }
  }

  void pack(const Packing &packing, IRRewriter &rewriter) {
    ContractOp contract = packing.contract;
    int64_t panel = packing.panel;
    rewriter.setInsertionPoint(contract);
    Location loc = contract.getLoc();
    SmallVector<sym::Expr> extents = contract.getExtents(), k = packing.getSums();
    unsigned firstK = extents.size() - contract.getNumK();

    // Dim firstK + order[i] of the old op is dim firstK + i of the new one.
    SmallVector<sym::Expr> dims;
    for (unsigned i = 0; i < extents.size(); ++i)
      dims.push_back(sym::Expr::dim(i));
    for (auto [i, old] : llvm::enumerate(packing.order))
      dims[firstK + old] = sym::Expr::dim(firstK + i);
    Columns columns(contract);
    MapOp packed = createPacked(contract, dims, k, columns, panel, rewriter);

    auto result = ContractOp::create(
        rewriter, loc, contract.getResult().getType(), contract.getBatchAttr(), contract.getMAttr(),
        contract.getNAttr(), sym::ShapeAttr::get(&getContext(), k), contract.getPermAttr(),
        rewriter.getI64IntegerAttr(panel), sym::ExprAttr(), contract.getBytesAttr());
    renameBody(contract.getLhs(), result.getLhs(), dims, rewriter);
    renameBody(contract.getEpilogue(), result.getEpilogue(), dims, rewriter);

    sym::IndexMap index{static_cast<unsigned>(extents.size()), {}};
    for (auto [i, size] : llvm::enumerate(getPackedBatch(contract, columns)))
      index.results.push_back(size.isConstant(1) ? sym::Expr(0) : sym::Expr::dim(i));
    SmallVector<sym::Expr> n, sums;
    for (unsigned i = 0; i < columns.extents.size(); ++i)
      n.push_back(sym::Expr::dim(columns.first + i));
    for (unsigned i = firstK; i < extents.size(); ++i)
      sums.push_back(sym::Expr::dim(i));
    sym::Expr column = sym::linearize(n, columns.extents);
    index.results.append({column.floorDiv(panel), sym::linearize(sums, k), column.mod(panel)});
    rewriter.setInsertionPointToStart(&result.getRhs().emplaceBlock());
    Value element = ReadOp::create(rewriter, loc, packed.getResult(0), index);
    YieldOp::create(rewriter, loc, element);
    rewriter.replaceOp(contract, result);
  }

  /// The batch dims of the packed operand: those that it does not depend on, and one that is the
  /// columns, have size 1.
  static SmallVector<sym::Expr> getPackedBatch(ContractOp contract, const Columns &columns) {
    SmallVector<sym::Expr> sizes;
    for (auto [i, size] : llvm::enumerate(contract.getBatch().getSizes())) {
      bool isColumns = columns.isBatch && i == columns.first;
      sizes.push_back(!isColumns && usesDim(contract.getRhs(), i) ? size : sym::Expr(1));
    }
    return sizes;
  }

  /// The right operand as [batch…, panels, k, panel], zeros after the last column.
  MapOp createPacked(ContractOp contract, ArrayRef<sym::Expr> dims, ArrayRef<sym::Expr> k,
                     const Columns &columns, int64_t panel, IRRewriter &rewriter) {
    Location loc = contract.getLoc();
    unsigned numBatch = contract.getNumBatch();
    unsigned firstK = numBatch + contract.getNumM() + contract.getNumN();
    sym::Expr end = sym::product(columns.extents);
    SmallVector<sym::Expr> shape = getPackedBatch(contract, columns);
    shape.append({end.ceilDiv(panel), sym::product(k), panel});

    Type element = contract.getRhs().front().getTerminator()->getOperand(0).getType();
    auto packed = MapOp::create(rewriter, loc, TypeRange(sym::getTensorType(shape, element)));
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(&packed.getBody().emplaceBlock());
    sym::Assumptions assumptions = getAssumptions(&packed.getBody());
    sym::Expr column = sym::Expr::dim(numBatch) * panel + sym::Expr::dim(numBatch + 2);

    DimSubstitution substitution;
    substitution.sourceDims = dims.size();
    substitution.targetDims = shape.size();
    substitution.dims.assign(dims.size(), sym::Expr(0));
    for (unsigned i = 0; i < numBatch; ++i)
      substitution.dims[i] = sym::Expr::dim(i);
    for (auto [i, value] : llvm::enumerate(sym::delinearize(column, columns.extents)))
      substitution.dims[columns.first + i] = assumptions.simplify(value);
    SmallVector<sym::Expr> sums = sym::delinearize(sym::Expr::dim(numBatch + 1), k);
    for (unsigned i = firstK; i < dims.size(); ++i)
      substitution.dims[i] = assumptions.simplify(sums[dims[i].dimIndex() - firstK]);
    if (!assumptions.isLess(column, end)) {
      sym::IndexMap inside{static_cast<unsigned>(shape.size()), {column}};
      substitution.mask = InsideOp::create(rewriter, loc, rewriter.getI1Type(),
                                           sym::MapAttr::get(&getContext(), inside),
                                           sym::ShapeAttr::get(&getContext(), {end}), ValueRange());
    }
    IRMapping mapping;
    Block &body = contract.getRhs().front();
    Value value = cloneBody(rewriter, body, substitution, mapping).front();
    // A lone read is zero where it is masked; anything else is made so.
    if (substitution.mask && !llvm::hasNItems(body, 2)) {
      Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(element));
      value = arith::SelectOp::create(rewriter, loc, substitution.mask, value, zero);
    }
    YieldOp::create(rewriter, loc, value);
    return packed;
  }

  codegen::CPUInfo target;
};

} // namespace
