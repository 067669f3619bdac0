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

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUCONVERTTOLLVM
#include "kiln/Target/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;

namespace {

struct ConvertToLLVM : kiln::cpu::impl::CpuConvertToLLVMBase<ConvertToLLVM> {
  /// The patterns are the same for all functions: building them takes longer than applying them.
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet first(context);
    populateSCFToControlFlowConversionPatterns(first);
    arith::populateCeilFloorDivExpandOpsPatterns(first);
    arith::populateExpandBFloat16Patterns(first);
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
      return !getElementTypeOrSelf(op.getType()).isBF16() ||
             (isDevice && op.getIn().getType().isF32());
    });
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
