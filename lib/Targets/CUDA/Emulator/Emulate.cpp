// cuda-emulate: a GPU's kernels become host code that runs a block at a time.
#include "CUDA/Emulator/EmulatorCalls.h"
#include "CUDA/Hopper/PartialSums.h"
#include "kiln/Codegen/ExprEmitter.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDAEMULATE
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

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
    WalkResult walked = function.walk([&](Operation *op) -> WalkResult {
      OpBuilder builder(op);
      Emulator emulator(getOperation(), builder);
      if (emulateAsync(emulator, op, nextSite) || emulateTensorMemory(emulator, op))
        return WalkResult::advance();
      return emulateInstruction(emulator, op, nextSite);
    });
    return failure(walked.wasInterrupted());
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
    codegen::ExprEmitter sizes(builder, loc, [&](StringRef name) {
      auto it = llvm::find_if(symbols.getAsRange<StringAttr>(),
                              [&](StringAttr symbol) { return symbol.getValue() == name; });
      size_t number = std::distance(symbols.getAsRange<StringAttr>().begin(), it);
      return arguments[buffers.size() + number];
    });
    for (auto [i, bytes] : llvm::enumerate(buffers.getAsRange<sym::ExprAttr>()))
      emulator.call(loc, "kiln_emulator_buffer", {}, {arguments[i], sizes.emit(bytes.getValue())});
    Value error = arguments[buffers.size() + symbols.size()];
    emulator.call(loc, "kiln_emulator_buffer", {}, {error, sizes.constant(4)});
    auto getBytes = [&](StringRef name) {
      auto bytes = function->getAttrOfType<IntegerAttr>(name);
      return bytes ? bytes.getInt() : 0;
    };
    int64_t each = getBytes(workspaceAttrName), all = getBytes(sharedWorkspaceAttrName);
    if (each || all)
      emulator.call(loc, "kiln_emulator_workspace", {},
                    {arguments[buffers.size() + symbols.size() + 1],
                     sizes.constant(PartialSums::flagBytes), sizes.constant(each),
                     sizes.constant(all)});
    LLVM::CallOp::create(builder, loc, function, arguments);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    // Attributes that only the GPU needs.
    for (StringRef name : {StringRef(NVVM::NVVMDialect::getKernelFuncAttrName()),
                           StringRef(NVVM::NVVMDialect::getMaxntidAttrName()),
                           StringRef(NVVM::NVVMDialect::getClusterDimAttrName()),
                           StringRef(NVVM::NVVMDialect::getMinctasmAttrName())})
      function->removeAttr(name);
  }
};

} // namespace
