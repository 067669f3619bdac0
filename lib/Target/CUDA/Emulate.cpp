#include "EmulatorCalls.h"
#include "PartialSums.h"
#include "kiln/Target/CPU/ExprEmitter.h"
#include "kiln/Target/CUDA/KernelEmitters.h"
#include "kiln/Target/CUDA/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDAEMULATE
#include "kiln/Target/CUDA/Passes.h.inc"
} // namespace kiln::cuda

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

struct Emulate : kiln::cuda::impl::CudaEmulateBase<Emulate> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto function : llvm::to_vector(module.getOps<LLVM::LLVMFuncOp>())) {
      if (!function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
        continue;
      if (failed(rewrite(function)))
        return signalPassFailure();
      emitTwin(function);
    }
    if (auto shared = module.lookupSymbol<LLVM::GlobalOp>(sharedMemoryName))
      shared.erase();
  }

  LogicalResult rewrite(LLVM::LLVMFuncOp function) {
    if (failed(emulateSums(function)))
      return failure();
    int32_t nextSite = 0; // of instructions that threads must execute together
    WalkResult walked = function.walk([&](Operation *op) {
      OpBuilder builder(op);
      Emulator emulator(getOperation(), builder);
      Location loc = op->getLoc();
      Type i32 = builder.getI32Type(), ptr = LLVM::LLVMPointerType::get(&getContext());
      auto constant = [&](Type type, int64_t value) -> Value {
        return LLVM::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
      };
      auto replace = [&](Value value) {
        if (value)
          op->getResult(0).replaceAllUsesWith(value);
        op->erase();
        return WalkResult::advance();
      };
      auto access = [&](Value address, Type type, bool writes) {
        return emulator.call(
            loc, "kiln_emulator_access", ptr,
            {address, constant(builder.getI64Type(), getAccessBytes(type)), constant(i32, writes)});
      };
      if (auto load = dyn_cast<LLVM::LoadOp>(op)) {
        load.getAddrMutable().assign(access(load.getAddr(), load.getType(), false));
        return WalkResult::advance();
      }
      if (auto store = dyn_cast<LLVM::StoreOp>(op)) {
        store.getAddrMutable().assign(access(store.getAddr(), store.getValue().getType(), true));
        return WalkResult::advance();
      }
      auto text = dyn_cast<LLVM::InlineAsmOp>(op);
      if (isa<NVVM::ThreadIdXOp>(op) || (text && text.getAsmString() == readThreadText))
        return replace(emulator.call(loc, "kiln_emulator_thread", i32, {}));
      if (isa<NVVM::BlockIdXOp>(op) || (text && text.getAsmString() == readBlockText))
        return replace(emulator.call(loc, "kiln_emulator_block", i32, {}));
      if (isa<NVVM::BlockIdYOp>(op))
        return replace(constant(i32, 0));
      if (isa<NVVM::GridDimXOp>(op))
        return replace(emulator.call(loc, "kiln_emulator_blocks", i32, {}));
      if (emulateAsync(emulator, op, nextSite))
        return WalkResult::advance();
      if (isa<NVVM::Barrier0Op>(op)) {
        emulator.call(loc, "kiln_emulator_barrier", {}, {constant(i32, nextSite++)});
        return replace({});
      }
      // What is there for the order of a GPU's instructions alone.
      if (auto none = dyn_cast<LLVM::InlineAsmOp>(op);
          none && none.getAsmString().empty() && none.getNumOperands() == 1)
        return replace(none.getOperand(0));
      if (isa<NVVM::SyncWarpOp>(op)) {
        emulator.call(loc, "kiln_emulator_sync_warp", {}, {constant(i32, nextSite++)});
        return replace({});
      }
      if (text && text->hasAttr(raiseFlagAttrName)) {
        emulator.call(loc, "kiln_emulator_raise_flag", {}, {text.getOperand(0)});
        return replace({});
      }
      if (text && text->hasAttr(waitFlagAttrName)) {
        emulator.call(loc, "kiln_emulator_wait_flag", {}, {text.getOperand(0)});
        return replace({});
      }
      if (auto shuffle = dyn_cast<NVVM::ShflOp>(op);
          shuffle && shuffle.getType().isInteger(32) &&
          llvm::is_contained({NVVM::ShflKind::bfly, NVVM::ShflKind::idx}, shuffle.getKind())) {
        Value distance = shuffle.getOffset();
        if (shuffle.getKind() == NVVM::ShflKind::idx) {
          // In which bits this lane's number differs from that one's.
          Value thread = emulator.call(loc, "kiln_emulator_thread", i32, {});
          distance = LLVM::XOrOp::create(builder, loc, thread, distance);
        }
        return replace(emulator.call(loc, "kiln_emulator_shuffle", i32,
                                     {shuffle.getVal(), distance, constant(i32, nextSite++)}));
      }
      if (auto product = dyn_cast<NVVM::MmaOp>(op))
        return replace(emitProduct(emulator, builder, product, nextSite++));
      if (auto copy = dyn_cast<NVVM::CpAsyncOp>(op)) {
        // From the addresses before they were those of one kind of memory.
        auto target = copy.getDst().getDefiningOp<LLVM::AddrSpaceCastOp>();
        auto source = copy.getSrc().getDefiningOp<LLVM::AddrSpaceCastOp>();
        if (!target || !source)
          return notKnown(op);
        Value given = copy.getCpSize() ? copy.getCpSize() : constant(i32, copy.getSize());
        emulator.call(loc, "kiln_emulator_copy", {},
                      {target.getArg(), source.getArg(), constant(i32, copy.getSize()), given});
        op->erase();
        for (LLVM::AddrSpaceCastOp cast : {target, source})
          if (cast->use_empty())
            cast->erase();
        return WalkResult::advance();
      }
      if (auto load = dyn_cast<NVVM::LdMatrixOp>(op)) {
        auto address = load.getPtr().getDefiningOp<LLVM::AddrSpaceCastOp>();
        if (!address)
          return notKnown(op);
        int64_t count = load.getNum();
        Value registers = emulator.allocate(op, count);
        bool transposed = load.getLayout() == NVVM::MMALayout::col;
        emulator.call(loc, "kiln_emulator_load_matrices", {},
                      {address.getArg(), registers, constant(i32, count), constant(i32, transposed),
                       constant(i32, nextSite++)});
        Value loaded = LLVM::LoadOp::create(builder, loc, load.getType(), registers);
        replace(loaded);
        if (address->use_empty())
          address->erase();
        return WalkResult::advance();
      }
      if (auto convert = dyn_cast<NVVM::ConvertFloatToTF32Op>(op))
        return replace(emulator.call(loc, "kiln_emulator_round_to_tf32", i32, {convert.getSrc()}));
      if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op);
          call && call.getIntrin().starts_with("llvm.nvvm.ex2.approx")) {
        Value flushes = constant(i32, call.getIntrin().ends_with(".ftz"));
        return replace(emulator.call(loc, "kiln_emulator_exp2", builder.getF32Type(),
                                     {call.getArgs().front(), flushes}));
      }
      if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op);
          call && call.getIntrin() == "llvm.nvvm.ff2bf16x2.rn") {
        Value packed = emulator.call(loc, "kiln_emulator_pack_bf16", i32, call.getArgs());
        return replace(LLVM::BitcastOp::create(builder, loc, op->getResultTypes()[0], packed));
      }
      // The CPU's instruction for it takes denormals for zero.
      if (auto round = dyn_cast<LLVM::FPTruncOp>(op); round && round.getType().isBF16()) {
        Value bits = emulator.call(loc, "kiln_emulator_round_to_bf16", i32, {round.getArg()});
        bits = LLVM::TruncOp::create(builder, loc, builder.getI16Type(), bits);
        return replace(LLVM::BitcastOp::create(builder, loc, round.getType(), bits));
      }
      if (auto order = dyn_cast<NVVM::GriddepcontrolOp>(op)) {
        if (order.getKind() == NVVM::GridDepActionKind::wait)
          emulator.call(loc, "kiln_emulator_grid_wait", {}, {});
        return replace({});
      }
      if (isa<NVVM::CpAsyncCommitGroupOp>(op)) {
        emulator.call(loc, "kiln_emulator_commit", {}, {});
        return replace({});
      }
      if (auto wait = dyn_cast<NVVM::CpAsyncWaitGroupOp>(op)) {
        emulator.call(loc, "kiln_emulator_wait", {}, {constant(i32, wait.getN())});
        return replace({});
      }
      auto cast = dyn_cast<LLVM::AddrSpaceCastOp>(op);
      if (cast && llvm::cast<LLVM::LLVMPointerType>(cast.getType()).getAddressSpace() == 0) {
        auto address = cast.getArg().getDefiningOp<LLVM::AddressOfOp>();
        if (!address || address.getGlobalName() != sharedMemoryName)
          return notKnown(op);
        Value base = emulator.call(loc, "kiln_emulator_shared", ptr, {});
        replace(base);
        if (address->use_empty())
          address->erase();
        return WalkResult::advance();
      }
      return isa<NVVM::NVVMDialect>(op->getDialect()) ? notKnown(op) : WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  /// mma.sync: registers go through memory.
  static Value emitProduct(Emulator &emulator, OpBuilder &builder, NVVM::MmaOp op, int32_t site) {
    Location loc = op.getLoc();
    Type i32 = builder.getI32Type(), ptr = LLVM::LLVMPointerType::get(op.getContext());
    auto spill = [&](ValueRange values) -> Value {
      Value memory = emulator.allocate(op, values.size());
      for (auto [i, value] : llvm::enumerate(values)) {
        Value slot = LLVM::GEPOp::create(builder, loc, ptr, i32, memory,
                                         ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
        LLVM::StoreOp::create(builder, loc, value, slot);
      }
      return memory;
    };
    auto type = op.getMultiplicandAPtxType();
    int kind = type == NVVM::MMATypes::bf16 ? 0 : type == NVVM::MMATypes::f16 ? 1 : 2;
    Value left = spill(op.getOperandA()), right = spill(op.getOperandB());
    Value sums = spill(op.getOperandC());
    auto constant = [&](int64_t value) -> Value {
      return LLVM::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
    };
    emulator.call(loc, "kiln_emulator_mma", {},
                  {left, right, sums, constant(kind), constant(site)});
    return LLVM::LoadOp::create(builder, loc, op.getType(), sums);
  }

  static WalkResult notKnown(Operation *op) {
    op->emitError("is not known to the emulator");
    return WalkResult::interrupt();
  }

  /// void NAME_emulated(void *const *arguments), and const int64_t NAME_parameters, NAME_maps and
  /// NAME_cluster: their numbers, and the blocks of a cluster.
  void emitTwin(LLVM::LLVMFuncOp function) {
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(function);
    Location loc = function.getLoc();
    Type ptr = LLVM::LLVMPointerType::get(&getContext());
    auto type =
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&getContext()), ArrayRef<Type>{ptr});
    auto maps = function->getAttrOfType<ArrayAttr>(mapsAttrName);
    unsigned numMaps = maps ? maps.size() : 0;
    auto twin =
        LLVM::LLVMFuncOp::create(builder, loc, (function.getName() + "_emulated").str(), type);
    auto define = [&](StringRef suffix, int64_t value) {
      LLVM::GlobalOp::create(builder, loc, builder.getI64Type(), /*isConstant=*/true,
                             LLVM::Linkage::External, (function.getName() + suffix).str(),
                             builder.getI64IntegerAttr(value));
    };
    define("_parameters", function.getNumArguments() - numMaps);
    define("_maps", numMaps);
    define("_cluster", getCluster(function));
    builder.setInsertionPointToStart(twin.addEntryBlock(builder));
    Emulator emulator(getOperation(), builder);
    SmallVector<Value> arguments;
    for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
      Value slot = LLVM::GEPOp::create(builder, loc, ptr, ptr, twin.getArgument(0),
                                       ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
      slot = LLVM::LoadOp::create(builder, loc, ptr, slot);
      // A tensor map is the parameter, not what it is the address of.
      bool isMap = i + numMaps >= function.getNumArguments();
      arguments.push_back(
          isMap ? slot : LLVM::LoadOp::create(builder, loc, argument.getType(), slot).getResult());
      if (isMap)
        for (StringRef name : {LLVM::LLVMDialect::getByValAttrName(),
                               StringRef(NVVM::NVVMDialect::getGridConstantAttrName())})
          function.removeArgAttr(i, builder.getStringAttr(name));
    }
    auto buffers = function->getAttrOfType<ArrayAttr>(buffersAttrName);
    auto symbols = function->getAttrOfType<ArrayAttr>(symbolsAttrName);
    cpu::ExprEmitter sizes(builder, loc, [&](StringRef name) {
      auto it = llvm::find_if(symbols.getAsRange<StringAttr>(),
                              [&](StringAttr symbol) { return symbol.getValue() == name; });
      size_t number = std::distance(symbols.getAsRange<StringAttr>().begin(), it);
      return arguments[buffers.size() + number];
    });
    for (auto [i, bytes] : llvm::enumerate(buffers.getAsRange<sym::ExprAttr>()))
      emulator.call(loc, "kiln_emulator_buffer", {}, {arguments[i], sizes.emit(bytes.getValue())});
    Value error = arguments[buffers.size() + symbols.size()];
    emulator.call(loc, "kiln_emulator_buffer", {}, {error, sizes.constant(4)});
    if (auto bytes = function->getAttrOfType<IntegerAttr>(workspaceAttrName))
      emulator.call(loc, "kiln_emulator_workspace", {},
                    {arguments[buffers.size() + symbols.size() + 1],
                     sizes.constant(PartialSums::flagBytes), sizes.constant(bytes.getInt())});
    LLVM::CallOp::create(builder, loc, function, arguments);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    // What only the GPU is told.
    for (StringRef name : {StringRef(NVVM::NVVMDialect::getKernelFuncAttrName()),
                           StringRef(NVVM::NVVMDialect::getMaxntidAttrName()),
                           StringRef(NVVM::NVVMDialect::getClusterDimAttrName()),
                           StringRef(NVVM::NVVMDialect::getMinctasmAttrName())})
      function->removeAttr(name);
  }
};

} // namespace
