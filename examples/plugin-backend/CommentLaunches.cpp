// c-comment-launches: says before each launch which node of the model it computes.
#include "Passes.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"

using namespace mlir;
using namespace kiln;

void cbackend::CommentLaunches::runOnOperation() {
  getOperation().walk([](wrapper::LaunchOp launch) {
    OpBuilder builder(launch);
    std::string nodes = sym::describe(launch.getLoc());
    wrapper::CommentOp::create(builder, launch.getLoc(), builder.getStringAttr(nodes));
  });
}
