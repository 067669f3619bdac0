// Rows of a table that a product has in panels, too, are gathered from the panels: one layout for
// an embedding and the head that is tied to it.
#include "kiln/Transforms/Kernel/MapDims.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELREADPACKEDROWS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// An element of a panel is a cache line of its own, which takes the time of so many products.
static constexpr double productsPerElement = 600;
/// Gathering may take this part of the time that its function's products take.
static constexpr double maxShare = 0.02;
/// Products with fewer rows wait for the weight.
static constexpr double minRows = 40;

static double estimate(ArrayRef<sym::Expr> sizes) {
  return static_cast<double>(estimateElements(sizes));
}

namespace {

/// The uses of a table: the panels that products have it in, and where rows are gathered.
struct Table {
  MapOp panels;
  SmallVector<ReadOp> gathers;
  /// Something needs it as it is.
  bool isPlain = false;
};

struct ReadPackedRows : kiln::impl::KernelReadPackedRowsBase<ReadPackedRows> {
  void runOnOperation() override {
    // The same parameter may be a constant of several functions.
    llvm::MapVector<Attribute, Table> tables;
    for (auto function : getOperation().getOps<func::FuncOp>())
      function.walk([&](ConstantOp constant) {
        SmallVector<Attribute> parts = {constant.getValue()};
        if (constant.getName())
          parts.push_back(constant.getNameAttr());
        Table &table = tables[ArrayAttr::get(&getContext(), parts)];
        table.isPlain |= constant->hasAttr(mutatedAttrName);
        for (Operation *user : constant->getUsers())
          addUse(table, user);
      });
    for (auto &[constant, table] : tables) {
      if (table.isPlain || !table.panels)
        continue;
      if (llvm::all_of(table.gathers, isCheap))
        for (ReadOp read : table.gathers)
          redirect(read, table.panels);
    }
  }

private:
  static void addUse(Table &table, Operation *user) {
    auto read = dyn_cast<ReadOp>(user);
    if (isa<ConstantOp>(user)) // was folded from it
      return;
    auto map = read ? read->getParentOfType<MapOp>() : MapOp();
    if (map && isPacking(map, read)) {
      if (!table.panels)
        table.panels = map;
    } else if (map && isGatherOfRows(read)) {
      table.gathers.push_back(read);
    } else {
      table.isPlain = true;
    }
  }

  /// Row p*panel + c, column k of a table at [p, k, c], as `cpu-pack-contracts` writes it.
  static bool isPacking(MapOp map, ReadOp read) {
    auto type = cast<RankedTensorType>(read.getTensor().getType());
    auto packed = cast<RankedTensorType>(map.getResult(0).getType());
    if (map.getNumResults() != 1 || type.getRank() != 2 || packed.getRank() != 3 ||
        !packed.hasStaticShape() || !type.hasStaticShape() || !read.getValues().empty() ||
        map.getBody().front().getTerminator()->getOperand(0) != read.getResult())
      return false;
    int64_t panel = packed.getDimSize(2), rows = type.getDimSize(0);
    sym::Expr row = panel * sym::Expr::dim(0) + sym::Expr::dim(2);
    ArrayRef<sym::Expr> index = read.getMap().getResults();
    if (panel == 0 || rows < panel || packed.getDimSize(0) != llvm::divideCeilSigned(rows, panel) ||
        packed.getDimSize(1) != type.getDimSize(1) || index[0] != row ||
        index[1] != sym::Expr::dim(1))
      return false;
    if (!read.getMask())
      return true;
    auto inside = read.getMask().getDefiningOp<InsideOp>();
    return inside && inside.getValues().empty() &&
           llvm::equal(inside.getMap().getResults(), ArrayRef(row)) &&
           llvm::equal(inside.getBounds().getSizes(), ArrayRef(sym::Expr(rows)));
  }

  /// The row is data, the column is not.
  static bool isGatherOfRows(ReadOp read) {
    auto type = cast<RankedTensorType>(read.getTensor().getType());
    if (read.getValues().size() != 1 || type.getRank() != 2)
      return false;
    sym::Expr value = sym::Expr::dim(read.getMap().getNumDims() - 1);
    ArrayRef<sym::Expr> index = read.getMap().getResults();
    return index[0] == value && !index[1].dependsOn(value);
  }

  static bool isCheap(ReadOp read) {
    double products = 0;
    read->getParentOfType<func::FuncOp>().walk([&](ContractOp contract) {
      products += estimate(contract.getBatch().getSizes()) * estimate(contract.getN().getSizes()) *
                  estimate(contract.getK().getSizes()) *
                  std::max(minRows, estimate(contract.getM().getSizes()));
    });
    return estimate(getDimExtents(read->getParentRegion())) * productsPerElement <=
           maxShare * products;
  }

  /// Lets `read` read what `panels` makes. Folding computes a copy of it once.
  static void redirect(ReadOp read, MapOp panels) {
    MapOp root = read->getParentOfType<MapOp>();
    IRMapping mapping;
    mapping.map(getReadTensors(panels).front(), read.getTensor());
    auto copy = cast<MapOp>(OpBuilder(root).clone(*panels, mapping));
    auto packed = cast<RankedTensorType>(copy.getResult(0).getType());
    int64_t panel = packed.getDimSize(2);
    int64_t rows = cast<RankedTensorType>(read.getTensor().getType()).getDimSize(0);

    OpBuilder builder(read);
    Location loc = read.getLoc();
    Value row = read.getValues().front();
    // A row past the last one is in its panel all the same.
    if (rows % panel != 0) {
      Value end = arith::ConstantIntOp::create(builder, loc, rows, 64);
      Value none = arith::ConstantIntOp::create(builder, loc, -1, 64);
      Value isRow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, row, end);
      row = arith::SelectOp::create(builder, loc, isRow, row, none);
    }
    sym::Expr value = sym::Expr::dim(read.getMap().getNumDims() - 1);
    sym::IndexMap map{read.getMap().getNumDims(),
                      {value.floorDiv(panel), read.getMap().getResults()[1], value.mod(panel)}};
    Value element =
        ReadOp::create(builder, loc, copy.getResult(0), map, row, read.getMask(), read.getOther());
    read.getResult().replaceAllUsesWith(element);
    read.erase();
  }
};

} // namespace
