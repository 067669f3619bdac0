// Names by which the host program and the code of a device know each other.
#ifndef KILN_HOST_DEVICE_H
#define KILN_HOST_DEVICE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace kiln::host {

/// The symbol of what a launch on a device is given for a kernel: a kiln_rt_device_kernel
/// (runtime/cuda/device.h).
std::string getDeviceKernelSymbol(llvm::StringRef kernel);
/// The name of an image of a configuration of a kernel.triton, as a kernel.
std::string getTritonKernelName(llvm::StringRef triton, unsigned config, unsigned image);
/// The symbol of what a run knows of all of them: a kiln_rt_device.
inline constexpr llvm::StringLiteral deviceTableName = "kiln_device";
/// Module attributes where a model has several programs: the program's name, and how many kernels
/// for the device those in front of it have.
inline constexpr llvm::StringLiteral entryAttrName = "host.entry",
                                     firstKernelAttrName = "host.first_kernel";
/// `symbol` in this module, which others of the model have, too.
std::string getEntrySymbol(mlir::ModuleOp module, llvm::StringRef symbol);
/// The runtime's own, which every model for a device has: copies tensors that are not contiguous.
inline constexpr llvm::StringLiteral copyKernelName = "strided_copy";

} // namespace kiln::host

#endif // KILN_HOST_DEVICE_H
