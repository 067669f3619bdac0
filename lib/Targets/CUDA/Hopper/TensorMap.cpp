// Operands that tensor maps describe, and loads of boxes of them.
#include "CUDA/Hopper/TensorMap.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Dims of a tensor map.
static constexpr size_t maxMapRank = 5;

std::optional<sym::Expr> cuda::findStride(const codegen::DimGroup &group, sym::Expr offset,
                                          const sym::Assumptions &assumptions) {
  std::optional<sym::Expr> stride;
  sym::Expr inner = 1;
  for (unsigned i = group.count; i-- > 0;) {
    if (group.extents[i].isConstant(1))
      continue;
    auto linear = sym::splitLinear(offset, sym::Expr::dim(group.first + i));
    if (!linear || linear->coefficient.hasDims())
      return std::nullopt;
    if (!stride)
      stride = assumptions.simplify(linear->coefficient);
    else if (!assumptions.isEqual(linear->coefficient, *stride * inner))
      return std::nullopt;
    inner = inner * group.extents[i];
  }
  return stride.value_or(0);
}

namespace {
/// The memory of a region that yields a tensor's elements as they are, or floats of eight bits, which
/// are bytes in memory.
struct Memory {
  BlockArgument tensor;
  sym::Expr offset; // over the region's dims
  sym::Assumptions assumptions;
};
} // namespace

static std::optional<Memory> findMemory(Region &region) {
  auto read = dyn_cast<kernel::ReadOp>(region.front().front());
  Value yielded = region.front().getTerminator()->getOperand(0);
  if (auto bits = yielded.getDefiningOp<arith::BitcastOp>();
      bits && bits.getType().getIntOrFloatBitWidth() == 8)
    yielded = bits.getIn();
  if (!read || read.getMask() || !read.getValues().empty() || yielded != read.getResult())
    return std::nullopt;
  auto argument = dyn_cast<BlockArgument>(read.getTensor());
  if (!argument)
    return std::nullopt;
  sym::Assumptions assumptions = kernel::getAssumptions(&region);
  sym::Expr offset = assumptions.simplify(
      sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor())));
  return Memory{argument, offset, std::move(assumptions)};
}

/// The offset where all dims are 0.
static sym::Expr findOrigin(sym::Expr offset, const sym::Assumptions &assumptions) {
  return assumptions.simplify(offset.substitute([](sym::Expr leaf) -> std::optional<sym::Expr> {
    return leaf.kind() == sym::Kind::Dim ? sym::Expr(0) : leaf;
  }));
}

namespace {
struct MapDim {
  sym::Expr size, stride;
};
} // namespace

/// True if no two elements lie at one place: in some order of the dims, each advances by all that
/// the ones before it extend over.
static bool areApart(sym::Expr extent, ArrayRef<MapDim> dims, const sym::Assumptions &assumptions) {
  if (dims.empty())
    return true;
  for (const auto &[i, dim] : llvm::enumerate(dims)) {
    if (!assumptions.isLessOrEqual(extent, dim.stride))
      continue;
    SmallVector<MapDim> others(dims);
    others.erase(others.begin() + i);
    if (areApart(dim.size * dim.stride, others, assumptions))
      return true;
  }
  return false;
}

static bool areElementsApart(const TensorView &view, const sym::Assumptions &assumptions) {
  SmallVector<MapDim> dims;
  for (auto [size, stride] : llvm::drop_begin(llvm::zip(view.sizes, view.strides)))
    if (!size.isConstant(1))
      dims.push_back({size, stride});
  return areApart(view.sizes[0], dims, assumptions);
}

/// True if there is a tensor map for this: everything is at multiples of 16 bytes, and no two
/// elements lie at one place. That they may (expanded operands, windows that overlap) the driver's
/// documentation does not say.
static bool isDescribable(const TensorView &view, BlockArgument tensor,
                          const sym::Assumptions &assumptions) {
  int64_t multiple =
      vectorBytes / (cast<RankedTensorType>(tensor.getType()).getElementTypeBitWidth() / 8);
  auto isAligned = [&](sym::Expr stride) {
    return assumptions.isNonNegative(stride) && assumptions.isMultipleOf(stride, multiple);
  };
  auto isStride = [&](sym::Expr stride) { return !stride.isConstant(0) && isAligned(stride); };
  return view.sizes.size() <= maxMapRank && isAligned(view.offset) &&
         llvm::all_of(ArrayRef(view.strides).drop_front(), isStride) &&
         areElementsApart(view, assumptions);
}

std::optional<TensorView> cuda::findTensorView(kernel::ContractOp op, Region &region,
                                               unsigned firstRow, ArrayRef<sym::Expr> rows) {
  auto memory = findMemory(region);
  if (!memory)
    return std::nullopt;
  auto &[argument, offset, assumptions] = *memory;
  auto accesses = codegen::collectAccesses(region);
  unsigned firstK = op.getExtents().size() - op.getNumK();
  auto rowGroups = codegen::collapseDims(firstRow, rows, accesses);
  auto kGroups = codegen::collapseDims(firstK, op.getK().getSizes(), accesses);
  if (rowGroups.size() != 1 || kGroups.size() != 1)
    return std::nullopt;
  auto rowStride = findStride(rowGroups[0], offset, assumptions);
  auto kStride = findStride(kGroups[0], offset, assumptions);
  if (!rowStride || !kStride || (!rowStride->isConstant(1) && !kStride->isConstant(1)))
    return std::nullopt;

  TensorView view;
  view.buffer = argument.getArgNumber();
  view.offset = findOrigin(offset, assumptions);
  view.alongRows = !kStride->isConstant(1);
  view.sizes = {rowGroups[0].extent, kGroups[0].extent};
  view.strides = {*rowStride, *kStride};
  if (!view.alongRows) {
    std::swap(view.sizes[0], view.sizes[1]);
    std::swap(view.strides[0], view.strides[1]);
  }
  for (const codegen::DimGroup &group :
       codegen::collapseDims(0, op.getBatch().getSizes(), accesses)) {
    auto stride = findStride(group, offset, assumptions);
    if (!stride)
      return std::nullopt;
    view.batchExtents.push_back(group.extent);
    if (stride->isConstant(0))
      continue;
    view.batchIndices.push_back(sym::Expr::dim(view.batchExtents.size() - 1));
    view.sizes.push_back(group.extent);
    view.strides.push_back(*stride);
  }
  return isDescribable(view, argument, assumptions) ? std::optional(std::move(view)) : std::nullopt;
}

/// How many values an index over dims of these extents has; nullopt: not known.
static std::optional<sym::Expr> countValues(sym::Expr index, ArrayRef<sym::Expr> extents) {
  if (index.kind() == sym::Kind::Dim)
    return extents[index.dimIndex()];
  if (index.kind() != sym::Kind::FloorDiv || index.operands()[0].kind() != sym::Kind::Dim)
    return std::nullopt;
  auto divisor = index.operands()[1].constant();
  if (!divisor || *divisor < 1)
    return std::nullopt;
  return extents[index.operands()[0].dimIndex()].ceilDiv(*divisor);
}

std::optional<TensorView> cuda::findTensorView(kernel::AttentionOp op, Region &region,
                                               unsigned rowDim, unsigned featureDim) {
  auto memory = findMemory(region);
  if (!memory)
    return std::nullopt;
  auto &[argument, offset, assumptions] = *memory;
  auto row = sym::splitLinear(offset, sym::Expr::dim(rowDim));
  auto feature = row ? sym::splitLinear(row->rest, sym::Expr::dim(featureDim)) : std::nullopt;
  if (!feature || !feature->coefficient.isConstant(1) || row->coefficient.hasDims())
    return std::nullopt;
  TensorView view;
  view.buffer = argument.getArgNumber();
  view.offset = findOrigin(offset, assumptions);
  view.alongRows = false;
  auto extents = op.getExtents();
  view.sizes = {extents[featureDim], extents[rowDim]};
  view.strides = {1, row->coefficient};
  llvm::append_range(view.batchExtents, op.getBatch().getSizes());
  // The rest is a sum of strides times a dim, or the quotient of one where heads share keys.
  sym::Expr rest = feature->rest;
  SmallVector<sym::Expr> terms = {rest};
  if (rest.kind() == sym::Kind::Add)
    terms.assign(rest.operands().begin(), rest.operands().end());
  for (sym::Expr term : terms) {
    SmallVector<sym::Expr> factors = {term};
    if (term.kind() == sym::Kind::Mul)
      factors.assign(term.operands().begin(), term.operands().end());
    auto *index = llvm::find_if(factors, std::mem_fn(&sym::Expr::hasDims));
    if (index == factors.end())
      continue;
    auto count = countValues(*index, view.batchExtents);
    if (!count || llvm::is_contained(view.batchIndices, *index))
      return std::nullopt;
    view.batchIndices.push_back(*index);
    view.sizes.push_back(*count);
    factors.erase(index);
    view.strides.push_back(sym::product(factors));
    if (view.strides.back().hasDims())
      return std::nullopt;
  }
  return isDescribable(view, argument, assumptions) ? std::optional(std::move(view)) : std::nullopt;
}

bool TensorLoad::isShareable(bool alongRows, int64_t extent, int64_t blocks) {
  // Copies are of whole boxes, or patterns.
  return extent % (blocks * (alongRows ? lineBytes / 2 : patternBytes / lineBytes)) == 0;
}

TensorLoad::TensorLoad(DeviceFrame &frame, const TensorView &view, Type type, int64_t extent,
                       Sharing sharing)
    : frame(frame), view(view), extent(extent), line(lineBytes * 8 / type.getIntOrFloatBitWidth()),
      sharing(sharing) {
  int64_t share = extent / sharing.blocks;
  assert((view.alongRows ? share % line == 0 : share <= 256) && "no box of this size");
  SmallVector<int64_t> box = {line, view.alongRows ? line : share};
  box.resize(view.sizes.size(), 1);
  map = frame.addTensorMap({view.buffer, type, view.offset, view.sizes, view.strides, box});
  OpBuilder &b = frame.builder;
  Value isFirst = arith::CmpIOp::create(b, frame.loc, arith::CmpIPredicate::eq, frame.thread,
                                        frame.constant(0));
  frame.emitIf(isFirst, [&] {
    LLVM::InlineAsmOp::create(b, frame.loc, TypeRange(), map, prefetchMapText, "l",
                              /*has_side_effects=*/true, /*is_align_stack=*/false,
                              LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
  });
}

void TensorLoad::emit(sym::Expr batch, sym::Expr row, sym::Expr k, Value target, Value barrier) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  auto coordinate = [&](sym::Expr value) -> Value {
    return arith::TruncIOp::create(b, loc, b.getI32Type(), frame.simplifyAndEmit(value));
  };
  SmallVector<Value> batchCoordinates;
  auto loops = sym::delinearize(batch, view.batchExtents);
  for (sym::Expr index : view.batchIndices)
    batchCoordinates.push_back(coordinate(index.substituteDims(loops)));
  auto cluster = LLVM::LLVMPointerType::get(
      b.getContext(), static_cast<unsigned>(NVVM::NVVMMemorySpace::SharedCluster));
  int64_t share = extent / sharing.blocks;
  Value mask;
  if (sharing.blocks > 1)
    mask = arith::ConstantIntOp::create(b, loc, (1 << sharing.blocks) - 1, 16);
  for (int64_t number = 0; number < share; number += view.alongRows ? line : share) {
    sym::Expr first = share * sharing.rank + number;
    SmallVector<Value> coordinates = {coordinate(row + first), coordinate(k)};
    if (!view.alongRows)
      std::swap(coordinates[0], coordinates[1]);
    llvm::append_range(coordinates, batchCoordinates);
    Value place = frame.gep(target, b.getI8Type(), frame.simplifyAndEmit(first * lineBytes));
    NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
        b, loc, LLVM::AddrSpaceCastOp::create(b, loc, cluster, frame.toShared(place)), map,
        coordinates, barrier, ValueRange(), mask, Value(), NVVM::TMALoadMode::TILE, false,
        NVVM::CTAGroupKindAttr(), Value());
  }
}
