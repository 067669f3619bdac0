#include "AsyncCopy.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

kernel::ReadOp cuda::findPlainRead(Region &region, sym::Expr along, int64_t vector) {
  auto read = dyn_cast<kernel::ReadOp>(region.front().front());
  if (!read || read.getMask() || !read.getValues().empty() ||
      region.front().getTerminator()->getOperand(0) != read.getResult())
    return {};
  sym::Assumptions assumptions = kernel::getAssumptions(&region);
  sym::Expr offset = assumptions.simplify(
      sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor())));
  auto linear = sym::splitLinear(offset, along);
  bool isPlain =
      linear && linear->coefficient.isConstant(1) && assumptions.isMultipleOf(linear->rest, vector);
  return isPlain ? read : kernel::ReadOp();
}

void cuda::emitCopy(DeviceFrame &frame, kernel::ReadOp read, Type type, sym::Expr offset,
                    Value target, Value inside) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  auto global = LLVM::LLVMPointerType::get(b.getContext(),
                                           static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
  Value source = frame.gep(frame.buffer(read.getTensor()), type, frame.simplifyAndEmit(offset));
  Value bytes = arith::ConstantIntOp::create(b, loc, vectorBytes, 32);
  if (inside)
    bytes =
        arith::SelectOp::create(b, loc, inside, bytes, arith::ConstantIntOp::create(b, loc, 0, 32));
  NVVM::CpAsyncOp::create(b, loc, frame.toShared(target),
                          LLVM::AddrSpaceCastOp::create(b, loc, global, source), vectorBytes,
                          NVVM::LoadCacheModifierKind::CG, bytes);
}

void cuda::emitCopiesEnd(DeviceFrame &frame) {
  NVVM::CpAsyncCommitGroupOp::create(frame.builder, frame.loc);
}

void cuda::emitCopiesWait(DeviceFrame &frame, int64_t groups) {
  NVVM::CpAsyncWaitGroupOp::create(frame.builder, frame.loc, groups);
}
