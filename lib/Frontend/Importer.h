// From the plain structs to the torch dialect. Importer.cpp has the program and its signature,
// ImportGuards.cpp its conditions on inputs, ImportNode.cpp nodes and nested graphs,
// ImportArguments.cpp arguments, ImportTypes.cpp types and symbolic numbers, ImportConstants.cpp
// weights, ImportTriton.cpp kernels.
#ifndef KILN_LIB_FRONTEND_IMPORTER_H
#define KILN_LIB_FRONTEND_IMPORTER_H

#include "StorageView.h"
#include "TritonKernels.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Frontend/ExportedProgram.h"
#include "kiln/Frontend/Frontend.h"
#include "kiln/Frontend/Pt2Archive.h"
#include "kiln/Frontend/SymExpr.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

namespace kiln::frontend {

/// The value of a name of a graph.
struct Entry {
  mlir::Value value;         // null for a number that is only an attribute
  mlir::Attribute attribute; // a constant, #sym.expr or #torch.object; arguments prefer it
  bool isNumber = false;     // `value` is a 0-d tensor that stands for a Python number
};

/// A quotient that export has recorded for another one.
struct Correction {
  sym::Expr wrong, right;
  bool operator==(const Correction &) const = default;
};

/// The graph that is being imported.
struct Scope {
  const Graph &graph;
  llvm::StringMap<Entry> entries;
  llvm::DenseSet<sym::Expr> known;              // symbols whose values are known at this point
  llvm::StringMap<llvm::StringRef> viewed = {}; // of a view, the tensor that is none
  llvm::StringMap<llvm::SmallVector<Correction, 1>> corrections = {}; // of recorded expressions
};

/// The arguments of a call under construction.
struct CallArguments {
  llvm::SmallVector<mlir::Attribute> args;
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallVector<mlir::Attribute> names; // StringAttr, of an operator without a schema
};

class Importer {
public:
  Importer(Pt2Archive &archive, llvm::StringRef model, const ExportedProgram &program,
           mlir::MLIRContext &context, const ImportOptions &options);

  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> run();

private:
  // Importer.cpp
  llvm::Error importMain();
  llvm::Error importInputs(mlir::Block *body, llvm::SmallVectorImpl<mlir::Attribute> &attributes);
  llvm::Error importOutputs(llvm::SmallVectorImpl<mlir::Value> &results,
                            llvm::SmallVectorImpl<mlir::Attribute> &attributes);
  llvm::Error setModuleAttributes();

  // ImportGuards.cpp
  /// What the program computes with. A symbol that only strides of inputs have is not among them:
  /// inputs of any layout are taken, and give the same values.
  llvm::DenseSet<sym::Expr> symbolsInUse();
  /// Symbols that are a size of an input.
  llvm::DenseSet<sym::Expr> inputSizes();
  /// A range [2, max] whose end a guard or an assertion gives is one that export was not told, and its start is export's own.
  void widenBoundedRanges(InputLookup inputs);
  static bool dependsOnlyOn(sym::Expr expr, const llvm::DenseSet<sym::Expr> &symbols);
  llvm::Expected<sym::Expr> readFloats(llvm::StringRef text, InputLookup inputs,
                                       const llvm::DenseSet<sym::Expr> &used,
                                       llvm::StringRef readable, llvm::Error unreadable);
  // ImportFloats.cpp
  /// Has the program assert the condition when it runs; not if something in it has no operator.
  bool assertFloats(const class FloatExpr &condition, llvm::StringRef text);
  /// Has the program compute those parts of a size's text that are rounded from floats and are no
  /// integer expression, here; each is read as a symbol from now on.
  void defineFloatSizes(llvm::StringRef text);
  llvm::Error importGuards(const llvm::DenseSet<sym::Expr> &used);

  /// The value of a graph's output, made into one if it is a number.
  llvm::Expected<mlir::Value> outputValue(const Argument &output);
  llvm::Expected<mlir::NamedAttrList> tensorAttributes(const TensorMeta &meta);

  // ImportNode.cpp
  llvm::Error importNodes();
  llvm::Error importNode(const Node &node);
  llvm::Expected<Node> withoutToken(const Node &node);
  llvm::Expected<std::pair<mlir::Attribute, mlir::Attribute>> memoryOf(llvm::StringRef tensor);
  llvm::Error seeViewedTensor(const Node &node, torch::CallOp op);
  llvm::Error recordMemory(const Node &node, mlir::Operation *op);
  struct Result;
  sym::Expr newSymbol(llvm::StringRef condition);
  llvm::Expected<Result> tensorResult(const TensorRef &ref);
  llvm::Expected<Result> integerResult(const SymIntRef &ref);
  llvm::Expected<Result> floatResult(const SymFloatRef &ref);
  llvm::Expected<Result> boolResult(const SymBoolRef &ref);
  llvm::Error collectResults(const Argument &output, llvm::SmallVectorImpl<Result> &results);
  llvm::Expected<bool> importAsNumbers(llvm::StringRef target, llvm::ArrayRef<Result> results);
  llvm::Expected<mlir::FlatSymbolRefAttr> importNested(const GraphRef &nested);
  mlir::Location locationOf(const Node &node);

  // CorrectQuotients.cpp
  /// `expr` as recorded, corrected by `corrections`.
  sym::Expr correct(sym::Expr expr) const;
  void inheritCorrections(const Node &node);
  void keepCorrections(llvm::StringRef result);
  void useCorrectionsOf(llvm::StringRef name);
  void useAllCorrections();
  /// The result of a floordiv: `recorded`, unless that is wrong.
  sym::Expr computeQuotient(const Node &node, sym::Expr recorded);

  // ImportTriton.cpp
  llvm::Error importTriton(const Node &node, torch::HigherOrderOp op);
  llvm::Error readTritonKernels();
  llvm::Expected<mlir::Attribute> makeTritonConfig(const TritonConfig &config);
  llvm::Expected<mlir::Attribute> makeTritonImage(const TritonImage &image,
                                                  llvm::StringRef function);

  // ImportArguments.cpp
  llvm::Error importArguments(const Node &node, llvm::StringRef target, CallArguments &call);
  llvm::Expected<mlir::Attribute>
  importArgument(const Argument &argument, const torch::SchemaType *type, CallArguments &call);
  llvm::Expected<mlir::Attribute> refer(llvm::StringRef name, CallArguments &call);

  // ImportTypes.cpp
  llvm::Expected<mlir::Type> elementType(ScalarTypeCode code);
  llvm::Expected<torch::LayoutAttr> layoutAttr(LayoutCode code);
  torch::MemoryFormatAttr memoryFormatAttr(MemoryFormatCode code);
  torch::DeviceAttr deviceAttr(const Device &device);
  llvm::Expected<sym::Expr> integer(const SymInt &value);
  llvm::Expected<llvm::SmallVector<sym::Expr>> integers(llvm::ArrayRef<SymInt> values);
  llvm::Expected<mlir::RankedTensorType> tensorType(const TensorMeta &meta);
  mlir::RankedTensorType scalarType(mlir::Type elementType);
  /// An integer constant, or #sym.expr.
  mlir::Attribute integerAttr(sym::Expr expr);
  llvm::Expected<const TensorMeta *> metaOf(llvm::StringRef name);
  /// Adds all symbols of `expr` to `known`; the ones that were not are appended to `added`.
  void learn(sym::Expr expr, llvm::SmallVectorImpl<sym::Expr> *added = nullptr);
  void learn(mlir::Type type, llvm::SmallVectorImpl<sym::Expr> *added = nullptr);

  // ImportConstants.cpp
  llvm::Error importConstant(const InputSpec &spec);
  llvm::Error importLaterConstant(const InputSpec &spec);
  torch::ConstantOp createConstant(const InputSpec &spec, mlir::DenseResourceElementsAttr value);
  bool isMutated(const InputSpec &spec);
  void noteOverlaps();
  /// Tensors of one kind: a description of each, and where their bytes are.
  struct TensorStore {
    PayloadConfig config;
    Pt2Archive *archive = nullptr;
    std::string folder;
    std::unique_ptr<Pt2Archive> saved; // of PyTorch 2.8: a member that is an archive
  };
  llvm::Error readTensorStores();
  llvm::Error readTensorStore(llvm::StringRef kind, TensorStore &store);
  llvm::Expected<mlir::DenseResourceElementsAttr>
  loadBytes(Pt2Archive &from, llvm::StringRef member, const StorageView &view,
            mlir::RankedTensorType type, llvm::StringRef name);

  /// An error about the current node.
  llvm::Error fail(const llvm::Twine &message) const;
  llvm::Error define(llvm::StringRef name, Entry entry);

  Pt2Archive &archive;
  std::string model; // NAME of models/NAME.json
  const ExportedProgram &program;
  mlir::MLIRContext &context;
  const ImportOptions &options;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Location location; // of what is being imported
  Scope *scope = nullptr;
  SymExprReader symbols;
  llvm::SmallVector<Correction, 1> corrections; // of what is being read
  llvm::StringSet<> sizesFromFloats;            // texts that have been looked at
  mlir::NamedAttrList hints;                    // of symbols
  unsigned numOpaque = 0;
  /// Stands for a size that is computed from floats.
  static sym::Expr opaqueSymbol(unsigned number) {
    return sym::Expr::symbol("v" + std::to_string(number));
  }

  std::optional<TritonKernels> tritonKernels;
  bool hasTensorStores = false;
  TensorStore weights, constants;
  llvm::StringMap<torch::ConstantOp> constantOps; // by where the bytes are and how they are read
  llvm::StringMap<std::vector<std::pair<StorageView, torch::ConstantOp>>> constantsOf; // by storage
};

} // namespace kiln::frontend

#endif // KILN_LIB_FRONTEND_IMPORTER_H
