// codegen-convert-to-llvm: the loops, scalars and vectors of a kernel's function become the LLVM
// dialect.
#include "kiln/Codegen/Passes.h"
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

namespace kiln::codegen {
#define GEN_PASS_DEF_CODEGENCONVERTTOLLVM
#include "kiln/Codegen/Passes.h.inc"
} // namespace kiln::codegen

using namespace mlir;

namespace {

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

/// `c > x ? c : x`, and the same with `<`, of a constant: an instruction of a GPU, which gives NaN
/// where x is, as well. It differs for x = -0.0 beside c = 0 alone, where a GPU has +0.0.
struct BoundByExtreme : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  static bool matches(arith::SelectOp op) {
    auto compare = op.getCondition().getDefiningOp<arith::CmpFOp>();
    auto bound = op.getTrueValue().getDefiningOp<arith::ConstantOp>();
    if (!compare || !bound || !op.getType().isF32())
      return false;
    bool isBound = compare.getLhs() == op.getTrueValue() && compare.getRhs() == op.getFalseValue();
    bool isSwapped =
        compare.getRhs() == op.getTrueValue() && compare.getLhs() == op.getFalseValue();
    return compare.getPredicate() == arith::CmpFPredicate::OLT && (isBound || isSwapped) &&
           !cast<FloatAttr>(bound.getValue()).getValue().isNaN();
  }
  LogicalResult matchAndRewrite(arith::SelectOp op, PatternRewriter &rewriter) const override {
    if (!matches(op))
      return rewriter.notifyMatchFailure(op, "no bound of a number");
    auto compare = op.getCondition().getDefiningOp<arith::CmpFOp>();
    if (compare.getLhs() == op.getFalseValue())
      rewriter.replaceOpWithNewOp<arith::MaximumFOp>(op, op.getFalseValue(), op.getTrueValue());
    else
      rewriter.replaceOpWithNewOp<arith::MinimumFOp>(op, op.getFalseValue(), op.getTrueValue());
    return success();
  }
};

/// An extreme of zeros may have either sign, as PyTorch's has: on x86 it takes three instructions then instead of six.
static void ignoreSignOfZero(Operation *op) {
  if (isa<arith::MaximumFOp, arith::MinimumFOp>(op)) {
    auto extreme = cast<arith::ArithFastMathInterface>(op);
    auto flags = extreme.getFastMathFlagsAttr().getValue() | arith::FastMathFlags::nsz;
    op->setAttr(extreme.getFastMathAttrName(),
                arith::FastMathFlagsAttr::get(op->getContext(), flags));
  }
}

struct ConvertToLLVM : kiln::codegen::impl::CodegenConvertToLLVMBase<ConvertToLLVM> {
  /// The patterns are the same for all functions: building them takes longer than applying them.
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet first(context);
    populateSCFToControlFlowConversionPatterns(first);
    arith::populateArithExpandOpsPatterns(first);
    first.add<StayWide, BoundByExtreme>(context);
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
    bool isDevice = getOperation()->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName());
    flat.addDynamicallyLegalOp<arith::SelectOp>(
        [=](arith::SelectOp op) { return !isDevice || !BoundByExtreme::matches(op); });
    // ptxas has products of warpgroups wait for each other where it finds arithmetic of bf16.
    bool staysWide = getOperation()
                         ->walk([](NVVM::WgmmaMmaAsyncOp) { return WalkResult::interrupt(); })
                         .wasInterrupted();
    flat.addDynamicallyLegalOp<arith::ExtFOp>(
        [=](arith::ExtFOp op) { return !staysWide || StayWide::isLegal(op); });
    flat.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(getOperation(), flat, expansions)))
      return signalPassFailure();
    if (!isDevice)
      getOperation()->walk([](Operation *op) { ignoreSignOfZero(op); });

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
