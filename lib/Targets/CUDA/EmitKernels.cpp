// cuda-emit-kernels: writes each kernel as a function of a GPU.
#include "../../../runtime/ir_interface.h"
#include "kiln/Codegen/RuntimeStruct.h"
#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDAEMITKERNELS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Lets the blocks of the next kernel come as soon as all of this one have begun, if these are few.
/// Otherwise those that come early would all be on the multiprocessors that have room first. A
/// variant fills its multiprocessors to the end.
static void emitTrigger(DeviceFrame &frame) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  int64_t most = getTarget(frame.func).getMultiprocessors();
  std::optional<int64_t> blocks = codegen::getGrid(frame.func).constant();
  if (frame.func->hasAttr(variantAttrName) || (blocks && *blocks > most))
    return;
  Value areFew;
  if (!blocks)
    areFew = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule,
                                   NVVM::GridDimXOp::create(b, loc, b.getI32Type()),
                                   arith::ConstantIntOp::create(b, loc, most, 32));
  frame.emitIf(areFew, [&] {
    NVVM::GriddepcontrolOp::create(b, loc, NVVM::GridDepActionKind::launch_dependents);
  });
}

void cuda::emitGridWait(OpBuilder &builder, Location loc) {
  NVVM::GriddepcontrolOp::create(builder, loc, NVVM::GridDepActionKind::wait);
}

LogicalResult cuda::emitRoot(DeviceFrame &frame) {
  Operation *root = frame.func.getRoot();
  // Nothing runs, and nothing could be divided by the number of blocks.
  if (codegen::getGrid(frame.func).isConstant(0))
    return success();
  Attribute schedule = frame.func.getScheduleAttr();
  // Only a variant is launched with as many blocks as the GPU has multiprocessors.
  if (getVariantArchitecture(schedule).has_value() != frame.func->hasAttr(variantAttrName))
    return frame.func.emitError("variants for Hopper and Blackwell, and they alone, are run by "
                                "warpgroups, not with the schedule ")
           << schedule;
  if (kernel::isGroup(frame.func))
    return emitGroup(frame);
  if (auto map = dyn_cast<kernel::MapOp>(root))
    return emitMap(frame, map);
  if (auto contract = dyn_cast<kernel::ContractOp>(root))
    return emitContract(frame, contract);
  if (auto attention = dyn_cast<kernel::AttentionOp>(root))
    return emitAttention(frame, attention);
  if (auto merge = dyn_cast<kernel::MergeOp>(root))
    return emitMerge(frame, merge);
  if (isa<ScanScheduleAttr>(schedule))
    return emitScan(frame, cast<kernel::ScanOp>(root));
  if (isa<SortScheduleAttr>(schedule))
    return emitSort(frame, cast<kernel::SortOp>(root));
  if (isa<ScatterScheduleAttr>(schedule))
    return emitScatter(frame, cast<kernel::ScatterOp>(root));
  return emitTasks(frame, root);
}

/// All symbols of a kernel, in order.
static SmallVector<sym::Expr> getSymbols(kernel::FuncOp func) {
  wrapper::SymbolCollector used;
  used.add(func);
  SmallVector<sym::Expr> symbols(used.symbols.begin(), used.symbols.end());
  llvm::sort(symbols);
  return symbols;
}

static void setAttributes(DeviceFrame &frame, ArrayRef<sym::Expr> symbols) {
  kernel::FuncOp kernel = frame.func;
  LLVM::LLVMFuncOp function = frame.function;
  MLIRContext *context = kernel.getContext();
  Builder builder(context);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    builder.getDenseI32ArrayAttr(static_cast<int32_t>(frame.numThreads)));
  SmallVector<Attribute> names, buffers;
  for (sym::Expr symbol : symbols)
    names.push_back(builder.getStringAttr(symbol.symbolName()));
  auto addBuffer = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    buffers.push_back(sym::ExprAttr::get(context, wrapper::BufferType::get(tensor).getBytes()));
  };
  llvm::for_each(kernel.getArgumentTypes(), addBuffer);
  llvm::for_each(kernel.getResultTypes(), addBuffer);
  if (kernel.getAligned())
    for (size_t i = 0; i < buffers.size(); ++i)
      function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                          builder.getI64IntegerAttr(vectorBytes));
  function->setAttr(symbolsAttrName, builder.getArrayAttr(names));
  function->setAttr(buffersAttrName, builder.getArrayAttr(buffers));
  function->setAttr(sharedAttrName, builder.getI64IntegerAttr(frame.sharedBytes));
  if (frame.workspaceBytes)
    function->setAttr(workspaceAttrName, builder.getI64IntegerAttr(frame.workspaceBytes));
  if (frame.sharedWorkspaceBytes)
    function->setAttr(sharedWorkspaceAttrName,
                      builder.getI64IntegerAttr(frame.sharedWorkspaceBytes));
  // A launch has to find out numbers that main has not computed.
  if (auto base = kernel->getAttrOfType<FlatSymbolRefAttr>(variantAttrName)) {
    function->setAttr(variantAttrName, base);
    function->setAttr(architectureAttrName,
                      builder.getI64IntegerAttr(*getVariantArchitecture(kernel.getScheduleAttr())));
    function->setAttr(gridAttrName, kernel.getLaunchAttr().getGrid());
    function->setAttr(mapsAttrName, builder.getArrayAttr(frame.maps));
  }
}

/// Less those that every kernel may have.
static constexpr size_t maxOperands = KILN_RT_MAX_PARAMETERS - 8;

static LogicalResult checkOperands(kernel::FuncOp kernel, size_t numSymbols) {
  size_t count = kernel.getNumArguments() + kernel.getNumResults() + numSymbols;
  if (count <= maxOperands)
    return success();
  return kernel.getRoot()->emitError("cannot be compiled for CUDA: ")
         << count << " tensors and sizes of one kernel, of which there may be " << maxOperands;
}

namespace {

struct EmitKernels : kiln::cuda::impl::CudaEmitKernelsBase<EmitKernels> {
  using CudaEmitKernelsBase::CudaEmitKernelsBase;

  void runOnOperation() override {
    auto emit = [](kernel::FuncOp kernel, LLVM::LLVMFuncOp &function) -> LogicalResult {
      if (kernel.isPrivate()) // which a group runs
        return success();
      if (!kernel.getScheduleAttr() || !getThreads(kernel))
        return kernel.emitError("has no schedule: run cuda-choose-schedule first");
      SmallVector<sym::Expr> symbols = getSymbols(kernel);
      if (failed(checkOperands(kernel, symbols.size())))
        return failure();
      DeviceFrame frame(kernel, symbols);
      function = frame.function;
      emitTrigger(frame);
      emitGridWait(frame.builder, frame.loc);
      if (failed(emitRoot(frame)))
        return failure();
      frame.emitFailures();
      LLVM::ReturnOp::create(frame.builder, frame.loc, ValueRange());
      setAttributes(frame, symbols);
      return success();
    };
    if (getOperation().getOps<kernel::FuncOp>().empty())
      return;
    if (failed(codegen::replaceKernels(getOperation(), emit)))
      return signalPassFailure();
    OpBuilder builder(&getContext());
    // Its size is what the launch says.
    builder.setInsertionPointToStart(getOperation().getBody());
    auto shared = LLVM::GlobalOp::create(
        builder, getOperation().getLoc(), LLVM::LLVMArrayType::get(builder.getI8Type(), 0),
        /*isConstant=*/false, LLVM::Linkage::External, sharedMemoryName, Attribute(),
        /*alignment=*/1024, static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
    shared.setDsoLocal(true);
  }
};

} // namespace
