// Rows of C structs: which lists of fields are whole, the LLVM types that follow, and the numbers
// that do not fit.
#include "../../../runtime/ir_interface.h"
#include "kiln/Codegen/RuntimeStruct.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

using namespace kiln::codegen;

namespace {

struct Sample {
  const char *name;
  uint8_t code, bits;
  uint16_t rank;
  uint32_t box[3];
};

// Four bytes of it belong to no field.
struct Padded {
  uint32_t small;
  uint64_t large;
};

#define OF(type, member) RuntimeField<type, decltype(type::member), offsetof(type, member)>

static_assert(isWholeStruct<Sample, OF(Sample, name), OF(Sample, code), OF(Sample, bits),
                            OF(Sample, rank), OF(Sample, box)>());
// Missing: the first, one in between, the last.
static_assert(!isWholeStruct<Sample, OF(Sample, code), OF(Sample, bits), OF(Sample, rank),
                             OF(Sample, box)>());
static_assert(!isWholeStruct<Sample, OF(Sample, name), OF(Sample, code), OF(Sample, rank),
                             OF(Sample, box)>());
static_assert(!isWholeStruct<Sample, OF(Sample, name), OF(Sample, code), OF(Sample, bits),
                             OF(Sample, rank)>());
// Twice, and in another order.
static_assert(!isWholeStruct<Sample, OF(Sample, name), OF(Sample, code), OF(Sample, bits),
                             OF(Sample, bits), OF(Sample, rank), OF(Sample, box)>());
static_assert(!isWholeStruct<Sample, OF(Sample, name), OF(Sample, bits), OF(Sample, code),
                             OF(Sample, rank), OF(Sample, box)>());
static_assert(!isWholeStruct<Padded, OF(Padded, small), OF(Padded, large)>());

Row<Sample> makeSample(int64_t code, llvm::ArrayRef<int64_t> box) {
  return makeRow<Sample>(KILN_FIELD(Sample, name, std::string("text")),
                         KILN_FIELD(Sample, code, code), KILN_FIELD(Sample, bits, 32),
                         KILN_FIELD(Sample, rank, 2), KILN_FIELD(Sample, box, box));
}

std::string print(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

class RuntimeStruct : public testing::Test {
protected:
  RuntimeStruct() { context.loadDialect<mlir::LLVM::LLVMDialect>(); }
  mlir::MLIRContext context;
};

TEST_F(RuntimeStruct, HasTheTypesOfTheFields) {
  Row<Sample> row = makeSample(2, {4, 8, 1});
  EXPECT_EQ(print(row.getType(&context)), "!llvm.struct<(ptr, i8, i8, i16, i32, i32, i32)>");
  EXPECT_EQ(std::get<std::string>(row.values[0]), "text");
  EXPECT_EQ(std::get<int64_t>(row.values[5]), 8);
}

TEST_F(RuntimeStruct, TakesNumbersThatFit) {
  EXPECT_EQ(std::get<int64_t>(makeSample(255, {-1, 0xffffffff, 0}).values[1]), 255);
}

using RuntimeStructDeathTest = RuntimeStruct;

TEST_F(RuntimeStructDeathTest, NamesTheFieldThatANumberDoesNotFit) {
  EXPECT_DEATH(makeSample(256, {1, 1, 1}), "Sample.code: 256 needs more than 8 bits");
  EXPECT_DEATH(makeSample(1, {1, int64_t(1) << 32, 1}),
               "Sample.box: 4294967296 needs more than 32 bits");
}

TEST_F(RuntimeStructDeathTest, NamesTheArrayOfAnotherLength) {
  EXPECT_DEATH(makeSample(1, {1, 1}), "Sample.box: 2 values for 3 elements");
}

TEST_F(RuntimeStruct, HasTheTypesOfFunctions) {
  EXPECT_EQ(print(CFunctionType<kiln_rt_kernel>::get(&context)),
            "!llvm.func<void (ptr, ptr, i64, ptr, ptr)>");
  RuntimeFunction launch = KILN_FUNCTION(kiln_rt_launch);
  EXPECT_EQ(launch.name, "kiln_rt_launch");
  EXPECT_EQ(print(launch.getType(&context)), "!llvm.func<i32 (ptr, ptr, ptr, i64, i64)>");
}

} // namespace
