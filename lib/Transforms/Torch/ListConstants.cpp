// torch-list-constants: writes down which parameters and buffers the program has.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHLISTCONSTANTS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

struct ListConstants : kiln::impl::TorchListConstantsBase<ListConstants> {
  void runOnOperation() override {
    Builder builder(&getContext());
    SmallVector<Attribute> entries;
    auto add = [&](StringAttr name, torch::ConstantOp constant) {
      NamedAttrList entry;
      entry.set("name", name);
      entry.set("type", TypeAttr::get(constant.getType()));
      if (name != constant.getNameAttr())
        entry.set("storage", constant.getNameAttr());
      entries.push_back(entry.getDictionary(&getContext()));
    };
    for (auto main : getOperation().getOps<func::FuncOp>()) {
      if (!main.isPublic())
        continue;
      main.walk([&](torch::ConstantOp constant) {
        if (constant.getKind() == "constant")
          return;
        add(constant.getNameAttr(), constant);
        if (std::optional<ArrayAttr> aliases = constant.getAliases())
          for (auto alias : aliases->getAsRange<StringAttr>())
            add(alias, constant);
      });
    }
    getOperation()->setAttr(torch::constantsAttrName, builder.getArrayAttr(entries));
  }
};

} // namespace
