// The tables that launches read about kernels, and their code, as data of the shared object.
#include "../../../../runtime/ir_interface.h"
#include "kiln/Codegen/ExprEmitter.h"
#include "kiln/Codegen/Globals.h"
#include "kiln/Dialect/Sym/SymDialect.h"
#include "kiln/Host/Device.h"
#include "kiln/Targets/CUDA/CUDA.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static_assert(static_cast<int>(ImageKind::Cubin) == KILN_RT_CUBIN);
static_assert(static_cast<int>(ImageKind::Ptx) == KILN_RT_PTX);
static_assert(static_cast<int>(ImageKind::Emulator) == KILN_RT_EMULATOR);

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

/// Names of the images, by their bytes.
using ImageNames = llvm::DenseMap<StringRef, std::string>;

/// The code, as an array of kiln_rt_image.
static std::string emitImages(OpBuilder &builder, Location loc, codegen::Globals &globals,
                              const DeviceKernel &kernel, ImageNames &names) {
  SmallVector<codegen::Row<kiln_rt_image>> images;
  for (auto [i, image] : llvm::enumerate(kernel.images)) {
    // Triton kernels that are launched in several ways have the same code.
    std::string &name = names[image.bytes];
    if (name.empty()) {
      name = kernel.name + "_image_" + std::to_string(i);
      auto bytes = LLVM::GlobalOp::create(
          builder, loc, LLVM::LLVMArrayType::get(builder.getI8Type(), image.bytes.size() + 1),
          /*isConstant=*/true, LLVM::Linkage::Private, name,
          builder.getStringAttr(image.bytes + '\0'),
          /*alignment=*/16);
      bytes.setUnnamedAddr(LLVM::UnnamedAddr::Global);
    }
    images.push_back(codegen::makeRow<kiln_rt_image>(
        KILN_FIELD(kiln_rt_image, data, name), KILN_FIELD(kiln_rt_image, bytes, image.bytes.size()),
        KILN_FIELD(kiln_rt_image, architecture, image.architecture),
        KILN_FIELD(kiln_rt_image, kind, static_cast<int64_t>(image.kind))));
  }
  return globals.structs(kernel.name + "_images", images);
}

static std::string emitMaps(codegen::Globals &globals, const DeviceKernel &kernel) {
  SmallVector<codegen::Row<kiln_rt_tensor_map>> maps;
  for (const DeviceTensorMap &map : kernel.maps) {
    SmallVector<int64_t> box = map.box;
    box.resize(KILN_RT_MAP_RANK, 1);
    maps.push_back(codegen::makeRow<kiln_rt_tensor_map>(
        KILN_FIELD(kiln_rt_tensor_map, buffer, map.buffer),
        KILN_FIELD(kiln_rt_tensor_map, element_bytes, map.elementBytes),
        KILN_FIELD(kiln_rt_tensor_map, rank, map.box.size()),
        KILN_FIELD(kiln_rt_tensor_map, box, ArrayRef<int64_t>(box))));
  }
  return globals.structs(kernel.name + "_maps", maps);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
cuda::writeKernelTable(ModuleOp module, ArrayRef<DeviceKernel> kernels,
                       const codegen::CPUInfo &host) {
  Location loc = UnknownLoc::get(module.getContext());
  OwningOpRef<ModuleOp> table = ModuleOp::create(loc, StringRef("kernels"));
  OpBuilder builder(table->getBodyRegion());
  codegen::Globals globals(builder, loc);
  auto symbols = module->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName);
  auto numberOf = [&](StringRef name) -> int64_t {
    for (auto [i, symbol] :
         llvm::enumerate(symbols ? symbols.getValue() : ArrayRef<NamedAttribute>()))
      if (symbol.getName() == name)
        return i;
    return 0; // of the copy kernel, whose numbers are not the program's
  };
  // The copy kernel is in every module.
  auto symbolOf = [&](StringRef kernel) {
    std::string symbol = host::getDeviceKernelSymbol(kernel);
    return kernel == host::copyKernelName ? host::getEntrySymbol(module, symbol) : symbol;
  };
  // A kernel's first variant, and behind each the next one.
  llvm::StringMap<std::string> variants, last;
  for (const DeviceKernel &kernel : kernels)
    if (!kernel.variantOf.empty()) {
      std::string &before = last[kernel.variantOf];
      variants[before.empty() ? kernel.variantOf : before] =
          host::getDeviceKernelSymbol(kernel.name);
      before = kernel.name;
    }
  // A GPU runs a kernel or one of its variants, and knows all by one number.
  auto first = module->getAttrOfType<IntegerAttr>(host::firstKernelAttrName);
  int64_t next = first ? first.getInt() : 0, workspace = 0, sharedWorkspace = 0;
  ImageNames imageNames;
  llvm::StringMap<int64_t> kernelNumbers;
  for (const DeviceKernel &kernel : kernels) {
    int64_t number = kernel.variantOf.empty() ? next++ : kernelNumbers.lookup(kernel.variantOf);
    kernelNumbers[kernel.name] = number;
    std::string images = emitImages(builder, loc, globals, kernel, imageNames);
    SmallVector<int64_t> numbers;
    for (const std::string &symbol : kernel.symbols)
      numbers.push_back(numberOf(symbol));
    std::string name = globals.string(kernel.function.empty() ? kernel.name : kernel.function),
                symbolTable = globals.numbers(numbers),
                geometry = kernel.variantOf.empty() ? "" : emitGeometry(builder, loc, kernel),
                maps = emitMaps(globals, kernel);
    globals.exported(
        symbolOf(kernel.name),
        codegen::makeRow<kiln_rt_device_kernel>(
            KILN_FIELD(kiln_rt_device_kernel, name, name),
            KILN_FIELD(kiln_rt_device_kernel, images, images),
            KILN_FIELD(kiln_rt_device_kernel, symbols, symbolTable),
            KILN_FIELD(kiln_rt_device_kernel, num_images, kernel.images.size()),
            KILN_FIELD(kiln_rt_device_kernel, num_buffers, kernel.numBuffers),
            KILN_FIELD(kiln_rt_device_kernel, num_symbols, numbers.size()),
            KILN_FIELD(kiln_rt_device_kernel, threads, kernel.threads),
            KILN_FIELD(kiln_rt_device_kernel, shared_bytes, kernel.sharedBytes),
            KILN_FIELD(kiln_rt_device_kernel, number, number),
            KILN_FIELD(kiln_rt_device_kernel, variant, variants.lookup(kernel.name)),
            KILN_FIELD(kiln_rt_device_kernel, geometry, geometry),
            KILN_FIELD(kiln_rt_device_kernel, maps, maps),
            KILN_FIELD(kiln_rt_device_kernel, num_maps, kernel.maps.size()),
            KILN_FIELD(kiln_rt_device_kernel, cluster, kernel.cluster),
            KILN_FIELD(kiln_rt_device_kernel, workspace, kernel.workspaceBytes),
            KILN_FIELD(kiln_rt_device_kernel, shared_workspace, kernel.sharedWorkspaceBytes)));
    workspace = std::max(workspace, kernel.workspaceBytes);
    sharedWorkspace = std::max(sharedWorkspace, kernel.sharedWorkspaceBytes);
  }
  StringRef functions = "kiln_cuda_functions";
  auto declared = LLVM::GlobalOp::create(builder, loc, builder.getI8Type(), /*isConstant=*/true,
                                         LLVM::Linkage::External, functions, Attribute());
  declared.setVisibility_(LLVM::Visibility::Hidden);
  declared.setDsoLocal(true);
  globals.exported(host::getEntrySymbol(module, host::deviceTableName),
                   codegen::makeRow<kiln_rt_device>(
                       KILN_FIELD(kiln_rt_device, functions, functions.str()),
                       KILN_FIELD(kiln_rt_device, num_kernels, next),
                       KILN_FIELD(kiln_rt_device, workspace, workspace),
                       KILN_FIELD(kiln_rt_device, shared_workspace, sharedWorkspace),
                       KILN_FIELD(kiln_rt_device, reserved, 0),
                       KILN_FIELD(kiln_rt_device, copy, symbolOf(host::copyKernelName))));
  if (first)
    module->setAttr(host::firstKernelAttrName, builder.getI64IntegerAttr(next));
  return codegen::compileToObject(*table, host);
}
