#include "kiln/Host/Device.h"

using namespace kiln;
using namespace llvm;

std::string host::getDeviceKernelSymbol(StringRef kernel) {
  return ("kiln_device_" + kernel).str();
}
