// From scheduled kernels to what a GPU loads.
#ifndef KILN_TARGETS_CUDA_CUDA_H
#define KILN_TARGETS_CUDA_CUDA_H

#include "kiln/Codegen/ObjectCompiler.h"
#include "kiln/Sym/Expr.h"
#include "kiln/Targets/CUDA/Architecture.h"

namespace kiln::cuda {

/// The numbers of kiln_rt_image.kind.
enum class ImageKind { Cubin = 0, Ptx = 1, Emulator = 2 };

/// Code of one kernel for one architecture.
struct Image {
  unsigned architecture;
  ImageKind kind;
  std::string bytes;
};

/// A row of kiln_rt_tensor_map.
struct DeviceTensorMap {
  int64_t buffer = 0, elementBytes = 0;
  llvm::SmallVector<int64_t> box;
};

/// A compiled kernel, as launches know it.
struct DeviceKernel {
  std::string name;
  /// Its name in the images, if that is another one.
  std::string function;
  /// The kernel that a variant is launched instead of, and where; and what the launch has to
  /// compute of the kernel's symbols, blocks first.
  std::string variantOf;
  unsigned architecture = 0; // that alone runs the variant
  std::vector<sym::Expr> geometry;
  std::vector<DeviceTensorMap> maps;
  std::vector<std::string> symbols; // that it takes the values of
  int64_t numBuffers = 0;
  int64_t threads = 0;
  int64_t sharedBytes = 0;
  int64_t cluster = 1;        // blocks of one
  int64_t workspaceBytes = 0; // of a block
  int64_t sharedWorkspaceBytes = 0;
  std::vector<Image> images;
};

struct ImageOptions {
  llvm::SmallVector<Architecture> architectures;
  /// Empty: PTX alone is made.
  std::string ptxas;
  /// The host's CPU. The emulator's kernels are compiled for it, if this machine runs its code.
  std::string cpu = "native";
  codegen::OptLevel level = codegen::OptLevel::O3;
  /// Threads; 0: one for each core.
  unsigned jobs = 0;
  mlir::TimingScope *timing = nullptr;
  /// Called, one call at a time, with each file on the way ("KERNEL.sm_90.ptx", ...).
  std::function<void(llvm::StringRef name, llvm::StringRef contents)> onFile = {};
};

/// Makes the target `cuda` known (kiln/Targets/Target.h). Its options: `arch`, a list as of
/// `parseArchitectures`; `ptxas`; `tf32`.
void registerCUDATarget();

void registerTranslations(mlir::DialectRegistry &registry);

/// Code for each kernel.func of `module` that runs on the device, in order; `module` is left as it
/// is. For each architecture a cubin, and PTX for the oldest and the newest, and of variants (for
/// all, if there is no ptxas).
llvm::Expected<std::vector<DeviceKernel>> compileKernels(mlir::ModuleOp module,
                                                         const ImageOptions &options);

/// Leaves the images of each kernel.triton that the architectures run, the best first, and PTX for
/// what comes later. An architecture that there is none for is an error.
llvm::Error chooseTritonImages(mlir::ModuleOp module, llvm::ArrayRef<Architecture> architectures);

/// A kernel for each image of each kernel.triton.
std::vector<DeviceKernel> describeTritonKernels(mlir::ModuleOp module);

/// An object that defines a `kiln_rt_device_kernel` (runtime/cuda/device.h) under the name of each
/// kernel. Symbols are numbered as in `module`.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
writeKernelTable(mlir::ModuleOp module, llvm::ArrayRef<DeviceKernel> kernels,
                 const codegen::CPUInfo &host);

} // namespace kiln::cuda

#endif // KILN_TARGETS_CUDA_CUDA_H
