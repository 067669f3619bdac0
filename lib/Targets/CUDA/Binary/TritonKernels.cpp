// Rows of the kernel table for Triton kernels, whose code the archive has.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Host/Device.h"
#include "kiln/Targets/CUDA/CUDA.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// The number of `sm_90`, and 0 of the emulator; nullopt: none of the names of architectures.
static std::optional<unsigned> parseArchitecture(StringRef name) {
  unsigned number = 0;
  if (name == "emulator")
    return 0;
  if (!name.consume_front("sm_") || name.getAsInteger(10, number) || number > 999)
    return std::nullopt;
  return number;
}

/// How well the GPU runs an image: a cubin for it or an earlier one of its generation better than
/// PTX, and what is nearer better; below 0: not at all.
static int64_t rankImage(kernel::TritonImageAttr image, const Architecture &gpu) {
  constexpr int64_t isCubin = 1000;
  std::optional<unsigned> number = parseArchitecture(image.getArch());
  if (!number || gpu.isEmulator() != (image.getKind() == "emulator"))
    return -1;
  if (gpu.isEmulator())
    return 0;
  if (*number > gpu.number)
    return -1;
  if (image.getKind() == "cubin")
    return *number / 10 == gpu.number / 10 ? isCubin + *number : -1;
  return *number;
}

static kernel::TritonImageAttr findBest(kernel::TritonConfigAttr config, const Architecture &gpu) {
  kernel::TritonImageAttr best;
  for (auto image : config.getImages().getAsRange<kernel::TritonImageAttr>())
    if (rankImage(image, gpu) > (best ? rankImage(best, gpu) : -1))
      best = image;
  return best;
}

static bool isPtx(Attribute image) {
  return cast<kernel::TritonImageAttr>(image).getKind() == "ptx";
}

/// The images of a configuration that are wanted. The nearest come first, and PTX after all cubins:
/// the first that a GPU runs is launched.
static SmallVector<Attribute> choose(kernel::TritonConfigAttr config, ArrayRef<Architecture> gpus) {
  llvm::SetVector<Attribute> chosen;
  for (const Architecture &gpu : llvm::reverse(gpus))
    if (kernel::TritonImageAttr best = findBest(config, gpu))
      chosen.insert(best);
  kernel::TritonImageAttr newest; // of the PTX
  for (auto image : config.getImages().getAsRange<kernel::TritonImageAttr>())
    if (std::optional<unsigned> number = parseArchitecture(image.getArch());
        number && isPtx(image) && (!newest || *number > *parseArchitecture(newest.getArch())))
      newest = image;
  if (newest && !gpus.back().isEmulator())
    chosen.insert(newest);
  SmallVector<Attribute> images;
  llvm::copy_if(chosen, std::back_inserter(images), std::not_fn(isPtx));
  llvm::copy_if(chosen, std::back_inserter(images), isPtx);
  return images;
}

llvm::Error cuda::chooseTritonImages(ModuleOp module, ArrayRef<Architecture> architectures) {
  Builder b(module.getContext());
  for (auto triton : module.getOps<kernel::TritonOp>()) {
    auto configs = llvm::to_vector(triton.getConfigs().getAsRange<kernel::TritonConfigAttr>());
    for (const Architecture &gpu : architectures)
      // A configuration may need more shared memory than some GPUs have.
      if (llvm::none_of(configs, [&](auto config) { return findBest(config, gpu); }))
        return llvm::createStringError(sym::describe(triton.getLoc()) +
                                       ": the archive has no code of the Triton kernel '" +
                                       configs.front().getFunction() + "' for " + gpu.name +
                                       ": pack the program with --gpu-arch=" + gpu.name);
    SmallVector<Attribute> left;
    for (kernel::TritonConfigAttr config : configs)
      if (SmallVector<Attribute> images = choose(config, architectures); !images.empty())
        left.push_back(kernel::TritonConfigAttr::get(
            b.getContext(), config.getFunction(), config.getThreads(), config.getAlignment(),
            config.getGrid(), config.getParameters(), config.getTypes(), b.getArrayAttr(images)));
    triton.setConfigsAttr(b.getArrayAttr(left));
  }
  return llvm::Error::success();
}

static Image getImage(kernel::TritonImageAttr image) {
  ImageKind kind = image.getKind() == "cubin" ? ImageKind::Cubin
                   : image.getKind() == "ptx" ? ImageKind::Ptx
                                              : ImageKind::Emulator;
  AsmResourceBlob *blob = image.getCode().getRawHandle().getBlob();
  ArrayRef<char> data = blob ? blob->getData() : ArrayRef<char>();
  return {parseArchitecture(image.getArch()).value_or(0), kind,
          std::string(data.begin(), data.end())};
}

std::vector<DeviceKernel> cuda::describeTritonKernels(ModuleOp module) {
  std::vector<DeviceKernel> kernels;
  for (auto triton : module.getOps<kernel::TritonOp>())
    for (auto [i, attr] : llvm::enumerate(triton.getConfigs())) {
      auto config = cast<kernel::TritonConfigAttr>(attr);
      for (auto [j, image] :
           llvm::enumerate(config.getImages().getAsRange<kernel::TritonImageAttr>())) {
        DeviceKernel kernel;
        kernel.name = host::getTritonKernelName(triton.getSymName(), i, j);
        kernel.function = config.getFunction();
        kernel.threads = config.getThreads();
        kernel.sharedBytes = image.getShared();
        kernel.images.push_back(getImage(image));
        kernels.push_back(std::move(kernel));
      }
    }
  return kernels;
}
