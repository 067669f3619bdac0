// Names for the tensors of a weights file: those of the program's state, and for what compilation
// has made of it names that say so.
#include "Weights.h"
#include "kiln/Dialect/Wrapper/Weights.h"
#include "kiln/Host/ModelInfo.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;

/// The name of a dtype in the format of safetensors; empty: it has none.
static StringRef getDtype(StringRef name) {
  return llvm::StringSwitch<StringRef>(name)
      .Case("bool", "BOOL")
      .Case("uint8", "U8")
      .Case("int8", "I8")
      .Case("uint16", "U16")
      .Case("int16", "I16")
      .Case("uint32", "U32")
      .Case("int32", "I32")
      .Case("uint64", "U64")
      .Case("int64", "I64")
      .Case("float8_e4m3fn", "F8_E4M3")
      .Case("float8_e5m2", "F8_E5M2")
      .Case("float16", "F16")
      .Case("bfloat16", "BF16")
      .Cases({"float32", "complex64"}, "F32")
      .Cases({"float64", "complex128"}, "F64")
      .Default("");
}

namespace {

class Describer {
public:
  Describer(std::vector<WeightsTensor> &tensors,
            std::vector<std::pair<std::string, std::string>> &notes)
      : tensors(tensors), notes(notes) {}

  void run(ArrayRef<host::ModelEntry> entries, const host::ConstantCells &cells) {
    for (const host::NamedConstant &constant : host::getNamedConstants(entries, cells))
      if (constant.op)
        addNamed(constant.name, constant.op);
    for (const host::ModelEntry &entry : entries)
      run(entry.program);
  }

private:
  void run(wrapper::ProgramOp program) {
    for (wrapper::ConstantOp constant : wrapper::getConstants(program)) {
      if (constant.getName() && constant.getOffset() && !names.contains(*constant.getName()) &&
          !places.contains(constant.getOffsetAttr().getInt()))
        addNamed(*constant.getName(), constant);
      if (constant.getName())
        sources[constant].insert(*constant.getName());
    }
    for (wrapper::FoldOp fold : wrapper::getFolds(program))
      for (Value out : fold.getOuts())
        for (Value in : fold.getIns())
          sources[out].insert_range(sources[in]);
    for (wrapper::ConstantOp constant : wrapper::getConstants(program))
      addMade(constant);
  }

  static bool isInFile(wrapper::ConstantOp constant) {
    return constant.getOffset() && !wrapper::isLater(constant) &&
           !constant.getType().getBytes().isConstant(0);
  }

  void addNamed(StringRef name, wrapper::ConstantOp constant) {
    // The format has this key for something else.
    if (!isInFile(constant) || name == "__metadata__" || !names.insert(name).second)
      return;
    auto [at, isNew] = places.try_emplace(constant.getOffsetAttr().getInt(), name);
    if (isNew)
      add(name.str(), constant);
    else
      notes.emplace_back(name, at->second); // as safetensors.torch.save_model writes it
  }

  void addMade(wrapper::ConstantOp constant) {
    if (!isInFile(constant) || places.contains(constant.getOffsetAttr().getInt()))
      return;
    const llvm::SetVector<StringRef> &from = sources[constant];
    std::string base = from.empty()       ? "kiln.constant"
                       : from.size() == 1 ? "kiln.packed." + from.front().str()
                                          : "kiln.folded";
    std::string name = base;
    for (unsigned i = 1; !names.insert(name).second; ++i)
      name = base + "." + std::to_string(i);
    if (from.size() > 1)
      notes.emplace_back(name, llvm::join(from, ", "));
    places.try_emplace(constant.getOffsetAttr().getInt(), name);
    add(name, constant);
  }

  void add(std::string name, wrapper::ConstantOp constant) {
    host::ElementCode element = host::describeElement(constant.getType().getElementType());
    WeightsTensor &tensor = tensors.emplace_back();
    tensor.name = std::move(name);
    tensor.dtype = getDtype(element.name);
    for (sym::Expr size : constant.getType().getSizes())
      tensor.shape.push_back(*size.constant());
    // As torch.view_as_real.
    if (StringRef(element.name).starts_with("complex"))
      tensor.shape.push_back(2);
    tensor.offset = constant.getOffsetAttr().getInt();
    tensor.bytes = *constant.getType().getBytes().constant();
  }

  std::vector<WeightsTensor> &tensors;
  std::vector<std::pair<std::string, std::string>> &notes;
  llvm::StringSet<> names;
  llvm::DenseMap<int64_t, std::string> places;
  llvm::DenseMap<Value, llvm::SetVector<StringRef>> sources;
};

} // namespace

void Weights::describe(ArrayRef<host::ModelEntry> entries, const host::ConstantCells &cells) {
  Describer(tensors, notes).run(entries, cells);
}
