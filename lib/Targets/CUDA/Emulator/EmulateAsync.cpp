// Hopper's barriers, copies of boxes and products of warpgroups as calls of the emulator.
#include "CUDA/Emulator/EmulatorCalls.h"
#include "CUDA/Hopper/BarrierArray.h"
#include "CUDA/Hopper/WarpgroupProduct.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Dims of a tensor map, at most.
static constexpr unsigned mapRank = 5;

static Value constant(Emulator &emulator, Location loc, int64_t value) {
  return LLVM::ConstantOp::create(emulator.builder, loc, emulator.builder.getI32IntegerAttr(value));
}

/// wgmma out of shared memory: sums go through memory.
static bool emulateProduct(Emulator &emulator, NVVM::WgmmaMmaAsyncOp product, int32_t site) {
  OpBuilder &builder = emulator.builder;
  Location loc = product.getLoc();
  auto i32 = [&](int64_t value) { return constant(emulator, loc, value); };
  auto type = cast<LLVM::LLVMStructType>(product.getType());
  Value sums = emulator.allocate(product, type.getBody().size());
  LLVM::StoreOp::create(builder, loc, product.getInouts(), sums);
  bool leftIsTurned = product.getLayoutA() == NVVM::MMALayout::col;
  bool rightIsTurned = product.getLayoutB() == NVVM::MMALayout::row;
  NVVM::WGMMATypes element = product.getTypeA();
  EmulatedOperand operand = element == NVVM::WGMMATypes::s8     ? EmulatedOperand::S8
                            : element == NVVM::WGMMATypes::e4m3 ? EmulatedOperand::E4M3
                            : element == NVVM::WGMMATypes::e5m2 ? EmulatedOperand::E5M2
                            : element == NVVM::WGMMATypes::f16  ? EmulatedOperand::F16
                                                                : EmulatedOperand::BF16;
  emulator.call(
      loc, "kiln_emulator_wgmma", {},
      {product.getDescriptorA(), product.getDescriptorB(), sums, i32(product.getShape().getN()),
       i32(product.getScaleD() == NVVM::WGMMAScaleOut::one), i32(static_cast<int64_t>(operand)),
       i32(leftIsTurned), i32(rightIsTurned), i32(site)});
  product->replaceAllUsesWith(LLVM::LoadOp::create(builder, loc, type, sums));
  product->erase();
  return true;
}

/// Text with values in place, a struct of them: wgmma whose left operand is in registers, or
/// nothing.
static bool emulateInPlace(Emulator &emulator, LLVM::InlineAsmOp text, int32_t &nextSite) {
  OpBuilder &builder = emulator.builder;
  Location loc = text.getLoc();
  auto i32 = [&](int64_t value) { return constant(emulator, loc, value); };
  auto type = dyn_cast_if_present<LLVM::LLVMStructType>(
      text.getNumResults() ? text.getResult(0).getType() : Type());
  if (!type || text.getNumOperands() < type.getBody().size())
    return false;
  auto product = text->getAttrOfType<DictionaryAttr>(registerProductAttrName);
  if (!product && !text.getAsmString().empty())
    return false;
  size_t count = type.getBody().size();
  Value packed = LLVM::UndefOp::create(builder, loc, type);
  for (size_t i = 0; i < count; ++i)
    packed = LLVM::InsertValueOp::create(builder, loc, packed, text.getOperand(i), i);
  if (product) {
    Value sums = emulator.allocate(text, count);
    LLVM::StoreOp::create(builder, loc, packed, sums);
    auto registers = text.getOperands().slice(count, 4);
    Value left = emulator.allocate(text, registers.size());
    for (auto [i, value] : llvm::enumerate(registers))
      LLVM::StoreOp::create(builder, loc, value,
                            LLVM::GEPOp::create(builder, loc, left.getType(), builder.getI32Type(),
                                                left, LLVM::GEPArg(static_cast<int32_t>(i))));
    auto is = [&](StringRef name) { return i32(product.getAs<BoolAttr>(name).getValue()); };
    emulator.call(loc, "kiln_emulator_wgmma_registers", {},
                  {left, text.getOperand(count + 4), sums,
                   i32(product.getAs<IntegerAttr>("columns").getInt()), is("half"), is("turned"),
                   i32(nextSite++)});
    packed = LLVM::LoadOp::create(builder, loc, type, sums);
  }
  text->replaceAllUsesWith(packed.getDefiningOp());
  text->erase();
  return true;
}

bool cuda::emulateAsync(Emulator &emulator, Operation *op, int32_t &nextSite) {
  OpBuilder &builder = emulator.builder;
  Location loc = op->getLoc();
  Type ptr = LLVM::LLVMPointerType::get(op->getContext());
  auto i32 = [&](int64_t value) { return constant(emulator, loc, value); };
  // Shared memory is memory.
  auto generic = [&](Value address) -> Value {
    return address.getType() == ptr ? address
                                    : LLVM::AddrSpaceCastOp::create(builder, loc, ptr, address);
  };
  auto call = [&](StringRef name, ValueRange arguments) {
    emulator.call(loc, name, {}, arguments);
    op->erase();
    return true;
  };
  auto replace = [&](Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    return true;
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](NVVM::MBarrierInitOp init) {
        return call("kiln_emulator_mbarrier_init", {generic(init.getAddr()), init.getCount()});
      })
      .Case([&](NVVM::MBarrierArriveOp arrive) {
        return call("kiln_emulator_mbarrier_arrive", generic(arrive.getAddr()));
      })
      .Case([&](NVVM::MBarrierArriveExpectTxOp arrive) {
        return call("kiln_emulator_mbarrier_expect",
                    {generic(arrive.getAddr()), arrive.getTxcount()});
      })
      .Case([&](NVVM::MBarrierTryWaitParityOp wait) {
        return call(wait->hasAttr(askAgainAttrName) ? "kiln_emulator_mbarrier_ask_again"
                                                    : "kiln_emulator_mbarrier_wait",
                    {generic(wait.getAddr()), wait.getPhase()});
      })
      .Case([&](NVVM::FenceProxyOp) { return call("kiln_emulator_fence_proxy", {}); })
      .Case([&](NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp load) {
        SmallVector<Value> arguments = {generic(load.getDstMem()), load.getTmaDescriptor(),
                                        generic(load.getMbar())};
        Value mask = load.getMulticastMask();
        if (mask)
          arguments.push_back(LLVM::ZExtOp::create(builder, loc, builder.getI32Type(), mask));
        arguments.push_back(i32(load.getCoordinates().size()));
        llvm::append_range(arguments, load.getCoordinates());
        arguments.append(mapRank - load.getCoordinates().size(), i32(0));
        return call(mask ? "kiln_emulator_multicast_tensor" : "kiln_emulator_load_tensor",
                    arguments);
      })
      .Case([&](NVVM::ClusterId) {
        return replace(emulator.call(loc, "kiln_emulator_rank", builder.getI32Type(), {}));
      })
      .Case([&](NVVM::MapaOp map) {
        Value mapped =
            emulator.call(loc, "kiln_emulator_map_shared", ptr, {generic(map.getA()), map.getB()});
        if (map.getType() != ptr)
          mapped = LLVM::AddrSpaceCastOp::create(builder, loc, map.getType(), mapped);
        return replace(mapped);
      })
      .Case<NVVM::ClusterArriveOp, NVVM::ClusterArriveRelaxedOp>(
          [&](auto) { return call("kiln_emulator_cluster_arrive", {}); })
      .Case([&](NVVM::ClusterWaitOp) { return call("kiln_emulator_cluster_wait", {}); })
      .Case(
          [&](NVVM::FenceMbarrierInitOp) { return call("kiln_emulator_fence_mbarrier_init", {}); })
      .Case([&](NVVM::SetMaxRegisterOp set) {
        int64_t sign = set.getAction() == NVVM::SetMaxRegisterAction::increase ? 1 : -1;
        return call("kiln_emulator_set_registers", i32(sign * set.getRegCount()));
      })
      .Case([&](NVVM::WgmmaFenceAlignedOp) { return call("kiln_emulator_wgmma_fence", {}); })
      .Case([&](NVVM::WgmmaGroupSyncAlignedOp) { return call("kiln_emulator_wgmma_commit", {}); })
      .Case([&](NVVM::WgmmaWaitGroupSyncOp wait) {
        return call("kiln_emulator_wgmma_wait", i32(wait.getGroup()));
      })
      .Case([&](NVVM::WgmmaMmaAsyncOp product) {
        return emulateProduct(emulator, product, nextSite++);
      })
      .Case([&](LLVM::InlineAsmOp text) { return emulateInPlace(emulator, text, nextSite); })
      .Default([](Operation *) { return false; });
}
