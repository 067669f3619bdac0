// Right operands that are small integers: their panels, and the contract that reads them.
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/MultiplyGroups.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

void cpu::widenYield(Region &region, RewriterBase &rewriter) {
  OpOperand &yielded = region.front().getTerminator()->getOpOperand(0);
  Type f32 = rewriter.getF32Type();
  if (yielded.get().getType() == f32)
    return;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(yielded.getOwner());
  yielded.set(arith::ExtFOp::create(rewriter, region.getLoc(), f32, yielded.get()));
}

void cpu::placeLeft(ContractOp contract, Type element, RewriterBase &rewriter) {
  Location loc = contract.getLoc();
  SmallVector<sym::Expr> extents = contract.getExtents(), shape(extents), dims;
  unsigned numRows = contract.getNumBatch() + contract.getNumM();
  unsigned firstK = extents.size() - contract.getNumK();
  shape.erase(shape.begin() + numRows, shape.begin() + firstK);
  sym::IndexMap place{static_cast<unsigned>(extents.size()), {}};
  for (unsigned i = 0; i < extents.size(); ++i) {
    bool isColumn = i >= numRows && i < firstK;
    unsigned number = i < numRows ? i : i - (firstK - numRows);
    dims.push_back(isColumn ? sym::Expr(0) : sym::Expr::dim(number));
    if (!isColumn)
      place.results.push_back(sym::Expr::dim(i));
  }
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(contract);
  auto map = MapOp::create(rewriter, loc, TypeRange(sym::getTensorType(shape, element)));
  renameBody(contract.getLhs(), map.getBody(), dims, rewriter, shape.size());
  if (element.isF32())
    widenYield(map.getBody(), rewriter);
  Block &body = contract.getLhs().front();
  while (!body.empty())
    rewriter.eraseOp(&body.back());
  rewriter.setInsertionPointToStart(&body);
  Value value = ReadOp::create(rewriter, loc, map.getResult(0), place);
  YieldOp::create(rewriter, loc, value);
}

SmallVector<sym::Expr> cpu::renameSteps(const Panels &panels, ArrayRef<sym::Expr> sums,
                                        bool isSplit) {
  unsigned firstK = panels.firstK();
  SmallVector<sym::Expr> dims, values;
  for (unsigned i = 0; i < firstK; ++i)
    dims.push_back(sym::Expr::dim(i));
  for (unsigned i = 0; i < sums.size(); ++i)
    values.push_back(sym::Expr::dim(firstK + i));
  sym::Expr step = sym::linearize(values, sums);
  ArrayRef<sym::Expr> sizes = panels.contract.getK().getSizes();
  dims.resize(firstK + sizes.size(), 0);
  for (auto [i, old] : llvm::enumerate(panels.order))
    if (!isSplit)
      dims[firstK + old] = values[i];
    else if (!sizes[old].isConstant(1))
      dims[firstK + old] = step;
  return dims;
}

namespace {

class Packer {
public:
  Packer(const Panels &panels, const SmallWeights &weights, bool inPairs, RewriterBase &rewriter)
      : panels(panels), contract(panels.contract), weights(weights), inPairs(inPairs),
        rewriter(rewriter), loc(contract.getLoc()), firstK(panels.firstK()) {}

  void pack() {
    choose();
    bool isWide = contract.getLhs().front().getTerminator()->getOperand(0).getType().isF32();
    if (inPairs)
      placeLeftAlongSum(contract, rewriter);
    else if (!inHalves &&
             (isSplit ? !isWide || !readsInPlace(contract) : !isWide && readsInPlace(contract)))
      placeLeft(contract, rewriter.getF32Type(), rewriter);
    Value bits = packBits(), scales, offsets;
    if (group != 0) {
      scales = packParameters(0);
      offsets = hasOffset ? packParameters(1) : Value();
    }
    rewriter.setInsertionPoint(contract);
    auto result = ContractOp::create(
        rewriter, loc, contract.getResult().getType(), contract.getBatchAttr(), contract.getMAttr(),
        contract.getNAttr(), sym::ShapeAttr::get(contract.getContext(), sums),
        contract.getPermAttr(), rewriter.getI64IntegerAttr(panels.panel), sym::ExprAttr(),
        IntegerAttr(), UnitAttr());
    SmallVector<sym::Expr> dims = renameSteps(panels, sums, isSplit);
    renameBody(contract.getLhs(), result.getLhs(), dims, rewriter, numDims());
    if (!inPairs)
      widenYield(result.getLhs(), rewriter);
    fillRight(result.getRhs(), bits, scales, offsets);
    fillEpilogue(result.getEpilogue(), dims);
    rewriter.replaceOp(contract, result);
  }

private:
  unsigned numDims() const { return firstK + sums.size(); }
  sym::Expr k(unsigned i) const { return sym::Expr::dim(firstK + i); }

  /// Chooses the bits of an element and the k dims: groups, words, and steps of a word.
  void choose() {
    SmallVector<sym::Expr> sizes = panels.getSums();
    sums = sizes;
    llvm::erase_if(sizes, [](sym::Expr size) { return size.isConstant(1); });
    std::optional<int64_t> steps = sizes.size() == 1 ? sizes[0].constant() : std::nullopt;
    std::optional<int64_t> small = weights.getBias();
    inWords = small && steps && *steps % wordSteps == 0 && weights.group % wordSteps == 0;
    bias = inWords ? *small : 0;
    hasOffset = weights.hasOffset() || bias != 0;
    if (weights.group != 0 || hasOffset)
      group = weights.group != 0 ? weights.group : *steps;
    isSplit = inWords || group != 0;
    if (!isSplit)
      return;
    sums.clear();
    if (group != 0)
      sums.push_back(*steps / group);
    int64_t inner = group != 0 ? group : *steps;
    inHalves = inWords && group != 0 && !hasOffset && GroupedBytes::get(contract);
    if (inHalves)
      sums.append({inner / wordSteps, wordHalves, halfSteps});
    else if (inWords)
      sums.append({inner / wordSteps, wordSteps});
    else
      sums.push_back(inner);
  }

  /// The bits at a step, checked, as i32.
  Value cloneBits(Panels::CloneAt cloneAt, sym::Expr step) {
    IRMapping mapping = cloneAt(step);
    Value value = mapping.lookup(weights.bits);
    Type i32 = rewriter.getI32Type();
    unsigned width = value.getType().getIntOrFloatBitWidth();
    if (width > 32)
      value = arith::TruncIOp::create(rewriter, loc, i32, value);
    else if (width < 32)
      value = weights.isUnsigned ? arith::ExtUIOp::create(rewriter, loc, i32, value).getResult()
                                 : arith::ExtSIOp::create(rewriter, loc, i32, value).getResult();
    if (inWords) {
      value = expect(value, compare(arith::CmpIPredicate::sge, value, bias - 8),
                     "weights of more than four bits");
      value = expect(value, compare(arith::CmpIPredicate::sle, value, bias + 7),
                     "weights of more than four bits");
    }
    return group == 0 ? expectNoZeros(value, mapping) : value;
  }

  /// `value`, once the zero points that are all zero are seen to be. Scales are checked with them where there are
  /// some: bits that no other parameter changes are stored as these panels alone.
  Value expectNoZeros(Value value, const IRMapping &mapping) {
    for (Value old : weights.zeros) {
      Value zero = mapping.lookup(old);
      Value none = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(zero.getType()));
      value =
          expect(value, arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OEQ, zero, none),
                 "weights with zero points other than 0");
    }
    return value;
  }

  Value compare(arith::CmpIPredicate predicate, Value value, int64_t number) {
    return arith::CmpIOp::create(rewriter, loc, predicate, value, constant(number));
  }

  Value expect(Value value, Value condition, StringRef message) {
    return ExpectOp::create(rewriter, loc, value, condition, rewriter.getStringAttr(message),
                            IntegerAttr());
  }

  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(rewriter, loc, rewriter.getI32Type(), value);
  }

  Value packBits() {
    sym::Expr steps = sym::product(panels.getSums());
    if (!inWords)
      return panels.create(rewriter.getI8Type(), steps, rewriter,
                           [&](Panels::CloneAt cloneAt, sym::Expr row, Value mask) -> Value {
                             return arith::TruncIOp::create(rewriter, loc, rewriter.getI8Type(),
                                                            masked(cloneBits(cloneAt, row), mask));
                           });
    return panels.create(
        rewriter.getI32Type(), steps.floorDiv(wordSteps), rewriter,
        [&](Panels::CloneAt cloneAt, sym::Expr row, Value mask) {
          Value word;
          for (int64_t i = 0; i < wordSteps; ++i) {
            Value four = cloneBits(cloneAt, row * wordSteps + i);
            if (bias != 0)
              four = arith::SubIOp::create(rewriter, loc, four, constant(bias));
            four = arith::AndIOp::create(rewriter, loc, four, constant(15));
            int64_t first = inHalves  ? i % halfSteps * 8 + i / halfSteps * smallBits
                            : inPairs ? *firstPairBit(i).constant()
                                      : i * smallBits;
            four = arith::ShLIOp::create(rewriter, loc, four, constant(first));
            word = word ? arith::OrIOp::create(rewriter, loc, word, four).getResult() : four;
          }
          return masked(word, mask);
        });
  }

  Value masked(Value value, Value mask) {
    if (!mask)
      return value;
    Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(value.getType()));
    return arith::SelectOp::create(rewriter, loc, mask, value, zero);
  }

  /// Scales or offsets.
  Value packParameters(unsigned which) {
    Type f32 = rewriter.getF32Type(), type = which == 0 ? weights.getScaleType() : f32;
    return panels.create(
        type, sums[0], rewriter, [&](Panels::CloneAt cloneAt, sym::Expr row, Value mask) {
          IRMapping mapping = cloneAt(row * group);
          auto [scale, offset] = weights.createParameters(rewriter, loc, mapping, bias);
          Value value = which == 0 ? scale : offset;
          if (!value)
            value = arith::ConstantOp::create(rewriter, loc,
                                              rewriter.getF32FloatAttr(which == 0 ? 1.0F : 0.0F));
          value = masked(which == 0 ? expectNoZeros(value, mapping) : value, mask);
          return type == f32 ? value
                             : arith::TruncFOp::create(rewriter, loc, type, value).getResult();
        });
  }

  void fillRight(Region &region, Value bits, Value scales, Value offsets) {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPointToStart(&region.emplaceBlock());
    SmallVector<sym::Expr> outer, sizes(sums);
    for (unsigned i = 0; i < sums.size(); ++i)
      outer.push_back(k(i));
    for (unsigned i = 0, e = inHalves ? 2 : inWords ? 1 : 0; i < e; ++i) {
      outer.pop_back();
      sizes.pop_back();
    }
    Value value = readPanels(bits, sym::linearize(outer, sizes));
    if (inWords) {
      // The four bits are moved to the top, and down again with their sign.
      int64_t top = 32 - smallBits;
      sym::Expr first = smallBits * k(sums.size() - (inHalves ? 2 : 1));
      if (inPairs)
        first = firstPairBit(k(sums.size() - 1));
      if (inHalves)
        first = first + 8 * k(sums.size() - 1);
      sym::IndexMap up{numDims(), {top - first}};
      Value index = IndexOp::create(rewriter, loc, rewriter.getI64Type(),
                                    sym::MapAttr::get(contract.getContext(), up), ValueRange());
      Value by = arith::TruncIOp::create(rewriter, loc, rewriter.getI32Type(), index);
      value = arith::ShLIOp::create(rewriter, loc, value, by);
      value = arith::ShRSIOp::create(rewriter, loc, value, constant(top));
    }
    Type f32 = rewriter.getF32Type();
    value = !inWords && weights.isUnsigned
                ? arith::UIToFPOp::create(rewriter, loc, f32, value).getResult()
                : arith::SIToFPOp::create(rewriter, loc, f32, value).getResult();
    bool subtracts = offsets && weights.subtractsFirst();
    if (subtracts)
      value = arith::SubFOp::create(rewriter, loc, value, readPanels(offsets, k(0)));
    if (scales)
      value = arith::MulFOp::create(rewriter, loc, value, readScales(scales));
    if (offsets && !subtracts)
      value = arith::AddFOp::create(rewriter, loc, value, readPanels(offsets, k(0)));
    if (inPairs)
      value = arith::TruncFOp::create(rewriter, loc, rewriter.getBF16Type(), value);
    YieldOp::create(rewriter, loc, value);
  }

  Value readPanels(Value tensor, sym::Expr row) {
    return ReadOp::create(rewriter, loc, tensor, panels.getPlace(numDims(), row));
  }

  Value readScales(Value tensor) {
    Value scale = readPanels(tensor, k(0));
    Type f32 = rewriter.getF32Type();
    return scale.getType() == f32 ? scale
                                  : arith::ExtFOp::create(rewriter, loc, f32, scale).getResult();
  }

  /// Scales that are the same in all of a sum multiply it.
  void fillEpilogue(Region &region, ArrayRef<sym::Expr> dims) {
    if (group != 0 || weights.steps.empty())
      return renameBody(contract.getEpilogue(), region, dims, rewriter, numDims());
    OpBuilder::InsertionGuard guard(rewriter);
    Block &block = region.emplaceBlock(), &old = contract.getEpilogue().front();
    Value sum = block.addArgument(old.getArgument(0).getType(), loc);
    rewriter.setInsertionPointToStart(&block);
    DimSubstitution substitution;
    substitution.sourceDims = dims.size();
    substitution.targetDims = numDims();
    substitution.dims.assign(dims.begin(), dims.end());
    for (unsigned i = firstK; i < dims.size(); ++i)
      substitution.dims[i] = 0;
    IRMapping mapping;
    cloneBody(rewriter, contract.getRhs().front(), substitution, mapping);
    Value scale = weights.createParameters(rewriter, loc, mapping, 0).first;
    mapping.map(old.getArgument(0), arith::MulFOp::create(rewriter, loc, sum, scale).getResult());
    YieldOp::create(rewriter, loc, cloneBody(rewriter, old, substitution, mapping));
    eraseUnused(block);
  }

  const Panels &panels;
  ContractOp contract;
  const SmallWeights &weights;
  bool inPairs;
  RewriterBase &rewriter;
  Location loc;
  unsigned firstK;
  SmallVector<sym::Expr> sums; // of the new contract
  bool inWords = false, inHalves = false, isSplit = false, hasOffset = false;
  int64_t bias = 0;
  int64_t group = 0; // steps of a row of the parameters; 0: there are none
};

} // namespace

void cpu::packSmallWeights(const Panels &panels, const SmallWeights &weights, bool inPairs,
                           RewriterBase &rewriter) {
  Packer(panels, weights, inPairs, rewriter).pack();
}
