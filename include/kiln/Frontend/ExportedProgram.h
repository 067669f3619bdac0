// The saved program as plain structs: torch/_export/serde/schema.py, schema version 8.x, read from
// JSON and from nothing else.
//
// Names are those of the schema. A union of the schema is a std::variant whose alternatives are
// told apart by type. What a compiler has no use for (hints, opset versions) is checked for its shape
// and dropped.
#ifndef KILN_FRONTEND_EXPORTEDPROGRAM_H
#define KILN_FRONTEND_EXPORTEDPROGRAM_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace kiln::frontend {

//===-- Arguments ---------------------------------------------------------------------------===//

struct None {};

/// ScalarType, Layout and MemoryFormat: the schema's own numbering (not c10's).
struct ScalarTypeCode {
  int64_t code = 0;
};
struct LayoutCode {
  int64_t code = 0;
};
struct MemoryFormatCode {
  int64_t code = 0;
};

struct Device {
  std::string type;
  std::optional<int64_t> index;
};

struct TensorRef { // TensorArgument
  std::string name;
};
using OptionalTensorRef = std::optional<TensorRef>;

/// SymIntArgument, SymFloatArgument, SymBoolArgument: the name of a value, or a constant.
struct SymIntRef {
  std::variant<std::string, int64_t> value;
};
struct SymFloatRef {
  std::variant<std::string, double> value;
};
struct SymBoolRef {
  std::variant<std::string, bool> value;
};

struct ComplexValue {
  double real = 0, imag = 0;
};
struct CustomObject {
  std::string name, className;
};
struct OperatorRef {
  std::string target;
};
/// An integer of more than 64 bits: what a size is compared with, never a value.
struct HugeInteger {
  bool isNegative = false;
};

struct Graph;
struct GraphRef {
  std::string name;
  std::shared_ptr<Graph> graph;
};

struct Argument;
struct ArgumentMap {
  std::vector<std::string> keys;
  std::vector<Argument> values; // one for each key
};

struct Argument {
  using Variant =
      std::variant<None, TensorRef, std::vector<TensorRef>, OptionalTensorRef,
                   std::vector<OptionalTensorRef>, std::vector<std::vector<TensorRef>>, int64_t,
                   std::vector<int64_t>, std::vector<std::vector<int64_t>>, double,
                   std::vector<double>, std::vector<std::vector<double>>, bool, std::vector<bool>,
                   std::string, std::vector<std::string>, SymIntRef, std::vector<SymIntRef>,
                   SymFloatRef, std::vector<SymFloatRef>, SymBoolRef, std::vector<SymBoolRef>,
                   ScalarTypeCode, LayoutCode, MemoryFormatCode, Device, ComplexValue, GraphRef,
                   CustomObject, OperatorRef, HugeInteger, ArgumentMap>;
  Variant value;
};

struct NamedArgument {
  std::string name; // empty for the positional arguments of a higher-order operator
  Argument arg;
};

//===-- Graphs ------------------------------------------------------------------------------===//

/// SymInt, SymFloat, SymBool: sympy's `srepr` text of an expression, or a constant.
struct ExprText {
  std::string text;
  /// The value that an integer had in the exported example.
  std::optional<int64_t> hint = std::nullopt;
  bool operator==(const ExprText &) const = default;
};
using SymInt = std::variant<ExprText, int64_t>;
using SymFloat = std::variant<ExprText, double>;
using SymBool = std::variant<ExprText, bool>;

struct TensorMeta {
  ScalarTypeCode dtype;
  std::vector<SymInt> sizes, strides;
  SymInt storageOffset;
  Device device;
  LayoutCode layout;
};

struct Node {
  std::string target;
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::string stackTrace; // metadata["stack_trace"]
  std::string modules;    // metadata["nn_module_stack"]
  std::string name;       // empty in old programs
};

struct Graph {
  std::vector<Argument> inputs, outputs;
  std::vector<Node> nodes;
  llvm::StringMap<TensorMeta> tensorValues;
  llvm::StringMap<SymInt> symIntValues;
  llvm::StringMap<SymFloat> symFloatValues;
  llvm::StringMap<SymBool> symBoolValues;
};

//===-- Signature ---------------------------------------------------------------------------===//

enum class InputKind { User, Parameter, Buffer, TensorConstant, CustomObject, Token, Constant };
struct InputSpec {
  InputKind kind = InputKind::User;
  std::string name;       // of the graph's input; empty for a constant user input
  std::string target;     // qualified name of the parameter, buffer, constant or object
  bool persistent = true; // of a buffer
};

enum class OutputKind {
  User,
  Loss,
  BufferMutation,
  ParameterMutation,
  InputMutation,
  GradientToParameter,
  GradientToInput,
  Token
};
struct OutputSpec {
  OutputKind kind = OutputKind::User;
  std::string target; // what is mutated, or what the gradient is of
};

struct RangeConstraint {
  std::optional<int64_t> min, max; // inclusive; of more than 64 bits: none
};

/// How Python calls the program: the entry of module_call_graph for all of it.
struct CallSpec {
  std::string inputs, outputs; // nested containers, as `torch.utils._pytree.treespec_dumps` writes
  std::vector<std::string> names; // of the arguments
};

struct ExportedProgram {
  Graph graph;
  std::vector<InputSpec> inputSpecs;                       // one for each input of the graph
  std::vector<OutputSpec> outputSpecs;                     // one for each output
  std::map<std::string, RangeConstraint> rangeConstraints; // keys are expressions as text
  std::vector<std::string> guardsCode;
  std::optional<CallSpec> call;
};

//===-- Weights -----------------------------------------------------------------------------===//

/// The place of a parameter, buffer or constant tensor: data/weights/model_weights_config.json.
struct Payload {
  std::string pathName;
  bool usePickle = false;
  std::optional<TensorMeta> meta;
};
using PayloadConfig = llvm::StringMap<Payload>;

/// Both read strictly: a missing field, a value of another type, an unknown alternative of a union
/// or an unknown major version is an error that says where, e.g.
///   models/model.json: expected string at graph_module.graph.nodes[3].target
/// `member` names the text in messages.
llvm::Expected<ExportedProgram> parseExportedProgram(llvm::StringRef json, llvm::StringRef member);
llvm::Expected<PayloadConfig> parsePayloadConfig(llvm::StringRef json, llvm::StringRef member);
/// The same from the table that `torch.save` writes, in a .pt2 of PyTorch 2.8: SavedTensors.cpp.
llvm::Expected<PayloadConfig> parseSavedTensors(llvm::StringRef pickle, llvm::StringRef member);

} // namespace kiln::frontend

#endif // KILN_FRONTEND_EXPORTEDPROGRAM_H
