// The generator `onednn`: products, convolutions, pooling and normalisation for CPUs.
#ifndef KILN_LIB_EXTERN_ONEDNN_ONEDNNGENERATOR_H
#define KILN_LIB_EXTERN_ONEDNN_ONEDNNGENERATOR_H

namespace kiln::externs {

void registerOneDNNGenerator();

} // namespace kiln::externs

#endif // KILN_LIB_EXTERN_ONEDNN_ONEDNNGENERATOR_H
