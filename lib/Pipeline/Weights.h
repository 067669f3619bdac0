//===- Weights.h - The weights blob of a program ----------------*- C++ -*-===//
#ifndef KILN_LIB_PIPELINE_WEIGHTS_H
#define KILN_LIB_PIPELINE_WEIGHTS_H

#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Host/ModelInfo.h"
#include "kiln/Link/Link.h"

namespace kiln {

/// The constants of the programs of a model, placed together.
struct SharedWeights {
  /// Empty for a program alone.
  host::ConstantCells cells;
  int64_t knownBytes = 0;
};

/// The bytes of all constants at their places. Most are views of the mapped archives, so the context
/// of the programs must outlive this.
class Weights {
public:
  static llvm::Expected<Weights> collect(llvm::ArrayRef<host::ModelEntry> entries,
                                         const SharedWeights &shared);

  WeightsBlob getBlob() const { return {bytes, pieces, tensors, notes}; }

private:
  /// Says what is where: constants by their names, what folds have made by those of its sources.
  void describe(llvm::ArrayRef<host::ModelEntry> entries, const host::ConstantCells &cells);

  uint64_t bytes = 0;
  std::vector<kernel::ConstantBytes> data;
  std::vector<WeightsPiece> pieces;
  std::vector<WeightsTensor> tensors;
  std::vector<std::pair<std::string, std::string>> notes;
};

} // namespace kiln

#endif // KILN_LIB_PIPELINE_WEIGHTS_H
