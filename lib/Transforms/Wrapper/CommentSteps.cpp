// wrapper-comment-steps: says before each step which nodes of the model it computes.
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERCOMMENTSTEPS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

constexpr size_t maxNodes = 8;

/// The names of all nodes in `location` and their first line: `nodes add, relu (model.py:12)`.
std::string getNodes(Location location) {
  llvm::SetVector<StringRef> nodes;
  FileLineColLoc line;
  location->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part))
      nodes.insert(name.getName().strref());
    else if (auto file = dyn_cast<FileLineColLoc>(part))
      line = line ? line : file;
    return WalkResult::advance();
  });
  if (nodes.empty())
    return "";
  std::string text = nodes.size() == 1 ? "node " : "nodes ";
  for (auto [i, node] : llvm::enumerate(nodes.getArrayRef().take_front(maxNodes)))
    text += (i ? ", " : "") + node.str();
  if (nodes.size() > maxNodes)
    text += " and " + std::to_string(nodes.size() - maxNodes) + " more";
  if (line)
    text += " (" + line.getFilename().str() + ":" + std::to_string(line.getLine()) + ")";
  return text;
}

struct CommentSteps : kiln::impl::WrapperCommentStepsBase<CommentSteps> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (!isa<LaunchOp, ExternCallOp, GraphCallOpInterface>(op))
        return;
      std::string nodes = getNodes(op->getLoc());
      if (nodes.empty())
        return;
      OpBuilder builder(op);
      CommentOp::create(builder, op->getLoc(), builder.getStringAttr(nodes));
    });
  }
};

} // namespace
