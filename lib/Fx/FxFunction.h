// Writes one function of a host program, the program itself or a nested graph, as a Python function
// that builds its graph.
#ifndef KILN_LIB_FX_FXFUNCTION_H
#define KILN_LIB_FX_FXFUNCTION_H

#include "FxText.h"
#include "kiln/Host/Steps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace kiln::fx {

/// What a nested graph takes and gives beside its buffers.
struct GraphSignature {
  std::string name; // of its Python function
  /// Symbols that it computes with and does not define.
  llvm::SmallVector<sym::Expr> symbols;
};

/// What functions know of each other.
struct Context {
  mlir::ModuleOp module;
  wrapper::ProgramOp program;
  const host::Steps &steps;
  /// In the order in which they are written: callees first.
  llvm::StringMap<GraphSignature> graphs;
};

/// A value for each of the program's `symbols` (entries of its table), such that the program's
/// assertions hold if such values are found.
llvm::StringMap<int64_t> findExamples(wrapper::ProgramOp program,
                                      llvm::ArrayRef<mlir::NamedAttribute> symbols);

class FunctionWriter {
public:
  FunctionWriter(Context &context, wrapper::HostFunctionOpInterface function);

  /// The text of the Python function, whose name is `name`.
  llvm::Expected<std::string> write(llvm::StringRef name);

  /// The symbols that the function computes with and has from elsewhere.
  llvm::SmallVector<sym::Expr> getFreeSymbols();

  /// The symbols of its own that `function`, a nested graph, gives whoever calls it, behind its
  /// results.
  static llvm::SmallVector<sym::Expr> getGivenSymbols(wrapper::HostFunctionOpInterface function);

private:
  // The function's frame (FxFunction.cpp).
  void writeInputs();
  void writeInput(unsigned index);
  void bindSymbols();
  void checkInputs();
  void writeGraphInputs();
  void writeResults();
  void writeStep(mlir::Operation &op);

  // Buffers. One that has only been allocated has no node yet: the first step that uses it makes
  // one, or is itself the node.
  std::string use(mlir::Value buffer);
  llvm::SmallVector<std::string> useEach(mlir::ValueRange buffers);
  std::string uses(mlir::ValueRange buffers) { return list(useEach(buffers)); }
  bool isPending(mlir::Value buffer) const { return pending.count(buffer); }
  void setPending(mlir::Value buffer, llvm::StringRef name, std::string text);
  void assign(mlir::Value buffer, llvm::StringRef name, const std::string &text);
  /// `source`, a tensor, is the value of `buffer` from now on.
  void store(mlir::Value buffer, const std::string &source);
  std::string empty(wrapper::BufferType type);
  std::string viewOf(mlir::Value buffer, wrapper::BufferType type, sym::Expr offset);

  // Steps (FxSteps.cpp).
  void writeConstant(wrapper::ConstantOp constant);
  void writeReuse(wrapper::ReuseOp reuse);
  void writeLaunch(mlir::Operation *op, mlir::ValueRange ins, mlir::ValueRange outs);
  void writeCopy(wrapper::CopyOp copy);
  void writeDefine(wrapper::DefineOp define);
  void writeAssert(wrapper::AssertOp assertion);
  void writeCall(wrapper::ExternCallOp call);
  void writePrint(wrapper::ExternCallOp call);
  void writeOperator(wrapper::ExternCallOp call);
  std::string argument(mlir::Attribute attr, llvm::ArrayRef<std::string> operands);

  // Nested graphs (FxGraphs.cpp).
  std::string graphOperands(llvm::ArrayRef<mlir::ValueRange> buffers,
                            llvm::ArrayRef<const GraphSignature *> graphs);
  llvm::SmallVector<sym::Expr> getSymbols(llvm::ArrayRef<const GraphSignature *> graphs);
  std::string values(llvm::ArrayRef<sym::Expr> symbols);
  /// A call of functions that give `results` of the first of them.
  void takeResults(mlir::Operation *op, mlir::ValueRange outs, mlir::ValueRange given,
                   wrapper::FuncOp first, const std::string &call);
  void writeIf(wrapper::IfOp op);
  void writeGraphCall(wrapper::CallOp call);
  void writeWhile(wrapper::WhileOp loop);
  void writeFor(wrapper::ForOp loop);

  // Text.
  void line(const llvm::Twine &text) { body += ("    " + text + "\n").str(); }
  std::string size(sym::Expr expr);
  std::string sizes(llvm::ArrayRef<sym::Expr> exprs);
  std::string type(wrapper::BufferType type);
  /// The name of a symbol's value, if it has one here.
  std::string symbolName(llvm::StringRef symbol);
  /// Gives a symbol a name and a value.
  void setSymbol(llvm::StringRef symbol, const std::string &text);
  void refuse(mlir::Operation *op, const llvm::Twine &why);

  Context &context;
  wrapper::HostFunctionOpInterface function;
  llvm::DenseMap<sym::Expr, sym::Expr> sizesByName;
  Names names;
  std::string body;
  std::string error;
  mlir::Operation *current = nullptr;
  llvm::DenseMap<mlir::Value, std::string> buffers;
  llvm::DenseMap<mlir::Value, std::pair<std::string, std::string>> pending; // name, text
  /// Buffers with one number that is known as such, and results that a library would keep.
  llvm::DenseMap<mlir::Value, std::string> numbers, kept;
  llvm::StringMap<std::string> symbols;
  bool isFree = false; // sizes are those of the inputs' types
  llvm::SmallVector<std::string> inputs;
};

} // namespace kiln::fx

#endif // KILN_LIB_FX_FXFUNCTION_H
