// The kernel of every model for GPUs that copies a tensor between strides.
#include "CUDA/Binary/CopyKernel.h"
#include "../../../../runtime/ir_interface.h"
#include "kiln/Codegen/RuntimeStruct.h"
#include "kiln/Dialect/Sym/SymDialect.h"
#include "kiln/Host/Device.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t rank = KILN_RT_COPY_RANK;
/// Threads of a block. Launches read it from the kernel's kiln_rt_device_kernel.
static constexpr int64_t threads = 256;

/// The kernel's numbers, KILN_RT_COPY_NUMBERS of them: elements, bytes of one, then the sizes of
/// all dims, their strides in the target and their strides in the source.
static SmallVector<sym::Expr> makeNumbers() {
  SmallVector<sym::Expr> numbers = {sym::Expr::symbol("count"), sym::Expr::symbol("item")};
  for (const char *name : {"size", "to", "from"})
    for (int64_t i = 0; i < rank; ++i)
      numbers.push_back(sym::Expr::symbol((name + Twine(i)).str()));
  assert(numbers.size() == KILN_RT_COPY_NUMBERS);
  return numbers;
}

void cuda::addCopyKernel(ModuleOp module) {
  MLIRContext *context = module.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = UnknownLoc::get(context);
  Type ptr = LLVM::LLVMPointerType::get(context), i64 = b.getI64Type(), i32 = b.getI32Type();
  SmallVector<sym::Expr> numbers = makeNumbers();
  SmallVector<Type> types = {ptr, ptr};
  types.append(numbers.size(), i64);
  types.push_back(ptr);
  auto function = LLVM::LLVMFuncOp::create(
      b, loc, host::copyKernelName,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types));

  SmallVector<Attribute> names, buffers;
  for (sym::Expr number : numbers)
    names.push_back(b.getStringAttr(number.symbolName()));
  for (int64_t strides : {rank, 2 * rank}) {
    sym::Expr elements = 1;
    for (int64_t i = 0; i < rank; ++i)
      elements = elements + (numbers[2 + i] - 1) * numbers[2 + strides + i];
    buffers.push_back(sym::ExprAttr::get(context, elements * numbers[1]));
  }
  function->setAttr(symbolsAttrName, b.getArrayAttr(names));
  function->setAttr(buffersAttrName, b.getArrayAttr(buffers));
  function->setAttr(sharedAttrName, b.getI64IntegerAttr(0));
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    b.getDenseI32ArrayAttr(static_cast<int32_t>(threads)));

  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  emitGridWait(b, loc);
  Value to = entry->getArgument(0), from = entry->getArgument(1);
  auto number = [&](int64_t i) { return entry->getArgument(2 + i); };
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 64);
  };
  Value thread = arith::ExtUIOp::create(b, loc, i64, NVVM::ThreadIdXOp::create(b, loc, i32));
  Value block = arith::ExtUIOp::create(b, loc, i64, NVVM::BlockIdXOp::create(b, loc, i32));
  Value element = arith::AddIOp::create(
      b, loc, arith::MulIOp::create(b, loc, block, constant(threads)), thread);
  Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, element, number(0));
  auto branch = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false);
  LLVM::ReturnOp::create(b, loc, ValueRange());
  b.setInsertionPointToStart(branch.thenBlock());

  Value left = element, toOffset = constant(0), fromOffset = constant(0);
  for (int64_t i = rank; i-- > 0;) {
    Value index = arith::RemUIOp::create(b, loc, left, number(2 + i));
    left = arith::DivUIOp::create(b, loc, left, number(2 + i));
    auto advance = [&](Value offset, Value stride) -> Value {
      return arith::AddIOp::create(b, loc, offset, arith::MulIOp::create(b, loc, index, stride));
    };
    toOffset = advance(toOffset, number(2 + rank + i));
    fromOffset = advance(fromOffset, number(2 + 2 * rank + i));
  }
  for (int64_t bytes : {1, 2, 4, 8, 16}) {
    Value isThis =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, number(1), constant(bytes));
    auto variant = scf::IfOp::create(b, loc, isThis, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(variant.thenBlock());
    int64_t width = std::min<int64_t>(bytes, 8), parts = bytes / width;
    Type type = b.getIntegerType(8 * width);
    for (int64_t part = 0; part < parts; ++part) {
      auto address = [&](Value base, Value offset) -> Value {
        offset = arith::MulIOp::create(b, loc, offset, constant(parts));
        offset = arith::AddIOp::create(b, loc, offset, constant(part));
        return LLVM::GEPOp::create(b, loc, ptr, type, base, ArrayRef<LLVM::GEPArg>{offset});
      };
      Value value = LLVM::LoadOp::create(b, loc, type, address(from, fromOffset), width);
      LLVM::StoreOp::create(b, loc, value, address(to, toOffset), width);
    }
  }
}
