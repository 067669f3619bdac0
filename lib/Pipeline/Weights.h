//===- Weights.h - The weights blob of a program ----------------*- C++ -*-===//
#ifndef KILN_LIB_PIPELINE_WEIGHTS_H
#define KILN_LIB_PIPELINE_WEIGHTS_H

#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Link/Link.h"

namespace kiln {

/// The bytes of all constants at their places. Most are views of the mapped archive, so the context
/// of `program` must outlive this.
class Weights {
public:
  static llvm::Expected<Weights> collect(wrapper::ProgramOp program);

  WeightsBlob getBlob() const { return {bytes, pieces, tensors, notes}; }

private:
  /// Says what is where: constants by their names, what folds have made by those of its sources.
  void describe(wrapper::ProgramOp program);

  uint64_t bytes = 0;
  std::vector<kernel::ConstantBytes> data;
  std::vector<WeightsPiece> pieces;
  std::vector<WeightsTensor> tensors;
  std::vector<std::pair<std::string, std::string>> notes;
};

} // namespace kiln

#endif // KILN_LIB_PIPELINE_WEIGHTS_H
