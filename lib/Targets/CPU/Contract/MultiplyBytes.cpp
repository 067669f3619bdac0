// cpu-multiply-bytes: products of dequantized operands become products of the small integers.
//
//   sum over k of (x - zx) * sx * w * sw  =  (sum over k of x * w  -  zx * sum over k of w) * sx * sw
//
// The last sum over k is of constants. An element of an operand holds several steps of the sum: four
// bytes where the CPU multiplies these (VNNI, AMX), signed ones of x as x + 128, or where those of x are narrow;
// otherwise two of x widened to 16 bits, which vpmaddwd multiplies, and two bytes of w.
#include "CPU/Contract/ByteRange.h"
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/Dequantized.h"
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
using namespace kiln::cpu;

/// Sums of this many products of bytes fit in 32 bits, whatever the zero points are.
static constexpr int64_t mostSums = 1 << 15;
/// With fewer steps or columns, putting steps into groups takes longer than is gained.
static constexpr int64_t fewestSums = 16, fewestColumns = 8;

//===-- Patterns ------------------------------------------------------------------------------===//

/// No byte of x, of those outside of an image neither, is more than a `narrow` contract may multiply.
static bool isNarrow(const Dequantized &x) {
  constexpr int64_t most = 128;
  return x.isUnsigned &&
         (!ReadOp(x.read).getMask() || (0 <= x.zeroNumber && x.zeroNumber <= most)) &&
         getLargestByte(x.tensor()) <= most;
}

/// The zero points are a constant, all of which are zero.
static bool hasNoZeroPoints(const Dequantized &operand) {
  if (!operand.zero)
    return operand.zeroNumber == 0;
  return findReadOfZeros(operand.zero) != nullptr;
}

namespace {

/// A contract that is rewritten.
struct Product {
  ContractOp contract;
  Dequantized lhs, rhs;
  bool isNarrow = false;           // the contract will be
  int64_t groupSteps = 4;          // of the sum in an element
  unsigned groupDim = 0;           // the k dim that is cut into groups
  unsigned lhsDim = 0, rhsDim = 0; // of the tensors of bits

  unsigned firstN() const {
    return ContractOp(contract).getNumBatch() + ContractOp(contract).getNumM();
  }
  unsigned firstK() const { return firstN() + ContractOp(contract).getNumN(); }
  unsigned numDims() const { return firstK() + ContractOp(contract).getNumK(); }
  /// A number added to signed bytes of the left operand.
  int64_t lhsOffset() const { return groupSteps == 4 ? lhs.offset() : 0; }
};

} // namespace

/// A read that is zero outside of the operand: its mask is the region's, and zero has bits.
static bool isMaskFine(const Product &product, unsigned dim) {
  ReadOp read = product.lhs.read;
  if (!read.getMask())
    return true;
  bool isZero =
      matchPattern(read.getOther(), m_AnyZeroFloat()) || matchPattern(read.getOther(), m_Zero());
  auto inside = read.getMask().getDefiningOp<InsideOp>();
  return isZero && inside && inside->getNumOperands() == 0 && !product.lhs.zero &&
         product.lhs.areParametersFree(0, product.numDims()) &&
         !dependsOnDims(getIndexMap(inside).getResults(), dim, dim + 1);
}

/// Chooses the dim that is cut into groups: the longest one that both operands have as it is.
static bool chooseGroups(Product &product) {
  SmallVector<Expr> extents = product.contract.getExtents();
  SmallVector<Expr> shape = sym::getShape(product.rhs.tensor());
  int64_t best = 0;
  for (unsigned dim = product.firstK(); dim < extents.size(); ++dim) {
    std::optional<int64_t> extent = extents[dim].constant();
    std::optional<unsigned> left = findPlainDim(product.lhs.index, dim);
    std::optional<unsigned> right = findPlainDim(product.rhs.index, dim);
    if (!extent || *extent <= best || !left || !right || !isMaskFine(product, dim) ||
        shape[*right] != extents[dim])
      continue;
    // A quarter of all steps may be filled up with zeros, but no more.
    if (*extent * 4 < static_cast<int64_t>(llvm::alignTo(*extent, product.groupSteps)) * 3)
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
      !isKnownConstant(product.rhs.tensor()))
    return "the right operand's bytes are not a constant";
  if (product.rhs.isUnsigned || product.rhs.read.getMask() || !hasNoZeroPoints(product.rhs))
    return "the right operand's bytes are not signed, or have zero points";
  std::optional<int64_t> steps = sym::product(contract.getK().getSizes()).constant();
  std::optional<int64_t> columns = sym::product(contract.getN().getSizes()).constant();
  if (!steps || *steps > mostSums || *steps < fewestSums || !columns || *columns < fewestColumns)
    return "its sums are too long or too short, or it has few columns";
  if (dependsOnDims(product.rhs.index, 0, product.firstN()) ||
      !product.lhs.areParametersFree(product.firstN(), product.numDims()) ||
      !product.rhs.areParametersFree(0, product.firstN()) ||
      !product.rhs.areParametersFree(product.firstK(), product.numDims()))
    return "scales change along the sum, or weights in a batch";
  if (!chooseGroups(product))
    return "no dim of the sum can be cut into groups of steps";
  return nullptr;
}

//===-- Rewriting -----------------------------------------------------------------------------===//

/// The bytes of `tensor` along `dim` in groups of `steps`, each as `bits` bits of an element; those past the end are zero.
/// `flip` makes signed bytes unsigned, by adding 128.
static Value makeGroups(KernelBuilder &kernels, Value tensor, unsigned dim, int64_t steps,
                        unsigned bits, bool flip) {
  Exprs shape = shapeOf(tensor), groups = shape;
  groups[dim] = kernels.known().simplify(shape[dim].ceilDiv(steps));
  MLIRContext *context = kernels.b().getContext();
  Type word = IntegerType::get(context, static_cast<unsigned>(steps) * bits);
  Type part = IntegerType::get(context, bits, IntegerType::Unsigned);
  return kernels.map(groups, word, [&](BodyBuilder &body) {
    Element group;
    for (int64_t step = 0; step < steps; ++step) {
      Exprs index = body.ownDims();
      index[dim] = index[dim] * steps + step;
      Element value = body.readPadded(tensor, index, body.constant(elementType(tensor), 0));
      // The lowest `bits` bits of what is widened by its sign, if it has one.
      if (bits > 8)
        value = convert(value, IntegerType::get(context, bits));
      value = convert(value.make(value.value(), part), word);
      if (flip)
        value = value ^ value.constant(128);
      Value moved =
          arith::ShLIOp::create(body.b(), value.value(), value.constant(bits * step).value());
      group = group ? group | value.make(moved) : value;
    }
    return group;
  });
}

namespace {

class BytesRewriter {
public:
  BytesRewriter(const Product &product, const sym::Assumptions &symbols, IRRewriter &rewriter)
      : product(product), contract(product.contract), rewriter(rewriter),
        builder(contract.getLoc(), rewriter), kernels(builder, symbols) {
    builder.setInsertionPoint(contract);
  }

  void run() {
    int64_t steps = product.groupSteps;
    Value left = makeGroups(kernels, product.lhs.tensor(), product.lhsDim, steps,
                            static_cast<unsigned>(32 / steps), product.lhsOffset() != 0);
    Value right = makeGroups(kernels, product.rhs.tensor(), product.rhsDim, steps, 8, false);
    bool corrects = product.lhs.zero || product.lhs.zeroNumber + product.lhsOffset() != 0;
    if (corrects)
      sums = makeWeightSums();
    if (product.rhs.hasZeros())
      checked = makeCheckedParameters();
    SmallVector<Expr> k(contract.getK().getSizes());
    Expr &cut = k[product.groupDim - product.firstK()];
    cut = cut.ceilDiv(steps);
    auto result = ContractOp::create(
        builder, contract.getResult().getType(), contract.getBatchAttr(), contract.getMAttr(),
        contract.getNAttr(), sym::ShapeAttr::get(builder.getContext(), k), contract.getPermAttr(),
        IntegerAttr(), sym::ExprAttr(), builder.getI64IntegerAttr(steps),
        product.isNarrow ? builder.getUnitAttr() : UnitAttr());
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

  /// The scale of each column or, without scales, zero, once its zero point is seen to be zero: it may be replaced when
  /// the model runs. Weights, if they were checked instead, would have to be stored as they are besides.
  Value makeCheckedParameters() {
    const Dequantized &rhs = product.rhs;
    Type type = rhs.scale ? rhs.scale.getType() : builder.getI32Type();
    Value result = kernels.map(contract.getN().getSizes(), type, [&](BodyBuilder &body) {
      Exprs dims = columnDims(body), at;
      for (Expr expr : rhs.place)
        at.push_back(expr.substituteDims(dims));
      IRMapping mapping = rhs.cloneAt(builder, at, body.numDims());
      Value zero = mapping.lookup(rhs.zero);
      Value none = arith::ConstantOp::create(builder, builder.getZeroAttr(zero.getType()));
      Value holds = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, zero, none);
      Value value = rhs.scale ? mapping.lookup(rhs.scale) : body.constant(type, 0).value();
      auto message = builder.getStringAttr("weights with zero points other than 0");
      value = ExpectOp::create(builder, value, holds, message, IntegerAttr());
      return Element(builder, value, type);
    });
    // A fold depends on all that it reads.
    eraseUnused(result.getDefiningOp<MapOp>().getBody().front());
    return result;
  }

  /// The contract's dims at a column, which is the body's element.
  Exprs columnDims(BodyBuilder &body) const {
    Exprs dims(product.firstN(), Expr(0));
    llvm::append_range(dims, body.ownDims());
    dims.resize(product.numDims(), Expr(0));
    return dims;
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
        return convert(inner.read(product.rhs.tensor(), index), i32);
      });
      return product.lhs.zero ? sum
                              : sum * sum.constant(product.lhs.zeroNumber + product.lhsOffset());
    });
  }

  void fillLeft(Region &region, Value groups) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&region.emplaceBlock());
    ReadOp read = product.lhs.read;
    Value mask, other;
    if (read.getMask()) {
      mask = builder.clone(*read.getMask().getDefiningOp())->getResult(0);
      int64_t zero = product.lhs.zeroNumber + product.lhsOffset();
      zero = product.groupSteps == 4 ? (zero & 0xff) * 0x01010101 : (zero & 0xffff) * 0x00010001;
      other =
          arith::ConstantIntOp::create(builder, builder.getI32Type(), static_cast<int32_t>(zero));
    }
    Value value = createRead(groups, product.lhs.index, mask, other);
    YieldOp::create(builder, value);
  }

  void fillEpilogue(Region &region) {
    OpBuilder::InsertionGuard guard(builder);
    Type i32 = builder.getI32Type();
    Block &block = region.emplaceBlock(), &old = contract.getEpilogue().front();
    Value sum = block.addArgument(i32, contract.getLoc());
    builder.setInsertionPointToStart(&block);
    auto [leftScale, zero] =
        product.lhs.cloneParameters(builder, product.lhs.place, product.numDims());
    auto [rightScale, none] =
        product.rhs.cloneParameters(builder, product.rhs.place, product.numDims());
    SmallVector<Expr> columns;
    for (unsigned dim = product.firstN(); dim < product.firstK(); ++dim)
      columns.push_back(Expr::dim(dim));
    if (checked) {
      Value parameters = createRead(checked, columns, {}, {});
      if (rightScale)
        rightScale = parameters;
      else
        sum = arith::SubIOp::create(builder, sum, parameters);
    }
    if (sums) {
      Value correction = createRead(sums, columns, {}, {});
      if (zero) {
        Value offset = arith::ConstantIntOp::create(builder, i32, product.lhsOffset());
        correction = arith::MulIOp::create(builder, correction,
                                           arith::AddIOp::create(builder, zero, offset));
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

  const Product &product;
  ContractOp contract;
  IRRewriter &rewriter;
  ImplicitLocOpBuilder builder;
  KernelBuilder kernels;
  Value sums;    // null: nothing to correct
  Value checked; // null: no zero points
};

struct MultiplyBytes : kiln::cpu::impl::CpuMultiplyBytesBase<MultiplyBytes> {
  using CpuMultiplyBytesBase::CpuMultiplyBytesBase;

  void runOnOperation() override {
    FailureOr<codegen::CPUInfo> target = cpu::getTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    bool hasBytes = target->avx512vnni || target->avxvnni || target->amxInt8;
    std::vector<Product> products;
    getOperation()->walk([&](ContractOp contract) {
      std::optional<Dequantized> lhs = Dequantized::get(contract.getLhs());
      std::optional<Dequantized> rhs = Dequantized::get(contract.getRhs());
      if (!lhs || !rhs || columnsAreBatch(contract))
        return;
      Product product{contract, *lhs, *rhs, !hasBytes && isNarrow(*lhs)};
      if (!hasBytes && !product.isNarrow)
        product.groupSteps = 2;
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
      BytesRewriter(product, symbols, rewriter).run();
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
