// Constant data as LLVM globals: strings, numbers, addresses, and structs of the runtime.
#include "kiln/Codegen/Globals.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace kiln::codegen;

static constexpr StringLiteral entrySection = ".data.rel.ro.kiln_entry";

LLVM::GlobalOp Globals::create(Type type, StringRef name, Attribute value, Place place) {
  auto global = LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                                       LLVM::Linkage::Private, name, value);
  global.setUnnamedAddr(LLVM::UnnamedAddr::Global);
  if (place == Place::Entry)
    global.setSection(entrySection);
  return global;
}

std::string Globals::string(StringRef text) {
  auto [entry, isNew] = known.try_emplace(("s" + text).str());
  if (isNew) {
    std::string bytes = text.str();
    bytes.push_back('\0');
    entry->second = "kiln_text_" + std::to_string(next++);
    create(LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size()), entry->second,
           builder.getStringAttr(bytes));
  }
  return entry->second;
}

std::string Globals::numbers(ArrayRef<int64_t> values, Place place) {
  if (values.empty())
    return "";
  StringRef bytes(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(int64_t));
  auto [entry, isNew] = known.try_emplace(("n" + bytes).str());
  if (isNew) {
    entry->second = "kiln_numbers_" + std::to_string(next++);
    create(LLVM::LLVMArrayType::get(builder.getI64Type(), values.size()), entry->second,
           builder.getI64TensorAttr(values), place);
  }
  return entry->second;
}

Value Globals::emit(const FieldValue &field, Type type) {
  if (auto *number = std::get_if<int64_t>(&field))
    return LLVM::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, *number));
  const std::string &name = std::get<std::string>(field);
  if (name.empty())
    return LLVM::ZeroOp::create(builder, loc, type);
  return LLVM::AddressOfOp::create(builder, loc, type, name);
}

std::string Globals::pointers(ArrayRef<std::string> symbols) {
  SmallVector<StructValue> rows(symbols.size());
  for (auto [row, symbol] : llvm::zip_equal(rows, symbols))
    row.add("an address", getScalarTypeOf<const void *>(), 1, FieldValue(symbol));
  return array("kiln_pointers_" + std::to_string(next++), rows, Place::Anywhere);
}

Value Globals::emit(const StructValue &row) {
  LLVM::LLVMStructType type = row.getType(builder.getContext());
  Value value = LLVM::UndefOp::create(builder, loc, type);
  for (auto [k, field] : llvm::enumerate(row.values))
    value = LLVM::InsertValueOp::create(builder, loc, value, emit(field, type.getBody()[k]),
                                        ArrayRef<int64_t>{static_cast<int64_t>(k)});
  return value;
}

Value Globals::emit(Type type, ArrayRef<Value> elements) {
  Value value = LLVM::UndefOp::create(builder, loc, type);
  for (auto [i, element] : llvm::enumerate(elements))
    value = LLVM::InsertValueOp::create(builder, loc, value, element,
                                        ArrayRef<int64_t>{static_cast<int64_t>(i)});
  return value;
}

/// Rows of a table are made in blocks of so many, since LLVM copies the whole of what a value is
/// inserted into.
static constexpr size_t blockRows = 64;

std::string Globals::array(StringRef name, ArrayRef<StructValue> rows, Place place) {
  if (rows.empty())
    return "";
  MLIRContext *context = builder.getContext();
  Type rowType = rows.front().getType(context);
  SmallVector<Type> blockTypes;
  for (size_t first = 0; first < rows.size(); first += blockRows)
    blockTypes.push_back(
        LLVM::LLVMArrayType::get(rowType, std::min(blockRows, rows.size() - first)));
  bool isOne = blockTypes.size() == 1;
  Type type = isOne ? blockTypes[0] : LLVM::LLVMStructType::getLiteral(context, blockTypes);
  LLVM::GlobalOp global = create(type, name, {}, place);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&global.getInitializerRegion());
  SmallVector<Value> blocks;
  for (Type block : blockTypes) {
    SmallVector<Value> values;
    for (const StructValue &row : rows.slice(blocks.size() * blockRows).take_front(blockRows))
      values.push_back(emit(row));
    blocks.push_back(emit(block, values));
  }
  LLVM::ReturnOp::create(builder, loc, isOne ? blocks[0] : emit(type, blocks));
  return name.str();
}

void Globals::exported(StringRef name, const StructValue &exported) {
  LLVM::LLVMStructType type = exported.getType(builder.getContext());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(builder.getInsertionBlock());
  auto global =
      LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true, LLVM::Linkage::External, name,
                             Attribute(), /*alignment=*/64);
  global.setVisibility_(LLVM::Visibility::Hidden);
  global.setSection(entrySection);
  builder.createBlock(&global.getInitializerRegion());
  LLVM::ReturnOp::create(builder, loc, emit(exported));
}
