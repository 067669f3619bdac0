// Names that the host program and the code of a device share.
#include "kiln/Host/Device.h"

using namespace kiln;
using namespace llvm;

std::string host::getDeviceKernelSymbol(StringRef kernel) {
  return ("kiln_device_" + kernel).str();
}
