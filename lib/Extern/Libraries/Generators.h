// Generators whose code is calls of libraries: `onednn` (runtime/onednn) on CPUs, `cublas` (runtime/cublas) and
// `cudnn` (runtime/cudnn) on GPUs.
#ifndef KILN_LIB_EXTERN_LIBRARIES_GENERATORS_H
#define KILN_LIB_EXTERN_LIBRARIES_GENERATORS_H

namespace kiln::externs {

void registerOneDNNGenerator();
void registerCuBLASGenerator();
void registerCuDNNGenerator();

} // namespace kiln::externs

#endif // KILN_LIB_EXTERN_LIBRARIES_GENERATORS_H
