// A compiled model's description of itself: the text of `kiln_model_info` (kiln-c/model.h).
#ifndef KILN_HOST_MODELINFO_H
#define KILN_HOST_MODELINFO_H

#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include <string>
#include <vector>

namespace kiln::host {

struct ModelInfo {
  std::string name;
  std::string target;
  /// Name and version.
  std::string compiler;
};

/// A program of a model. Each is in a module of its own.
struct ModelEntry {
  std::string name;
  wrapper::ProgramOp program;
};

/// The constants of several programs: those that always have the same value are of one cell. None
/// are listed for a program alone.
using ConstantCells = llvm::DenseMap<mlir::Value, int64_t>;

/// A parameter or buffer of the model. `op` is null for one that the program does not use.
struct NamedConstant {
  std::string name;
  wrapper::BufferType type;
  wrapper::ConstantOp op;
};

/// All of them: those of the module's `torch.constants`, or if there is no such list those that
/// the program uses.
std::vector<NamedConstant> getNamedConstants(wrapper::ProgramOp program);
/// Those of several programs. A name that stands for different data is ENTRY:NAME.
std::vector<NamedConstant> getNamedConstants(llvm::ArrayRef<ModelEntry> entries,
                                             const ConstantCells &cells);

/// The entry that functions without one act on: `forward`, else `model`, else the only one, else
/// null.
const ModelEntry *getDefaultEntry(llvm::ArrayRef<ModelEntry> entries);

/// The JSON text: inputs, outputs and symbols of each entry, and named constants.
std::string describeModel(llvm::ArrayRef<ModelEntry> entries, const ConstantCells &cells,
                          const ModelInfo &model);

/// An element type as DLPack and as PyTorch name it.
struct ElementCode {
  uint8_t code; // DLDataTypeCode
  uint8_t bits;
  std::string name;
};
ElementCode describeElement(mlir::Type type);

/// Bound `name` ("min" or "max") of an entry of a program's `symbols`; nullopt: none.
std::optional<int64_t> getSymbolBound(mlir::NamedAttribute symbol, llvm::StringRef name);

} // namespace kiln::host

#endif // KILN_HOST_MODELINFO_H
