#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERPLACECONSTANTS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

struct PlaceConstants : kiln::impl::WrapperPlaceConstantsBase<PlaceConstants> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    Builder builder(&getContext());
    // Who replaces a named constant replaces only that one; what is written to is never shared.
    DenseMap<std::pair<Attribute, Attribute>, int64_t> places;
    int64_t end = 0;
    for (ConstantOp constant : program.getBody().front().getOps<ConstantOp>()) {
      std::optional<int64_t> bytes = constant.getType().getBytes().constant();
      if (!bytes || *bytes > INT64_MAX - end - bufferAlignment) {
        constant.emitError("the weights are larger than 64 bits can address");
        return signalPassFailure();
      }
      int64_t next = end + llvm::alignTo(*bytes, bufferAlignment);
      int64_t place = end;
      if (!constant.getMutated())
        place =
            places.try_emplace({constant.getValue(), constant.getNameAttr()}, end).first->second;
      if (place == end)
        end = next;
      constant.setOffsetAttr(builder.getI64IntegerAttr(place));
    }
    program.setWeightsBytesAttr(builder.getI64IntegerAttr(end));
  }
};

} // namespace
