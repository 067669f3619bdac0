// cuda-pack-windows: lets windows over images be copied 16 bytes at a time.
#include "CUDA/Contract/AsyncCopy.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDAPACKWINDOWS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Columns from which one more pass over the image costs little beside the products.
static constexpr int64_t manyColumns = 8;

namespace {

/// A contract whose operands are memory as it is, or as a window sees it.
struct Window {
  explicit Window(kernel::ContractOp contract)
      : contract(contract), image(getCopied(contract.getLhs())),
        weight(getCopied(contract.getRhs())), extents(contract.getExtents()),
        firstK(contract.getNumBatch() + contract.getNumM() + contract.getNumN()) {
    Type type = contract.getLhs().front().getTerminator()->getOperand(0).getType();
    if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() <= 32)
      elements = vectorBytes * 8 / type.getIntOrFloatBitWidth();
  }

  bool isKnown() const { return elements > 1 && image && weight && extents.size() >= firstK + 2; }

  /// Whether chunks of 16 bytes of the image follow each other along the dim.
  bool isAlong(unsigned dim) {
    return kernel::getAssumptions(&contract.getLhs()).isMultipleOf(extents[dim], elements) &&
           findCopySource(contract.getLhs(), sym::Expr::dim(dim), elements);
  }

  bool isAlongRows() {
    return contract.getNumM() > 0 && isAlong(contract.getNumBatch() + contract.getNumM() - 1);
  }

  kernel::ContractOp contract;
  kernel::ReadOp image, weight;
  SmallVector<sym::Expr> extents;
  unsigned firstK;
  int64_t elements = 1;
};

struct PackWindows : kiln::cuda::impl::CudaPackWindowsBase<PackWindows> {
  void runOnOperation() override {
    getOperation().walk([](kernel::ContractOp contract) {
      Window window(contract);
      // Steps or rows: blocks take either.
      if (!window.isKnown() || window.isAlong(window.extents.size() - 1) || window.isAlongRows())
        return;
      for (unsigned dim = window.extents.size() - 1; dim-- > window.firstK;)
        if (window.isAlong(dim))
          return moveLast(window, dim);
      copyChannels(window);
    });
  }

private:
  static void setSteps(Window &window, ArrayRef<sym::Expr> steps) {
    window.contract.setKAttr(sym::ShapeAttr::get(window.contract.getContext(), steps));
  }

  /// Has the steps of a dim follow each other, as they do in the image.
  static void moveLast(Window &window, unsigned moved) {
    unsigned rank = window.extents.size();
    SmallVector<sym::Expr> dims, steps(ArrayRef(window.extents).drop_front(window.firstK));
    steps.erase(steps.begin() + (moved - window.firstK));
    steps.push_back(window.extents[moved]);
    for (unsigned i = 0; i < rank; ++i)
      dims.push_back(sym::Expr::dim(i < moved ? i : i == moved ? rank - 1 : i - 1));
    auto renumber = [&](Operation *op) {
      auto map = kernel::getIndexMap(op);
      if (!map)
        return;
      sym::IndexMap next = map.getMap();
      for (sym::Expr &result : next.results)
        result = result.substituteDims(dims);
      cast<kernel::IndexedOpInterface>(op).setMap(sym::MapAttr::get(op->getContext(), next));
    };
    window.contract.getLhs().walk(renumber);
    window.contract.getRhs().walk(renumber);
    setSteps(window, steps);
  }

  /// Has the image and the weights copied with the channels last, and zeros up to 16 bytes.
  static void copyChannels(Window &window) {
    sym::Expr channel = sym::Expr::dim(window.extents.size() - 1), count = window.extents.back();
    auto columns = sym::product(window.contract.getN().getSizes()).constant();
    auto inImage = findDim(window.image, channel), inWeight = findDim(window.weight, channel);
    if (count.isConstant(1) || (columns && *columns < manyColumns) || window.weight.getMask() ||
        !inImage || !inWeight)
      return;
    SmallVector<sym::Expr> steps(ArrayRef(window.extents).drop_front(window.firstK));
    steps.back() = kernel::getAssumptions(&window.contract.getLhs())
                       .simplify(window.elements * count.ceilDiv(window.elements));
    copy(window, window.image, *inImage, steps.back());
    copy(window, window.weight, *inWeight, steps.back());
    setSteps(window, steps);
  }

  /// The tensor's dim that the contract's dim is, which nothing else depends on.
  static std::optional<unsigned> findDim(kernel::ReadOp read, sym::Expr dim) {
    std::optional<unsigned> found;
    for (auto [i, result] : llvm::enumerate(read.getMap().getResults())) {
      if (result == dim && !found)
        found = i;
      else if (result.dependsOn(dim))
        return std::nullopt;
    }
    if (Value mask = read.getMask())
      for (sym::Expr result : mask.getDefiningOp<kernel::InsideOp>().getMap().getResults())
        if (result.dependsOn(dim))
          return std::nullopt;
    return found;
  }

  /// Has `read` read a copy of its tensor that has `dim` last, with zeros up to `extent`.
  static void copy(Window &window, kernel::ReadOp read, unsigned dim, sym::Expr extent) {
    OpBuilder builder(window.contract);
    Location loc = window.contract.getLoc();
    SmallVector<sym::Expr> shape = sym::getShape(read.getTensor()), copied = shape;
    unsigned rank = shape.size();
    copied.erase(copied.begin() + dim);
    copied.push_back(extent);
    sym::IndexMap index{rank, {}}, last{rank, {sym::Expr::dim(rank - 1)}};
    for (unsigned i = 0; i < rank; ++i)
      index.results.push_back(sym::Expr::dim(i < dim ? i : i == dim ? rank - 1 : i - 1));
    Type element = cast<RankedTensorType>(read.getTensor().getType()).getElementType();
    auto copy = kernel::MapOp::create(builder, loc, TypeRange(sym::getTensorType(copied, element)));
    builder.createBlock(&copy.getBody());
    Value mask, zero;
    if (extent != shape[dim]) {
      mask = kernel::InsideOp::create(
          builder, loc, builder.getI1Type(), sym::MapAttr::get(builder.getContext(), last),
          sym::ShapeAttr::get(builder.getContext(), shape[dim]), ValueRange());
      zero = kernel::createZero(builder, loc, element);
    }
    Value value = kernel::ReadOp::create(builder, loc, read.getTensor(), index, {}, mask, zero);
    kernel::YieldOp::create(builder, loc, value);

    sym::IndexMap map = read.getMap().getMap();
    sym::Expr channel = map.results[dim];
    map.results.erase(map.results.begin() + dim);
    map.results.push_back(channel);
    read.getTensorMutable().assign(copy.getResult(0));
    read.setMapAttr(sym::MapAttr::get(read.getContext(), map));
  }
};

} // namespace
