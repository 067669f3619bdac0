// The readers of expressions: sizes and guards of exported programs, a line each, and sizes in the descriptions of models.
#include "kiln/Frontend/SymExpr.h"
#include "tools/aot-run/SizeExpr.h"

using namespace kiln;
using namespace kiln::frontend;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  SymExprReader reader;
  auto inputs = [](const InputProperty &property) -> std::optional<sym::Expr> {
    return sym::Expr::symbol(property.path.empty() ? "s0" : property.path.front());
  };
  llvm::StringMap<int64_t> symbols = {{"s0", 7}, {"s1", -3}};
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', 16);
  for (llvm::StringRef line : lines) {
    if (auto expr = reader.read(line)) {
      if (expr->str().empty())
        abort();
    } else {
      consumeError(expr.takeError());
    }
    if (auto condition = reader.readCondition(line, inputs); !condition)
      consumeError(condition.takeError());
    if (auto value = run::evaluateSize(line, symbols); !value)
      consumeError(value.takeError());
  }
  return 0;
}
