// Constraints of kernel.triton and its attributes.
#include "kiln/Dialect/Kernel/Triton.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

LogicalResult TritonImageAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef,
                                      StringRef kind, int64_t shared,
                                      DenseResourceElementsAttr code) {
  if (kind != "cubin" && kind != "ptx" && kind != "emulator") // C1
    return emitError() << "code of the kind '" << kind << "'";
  auto type = cast<ShapedType>(code.getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(8) ||
      type.getNumElements() == 0) // C2
    return emitError() << "code as a " << type;
  if (shared < 0 || shared > maxTritonShared) // C3
    return emitError() << "blocks with " << shared << " bytes of shared memory";
  return success();
}

LogicalResult TritonConfigAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef,
                                       int64_t threads, int64_t alignment, DenseI64ArrayAttr grid,
                                       DenseI64ArrayAttr parameters, ArrayAttr types,
                                       ArrayAttr images) {
  if (threads < 32 || threads > maxTritonThreads || threads % 32) // C1
    return emitError() << "blocks of " << threads << " threads";
  if (alignment < 1 || alignment > maxTritonAlignment || !llvm::isPowerOf2_64(alignment)) // C1
    return emitError() << "addresses at multiples of " << alignment;
  if (grid.size() != 3) // C2
    return emitError() << "a grid of " << grid.size() << " dims";
  if (types.size() != static_cast<size_t>(parameters.size())) // C3
    return emitError() << types.size() << " types for " << parameters.size() << " parameters";
  for (auto [parameter, attr] : llvm::zip_equal(parameters.asArrayRef(), types)) { // C3
    auto type = dyn_cast<TypeAttr>(attr);
    bool isPointer = type && isa<UnrankedTensorType>(type.getValue());
    if (!isPointer && (!type || parameter < 0 || !type.getValue().isIntOrFloat()))
      return emitError() << "a parameter of type " << attr;
  }
  if (images.empty() || !llvm::all_of(images, llvm::IsaPred<TritonImageAttr>)) // C4
    return emitError() << "no images, or others than images";
  return success();
}

LogicalResult TritonOp::verify() {
  if (getConfigs().empty() || !llvm::all_of(getConfigs(), llvm::IsaPred<TritonConfigAttr>)) // C1
    return emitOpError("has no configurations, or others than configurations");
  auto count = static_cast<int64_t>(getInputs().size());
  for (auto config : getConfigs().getAsRange<TritonConfigAttr>()) // C2
    if (llvm::any_of(config.getGrid().asArrayRef(),
                     [&](int64_t i) { return i < 0 || i >= count; }) ||
        llvm::any_of(config.getParameters().asArrayRef(),
                     [&](int64_t i) { return i < -1 || i >= count; }))
      return emitOpError("refers to inputs beyond its ") << count;
  return success();
}
