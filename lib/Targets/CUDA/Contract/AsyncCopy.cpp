// Copies from global to shared memory that go on while threads compute.
#include "CUDA/Contract/AsyncCopy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

kernel::ReadOp cuda::getCopied(Region &region) {
  Value value = region.front().getTerminator()->getOperand(0);
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto read = (select ? select.getTrueValue() : value).getDefiningOp<kernel::ReadOp>();
  auto isZero = [](Value other) {
    return matchPattern(other, m_PosZeroFloat()) || matchPattern(other, m_Zero());
  };
  if (!read || !read.getValues().empty() || (read.getMask() && !isZero(read.getOther())))
    return {};
  if (select && (select.getCondition() != read.getMask() || !isZero(select.getFalseValue())))
    return {};
  if (Value mask = read.getMask()) {
    auto window = mask.getDefiningOp<kernel::InsideOp>();
    if (!window || !window.getValues().empty())
      return {};
  }
  return read;
}

std::optional<CopySource> cuda::findCopySource(Region &region, sym::Expr along, int64_t vector) {
  CopySource source{getCopied(region), {}};
  if (!source.read)
    return std::nullopt;
  if (Value mask = source.read.getMask()) {
    source.window = mask.getDefiningOp<kernel::InsideOp>();
    if (llvm::any_of(source.window.getMap().getResults(),
                     [&](sym::Expr expr) { return expr.dependsOn(along); }))
      return std::nullopt;
  }
  sym::Assumptions assumptions = kernel::getAssumptions(&region);
  sym::Expr offset = assumptions.simplify(
      sym::linearize(source.read.getMap().getResults(), sym::getShape(source.read.getTensor())));
  auto linear = sym::splitLinear(offset, along);
  if (!linear || !linear->coefficient.isConstant(1) ||
      !assumptions.isMultipleOf(linear->rest, vector))
    return std::nullopt;
  return source;
}

int64_t cuda::getConstantTerm(sym::Expr expr) {
  if (expr.kind() != sym::Kind::Add)
    return expr.constant().value_or(0);
  int64_t constant = 0;
  for (sym::Expr term : expr.operands())
    constant += term.constant().value_or(0);
  return constant;
}

void cuda::emitCopy(DeviceFrame &frame, CopySource source, Type type, ArrayRef<sym::Expr> position,
                    Value target, Value inside, int64_t bytes) {
  if (kernel::InsideOp window = source.window)
    for (auto [expr, bound] :
         llvm::zip_equal(window.getMap().getResults(), window.getBounds().getSizes())) {
      sym::Expr index = expr.substituteDims(position);
      inside =
          frame.both(inside, frame.both(frame.emitLess(-1, index), frame.emitLess(index, bound)));
    }
  sym::Expr offset = frame.assumptions.simplify(
      sym::linearize(source.read.getMap().getResults(), sym::getShape(source.read.getTensor()))
          .substituteDims(position));
  emitCopy(frame, frame.buffer(source.read.getTensor()), type, offset, target, inside, bytes);
}

void cuda::emitCopy(DeviceFrame &frame, Value base, Type type, sym::Expr offset, Value target,
                    Value inside, int64_t bytes) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  auto global = LLVM::LLVMPointerType::get(b.getContext(),
                                           static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
  // Copies at constant distances share an address: the instruction adds the distance.
  int64_t distance = getConstantTerm(offset);
  Value address = frame.gep(frame.gep(base, type, frame.simplifyAndEmit(offset - distance)), type,
                            frame.constant(distance));
  Value given = arith::ConstantIntOp::create(b, loc, bytes, 32);
  if (inside)
    given =
        arith::SelectOp::create(b, loc, inside, given, arith::ConstantIntOp::create(b, loc, 0, 32));
  // Only 16 bytes can pass the first cache by.
  auto cached =
      bytes == vectorBytes ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(b, loc, frame.toShared(target),
                          LLVM::AddrSpaceCastOp::create(b, loc, global, address), bytes, cached,
                          given);
}

void cuda::emitCopiesEnd(DeviceFrame &frame) {
  NVVM::CpAsyncCommitGroupOp::create(frame.builder, frame.loc);
}

void cuda::emitCopiesWait(DeviceFrame &frame, int64_t groups) {
  NVVM::CpAsyncWaitGroupOp::create(frame.builder, frame.loc, groups);
}
