// The exported program's graph: its nodes with their Python modules, source lines and shapes.
#include "Types.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Host/ModelInfo.h"
#include "kiln/Report/Report.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::report;

std::string report::describeType(Type elementType, ArrayRef<sym::Expr> sizes) {
  std::string text = host::describeElement(elementType).name + "[";
  llvm::raw_string_ostream stream(text);
  llvm::interleaveComma(sizes, stream, [&](sym::Expr size) { stream << size.str(); });
  stream << "]";
  return text;
}

static std::string describeType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? report::describeType(tensor.getElementType(), sym::getShape(tensor)) : "None";
}

/// `stack` is KEY,PATH,TYPE;…, the outermost first. The number of the innermost one.
int64_t Report::internModules(StringRef stack) {
  int64_t parent = -1;
  SmallVector<StringRef> levels;
  stack.split(levels, ';', -1, /*KeepEmpty=*/false);
  for (StringRef level : levels) {
    auto [front, type] = level.rsplit(',');
    StringRef path = front.rsplit(',').second;
    auto [entry, isNew] =
        moduleNumbers.try_emplace((Twine(parent) + "," + path + "," + type).str(), modules.size());
    if (isNew)
      modules.push_back(
          llvm::json::Object{{"path", path.str()}, {"type", type.str()}, {"parent", parent}});
    parent = entry->second;
  }
  return parent;
}

int64_t Report::internFile(StringRef path) {
  auto [entry, isNew] = fileNumbers.try_emplace(path, files.size());
  if (isNew)
    files.push_back(path.str());
  return entry->second;
}

SmallVector<int64_t> Report::findNodes(Location location) const {
  SmallVector<int64_t> found;
  location->walk([&](Location part) {
    if (auto node = nodes.find(part);
        node != nodes.end() && !llvm::is_contained(found, node->second))
      found.push_back(node->second);
    return WalkResult::advance();
  });
  return found;
}

void Report::addGraph(ModuleOp module) {
  llvm::json::Array list, graphs;
  llvm::DenseMap<Value, int64_t> makers;
  auto addInputs = [&](ValueRange operands, llvm::json::Object &node) {
    llvm::json::Array inputs, weights;
    for (Value operand : operands) {
      if (auto maker = makers.find(operand); maker != makers.end())
        inputs.push_back(maker->second);
      else if (auto constant = operand.getDefiningOp<torch::ConstantOp>())
        weights.push_back(constant.getName());
    }
    if (!inputs.empty())
      node["inputs"] = std::move(inputs);
    if (!weights.empty())
      node["weights"] = std::move(weights);
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    int64_t graph = graphs.size();
    graphs.push_back(function.getSymName());
    graphNumbers.try_emplace(function.getSymName(), graph);
    auto add = [&](llvm::json::Object node) {
      if (graph)
        node["graph"] = graph;
      list.push_back(std::move(node));
    };
    for (BlockArgument argument : function.getArguments()) {
      auto name =
          function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), torch::nameAttrName);
      makers[argument] = list.size();
      add(llvm::json::Object{{"name", name ? name.getValue() : "input"},
                             {"op", "input"},
                             {"outputs", llvm::json::Array{::describeType(argument.getType())}}});
    }
    for (Operation &op : function.getBody().front()) {
      if (isa<torch::ConstantOp, torch::NumberOp>(op))
        continue;
      auto name = op.getAttrOfType<StringAttr>("node"),
           target = op.getAttrOfType<StringAttr>("target");
      llvm::json::Object node{{"name", name ? name.getValue() : "output"},
                              {"op", target ? target.getValue() : "output"}};
      addInputs(op.getOperands(), node);
      llvm::json::Array outputs;
      for (Value value : op.getResults()) {
        makers[value] = list.size();
        outputs.push_back(::describeType(value.getType()));
      }
      if (!outputs.empty())
        node["outputs"] = std::move(outputs);
      if (auto stack = op.removeAttr(torch::modulesAttrName))
        node["module"] = internModules(cast<StringAttr>(stack).getValue());
      op.getLoc()->walk([&](Location part) {
        if (auto line = dyn_cast<FileLineColLoc>(part); line && !node.get("file")) {
          node["file"] = internFile(line.getFilename());
          node["line"] = line.getLine();
        }
        if (isa<NameLoc>(part))
          nodes.try_emplace(part, list.size());
        return WalkResult::advance();
      });
      add(std::move(node));
    }
  }
  result["graphs"] = std::move(graphs);
  result["nodes"] = std::move(list);
}
