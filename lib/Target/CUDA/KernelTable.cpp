// What launches know of kernels, and their code, as data of the shared object.
#include "../CPU/Globals.h"
#include "kiln/Target/CPU/KernelEmitters.h"
#include "kiln/Target/CUDA/CUDA.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Rows of runtime/cuda/device.h.
static constexpr char imageFields[] = "plii", kernelFields[] = "pppiiiiii";

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
cuda::writeKernelTable(ModuleOp module, ArrayRef<DeviceKernel> kernels,
                       const cpu::TargetInfo &host) {
  Location loc = UnknownLoc::get(module.getContext());
  OwningOpRef<ModuleOp> table = ModuleOp::create(loc, StringRef("kernels"));
  OpBuilder builder(table->getBodyRegion());
  cpu::Globals globals(builder, loc);
  auto symbols = module->getAttrOfType<DictionaryAttr>("torch.symbols");
  auto numberOf = [&](StringRef name) -> int64_t {
    for (auto [i, symbol] :
         llvm::enumerate(symbols ? symbols.getValue() : ArrayRef<NamedAttribute>()))
      if (symbol.getName() == name)
        return i;
    return 0; // of the copy kernel, whose numbers are not the program's
  };
  for (auto [number, kernel] : llvm::enumerate(kernels)) {
    SmallVector<SmallVector<cpu::Globals::Field>> images;
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
    globals.exported(
        cpu::getDeviceKernelSymbol(kernel.name), globals.structType(kernelFields),
        {globals.string(kernel.name),
         globals.structs(kernel.name + "_images", globals.structType(imageFields), images),
         globals.numbers(numbers), static_cast<int64_t>(images.size()), kernel.numBuffers,
         static_cast<int64_t>(numbers.size()), kernel.threads, kernel.sharedBytes,
         static_cast<int64_t>(number)});
  }
  return cpu::compileToObject(*table, host);
}
