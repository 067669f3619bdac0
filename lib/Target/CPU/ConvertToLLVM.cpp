#include "kiln/Target/CPU/KernelFrame.h"
#include "kiln/Target/CPU/Passes.h"
#include "kiln/Target/CPU/TargetInfo.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ComplexToLLVM/ComplexToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Complex/IR/Complex.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUCONVERTTOLLVM
#include "kiln/Target/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using kiln::cpu::withElements;

namespace {

bool isBF16(Type type) { return getElementTypeOrSelf(type).isBF16(); }

Value castTo(OpBuilder &b, Value value, Type element) {
  return arith::BitcastOp::create(b, value.getLoc(), withElements(value.getType(), element), value);
}

Value widen(OpBuilder &b, Value value) {
  return arith::ExtFOp::create(b, value.getLoc(), withElements(value.getType(), b.getF32Type()),
                               value);
}

/// Moves values of bf16 as the integers that they are stored as. LLVM takes vectors of bf16 apart
/// where a CPU has no instructions for them, and rounds each element again, in a library.
template <typename Op> struct MoveAsInteger : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!isBF16(op.getType()))
      return rewriter.notifyMatchFailure(op, "not of bf16");
    IRMapping integers;
    for (Value operand : op->getOperands())
      if (isBF16(operand.getType()) && !integers.contains(operand))
        integers.map(operand, castTo(rewriter, operand, rewriter.getI16Type()));
    Operation *moved = rewriter.clone(*op, integers);
    moved->getResult(0).setType(withElements(op.getType(), rewriter.getI16Type()));
    rewriter.replaceOp(op, castTo(rewriter, moved->getResult(0), rewriter.getBF16Type()));
    return success();
  }
};

template <typename Op> struct ConvertWide : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!isBF16(op.getType()))
      return rewriter.notifyMatchFailure(op, "not to bf16");
    Type type = withElements(op.getType(), rewriter.getF32Type());
    Value wide = Op::create(rewriter, op.getLoc(), type, op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), wide);
    return success();
  }
};

struct CompareWide : OpRewritePattern<arith::CmpFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::CmpFOp op, PatternRewriter &rewriter) const override {
    if (!isBF16(op.getLhs().getType()))
      return rewriter.notifyMatchFailure(op, "not of bf16");
    rewriter.replaceOpWithNewOp<arith::CmpFOp>(op, op.getPredicate(), widen(rewriter, op.getLhs()),
                                               widen(rewriter, op.getRhs()));
    return success();
  }
};

/// By way of f32.
struct ExtendTwice : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    if (!isBF16(op.getIn().getType()) || !getElementTypeOrSelf(op.getType()).isF64())
      return rewriter.notifyMatchFailure(op, "not from bf16 to f64");
    rewriter.replaceOpWithNewOp<arith::ExtFOp>(op, op.getType(), widen(rewriter, op.getIn()));
    return success();
  }
};

/// Hides from LLVM that a number had half the bits: it would do arithmetic that is rounded to that
/// again in half precision.
struct StayWide : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  static bool isLegal(arith::ExtFOp op) {
    return !op.getType().isF32() ||
           (op->hasOneUse() && isa<LLVM::InlineAsmOp>(*op->getUsers().begin()));
  }
  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    auto function = op->getParentOfType<LLVM::LLVMFuncOp>();
    if (isLegal(op) || !function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
      return rewriter.notifyMatchFailure(op, "is hidden, or a CPU's");
    Value wide = arith::ExtFOp::create(rewriter, op.getLoc(), op.getType(), op.getIn());
    rewriter.replaceOpWithNewOp<LLVM::InlineAsmOp>(
        op, TypeRange(op.getType()), wide, "", "=f,0", /*has_side_effects=*/false,
        /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
    return success();
  }
};

struct ConvertToLLVM : kiln::cpu::impl::CpuConvertToLLVMBase<ConvertToLLVM> {
  /// The patterns are the same for all functions: building them takes longer than applying them.
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet first(context);
    populateSCFToControlFlowConversionPatterns(first);
    arith::populateArithExpandOpsPatterns(first);
    arith::populateExpandBFloat16Patterns(first);
    first.add<StayWide, CompareWide, ExtendTwice, ConvertWide<arith::SIToFPOp>,
              ConvertWide<arith::UIToFPOp>, MoveAsInteger<arith::SelectOp>,
              MoveAsInteger<vector::ShuffleOp>, MoveAsInteger<vector::ExtractOp>,
              MoveAsInteger<vector::BroadcastOp>>(context);
    expansions = std::move(first);

    converter = std::make_shared<LLVMTypeConverter>(context);
    RewritePatternSet all(context);
    arith::populateArithToLLVMConversionPatterns(*converter, all);
    cf::populateControlFlowToLLVMConversionPatterns(*converter, all);
    populateMathToLLVMConversionPatterns(*converter, all);
    populateComplexToLLVMConversionPatterns(*converter, all);
    populateVectorToLLVMConversionPatterns(*converter, all);
    patterns = std::move(all);
    return success();
  }

  void runOnOperation() override {
    ConversionTarget flat(getContext());
    flat.addIllegalDialect<scf::SCFDialect>();
    flat.addIllegalOp<arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp>();
    // The CPUs' own instruction takes denormals for zero, and others have none. A GPU's is right.
    bool isDevice = getOperation()->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName());
    flat.addDynamicallyLegalOp<arith::TruncFOp>([=](arith::TruncFOp op) {
      return !isBF16(op.getType()) || (isDevice && op.getIn().getType().isF32());
    });
    // A CPU has no instructions for numbers of bf16 either: what is not arithmetic in f32 is done
    // in integers. A GPU has them.
    flat.addDynamicallyLegalOp<arith::CmpFOp, arith::MaximumFOp, arith::MinimumFOp, arith::SelectOp,
                               vector::ShuffleOp, vector::ExtractOp, vector::BroadcastOp>(
        [=](Operation *op) { return isDevice || llvm::none_of(op->getOperandTypes(), isBF16); });
    // ptxas has products of warpgroups wait for each other where it finds arithmetic of bf16.
    bool staysWide = getOperation()
                         ->walk([](NVVM::WgmmaMmaAsyncOp) { return WalkResult::interrupt(); })
                         .wasInterrupted();
    flat.addDynamicallyLegalOp<arith::ExtFOp>([=](arith::ExtFOp op) {
      return staysWide ? StayWide::isLegal(op) : isDevice || !isBF16(op.getIn().getType());
    });
    flat.addDynamicallyLegalOp<arith::SIToFPOp, arith::UIToFPOp>(
        [=](Operation *op) { return isDevice || !isBF16(op->getResult(0).getType()); });
    flat.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(getOperation(), flat, expansions)))
      return signalPassFailure();

    ConversionTarget llvm(getContext());
    // A device's own instructions are there already.
    llvm.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
    if (failed(applyFullConversion(getOperation(), llvm, patterns)))
      return signalPassFailure();
  }

  std::shared_ptr<LLVMTypeConverter> converter;
  FrozenRewritePatternSet expansions, patterns;
};

} // namespace
