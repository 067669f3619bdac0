// cuda-keep-small-weights: weights that are small integers are widened where they are multiplied.
#include "CUDA/Contract/ContractPlan.h"
#include "CUDA/Contract/FourBits.h"
#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDAKEEPSMALLWEIGHTS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

//===-- Patterns ------------------------------------------------------------------------------===//

/// A read of bytes that each step has of its own, and how many of its first indices have nothing to do with the step: the
/// others are where it lies.
struct Bits {
  ReadOp read;
  size_t numLeading = 0;

  ArrayRef<sym::Expr> leading() { return read.getMap().getResults().take_front(numLeading); }
};

static std::optional<Bits> matchBits(ReadOp read, sym::Expr step, const sym::Assumptions &known) {
  ArrayRef<sym::Expr> index = read.getMap().getResults();
  SmallVector<sym::Expr> shape = sym::getShape(read.getTensor());
  if (!read.getType().isInteger(8))
    return std::nullopt;
  for (size_t first = index.size(); first-- > 0;) {
    sym::Expr place = sym::linearize(index.drop_front(first), ArrayRef(shape).drop_front(first));
    if (known.simplify(place) != step)
      continue;
    bool isLeading = llvm::none_of(index.take_front(first),
                                   [&](sym::Expr expr) { return expr.dependsOn(step); });
    return isLeading ? std::optional(Bits{read, first}) : std::nullopt;
  }
  return std::nullopt;
}

/// The bytes that each step has of its own; nothing: there is no such read, or several.
static std::optional<Bits> findBits(Region &region, sym::Expr step) {
  std::optional<Bits> found;
  sym::Assumptions known = getAssumptions(&region);
  for (ReadOp read : region.getOps<ReadOp>()) {
    std::optional<Bits> bits = matchBits(read, step, known);
    if (!bits)
      continue;
    if (found)
      return std::nullopt;
    found = bits;
  }
  return found;
}

/// Bytes of the constants that `region` reads, each once.
static int64_t countBytes(Region &region) {
  SmallVector<Value> tensors = readTensors(region);
  int64_t bytes = 0;
  for (Value tensor : llvm::SetVector<Value>(tensors.begin(), tensors.end()))
    if (auto type = cast<RankedTensorType>(tensor.getType()); type.hasStaticShape())
      bytes += getByteSize(type);
  return bytes;
}

/// Empty, or why the weights of `copy`, which have been put into its region, are floats again. They take `before` bytes
/// as floats.
static const char *whyNot(ContractOp copy, sym::Expr step, int64_t before) {
  Region &region = copy.getRhs();
  bool isPlain = llvm::all_of(region.front(), [](Operation &op) {
    auto read = dyn_cast<ReadOp>(op);
    return op.getNumRegions() == 0 && !isa<InsideOp>(op) &&
           (!read || (!read.getMask() && read.getValues().empty()));
  });
  if (!copy.getEpilogue().getArgument(0).getType().isF32() || !isPlain)
    return "its sums are not f32, or its integers are read where data says";
  cuda::ContractDims dims(copy);
  if (dims.rhsAlongN || dims.n.isConstant(1))
    return "it has one column, or neighbours are not steps";
  if (!findBits(region, step))
    return "no bytes are read along the sum";
  if (4 * countBytes(region) > 3 * before)
    return "what they are computed of takes as long to read";
  return nullptr;
}

//===-- Rewriting -----------------------------------------------------------------------------===//

/// The operand that is yielded as f32.
static void yieldF32(Region &region, IRRewriter &rewriter) {
  Operation *yield = region.front().getTerminator();
  Value value = yield->getOperand(0);
  if (value.getType().isF32())
    return;
  rewriter.setInsertionPoint(yield);
  yield->setOperand(0,
                    arith::ExtFOp::create(rewriter, yield->getLoc(), rewriter.getF32Type(), value));
}

/// Adds and multiplies f16 and bf16 where they are widened for it: two roundings to one of these formats, the first to f32, are
/// one (Figueroa, "When is double rounding innocuous?", 1995), but of bf16 below the least normal number.
static void narrowArithmetic(Region &region, IRRewriter &rewriter) {
  for (auto rounding : llvm::make_early_inc_range(region.getOps<arith::TruncFOp>())) {
    Operation *inner = rounding.getIn().getDefiningOp();
    if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::MulFOp>(inner) ||
        !inner->getResult(0).getType().isF32() || !cuda::mayWidenFourBits(rounding.getType()))
      continue;
    SmallVector<Value> operands;
    for (Value operand : inner->getOperands()) {
      auto extension = operand.getDefiningOp<arith::ExtFOp>();
      if (extension && extension.getIn().getType() == rounding.getType())
        operands.push_back(extension.getIn());
    }
    if (operands.size() != inner->getNumOperands())
      continue;
    rewriter.setInsertionPoint(rounding);
    Operation *narrow = rewriter.clone(*inner);
    narrow->setOperands(operands);
    narrow->getResult(0).setType(rounding.getType());
    rewriter.replaceOp(rounding, narrow->getResult(0));
  }
  eraseUnused(region.front());
}

namespace {

/// The least and the greatest number of four bits.
struct Bounds {
  int64_t least, most;
};

struct KeepSmallWeights : kiln::cuda::impl::CudaKeepSmallWeightsBase<KeepSmallWeights> {
  void runOnOperation() override {
    SmallVector<ContractOp> contracts;
    getOperation()->walk([&](ContractOp contract) {
      if (contract.getNumK() == 1 && !contract.getPanel() && !contract.getBytes() &&
          findComputedRead(contract.getRhs()))
        contracts.push_back(contract);
    });
    addSymbolRanges(getOperation(), symbols);
    IRRewriter rewriter(&getContext());
    for (ContractOp contract : contracts)
      keep(contract, rewriter);
    eraseUnused(rewriter, std::move(maps));
  }

private:
  /// Tries it with a copy.
  void keep(ContractOp contract, IRRewriter &rewriter) {
    if (!llvm::all_of(readTensors(contract.getRhs()), isKnownConstant))
      return;
    int64_t before = countBytes(contract.getRhs());
    rewriter.setInsertionPoint(contract);
    auto copy = cast<ContractOp>(rewriter.clone(*contract));
    llvm::SetVector<Operation *> inlined = inlineComputedReads(rewriter, copy.getRhs());
    sym::Expr step = sym::Expr::dim(copy.getExtents().size() - 1);
    if (const char *reason = whyNot(copy, step, before)) {
      emitRemark(RemarkKind::NotDone, contract, getArgument(), "NotKept",
                 [&] { return RemarkText{"constant weights computed in memory", reason}; });
      return rewriter.eraseOp(copy);
    }
    emitRemark(RemarkKind::Done, contract, getArgument(), "Kept",
               [&] { return RemarkText{"weights of small integers widened where multiplied"}; });
    bool isDot = kiln::cuda::isDot(kiln::cuda::ContractDims(copy));
    if (isDot) {
      yieldF32(copy.getRhs(), rewriter);
      dropRounding(rewriter, copy.getRhs());
    }
    dropZeros(copy, rewriter);
    if (isDot)
      yieldF32(copy.getLhs(), rewriter);
    else
      narrowArithmetic(copy.getRhs(), rewriter);
    packFours(copy, step, rewriter);
    rewriter.replaceOp(contract, copy);
    maps.insert(inlined.begin(), inlined.end());
  }

  /// Leaves away zero points that are all zero. They are checked where the scales beside them are read, in case others replace them.
  void dropZeros(ContractOp contract, IRRewriter &rewriter) {
    Region &region = contract.getRhs();
    for (auto difference : llvm::make_early_inc_range(region.getOps<arith::SubFOp>())) {
      ReadOp zero = findReadOfZeros(difference.getRhs());
      if (!zero)
        continue;
      auto isBeside = [&](ReadOp read) {
        return isa<FloatType>(read.getType()) && read.getMapAttr() == zero.getMapAttr() &&
               sym::getShape(read.getTensor()) == sym::getShape(zero.getTensor());
      };
      auto reads = llvm::to_vector(region.getOps<ReadOp>());
      auto *scale = llvm::find_if(reads, isBeside);
      if (scale == reads.end())
        continue;
      rewriter.setInsertionPoint(contract);
      scale->getTensorMutable().assign(makeCheckedScales(*scale, zero, rewriter));
      rewriter.replaceOp(difference, difference.getLhs());
    }
    eraseUnused(region.front());
  }

  /// The tensor that `scale` reads, once the zero points are seen to be zero.
  Value makeCheckedScales(ReadOp scale, ReadOp zero, IRRewriter &rewriter) {
    ImplicitLocOpBuilder builder(scale.getLoc(), rewriter);
    KernelBuilder kernels(builder, symbols);
    SmallVector<sym::Expr> shape = sym::getShape(scale.getTensor());
    return kernels.map(shape, scale.getType(), [&](BodyBuilder &body) {
      Element factor = body.read(scale.getTensor(), body.ownDims());
      Value point = body.read(zero.getTensor(), body.ownDims()).value();
      Value none = arith::ConstantOp::create(body.b(), rewriter.getZeroAttr(point.getType()));
      Value holds =
          isa<FloatType>(point.getType())
              ? arith::CmpFOp::create(body.b(), arith::CmpFPredicate::OEQ, point, none).getResult()
              : arith::CmpIOp::create(body.b(), arith::CmpIPredicate::eq, point, none).getResult();
      auto message = builder.getStringAttr("weights with zero points other than 0");
      return factor.make(
          ExpectOp::create(body.b(), factor.value(), holds, message, IntegerAttr()).getResult(),
          scale.getType());
    });
  }

  /// The bounds of four bits that the bytes of a constant, as signed numbers, keep to.
  static std::optional<Bounds> getBounds(ReadOp read) {
    std::optional<ConstantBytes> bytes = getReadConstant(read);
    if (!bytes)
      return std::nullopt;
    for (Bounds bounds : {Bounds{-8, 7}, Bounds{0, 15}})
      if (llvm::all_of(bytes->data(), [&](char byte) {
            auto value = static_cast<int8_t>(byte);
            return bounds.least <= value && value <= bounds.most;
          }))
        return bounds;
    return std::nullopt;
  }

  /// Lets a step read its bits in a word, if they are four.
  void packFours(ContractOp contract, sym::Expr step, IRRewriter &rewriter) {
    Bits bytes = *findBits(contract.getRhs(), step);
    ReadOp read = bytes.read;
    std::optional<Bounds> bounds = getBounds(read);
    SmallVector<sym::Expr> shape = sym::getShape(read.getTensor());
    sym::Expr steps = symbols.simplify(sym::product(ArrayRef(shape).drop_front(bytes.numLeading)));
    if (!bounds || !symbols.isMultipleOf(steps, cuda::wordSteps))
      return;
    rewriter.setInsertionPoint(contract);
    Value words = makeWords(bytes, steps, *bounds, rewriter);
    rewriter.setInsertionPoint(read);
    Location loc = read.getLoc();
    unsigned numDims = read.getMap().getNumDims();
    sym::IndexMap map{numDims, llvm::to_vector(bytes.leading())};
    map.results.push_back(step.floorDiv(cuda::wordSteps));
    Value word = ReadOp::create(rewriter, loc, words, map, ValueRange(), Value(), Value());
    Value bits = cuda::extractFourBits(rewriter, loc, word, step, numDims);
    for (Operation *user : llvm::make_early_inc_range(read->getUsers())) {
      bool isFloat =
          isa<arith::SIToFPOp>(user) || (isa<arith::UIToFPOp>(user) && bounds->least == 0);
      if (isFloat && cuda::mayWidenFourBits(user->getResult(0).getType()))
        rewriter.replaceOp(user,
                           cuda::widenFourBits(rewriter, loc, bits, -bounds->least,
                                               cast<FloatType>(user->getResult(0).getType())));
    }
    // Others take the integer.
    Value least = arith::ConstantIntOp::create(rewriter, loc, bounds->least, 32);
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(read, read.getType(),
                                                 arith::AddIOp::create(rewriter, loc, bits, least));
    eraseUnused(contract.getRhs().front());
  }

  /// The bytes, of `steps` steps, in words, from the least number on. What replaces them when the model runs has four bits, too.
  Value makeWords(Bits bytes, sym::Expr steps, Bounds bounds, IRRewriter &rewriter) {
    ReadOp read = bytes.read;
    ImplicitLocOpBuilder builder(read.getLoc(), rewriter);
    KernelBuilder kernels(builder, symbols);
    Type i32 = rewriter.getI32Type(), i8 = rewriter.getI8Type();
    SmallVector<sym::Expr> shape = sym::getShape(read.getTensor()), words(shape);
    ArrayRef<sym::Expr> trailing = ArrayRef(shape).drop_front(bytes.numLeading);
    words.resize(bytes.numLeading);
    words.push_back(symbols.simplify(steps.floorDiv(cuda::wordSteps)));
    return kernels.map(words, i32, [&](BodyBuilder &body) {
      Element word;
      auto message = builder.getStringAttr("weights of more than four bits");
      for (int64_t i = 0; i < cuda::wordSteps; ++i) {
        Exprs index = body.ownDims();
        sym::Expr step = index.pop_back_val() * cuda::wordSteps + i;
        llvm::append_range(index, sym::delinearize(step, trailing));
        Element byte = body.read(read.getTensor(), index);
        Value value = convert(byte.make(byte.value(), i8), i32).value();
        auto expect = [&](arith::CmpIPredicate predicate, int64_t bound) {
          Value holds =
              arith::CmpIOp::create(body.b(), predicate, value, body.constant(i32, bound).value());
          value = ExpectOp::create(body.b(), value, holds, message, IntegerAttr());
        };
        expect(arith::CmpIPredicate::sge, bounds.least);
        expect(arith::CmpIPredicate::sle, bounds.most);
        int64_t place = *cuda::getFourBitPlace(i).constant();
        Value bits =
            arith::SubIOp::create(body.b(), value, body.constant(i32, bounds.least).value());
        bits = arith::ShLIOp::create(body.b(), bits, body.constant(i32, place).value());
        word = word ? word | byte.make(bits, i32) : byte.make(bits, i32);
      }
      return word;
    });
  }

  sym::Assumptions symbols;
  /// The maps that have been put into contracts.
  llvm::SetVector<Operation *> maps;
};

} // namespace
