// cpu-multiply-bytes: products of dequantized operands become products of the small integers.
//
//   sum over k of (x - zx) * sx * w * sw  =  (sum over k of x * w  -  zx * sum over k of w) * sx * sw
//
// The last sum over k is of constants. Bytes of x that are signed are multiplied as x + 128.
#include "CPU/Contract/ContractRegions.h"
#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUMULTIPLYBYTES
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// Sums of this many products of bytes fit in 32 bits, whatever the zero points are.
static constexpr int64_t mostSums = 1 << 15;
/// With fewer steps or columns, putting steps into groups takes longer than is gained.
static constexpr int64_t fewestSums = 16, fewestColumns = 8;

namespace {

/// An operand that is (bits - zero) * scale, as its region reads it.
struct Dequantized {
  ReadOp read; // in the contract's region, of the result of `map`
  MapOp map;
  ReadOp bits; // in the map
  bool isUnsigned = false;
  Value scale; // in the map; null: 1
  Value zero;  // in the map, an integer; null: zeroNumber
  bool isZeroUnsigned = false;
  int64_t zeroNumber = 0;
  SmallVector<Expr> place; // of the map's element, over the contract's dims
  SmallVector<Expr> index; // of the bits, over the contract's dims

  Value tensor() const { return ReadOp(bits).getTensor(); }
  /// Weights are checked to have no zero points before they are used.
  bool isChecked() const { return zero != nullptr; }
  /// The number that makes bits unsigned when it is added.
  int64_t offset() const { return isUnsigned ? 0 : 128; }
};

} // namespace

//===-- Patterns ------------------------------------------------------------------------------===//

/// Strips a conversion of an integer to f32; null for other values.
static Value stripConversion(Value value, bool &isUnsigned) {
  isUnsigned = value.getDefiningOp<arith::UIToFPOp>() != nullptr;
  if (auto op = value.getDefiningOp<arith::SIToFPOp>())
    return op.getIn();
  if (auto op = value.getDefiningOp<arith::UIToFPOp>())
    return op.getIn();
  return {};
}

/// `value` is 8 bits that are read, extended.
static bool parseBits(Value value, bool isUnsigned, Dequantized &result) {
  if (auto extension = value.getDefiningOp<arith::ExtSIOp>()) {
    value = extension.getIn();
    isUnsigned = false;
  } else if (auto extension = value.getDefiningOp<arith::ExtUIOp>()) {
    value = extension.getIn();
    isUnsigned = true;
  }
  auto read = value.getDefiningOp<ReadOp>();
  if (!read || !value.getType().isInteger(8) || read.getMask() || !read.getValues().empty() ||
      read->getBlock() != &result.map.getBody().front())
    return false;
  result.bits = read;
  result.isUnsigned = isUnsigned;
  return true;
}

static bool parseZero(Value value, Dequantized &result) {
  FloatAttr number;
  if (matchPattern(value, m_Constant(&number))) {
    double zero = number.getValueAsDouble();
    result.zeroNumber = static_cast<int64_t>(zero);
    return std::abs(zero) <= 255 && static_cast<double>(result.zeroNumber) == zero;
  }
  result.zero = stripConversion(value, result.isZeroUnsigned);
  return result.zero != nullptr;
}

/// bits - zero, as f32 or as an integer.
static bool parseDifference(Value value, Dequantized &result) {
  if (auto difference = value.getDefiningOp<arith::SubFOp>()) {
    if (!parseZero(difference.getRhs(), result))
      return false;
    value = difference.getLhs();
  }
  bool isUnsigned = false;
  if (Value integer = stripConversion(value, isUnsigned))
    value = integer;
  if (auto difference = value.getDefiningOp<arith::SubIOp>()) {
    if (result.zero)
      return false;
    result.zero = difference.getRhs();
    value = difference.getLhs();
  }
  return parseBits(value, isUnsigned, result);
}

static std::optional<Dequantized> parseOperand(Region &region) {
  Dequantized result;
  result.read = region.front().getTerminator()->getOperand(0).getDefiningOp<ReadOp>();
  if (!result.read || !result.read.getValues().empty() ||
      result.read->getBlock() != &region.front())
    return std::nullopt;
  result.map = result.read.getTensor().getDefiningOp<MapOp>();
  if (!result.map || result.map->getNumResults() != 1)
    return std::nullopt;
  Value value = result.map.getBody().front().getTerminator()->getOperand(0);
  if (!value.getType().isF32() && !value.getType().isInteger(32))
    return std::nullopt;
  if (auto product = value.getDefiningOp<arith::MulFOp>()) {
    value = product.getLhs();
    result.scale = product.getRhs();
  }
  if (!parseDifference(value, result))
    return std::nullopt;
  sym::Assumptions assumptions = getAssumptions(&region);
  llvm::append_range(result.place, result.read.getMap().getResults());
  for (Expr expr : result.bits.getMap().getResults())
    result.index.push_back(assumptions.simplify(expr.substituteDims(result.place)));
  return result;
}

/// The zero points are a constant, all of which are zero.
static bool hasNoZeroPoints(const Dequantized &operand) {
  if (!operand.zero)
    return operand.zeroNumber == 0;
  return cpu::isReadOfZeros(operand.zero);
}

namespace {

/// A contract that is rewritten.
struct Product {
  ContractOp contract;
  Dequantized lhs, rhs;
  unsigned groupDim = 0;           // the k dim that is cut into groups
  unsigned lhsDim = 0, rhsDim = 0; // of the tensors of bits

  unsigned firstN() const {
    return ContractOp(contract).getNumBatch() + ContractOp(contract).getNumM();
  }
  unsigned firstK() const { return firstN() + ContractOp(contract).getNumN(); }
  unsigned numDims() const { return firstK() + ContractOp(contract).getNumK(); }
};

} // namespace

/// The dim of a tensor that `dim` alone numbers, if it numbers no other.
static std::optional<unsigned> findPlainDim(ArrayRef<Expr> index, unsigned dim) {
  std::optional<unsigned> found;
  for (auto [i, expr] : llvm::enumerate(index)) {
    if (expr == Expr::dim(dim))
      found = found ? std::optional<unsigned>(index.size()) : i;
    else if (expr.dependsOn(Expr::dim(dim)))
      return std::nullopt;
  }
  return found && *found < index.size() ? found : std::nullopt;
}

static bool dependsOnDims(ArrayRef<Expr> exprs, unsigned begin, unsigned end) {
  return llvm::any_of(exprs, [&](Expr expr) {
    for (unsigned dim = begin; dim < end; ++dim)
      if (expr.dependsOn(Expr::dim(dim)))
        return true;
    return false;
  });
}

/// Scale and zero point do not change along dims [begin, end).
static bool areParametersFree(const Dequantized &operand, unsigned begin, unsigned end) {
  Operation *bits = ReadOp(operand.bits);
  bool free = true;
  MapOp(operand.map).getBody().walk([&](Operation *op) {
    auto map = getIndexMap(op);
    if (!map || op == bits)
      return;
    SmallVector<Expr> index;
    for (Expr expr : map.getResults())
      index.push_back(expr.substituteDims(operand.place));
    free &= isa<ReadOp>(op) && ReadOp(cast<ReadOp>(op)).getValues().empty() &&
            !dependsOnDims(index, begin, end);
  });
  return free && MapOp(operand.map)
                         .getBody()
                         .walk([](ReduceOp) { return WalkResult::interrupt(); })
                         .wasInterrupted() == false;
}

/// A read that is zero outside of the operand: its mask is the region's, and zero has bits.
static bool isMaskFine(const Product &product, unsigned dim) {
  ReadOp read = product.lhs.read;
  if (!read.getMask())
    return true;
  bool isZero =
      matchPattern(read.getOther(), m_AnyZeroFloat()) || matchPattern(read.getOther(), m_Zero());
  auto inside = read.getMask().getDefiningOp<InsideOp>();
  return isZero && inside && inside->getNumOperands() == 0 && !product.lhs.zero &&
         areParametersFree(product.lhs, 0, product.numDims()) &&
         !dependsOnDims(getIndexMap(inside).getResults(), dim, dim + 1);
}

/// Chooses the dim that is cut into groups: the longest one that both operands have as it is.
static bool chooseGroups(Product &product) {
  SmallVector<Expr> extents = product.contract.getExtents();
  SmallVector<Expr> shape = sym::getShape(
      product.rhs.isChecked() ? Value(product.rhs.map.getResult(0)) : product.rhs.tensor());
  int64_t best = 0;
  for (unsigned dim = product.firstK(); dim < extents.size(); ++dim) {
    std::optional<int64_t> extent = extents[dim].constant();
    std::optional<unsigned> left = findPlainDim(product.lhs.index, dim);
    std::optional<unsigned> right = findPlainDim(product.rhs.index, dim);
    if (!extent || *extent <= best || !left || !right || !isMaskFine(product, dim) ||
        shape[*right] != extents[dim])
      continue;
    // A quarter of a group may be filled up with zeros, but no more.
    if (*extent * 4 < static_cast<int64_t>(llvm::alignTo(*extent, 4)) * 3)
      continue;
    best = *extent;
    product.groupDim = dim;
    product.lhsDim = *left;
    product.rhsDim = *right;
  }
  return best != 0;
}

/// Empty, or why a contract whose operands are of bytes is left alone.
static const char *whyNot(Product &product) {
  ContractOp contract = product.contract;
  if (contract.getPanel() || contract.getPart() || contract.getBytes())
    return "it has been rewritten already";
  Type sum = contract.getEpilogue().getArgument(0).getType();
  bool hasScale = product.lhs.scale || product.rhs.scale;
  if (!(sum.isF32() || (sum.isInteger(32) && !hasScale)))
    return "it is not summed in f32 or i32";
  if (!isa_and_nonnull<ConstantOp>(product.rhs.tensor().getDefiningOp()) ||
      !cpu::isKnownConstant(product.rhs.tensor()))
    return "the right operand's bytes are not a constant";
  if (product.rhs.isUnsigned || product.rhs.read.getMask() || !hasNoZeroPoints(product.rhs))
    return "the right operand's bytes are not signed, or have zero points";
  std::optional<int64_t> steps = sym::product(contract.getK().getSizes()).constant();
  std::optional<int64_t> columns = sym::product(contract.getN().getSizes()).constant();
  if (!steps || *steps > mostSums || *steps < fewestSums || !columns || *columns < fewestColumns)
    return "its sums are too long or too short, or it has few columns";
  if (dependsOnDims(product.rhs.index, 0, product.firstN()) ||
      !areParametersFree(product.lhs, product.firstN(), product.numDims()) ||
      !areParametersFree(product.rhs, 0, product.firstN()) ||
      !areParametersFree(product.rhs, product.firstK(), product.numDims()))
    return "scales change along the sum, or weights in a batch";
  if (!chooseGroups(product))
    return "no dim of the sum can be cut into groups of four";
  return nullptr;
}

//===-- Rewriting -----------------------------------------------------------------------------===//

/// The bytes of `tensor` along `dim` in groups of four; those past the end are zero. `flip` makes
/// signed bytes unsigned, by adding 128.
static Value makeGroups(KernelBuilder &kernels, Value tensor, unsigned dim, bool flip) {
  Exprs shape = shapeOf(tensor), groups = shape;
  groups[dim] = kernels.known().simplify(shape[dim].ceilDiv(4));
  Type i32 = kernels.b().getI32Type();
  Type ui8 = IntegerType::get(i32.getContext(), 8, IntegerType::Unsigned);
  return kernels.map(groups, i32, [&](BodyBuilder &body) {
    Element group;
    for (int64_t byte = 0; byte < 4; ++byte) {
      Exprs index = body.ownDims();
      index[dim] = index[dim] * 4 + byte;
      Element bits = body.readPadded(tensor, index, body.constant(elementType(tensor), 0));
      bits = convert(bits.make(bits.value(), ui8), i32);
      if (flip)
        bits = bits ^ bits.constant(128);
      Value moved = arith::ShLIOp::create(body.b(), bits.value(), bits.constant(8 * byte).value());
      group = group ? group | bits.make(moved) : bits;
    }
    return group;
  });
}

namespace {

class Rewriter {
public:
  Rewriter(const Product &product, const sym::Assumptions &symbols, IRRewriter &rewriter)
      : product(product), contract(product.contract), rewriter(rewriter),
        builder(contract.getLoc(), rewriter), kernels(builder, symbols) {
    builder.setInsertionPoint(contract);
  }

  void run() {
    Value left = makeGroups(kernels, product.lhs.tensor(), product.lhsDim, !product.lhs.isUnsigned);
    weights = product.rhs.isChecked() ? makeCheckedWeights() : product.rhs.tensor();
    Value right = makeGroups(kernels, weights, product.rhsDim, false);
    bool corrects = product.lhs.zero || product.lhs.zeroNumber + product.lhs.offset() != 0;
    if (corrects)
      sums = makeWeightSums();
    SmallVector<Expr> k(contract.getK().getSizes());
    Expr &cut = k[product.groupDim - product.firstK()];
    cut = cut.ceilDiv(4);
    auto result = ContractOp::create(
        builder, contract.getResult().getType(), contract.getBatchAttr(), contract.getMAttr(),
        contract.getNAttr(), sym::ShapeAttr::get(builder.getContext(), k), contract.getPermAttr(),
        IntegerAttr(), sym::ExprAttr(), builder.getUnitAttr());
    fillLeft(result.getLhs(), left);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&result.getRhs().emplaceBlock());
    Value weight = createRead(right, product.rhs.index, {}, {});
    YieldOp::create(builder, weight);
    fillEpilogue(result.getEpilogue());
    rewriter.replaceOp(contract, result);
  }

private:
  Value createRead(Value tensor, ArrayRef<Expr> index, Value mask, Value other) {
    sym::IndexMap map{product.numDims(), SmallVector<Expr>(index)};
    return ReadOp::create(builder, tensor, map, ValueRange(), mask, other);
  }

  /// The weights, whose zero points may be replaced when the model runs: by zero alone.
  Value makeCheckedWeights() {
    MapOp map = product.rhs.map;
    Type type = elementType(product.rhs.tensor());
    return kernels.map(sym::getShape(map.getResult(0)), type, [&](BodyBuilder &body) {
      IRMapping mapping;
      DimSubstitution substitution;
      substitution.sourceDims = substitution.targetDims = body.numDims();
      substitution.dims = body.ownDims();
      cloneBody(builder, map.getBody().front(), substitution, mapping);
      Value zero = mapping.lookup(product.rhs.zero),
            bits = mapping.lookup(ReadOp(product.rhs.bits).getResult());
      Value none = arith::ConstantOp::create(builder, builder.getZeroAttr(zero.getType()));
      Value holds = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, zero, none);
      Value checked = ExpectOp::create(
          builder, bits, holds, builder.getStringAttr("weights with zero points other than 0"),
          IntegerAttr());
      return Element(builder, checked, type);
    });
  }

  /// The sum of each column's weights; times the left operand's zero point, if that is a number.
  Value makeWeightSums() {
    Type i32 = builder.getI32Type();
    return kernels.map(contract.getN().getSizes(), i32, [&](BodyBuilder &body) {
      Element sum = body.sum(contract.getK().getSizes(), i32, [&](BodyBuilder &inner) {
        Exprs dims(product.firstN(), Expr(0));
        llvm::append_range(dims, inner.dims(0, inner.numDims()));
        Exprs index;
        for (Expr expr : product.rhs.index)
          index.push_back(expr.substituteDims(dims));
        return convert(inner.read(weights, index), i32);
      });
      return product.lhs.zero ? sum
                              : sum * sum.constant(product.lhs.zeroNumber + product.lhs.offset());
    });
  }

  void fillLeft(Region &region, Value groups) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&region.emplaceBlock());
    ReadOp read = product.lhs.read;
    Value mask, other;
    if (read.getMask()) {
      mask = builder.clone(*read.getMask().getDefiningOp())->getResult(0);
      int64_t zero = (product.lhs.zeroNumber + product.lhs.offset()) & 255;
      other = arith::ConstantIntOp::create(builder, builder.getI32Type(),
                                           static_cast<int32_t>(zero * 0x01010101));
    }
    Value value = createRead(groups, product.lhs.index, mask, other);
    YieldOp::create(builder, value);
  }

  /// Scale and zero point of an operand, at the epilogue's dims; null as in the operand.
  std::pair<Value, Value> cloneParameters(const Dequantized &operand) {
    IRMapping mapping;
    mapping.map(ReadOp(operand.bits).getResult(),
                arith::ConstantIntOp::create(builder, builder.getI8Type(), 0).getResult());
    DimSubstitution substitution;
    substitution.sourceDims = operand.place.size();
    substitution.targetDims = product.numDims();
    substitution.dims = operand.place;
    cloneBody(builder, MapOp(operand.map).getBody().front(), substitution, mapping);
    auto get = [&](Value value) { return value ? mapping.lookup(value) : Value(); };
    return {get(operand.scale), get(operand.zero)};
  }

  void fillEpilogue(Region &region) {
    OpBuilder::InsertionGuard guard(builder);
    Type i32 = builder.getI32Type();
    Block &block = region.emplaceBlock(), &old = contract.getEpilogue().front();
    Value sum = block.addArgument(i32, contract.getLoc());
    builder.setInsertionPointToStart(&block);
    auto [leftScale, zero] = cloneParameters(product.lhs);
    auto [rightScale, none] = cloneParameters(product.rhs);
    if (sums) {
      SmallVector<Expr> columns;
      for (unsigned dim = product.firstN(); dim < product.firstK(); ++dim)
        columns.push_back(Expr::dim(dim));
      Value correction = createRead(sums, columns, {}, {});
      if (zero) {
        Value whole = toInt(zero, product.lhs.isZeroUnsigned);
        Value offset = arith::ConstantIntOp::create(builder, i32, product.lhs.offset());
        correction = arith::MulIOp::create(builder, correction,
                                           arith::AddIOp::create(builder, whole, offset));
      }
      sum = arith::SubIOp::create(builder, sum, correction);
    }
    if (old.getArgument(0).getType().isF32()) {
      sum = arith::SIToFPOp::create(builder, builder.getF32Type(), sum);
      Value scale = leftScale ? leftScale : rightScale;
      if (leftScale && rightScale)
        scale = arith::MulFOp::create(builder, leftScale, rightScale);
      if (scale)
        sum = arith::MulFOp::create(builder, sum, scale);
    }
    IRMapping mapping;
    mapping.map(old.getArgument(0), sum);
    for (Operation &op : old)
      builder.clone(op, mapping);
  }

  Value toInt(Value value, bool isUnsigned) {
    Type i32 = builder.getI32Type();
    unsigned width = value.getType().getIntOrFloatBitWidth();
    if (width > 32)
      return arith::TruncIOp::create(builder, i32, value);
    if (width == 32)
      return value;
    if (isUnsigned)
      return arith::ExtUIOp::create(builder, i32, value);
    return arith::ExtSIOp::create(builder, i32, value);
  }

  const Product &product;
  ContractOp contract;
  IRRewriter &rewriter;
  ImplicitLocOpBuilder builder;
  KernelBuilder kernels;
  Value weights;
  Value sums; // null: nothing to correct
};

struct MultiplyBytes : kiln::cpu::impl::CpuMultiplyBytesBase<MultiplyBytes> {
  using CpuMultiplyBytesBase::CpuMultiplyBytesBase;

  void runOnOperation() override {
    std::vector<Product> products;
    getOperation()->walk([&](ContractOp contract) {
      std::optional<Dequantized> lhs = parseOperand(contract.getLhs());
      std::optional<Dequantized> rhs = parseOperand(contract.getRhs());
      if (!lhs || !rhs || columnsAreBatch(contract))
        return;
      if (rhs->isChecked())
        rhs->index = rhs->place;
      Product product{contract, *lhs, *rhs};
      if (const char *reason = whyNot(product))
        emitRemark(RemarkKind::NotDone, contract, getArgument(), "NotBytes",
                   [&] { return RemarkText{"small integers multiplied as floats", reason}; });
      else
        products.push_back(std::move(product));
    });
    sym::Assumptions symbols;
    addSymbolRanges(getOperation(), symbols);
    IRRewriter rewriter(&getContext());
    for (Product &product : products) {
      emitRemark(RemarkKind::Done, product.contract, getArgument(), "Bytes",
                 [&] { return RemarkText{"multiplied as small integers"}; });
      Rewriter(product, symbols, rewriter).run();
    }
    // Constants are folded next: what nobody reads is not to be folded.
    llvm::SetVector<Operation *> maps;
    for (Product &product : products)
      for (const Dequantized *operand : {&product.lhs, &product.rhs})
        maps.insert(MapOp(operand->map));
    for (Operation *map : maps)
      if (map->use_empty())
        rewriter.eraseOp(map);
  }
};

} // namespace
