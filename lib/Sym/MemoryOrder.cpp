// The order in which the dims of a strided tensor lie in memory.
#include "kiln/Sym/MemoryOrder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace kiln;
using namespace kiln::sym;

std::optional<llvm::SmallVector<int64_t>> sym::getMemoryOrder(llvm::ArrayRef<Expr> shape,
                                                              llvm::ArrayRef<Expr> strides,
                                                              const Assumptions &known) {
  if (strides.size() != shape.size())
    return std::nullopt;
  auto left = llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(shape.size())));
  llvm::SmallVector<int64_t> order;
  Expr expected = 1;
  while (!left.empty()) {
    auto next = llvm::find_if(llvm::reverse(left), [&](int64_t dim) {
      return shape[dim].isConstant(1) || known.isEqual(strides[dim], expected);
    });
    if (next == left.rend())
      return std::nullopt;
    order.push_back(*next);
    expected = expected * shape[*next];
    left.erase(std::next(next).base());
  }
  std::reverse(order.begin(), order.end());
  return order;
}
