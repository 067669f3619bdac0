// cuda-keep-small-weights: weights that are small integers are widened where few rows are multiplied with them.
#include "CUDA/Contract/ContractPlan.h"
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

/// An i32 holds eight integers of four bits, the first in the lowest bits.
static constexpr int64_t wordSteps = 8, stepBits = 4;

//===-- Patterns ------------------------------------------------------------------------------===//

/// The last index is the step of the sum, and no other one has to do with it.
static bool runsAlong(ReadOp read, sym::Expr step) {
  ArrayRef<sym::Expr> index = read.getMap().getResults();
  return !index.empty() && index.back() == step &&
         llvm::none_of(index.drop_back(), [&](sym::Expr expr) { return expr.dependsOn(step); });
}

/// The bytes that each step has of its own; null: there is no such read, or several.
static ReadOp findBits(Region &region, sym::Expr step) {
  ReadOp found;
  for (ReadOp read : region.getOps<ReadOp>()) {
    if (!runsAlong(read, step) || !read.getType().isInteger(8))
      continue;
    if (found)
      return {};
    found = read;
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
  if (!cuda::isDot(cuda::ContractDims(copy)))
    return "it has many rows, or one column, or neighbours are not steps";
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

/// Leaves away what rounds numbers on the way to f32, and takes bytes to f32 at once.
static void dropRounding(Region &region, IRRewriter &rewriter) {
  yieldF32(region, rewriter);
  for (Operation &op : llvm::make_early_inc_range(region.front())) {
    auto extension = dyn_cast<arith::ExtFOp>(op);
    Operation *inner = extension ? extension.getIn().getDefiningOp() : nullptr;
    if (isa_and_nonnull<arith::TruncFOp>(inner) &&
        inner->getOperand(0).getType() == extension.getType()) {
      rewriter.replaceOp(extension, inner->getOperand(0));
    } else if (isa_and_nonnull<arith::SIToFPOp, arith::UIToFPOp>(inner) &&
               inner->getOperand(0).getType().isInteger(8)) {
      rewriter.setInsertionPoint(extension);
      Operation *whole = rewriter.clone(*inner);
      whole->getResult(0).setType(extension.getType());
      rewriter.replaceOp(extension, whole->getResult(0));
    }
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
    dropRounding(copy.getRhs(), rewriter);
    dropZeros(copy, rewriter);
    yieldF32(copy.getLhs(), rewriter);
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
    ReadOp read = findBits(contract.getRhs(), step);
    std::optional<Bounds> bounds = getBounds(read);
    SmallVector<sym::Expr> shape =
        sym::getShape(cast<RankedTensorType>(read.getTensor().getType()));
    if (!bounds || !symbols.isMultipleOf(shape.back(), wordSteps))
      return;
    rewriter.setInsertionPoint(contract);
    Value words = makeWords(read, shape, *bounds, rewriter);
    rewriter.setInsertionPoint(read);
    Location loc = read.getLoc();
    Type i32 = rewriter.getI32Type();
    unsigned numDims = read.getMap().getNumDims();
    sym::IndexMap map{numDims, llvm::to_vector(read.getMap().getResults())}, place{numDims, {}};
    map.results.back() = step.floorDiv(wordSteps);
    Value word = ReadOp::create(rewriter, loc, words, map, ValueRange(), Value(), Value());
    bool isSigned = bounds->least < 0;
    sym::Expr below = step.mod(wordSteps) * stepBits;
    place.results = {isSigned ? 32 - stepBits - below : below};
    Value index = IndexOp::create(rewriter, loc, rewriter.getI64Type(),
                                  sym::MapAttr::get(&getContext(), place), ValueRange());
    Value shift = arith::TruncIOp::create(rewriter, loc, i32, index);
    auto constant = [&](int64_t value) {
      return arith::ConstantIntOp::create(rewriter, loc, i32, value);
    };
    Value bits = isSigned
                     ? arith::ShRSIOp::create(rewriter, loc,
                                              arith::ShLIOp::create(rewriter, loc, word, shift),
                                              constant(32 - stepBits))
                           .getResult()
                     : arith::AndIOp::create(rewriter, loc,
                                             arith::ShRUIOp::create(rewriter, loc, word, shift),
                                             constant(15));
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(read, read.getType(), bits);
  }

  /// The bytes that `read` has, in words. What replaces them when the model runs has four bits, too.
  Value makeWords(ReadOp read, SmallVector<sym::Expr> shape, Bounds bounds, IRRewriter &rewriter) {
    ImplicitLocOpBuilder builder(read.getLoc(), rewriter);
    KernelBuilder kernels(builder, symbols);
    Type i32 = rewriter.getI32Type(), i8 = rewriter.getI8Type();
    shape.back() = symbols.simplify(shape.back().floorDiv(wordSteps));
    return kernels.map(shape, i32, [&](BodyBuilder &body) {
      Element word;
      auto message = builder.getStringAttr("weights of more than four bits");
      for (int64_t i = 0; i < wordSteps; ++i) {
        Exprs index = body.ownDims();
        index.back() = index.back() * wordSteps + i;
        Element byte = body.read(read.getTensor(), index);
        Value value = convert(byte.make(byte.value(), i8), i32).value();
        auto expect = [&](arith::CmpIPredicate predicate, int64_t bound) {
          Value holds =
              arith::CmpIOp::create(body.b(), predicate, value, body.constant(i32, bound).value());
          value = ExpectOp::create(body.b(), value, holds, message, IntegerAttr());
        };
        expect(arith::CmpIPredicate::sge, bounds.least);
        expect(arith::CmpIPredicate::sle, bounds.most);
        Value bits = arith::AndIOp::create(body.b(), value, body.constant(i32, 15).value());
        bits = arith::ShLIOp::create(body.b(), bits, body.constant(i32, stepBits * i).value());
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
