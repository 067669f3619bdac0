// Layouts of a contract's operands beside the planned one: each changes one decision.
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/ContractStaging.h"
#include "kiln/Targets/CPU/Candidates.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

/// The left operand is one read, of an element for each row and step, whose steps lie next to each
/// other: a copy would be the same.
static bool isInOrder(ContractOp contract) {
  unsigned lastRow = contract.getNumBatch() + contract.getNumM() - 1;
  unsigned lastStep = contract.getExtents().size() - 1;
  return llvm::hasNItems(contract.getLhs().front(), 2) && contract.getNumM() != 0 &&
         contract.getNumK() == 1 && walksAlong(contract.getLhs(), lastStep, lastRow);
}

SmallVector<Attribute> cpu::enumerateLayouts(ContractOp contract, const codegen::CPUInfo &target) {
  if (!contract.getEpilogue().getArgument(0).getType().isIntOrFloat() || contract.getPart() ||
      contract.getPanel())
    return {};
  constexpr auto planned = OperandPlace::Planned;
  bool isSwapped = isSwapPlanned(contract, target), isDepthwise = columnsAreBatch(contract);
  bool canPack = !whyNeverPacked(contract), isPacked = !whyNotPacked(contract, target);
  OperandOrder order = isSwapped ? OperandOrder::Swapped : OperandOrder::Kept;
  // Another operand is on the right once they are exchanged.
  OperandPlace right = isSwapped ? planned : isPacked ? OperandPlace::Copied : OperandPlace::Kept;
  int64_t panel = right == OperandPlace::Copied ? choosePanel(contract, target) : 0;
  llvm::SetVector<Attribute> layouts;
  auto add = [&](OperandPlace lhs, OperandOrder order, OperandPlace rhs, int64_t panel = 0) {
    layouts.insert(LayoutAttr::get(contract.getContext(), lhs, order, rhs, panel));
  };
  add(planned, order, right, panel);
  if (isPacked && !isSwapped) {
    int64_t lanes = target.lanes(contract.getEpilogue().getArgument(0).getType());
    std::optional<int64_t> columns = isDepthwise
                                         ? contract.getBatch().getSizes().back().constant()
                                         : sym::product(contract.getN().getSizes()).constant();
    for (int64_t other : {2 * panel, panel / 2, panel + lanes, panel - lanes, 4 * panel})
      if (lanes > 0 && other >= lanes && other % lanes == 0 &&
          (!columns || other < *columns + lanes))
        add(planned, order, OperandPlace::Copied, other);
    if (!isDepthwise)
      add(planned, order, OperandPlace::Kept);
  } else if (canPack && !isSwapped) {
    add(planned, order, OperandPlace::Copied);
  }
  bool isStatic = llvm::all_of(contract.getExtents(), [](sym::Expr e) { return e.isConstant(); });
  // Windows over images of open size are planned in another way than those of known size.
  if (isStatic && !readTensors(contract.getLhs()).empty() && !isInOrder(contract))
    add(OperandPlace::Copied, order, right, panel);
  if (canSwap(contract) && contract.getNumM() != 0)
    add(planned, isSwapped ? OperandOrder::Kept : OperandOrder::Swapped, planned);
  return layouts.takeVector();
}
