// A thread's instructions as calls of the emulator: its numbers, what threads do together, copies,
// products, and arithmetic that the host's processor does in another way.
#include "CUDA/Emulator/EmulatorCalls.h"
#include "CUDA/Hopper/PartialSums.h"
#include "CUDA/Hopper/WarpgroupProduct.h"
#include "CUDA/Ordered/LookBack.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Bytes that an access of this type touches; 0 for types that kernels do not access.
static int64_t getAccessBytes(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getNumElements() * getAccessBytes(vector.getElementType());
  return type.isIntOrFloat() ? llvm::divideCeil(type.getIntOrFloatBitWidth(), 8) : 0;
}

namespace {

class Instruction {
public:
  Instruction(Emulator &emulator, Operation *op, int32_t &nextSite)
      : emulator(emulator), builder(emulator.builder), op(op), loc(op->getLoc()),
        nextSite(nextSite), i32(builder.getI32Type()),
        ptr(LLVM::LLVMPointerType::get(op->getContext())) {}

  LogicalResult rewrite() {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](LLVM::LoadOp load) {
          return checkAccess(load.getAddrMutable(), load.getType(), /*writes=*/false);
        })
        .Case([&](LLVM::StoreOp store) {
          return checkAccess(store.getAddrMutable(), store.getValue().getType(), /*writes=*/true);
        })
        .Case([&](NVVM::ThreadIdXOp) { return replaceByCall("thread", {}); })
        .Case([&](NVVM::BlockIdXOp) { return replaceByCall("block", {}); })
        .Case([&](NVVM::BlockIdYOp) { return replace(constant(0)); })
        .Case([&](NVVM::GridDimXOp) { return replaceByCall("blocks", {}); })
        .Case([&](NVVM::Barrier0Op) { return becomeCall("barrier", {site()}); })
        .Case([&](NVVM::SyncWarpOp) { return becomeCall("sync_warp", {site()}); })
        .Case([&](NVVM::ShflOp shuffle) { return rewriteShuffle(shuffle); })
        .Case([&](NVVM::MmaOp product) { return rewriteProduct(product); })
        .Case([&](NVVM::CpAsyncOp copy) { return rewriteCopy(copy); })
        .Case([&](NVVM::CpAsyncCommitGroupOp) { return becomeCall("commit", {}); })
        .Case([&](NVVM::CpAsyncWaitGroupOp wait) {
          return becomeCall("wait", {constant(wait.getN())});
        })
        .Case([&](NVVM::LdMatrixOp load) { return rewriteLoadMatrix(load); })
        .Case([&](NVVM::ConvertFloatToTF32Op convert) {
          return replaceByCall("round_to_tf32", {convert.getSrc()});
        })
        .Case([&](NVVM::GriddepcontrolOp order) {
          if (order.getKind() == NVVM::GridDepActionKind::wait)
            return becomeCall("grid_wait", {});
          op->erase();
          return success();
        })
        .Case([&](LLVM::CallIntrinsicOp intrinsic) { return rewriteIntrinsic(intrinsic); })
        .Case([&](LLVM::InlineAsmOp text) { return rewriteText(text); })
        .Case([&](LLVM::AddrSpaceCastOp cast) { return rewriteShared(cast); })
        .Default([&](Operation *other) {
          return success(!isa<NVVM::NVVMDialect>(other->getDialect()));
        });
  }

private:
  Value constant(int64_t value) {
    return LLVM::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  }

  /// The number of an instruction that threads must execute together.
  Value site() { return constant(nextSite++); }

  Value call(StringRef name, Type result, ValueRange arguments) {
    return emulator.call(loc, ("kiln_emulator_" + name).str(), result, arguments);
  }

  LogicalResult replace(Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    return success();
  }

  LogicalResult replaceByCall(StringRef name, ValueRange arguments) {
    return replace(call(name, i32, arguments));
  }

  /// Replaces an instruction without a result by a call.
  LogicalResult becomeCall(StringRef name, ValueRange arguments) {
    call(name, {}, arguments);
    op->erase();
    return success();
  }

  LogicalResult checkAccess(OpOperand &address, Type type, bool writes) {
    Value bytes =
        LLVM::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(getAccessBytes(type)));
    address.assign(call("access", ptr, {address.get(), bytes, constant(writes)}));
    return success();
  }

  LogicalResult rewriteText(LLVM::InlineAsmOp text) {
    if (text.getAsmString() == readThreadText)
      return replaceByCall("thread", {});
    if (text.getAsmString() == readBlockText)
      return replaceByCall("block", {});
    if (text.getAsmString() == prefetchMapText) {
      op->erase();
      return success();
    }
    // Instructions that are there for the order of a GPU's alone.
    if (text.getNumOperands() == 1 &&
        (text.getAsmString().empty() || text.getAsmString() == copySumText))
      return replace(text.getOperand(0));
    if (text->hasAttr(raiseFlagAttrName))
      return becomeCall("raise_flag", {text.getOperand(0)});
    if (text->hasAttr(waitFlagAttrName))
      return becomeCall("wait_flag", {text.getOperand(0)});
    if (text->hasAttr(publishAttrName))
      return becomeCall("publish", text.getOperands());
    if (text->hasAttr(lookAttrName))
      return replaceByCall("look", text.getOperands());
    if (text->hasAttr(countBlocksAttrName))
      return replaceByCall("count_blocks", text.getOperands());
    return success();
  }

  LogicalResult rewriteShuffle(NVVM::ShflOp shuffle) {
    NVVM::ShflKind kind = shuffle.getKind();
    if (!shuffle.getType().isInteger(32) ||
        (kind != NVVM::ShflKind::bfly && kind != NVVM::ShflKind::idx))
      return failure();
    Value distance = shuffle.getOffset();
    if (kind == NVVM::ShflKind::idx) // in which bits this lane's number differs from that one's
      distance = LLVM::XOrOp::create(builder, loc, call("thread", i32, {}), distance);
    return replaceByCall("shuffle", {shuffle.getVal(), distance, site()});
  }

  /// Registers in memory.
  Value spill(ValueRange values) {
    Value memory = emulator.allocate(op, values.size());
    for (auto [i, value] : llvm::enumerate(values)) {
      Value slot = LLVM::GEPOp::create(builder, loc, ptr, i32, memory,
                                       ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
      LLVM::StoreOp::create(builder, loc, value, slot);
    }
    return memory;
  }

  LogicalResult rewriteProduct(NVVM::MmaOp product) {
    auto type = product.getMultiplicandAPtxType();
    EmulatedOperand kind = type == NVVM::MMATypes::bf16  ? EmulatedOperand::BF16
                           : type == NVVM::MMATypes::f16 ? EmulatedOperand::F16
                           : type == NVVM::MMATypes::s8  ? EmulatedOperand::S8
                                                         : EmulatedOperand::TF32;
    Value left = spill(product.getOperandA()), right = spill(product.getOperandB());
    Value sums = spill(product.getOperandC());
    call("mma", {}, {left, right, sums, constant(static_cast<int64_t>(kind)), site()});
    return replace(LLVM::LoadOp::create(builder, loc, product.getType(), sums));
  }

  static void eraseUnused(ArrayRef<Operation *> ops) {
    for (Operation *other : ops)
      if (other->use_empty())
        other->erase();
  }

  /// From the addresses before they were those of one kind of memory.
  LogicalResult rewriteCopy(NVVM::CpAsyncOp copy) {
    auto target = copy.getDst().getDefiningOp<LLVM::AddrSpaceCastOp>();
    auto source = copy.getSrc().getDefiningOp<LLVM::AddrSpaceCastOp>();
    if (!target || !source)
      return failure();
    Value given = copy.getCpSize() ? copy.getCpSize() : constant(copy.getSize());
    call("copy", {}, {target.getArg(), source.getArg(), constant(copy.getSize()), given});
    op->erase();
    eraseUnused({target, source});
    return success();
  }

  LogicalResult rewriteLoadMatrix(NVVM::LdMatrixOp load) {
    auto address = load.getPtr().getDefiningOp<LLVM::AddrSpaceCastOp>();
    if (!address)
      return failure();
    int64_t count = load.getNum();
    Value registers = emulator.allocate(op, count);
    bool isTransposed = load.getLayout() == NVVM::MMALayout::col;
    call("load_matrices", {},
         {address.getArg(), registers, constant(count), constant(isTransposed), site()});
    (void)replace(LLVM::LoadOp::create(builder, loc, load.getType(), registers));
    eraseUnused({address});
    return success();
  }

  LogicalResult rewriteIntrinsic(LLVM::CallIntrinsicOp intrinsic) {
    StringRef name = intrinsic.getIntrin();
    if (name.starts_with("llvm.nvvm.ex2.approx")) {
      Value flushes = constant(name.ends_with(".ftz"));
      return replace(call("exp2", builder.getF32Type(), {intrinsic.getArgs().front(), flushes}));
    }
    if (name == "llvm.nvvm.rcp.approx.ftz.f")
      return replace(call("reciprocal", builder.getF32Type(), intrinsic.getArgs()));
    if (name == "llvm.nvvm.ff2bf16x2.rn") {
      Value packed = call("pack_bf16", i32, intrinsic.getArgs());
      return replace(LLVM::BitcastOp::create(builder, loc, op->getResultTypes()[0], packed));
    }
    return success();
  }

  /// The beginning of shared memory.
  LogicalResult rewriteShared(LLVM::AddrSpaceCastOp cast) {
    if (llvm::cast<LLVM::LLVMPointerType>(cast.getType()).getAddressSpace() != 0)
      return success();
    auto address = cast.getArg().getDefiningOp<LLVM::AddressOfOp>();
    if (!address || address.getGlobalName() != sharedMemoryName)
      return failure();
    (void)replace(call("shared", ptr, {}));
    eraseUnused({address});
    return success();
  }

  Emulator &emulator;
  OpBuilder &builder;
  Operation *op;
  Location loc;
  int32_t &nextSite;
  Type i32, ptr;
};

} // namespace

LogicalResult cuda::emulateInstruction(Emulator &emulator, Operation *op, int32_t &nextSite) {
  if (succeeded(Instruction(emulator, op, nextSite).rewrite()))
    return success();
  return op->emitError("is not known to the emulator");
}
