// The most bytes that a program's allocations have at the same time, for given values of its
// symbols.
#include "kiln/Dialect/Wrapper/WrapperDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

std::optional<int64_t> wrapper::getPeakBytes(ProgramOp program,
                                             function_ref<int64_t(StringRef)> symbol,
                                             Operation **step) {
  DenseMap<Value, int64_t> sizes; // of what is allocated
  int64_t live = 0, peak = 0;
  for (Operation &op : program.getBody().front()) {
    if (auto alloc = dyn_cast<AllocOp>(op)) {
      std::optional<int64_t> bytes =
          alignBytes(alloc.getType().getBytes()).evaluate([&](sym::Expr leaf) {
            return symbol(leaf.symbolName());
          });
      if (!bytes || *bytes > INT64_MAX - live)
        return std::nullopt;
      sizes[alloc] = *bytes;
      live += *bytes;
      if (live > peak) {
        peak = live;
        if (step)
          *step = &op;
      }
    } else if (auto reuse = dyn_cast<ReuseOp>(op)) {
      sizes[reuse] = sizes.lookup(reuse.getBuffer());
    } else if (auto free = dyn_cast<FreeOp>(op)) {
      live -= sizes.lookup(free.getBuffer());
    }
  }
  return peak;
}
