// The kernel dialect, and what holds for dims and symbols inside of its regions.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FoldInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

#include "kiln/Dialect/Kernel/KernelDialect.cpp.inc"

#include "kiln/Dialect/Kernel/KernelAttrInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Kernel/KernelAttributes.cpp.inc"

namespace {
/// Scalars belong to the region that computes with them: folding must not lift constants out of it.
struct KernelFoldInterface : DialectFoldInterface {
  using DialectFoldInterface::DialectFoldInterface;
  bool shouldMaterializeInto(Region *) const override { return true; }
};
} // namespace

void KernelDialect::initialize() {
  addInterfaces<KernelFoldInterface>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Dialect/Kernel/KernelAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kiln/Dialect/Kernel/KernelOps.cpp.inc"
      >();
}

//===-- Attributes ---------------------------------------------------------------------------===//

ParseResult kernel::parseSizes(AsmParser &parser, SmallVectorImpl<int64_t> &sizes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parser.parseInteger(sizes.emplace_back()); });
}

void kernel::printSizes(AsmPrinter &printer, ArrayRef<int64_t> sizes) {
  printer << llvm::interleaved_array(sizes);
}

LogicalResult LaunchAttr::verify(function_ref<InFlightDiagnostic()> emitError, sym::ExprAttr grid,
                                 int64_t threads, int64_t scratch) {
  if (!grid.getValue().isValid()) // C1
    return emitError() << "the number of tasks does not fit 64 bits";
  if (threads < 0 || scratch < 0) // C2
    return emitError() << "a launch with " << threads << " threads and " << scratch
                       << " bytes of scratch memory";
  return success();
}

//===-- Regions ------------------------------------------------------------------------------===//

Type kernel::getScalarType(Type elementType) {
  if (auto integer = dyn_cast<IntegerType>(elementType))
    return IntegerType::get(elementType.getContext(), integer.getWidth());
  if (auto floating = dyn_cast<FloatType>(elementType); floating && floating.getWidth() == 8)
    return IntegerType::get(elementType.getContext(), 8);
  return elementType;
}

SmallVector<sym::Expr> kernel::getDimExtents(Region *region) {
  SmallVector<Region *> nest;
  for (Region *r = region; r; r = r->getParentRegion()) {
    Operation *parent = r->getParentOp();
    if (!isStructured(parent) && !isa_and_nonnull<ReduceOp, IterateOp>(parent))
      break;
    nest.push_back(r);
  }
  SmallVector<sym::Expr> extents;
  for (Region *r : llvm::reverse(nest)) {
    Operation *parent = r->getParentOp();
    if (auto structured = dyn_cast<StructuredOpInterface>(parent))
      llvm::append_range(extents, structured.getExtents());
    else if (auto reduce = dyn_cast<ReduceOp>(parent); reduce && r == &reduce.getBody())
      llvm::append_range(extents, reduce.getExtents().getSizes());
  }
  return extents;
}

void kernel::addSymbolRanges(Operation *op, sym::Assumptions &assumptions) {
  for (; op; op = op->getParentOp()) {
    auto symbols = op->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName);
    if (!symbols)
      continue;
    for (NamedAttribute symbol : symbols) {
      auto range = dyn_cast<DictionaryAttr>(symbol.getValue());
      if (!range)
        continue;
      auto bound = [&](StringRef name) -> std::optional<int64_t> {
        if (auto value = range.getAs<IntegerAttr>(name))
          return value.getInt();
        return std::nullopt;
      };
      assumptions.setRange(sym::Expr::symbol(symbol.getName().getValue()),
                           {bound("min"), bound("max")});
    }
  }
}

sym::Assumptions kernel::getAssumptions(Region *region) {
  sym::Assumptions assumptions;
  for (auto [i, extent] : llvm::enumerate(getDimExtents(region)))
    assumptions.setExtent(i, extent);
  addSymbolRanges(region->getParentOp(), assumptions);
  return assumptions;
}
