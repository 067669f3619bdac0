// The tables that launches read about kernels, and their code, as data of the shared object.
#include "kiln/Codegen/ExprEmitter.h"
#include "kiln/Codegen/Globals.h"
#include "kiln/Host/Device.h"
#include "kiln/Targets/CUDA/CUDA.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Rows of runtime/cuda/device.h.
static constexpr char imageFields[] = "plii", mapFields[] = "iiiiiiii",
                      kernelFields[] = "pppiiiiiipppiiii", deviceFields[] = "piip";

/// Defines void NAME(const int64_t *symbols, int64_t *numbers): what a launch of the kernel has to
/// know, computed of the values of its symbols.
static std::string emitGeometry(OpBuilder &builder, Location loc, const DeviceKernel &kernel) {
  std::string name = kernel.name + "_geometry";
  Type ptr = LLVM::LLVMPointerType::get(builder.getContext()), i64 = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                          ArrayRef<Type>{ptr, ptr});
  auto function = LLVM::LLVMFuncOp::create(builder, loc, name, type, LLVM::Linkage::Internal);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  auto slot = [&](unsigned argument, size_t number) -> Value {
    return LLVM::GEPOp::create(builder, loc, ptr, i64, function.getArgument(argument),
                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(number)});
  };
  codegen::ExprEmitter emitter(builder, loc, [&](StringRef symbol) -> Value {
    size_t number = std::distance(kernel.symbols.begin(), llvm::find(kernel.symbols, symbol));
    return LLVM::LoadOp::create(builder, loc, i64, slot(0, number));
  });
  for (auto [i, number] : llvm::enumerate(kernel.geometry))
    LLVM::StoreOp::create(builder, loc, emitter.emitChecked(number), slot(1, i));
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  return name;
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
cuda::writeKernelTable(ModuleOp module, ArrayRef<DeviceKernel> kernels,
                       const codegen::CPUInfo &host) {
  Location loc = UnknownLoc::get(module.getContext());
  OwningOpRef<ModuleOp> table = ModuleOp::create(loc, StringRef("kernels"));
  OpBuilder builder(table->getBodyRegion());
  codegen::Globals globals(builder, loc);
  auto symbols = module->getAttrOfType<DictionaryAttr>("torch.symbols");
  auto numberOf = [&](StringRef name) -> int64_t {
    for (auto [i, symbol] :
         llvm::enumerate(symbols ? symbols.getValue() : ArrayRef<NamedAttribute>()))
      if (symbol.getName() == name)
        return i;
    return 0; // of the copy kernel, whose numbers are not the program's
  };
  llvm::StringMap<std::string> variants;
  for (const DeviceKernel &kernel : kernels)
    if (!kernel.variantOf.empty())
      variants[kernel.variantOf] = host::getDeviceKernelSymbol(kernel.name);
  // A GPU runs a kernel or its variant, and knows both by one number.
  int64_t next = 0, workspace = 0;
  llvm::StringMap<int64_t> kernelNumbers;
  for (const DeviceKernel &kernel : kernels) {
    int64_t number = kernel.variantOf.empty() ? next++ : kernelNumbers.lookup(kernel.variantOf);
    kernelNumbers[kernel.name] = number;
    SmallVector<SmallVector<codegen::Globals::Field>> images;
    for (auto [i, image] : llvm::enumerate(kernel.images)) {
      std::string name = kernel.name + "_image_" + std::to_string(i);
      auto bytes = LLVM::GlobalOp::create(
          builder, loc, LLVM::LLVMArrayType::get(builder.getI8Type(), image.bytes.size() + 1),
          /*isConstant=*/true, LLVM::Linkage::Private, name,
          builder.getStringAttr(image.bytes + '\0'), /*alignment=*/16);
      bytes.setUnnamedAddr(LLVM::UnnamedAddr::Global);
      images.push_back({name, static_cast<int64_t>(image.bytes.size()),
                        static_cast<int64_t>(image.architecture),
                        static_cast<int64_t>(image.kind)});
    }
    SmallVector<int64_t> numbers;
    for (const std::string &symbol : kernel.symbols)
      numbers.push_back(numberOf(symbol));
    SmallVector<SmallVector<codegen::Globals::Field>> maps;
    for (const DeviceTensorMap &map : kernel.maps) {
      auto &row = maps.emplace_back(SmallVector<codegen::Globals::Field>{
          map.buffer, map.elementBytes, static_cast<int64_t>(map.box.size())});
      for (size_t i = 0; i < 5; ++i)
        row.push_back(i < map.box.size() ? map.box[i] : int64_t(1));
    }
    globals.exported(
        host::getDeviceKernelSymbol(kernel.name), globals.structType(kernelFields),
        {globals.string(kernel.name),
         globals.structs(kernel.name + "_images", globals.structType(imageFields), images),
         globals.numbers(numbers), static_cast<int64_t>(images.size()), kernel.numBuffers,
         static_cast<int64_t>(numbers.size()), kernel.threads, kernel.sharedBytes, number,
         variants.lookup(kernel.name),
         kernel.variantOf.empty() ? "" : emitGeometry(builder, loc, kernel),
         globals.structs(kernel.name + "_maps", globals.structType(mapFields), maps),
         static_cast<int64_t>(maps.size()), kernel.cluster, kernel.workspaceBytes, int64_t(0)});
    workspace = std::max(workspace, kernel.workspaceBytes);
  }
  StringRef functions = "kiln_cuda_functions";
  auto declared = LLVM::GlobalOp::create(builder, loc, builder.getI8Type(), /*isConstant=*/true,
                                         LLVM::Linkage::External, functions, Attribute());
  declared.setVisibility_(LLVM::Visibility::Hidden);
  declared.setDsoLocal(true);
  globals.exported(
      host::deviceTableName, globals.structType(deviceFields),
      {functions.str(), next, workspace, host::getDeviceKernelSymbol(host::copyKernelName)});
  return codegen::compileToObject(*table, host);
}
