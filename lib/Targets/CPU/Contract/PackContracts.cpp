// cpu-pack-contracts: lays out constant right operands of contracts in panels.
#include "CPU/Contract/BlockFloats.h"
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/MultiplyGroups.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/ADT/MapVector.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUPACKCONTRACTS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

/// Elements of the right operand.
static std::optional<int64_t> getElements(ContractOp contract) {
  sym::Expr count =
      sym::product(contract.getN().getSizes()) * sym::product(contract.getK().getSizes());
  for (auto [i, size] : llvm::enumerate(contract.getBatch().getSizes()))
    if (usesDim(contract.getRhs(), i))
      count = count * size;
  return count.constant();
}

/// The operand takes much less memory as what it is computed from, and so less time to read.
/// (Folding would refuse it, too.)
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

/// Tiles multiply so much faster than vectors that an operand is worth laying out in every run.
static bool isPackedForTiles(ContractOp contract, const codegen::CPUInfo &target) {
  constexpr int64_t fewestRows = 64, fewestColumns = 16;
  if (!target.amxBf16 || !canPackPairs(contract))
    return false;
  auto isAtLeast = [](ArrayRef<sym::Expr> sizes, int64_t least) {
    return sym::product(sizes).constant().value_or(least) >= least;
  };
  return isAtLeast(contract.getM().getSizes(), fewestRows) &&
         isAtLeast(contract.getN().getSizes(), fewestColumns);
}

const char *cpu::whyNotPacked(ContractOp contract, const codegen::CPUInfo &target) {
  SmallVector<Value> tensors = readTensors(contract.getRhs());
  bool isConstant = !tensors.empty() && llvm::all_of(tensors, isKnownConstant);
  if (!isConstant && !isPackedForTiles(contract, target))
    return "it is not a constant";
  const char *reason;
  if (isConstant && isNarrow(contract, tensors) && !SmallWeights::get(contract, reason))
    return reason;
  return whyNeverPacked(contract);
}

static ContractTarget getTiles(ContractOp contract, const codegen::CPUInfo &target) {
  Type sumType = contract.getEpilogue().getArgument(0).getType();
  return {std::max<int64_t>(target.lanes(sumType), 1), target.vectorRegisters, target.fmaUnits,
          target.fmaLatency};
}

int64_t cpu::choosePanel(ContractOp contract, const codegen::CPUInfo &target) {
  auto guess = [](ArrayRef<sym::Expr> sizes) {
    constexpr int64_t unknown = 64;
    return sym::product(sizes)
        .evaluate([](sym::Expr) { return unknown; })
        .value_or(int64_t(1) << 40);
  };
  // Sums of groups take registers that a second vector of columns would.
  if (GroupedBytes::get(contract))
    return getTiles(contract, target).lanes;
  if (multipliesDigits(contract, target))
    return digitVectors * getTiles(contract, target).lanes;
  int64_t m = guess(contract.getM().getSizes()), n = guess(PanelColumns(contract).extents);
  ContractTarget tiles = getTiles(contract, target);
  // Others need registers for what is between.
  Type sumType = contract.getEpilogue().getArgument(0).getType();
  bool isByFmas = isa<FloatType>(sumType) && !columnsAreBatch(contract) &&
                  llvm::all_of(readTensors(contract.getRhs()), [&](Value tensor) {
                    return getElementTypeOrSelf(tensor) == sumType;
                  });
  if (!isByFmas)
    return chooseContractPanel(m, n, tiles);
  int64_t k = guess(contract.getK().getSizes()), run = countRowsOfRun(contract).value_or(m);
  return chooseConstantPanel({m, n, k, run}, tiles);
}

/// The width for products with one weight.
static int64_t chooseSharedPanel(ArrayRef<int64_t> panels, ContractOp contract,
                                 const codegen::CPUInfo &target) {
  return kernel::chooseSharedPanel(panels, getTiles(contract, target));
}

namespace {

struct Packing : Panels {
  using Panels::Panels;

  bool isConstant() const { return llvm::all_of(readTensors(contract.getRhs()), isKnownConstant); }

  /// Equal for products with one weight that may share its layout; null if it is not a constant.
  Attribute identify() const {
    MLIRContext *context = contract.getContext();
    SmallVector<Attribute> parts;
    for (Value tensor : readTensors(contract.getRhs())) {
      auto constant = tensor.getDefiningOp<ConstantOp>();
      if (!constant)
        return {};
      parts.push_back(constant.getValue());
      if (constant.getName())
        parts.push_back(constant.getNameAttr());
    }
    parts.push_back(sym::ShapeAttr::get(context, PanelColumns(contract).extents));
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
      const char *reason;
      std::optional<SmallWeights> small;
      if (packing.isConstant())
        small = SmallWeights::get(packing.contract, reason);
      emitRemark(RemarkKind::Done, packing.contract, getArgument(), "Packed", [&] {
        return RemarkText{"right operand packed into panels of " + std::to_string(packing.panel) +
                          (small ? " columns of small integers" : " columns")};
      });
      if (small)
        packSmallWeights(packing, *small, multipliesInPairs(packing.contract, *small, target),
                         rewriter);
      else if (((target.avx512bf16 && packing.isConstant()) || target.amxBf16) &&
               canPackPairs(packing.contract))
        packPairs(packing, rewriter);
      else
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
  const char *whyNot(ContractOp contract) const {
    switch (getLayout(contract).getRhs()) {
    case OperandPlace::Planned:
      return whyNotPacked(contract, target);
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
                           : chooseSharedPanel(panels, same.front()->contract, target);
      for (Packing *packing : same)
        packing->panel = shared;
    }
  }

  void pack(const Packing &packing, IRRewriter &rewriter) {
    ContractOp contract = packing.contract;
    bool widens = packing.isConstant() && multipliesHalves(contract);
    if (widens && isWorthWidening(contract))
      placeLeft(contract, rewriter.getF32Type(), rewriter);
    else
      widens = widens && widenImage(contract, rewriter);
    rewriter.setInsertionPoint(contract);
    Location loc = contract.getLoc();
    SmallVector<sym::Expr> extents = contract.getExtents(), k = packing.getSums(), dims, steps;
    unsigned firstK = packing.firstK();

    // Dim firstK + order[i] of the old op is dim firstK + i of the new one.
    for (unsigned i = 0; i < extents.size(); ++i)
      dims.push_back(sym::Expr::dim(i));
    for (auto [i, old] : llvm::enumerate(packing.order)) {
      dims[firstK + old] = sym::Expr::dim(firstK + i);
      steps.push_back(sym::Expr::dim(firstK + i));
    }
    Block &body = contract.getRhs().front();
    Value yielded = body.getTerminator()->getOperand(0);
    Type element = yielded.getType();
    Value packed = packing.create(
        element, sym::product(k), rewriter,
        [&](Panels::CloneAt cloneAt, sym::Expr row, Value mask) {
          Value value = cloneAt(row).lookup(yielded);
          // A lone read is zero where it is masked; anything else is made so.
          if (!mask || llvm::hasNItems(body, 2))
            return value;
          Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(element));
          return arith::SelectOp::create(rewriter, loc, mask, value, zero).getResult();
        });

    auto result = ContractOp::create(
        rewriter, loc, contract.getResult().getType(), contract.getBatchAttr(), contract.getMAttr(),
        contract.getNAttr(), sym::ShapeAttr::get(&getContext(), k), contract.getPermAttr(),
        rewriter.getI64IntegerAttr(packing.panel), sym::ExprAttr(), contract.getBytesAttr(),
        contract.getNarrowAttr());
    renameBody(contract.getLhs(), result.getLhs(), dims, rewriter);
    renameBody(contract.getEpilogue(), result.getEpilogue(), dims, rewriter);
    rewriter.setInsertionPointToStart(&result.getRhs().emplaceBlock());
    Value value = ReadOp::create(rewriter, loc, packed,
                                 packing.getPlace(extents.size(), sym::linearize(steps, k)));
    YieldOp::create(rewriter, loc, value);
    if (widens)
      widenYield(result.getRhs(), rewriter);
    rewriter.replaceOp(contract, result);
  }

  /// Elements of 16 bits are widened one by one for each tile of rows, unless the left operand is put into memory as f32
  /// before; the right one's are widened by vectors. A few rows do not pay for that memory.
  static bool isWorthWidening(ContractOp contract) {
    return contract.getNumK() == 1 && readsInPlace(contract) &&
           usesDim(contract.getLhs(), contract.getExtents().size() - 1);
  }

  static bool multipliesHalves(ContractOp contract) {
    auto isHalf = [](Region &region) {
      Type type = region.front().getTerminator()->getOperand(0).getType();
      return type.isBF16() || type.isF16();
    };
    return isHalf(contract.getLhs()) && isHalf(contract.getRhs()) && !hasFewRows(contract) &&
           !columnsAreBatch(contract) && contract.getEpilogue().getArgument(0).getType().isF32();
  }

  /// An image that a map makes for this product alone, as one with padding is, has elements of f32 where windows read each of
  /// them many times.
  static bool widenImage(ContractOp contract, IRRewriter &rewriter) {
    constexpr double fewestReads = 4;
    Block &body = contract.getLhs().front();
    auto read = dyn_cast<ReadOp>(body.front());
    auto map = read ? read.getTensor().getDefiningOp<MapOp>() : MapOp();
    if (contract.getNumK() < 2 || !map || !llvm::hasNItems(body, 2) || read.getMask() ||
        !read.getValues().empty() || map->getNumResults() != 1 || !map->hasOneUse())
      return false;
    sym::Expr reads =
        sym::product(contract.getM().getSizes()) * sym::product(contract.getK().getSizes());
    sym::Expr elements = sym::product(map.getExtents());
    for (sym::Expr size : contract.getBatch().getSizes())
      reads = reads * size;
    if (double(codegen::estimate(reads)) < fewestReads * double(codegen::estimate(elements)))
      return false;
    widenYield(map.getBody(), rewriter);
    auto type = cast<RankedTensorType>(map.getResult(0).getType());
    map.getResult(0).setType(type.clone(rewriter.getF32Type()));
    read.getResult().setType(rewriter.getF32Type());
    return true;
  }

  codegen::CPUInfo target;
};

} // namespace

void cpu::sharePanels(ArrayRef<ModuleOp> modules, const codegen::CPUInfo &target) {
  llvm::MapVector<Attribute, SmallVector<ContractOp>> uses;
  for (ModuleOp module : modules)
    module.walk([&](ContractOp contract) {
      if (contract.getPanel() || contract->hasAttr(layoutAttrName) ||
          isSwapPlanned(contract, target) || whyNotPacked(contract, target))
        return;
      if (Attribute weight = Packing(contract).identify())
        uses[weight].push_back(contract);
    });
  for (auto &[weight, same] : uses) {
    SmallVector<int64_t> panels;
    for (ContractOp contract : same)
      panels.push_back(choosePanel(contract, target));
    if (llvm::all_equal(panels))
      continue;
    auto layout =
        LayoutAttr::get(same.front().getContext(), OperandPlace::Planned, OperandOrder::Planned,
                        OperandPlace::Planned, chooseSharedPanel(panels, same.front(), target));
    for (ContractOp contract : same)
      contract->setAttr(layoutAttrName, layout);
  }
}
