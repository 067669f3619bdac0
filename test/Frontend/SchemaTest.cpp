#include "kiln/Dialect/Torch/CallArgs.h"
#include "llvm/ADT/SmallVector.h"
#include <gtest/gtest.h>

using namespace kiln::torch;

namespace {

llvm::SmallVector<llvm::StringRef> lines() {
  llvm::SmallVector<llvm::StringRef> result;
  schemaTable().split(result, '\n', -1, /*KeepEmpty=*/false);
  return result;
}

TEST(Schema, EveryLineIsReadAndFound) {
  EXPECT_GT(lines().size(), 3000u);
  llvm::StringRef previous;
  for (llvm::StringRef line : lines()) {
    std::string error;
    std::optional<OpSchema> schema = parseSchema(line, &error);
    ASSERT_TRUE(schema) << line.str() << ": " << error;
    EXPECT_LT(previous, schema->name);
    previous = schema->name;
    const OpSchema *found = lookupSchema(schema->name);
    ASSERT_TRUE(found) << schema->name.str();
    EXPECT_EQ(found->name, schema->name);
    EXPECT_EQ(found, lookupSchema(schema->name));
  }
}

TEST(Schema, EveryDefaultFitsItsType) {
  mlir::MLIRContext context;
  context.loadDialect<TorchDialect>();
  for (llvm::StringRef line : lines()) {
    std::optional<OpSchema> schema = parseSchema(line);
    ASSERT_TRUE(schema);
    for (const SchemaArgument &argument : schema->arguments) {
      mlir::Attribute attr = defaultAttr(argument, &context);
      EXPECT_EQ(static_cast<bool>(attr), argument.defaultText.has_value())
          << line.str() << ": " << argument.name.str();
      if (attr) {
        EXPECT_TRUE(fits(attr, argument.type)) << line.str() << ": " << argument.name.str();
      }
    }
  }
}

TEST(Schema, UnknownNames) {
  EXPECT_EQ(lookupSchema(""), nullptr);
  EXPECT_EQ(lookupSchema("aten"), nullptr);
  EXPECT_EQ(lookupSchema("aten.add"), nullptr);
  EXPECT_EQ(lookupSchema("aten.add.Tensor("), nullptr);
  EXPECT_EQ(lookupSchema("zzz.zzz.default"), nullptr);
  EXPECT_EQ(lookupSchema("!"), nullptr);
}

TEST(Schema, Types) {
  const OpSchema *conv = lookupSchema("aten.conv2d.default");
  ASSERT_TRUE(conv);
  EXPECT_EQ(conv->indexOf("bias"), 2);
  EXPECT_EQ(conv->indexOf("nothing"), -1);
  EXPECT_TRUE(conv->arguments[2].type.optional);
  EXPECT_TRUE(conv->arguments[3].type.list);
  EXPECT_EQ(conv->arguments[3].type.listSize, 2u);
  EXPECT_EQ(conv->arguments[3].type.base, BaseType::SymInt);
  EXPECT_FALSE(conv->mutates());

  const OpSchema *index = lookupSchema("aten.index_put_.default");
  ASSERT_TRUE(index);
  EXPECT_TRUE(index->mutates());
  EXPECT_TRUE(index->arguments[0].mutated);
  EXPECT_EQ(index->arguments[0].alias, "a");
  EXPECT_TRUE(index->arguments[1].type.elementOptional);
  EXPECT_FALSE(index->isView());

  const OpSchema *split = lookupSchema("aten.split.Tensor");
  ASSERT_TRUE(split);
  EXPECT_TRUE(split->isView());
  EXPECT_TRUE(split->results[0].type.list);
  EXPECT_EQ(split->results[0].alias, "a");

  const OpSchema *sum = lookupSchema("aten.sum.dim_IntList");
  ASSERT_TRUE(sum);
  EXPECT_TRUE(sum->arguments[1].type.optional && sum->arguments[1].type.list);
  EXPECT_TRUE(sum->arguments[3].kwargOnly);
  EXPECT_EQ(lookupSchema("aten.native_layer_norm.default")->results.size(), 3u);
}

TEST(Schema, BadLines) {
  for (llvm::StringRef line : {"", "a", "a(", "a()", "a(Tensor) -> Tensor", "a(Tensor x -> Tensor",
                               "a(Tensor(a x) -> Tensor", "a(int[2 x) -> Tensor", "a(?) -> ()"}) {
    std::string error;
    EXPECT_FALSE(parseSchema(line, &error)) << line.str();
    EXPECT_FALSE(error.empty()) << line.str();
  }
}

TEST(CallArgs, ReadsEveryKind) {
  mlir::MLIRContext context;
  context.loadDialect<TorchDialect>();
  mlir::OpBuilder b(&context);
  mlir::Location loc = b.getUnknownLoc();
  auto type = mlir::RankedTensorType::get({}, b.getF64Type());
  mlir::OwningOpRef<NumberOp> number = NumberOp::create(b, loc, type, b.getF64FloatAttr(1.5));
  mlir::Value tensor = number->getResult();
  kiln::sym::Expr s0 = kiln::sym::Expr::symbol("s0");
  mlir::Attribute unit = b.getUnitAttr();

  auto makeCall = [&](llvm::StringRef target, llvm::ArrayRef<mlir::Attribute> args,
                      llvm::ArrayRef<mlir::Value> operands) {
    return mlir::OwningOpRef<CallOp>(CallOp::create(
        b, loc, mlir::TypeRange(type), b.getStringAttr(target), mlir::ValueRange(operands),
        b.getArrayAttr(args), b.getStringAttr("node"), nullptr, nullptr, nullptr, nullptr));
  };

  auto full = makeCall(
      "aten.full.default",
      {b.getArrayAttr({b.getI64IntegerAttr(2), kiln::sym::ExprAttr::get(&context, s0)}),
       ScalarAttr::get(&context, 0), DTypeAttr::get(&context, b.getF32Type()),
       LayoutAttr::get(&context, Layout::Strided), DeviceAttr::get(&context, "cuda:1"), unit},
      {tensor});
  CallArgs args(*full);
  EXPECT_EQ(args.symIntList("size"), (llvm::SmallVector<kiln::sym::Expr>{2, s0}));
  EXPECT_FALSE(args.optIntList("size"));
  EXPECT_EQ(std::get<mlir::Value>(args.scalar("fill_value")), tensor);
  EXPECT_EQ(kindOf(args.scalar(1)), NumberKind::Float);
  EXPECT_FALSE(args.optNumber(1));
  EXPECT_FALSE(args.tensor(1));
  EXPECT_EQ(args.dtype("dtype"), b.getF32Type());
  EXPECT_EQ(args.layout("layout"), Layout::Strided);
  EXPECT_EQ(args.device("device"), "cuda:1");
  EXPECT_TRUE(args.isNone("pin_memory"));
  EXPECT_TRUE(args.isNone("no such argument"));
  EXPECT_FALSE(args.has("no such argument"));

  auto index =
      makeCall("aten.index.Tensor",
               {ArgAttr::get(&context, 0), b.getArrayAttr({unit, ArgAttr::get(&context, 1)})},
               {tensor, tensor});
  CallArgs indexArgs(*index);
  EXPECT_EQ(indexArgs.tensor("self"), tensor);
  EXPECT_EQ(indexArgs.optTensorList("indices"),
            (llvm::SmallVector<mlir::Value>{mlir::Value(), tensor}));

  auto add = makeCall(
      "aten.add.Tensor",
      {ArgAttr::get(&context, 0), kiln::sym::ExprAttr::get(&context, s0), b.getBoolAttr(true)},
      {tensor});
  CallArgs addArgs(*add);
  EXPECT_TRUE(addArgs.isNumber("other"));
  EXPECT_FALSE(addArgs.isTensor("other"));
  EXPECT_EQ(asExpr(addArgs.scalar("other")), s0);
  EXPECT_EQ(addArgs.symInt("other"), s0);
  EXPECT_FALSE(addArgs.optInteger("other"));
  EXPECT_EQ(kindOf(addArgs.scalar("alpha")), NumberKind::Bool);
  EXPECT_EQ(addArgs.number("alpha"), 1.0);
  EXPECT_TRUE(addArgs.boolean(2));
}

} // namespace
