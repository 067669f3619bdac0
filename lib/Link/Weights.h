//===- Weights.h - Writing the weights blob ---------------------*- C++ -*-===//
#ifndef KILN_LIB_LINK_WEIGHTS_H
#define KILN_LIB_LINK_WEIGHTS_H

#include "kiln/Link/Link.h"
#include "kiln/Link/OutputFile.h"

namespace kiln {

/// Checks that the pieces lie within the blob and do not overlap.
llvm::Error verifyWeights(const WeightsBlob &weights);

/// The header before the blob in the external file, in the format of safetensors. Gaps between the
/// tensors have entries of their own, since the format knows no holes.
llvm::Expected<std::string> makeWeightsFront(const WeightsBlob &weights, uint64_t hash);

/// Writes the external file's header and the blob to an empty file.
llvm::Error writeExternalWeights(const OutputFile &file, const WeightsBlob &weights, uint64_t hash);

/// Writes the shared object `image` and the blob behind it, as the contents of its
/// section `.kiln_weights`, to an empty file. That section has been linked without
/// contents, as the whole of the last segment in memory, so that only its headers
/// change.
llvm::Error writeWithWeights(const OutputFile &file, std::string image, const WeightsBlob &weights);

} // namespace kiln

#endif // KILN_LIB_LINK_WEIGHTS_H
