#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace kiln;

namespace {

class PeakBytes : public testing::Test {
protected:
  PeakBytes() { context.loadDialect<wrapper::WrapperDialect, kernel::KernelDialect>(); }

  std::optional<int64_t> peak(StringRef text, int64_t s0 = 0, Operation **step = nullptr) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return wrapper::getPeakBytes(
        *module->getOps<wrapper::ProgramOp>().begin(), [&](StringRef) { return s0; }, step);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(PeakBytes, CountsWhatIsAliveTogether) {
  Operation *step = nullptr;
  EXPECT_EQ(peak(R"(wrapper.program @main() {
    %a = wrapper.alloc : !wrapper.buffer<[16], [1], f32>
    %b = wrapper.alloc : !wrapper.buffer<[17], [1], f32>
    wrapper.free %a : !wrapper.buffer<[16], [1], f32>
    %c = wrapper.alloc : !wrapper.buffer<[1], [1], f32>
  })",
                 0, &step),
            64 + 128);
  EXPECT_EQ(cast<wrapper::AllocOp>(step).getType().getBytes(), sym::Expr(68));
}

TEST_F(PeakBytes, FollowsReuse) {
  EXPECT_EQ(peak(R"(wrapper.program @main() {
    %a = wrapper.alloc : !wrapper.buffer<[16], [1], f32>
    %b = wrapper.reuse %a : !wrapper.buffer<[16], [1], f32> -> !wrapper.buffer<[8], [1], f64>
    wrapper.free %b : !wrapper.buffer<[8], [1], f64>
    %c = wrapper.alloc : !wrapper.buffer<[16], [1], f32>
  })"),
            64);
}

TEST_F(PeakBytes, TakesValuesOfSymbols) {
  constexpr StringRef text = R"(wrapper.program @main() attributes {symbols = {s0 = {}}} {
    %a = wrapper.alloc : !wrapper.buffer<[s0, 16], [16, 1], f32>
  })";
  EXPECT_EQ(peak(text, 3), 192);
  EXPECT_EQ(peak(text, INT64_MAX / 2), std::nullopt);
}

} // namespace
