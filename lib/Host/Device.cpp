// Names that the host program and the code of a device share.
#include "kiln/Host/Device.h"
#include "llvm/ADT/Twine.h"

using namespace kiln;
using namespace llvm;

std::string host::getDeviceKernelSymbol(StringRef kernel) {
  return ("kiln_device_" + kernel).str();
}

std::string host::getEntrySymbol(mlir::ModuleOp module, StringRef symbol) {
  auto entry = module->getAttrOfType<mlir::StringAttr>(entryAttrName);
  return entry ? (entry.getValue() + "$" + symbol).str() : symbol.str();
}

std::string host::getTritonKernelName(StringRef triton, unsigned config, unsigned image) {
  // No kernel of the compiler's own has a dot in its name.
  return (triton + "." + Twine(config) + "." + Twine(image)).str();
}
