//===- Globals.h - Constant data in the LLVM dialect ------------*- C++ -*-===//
#ifndef KILN_CODEGEN_GLOBALS_H
#define KILN_CODEGEN_GLOBALS_H

#include "kiln/Codegen/RuntimeStruct.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace kiln::codegen {

/// Adds constants with local linkage to a module. Equal strings and arrays are made once.
class Globals {
public:
  Globals(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  /// Data that the runtime reads before every run, when they may be in no cache, lie together.
  enum class Place { Anywhere, Entry };

  /// Each returns the name of the constant, or "" (null) for an empty array.
  std::string string(llvm::StringRef text); // with a terminating zero
  std::string numbers(llvm::ArrayRef<int64_t> values, Place place = Place::Anywhere);
  std::string pointers(llvm::ArrayRef<std::string> symbols);
  template <typename Struct>
  std::string structs(llvm::StringRef name, llvm::ArrayRef<Row<Struct>> rows,
                      Place place = Place::Anywhere) {
    return array(name, llvm::SmallVector<StructValue>(rows.begin(), rows.end()), place);
  }
  template <typename Struct>
  std::string structs(llvm::StringRef name, const llvm::SmallVector<Row<Struct>> &rows,
                      Place place = Place::Anywhere) {
    return structs(name, llvm::ArrayRef<Row<Struct>>(rows), place);
  }
  /// One struct under its own name, visible to the other objects of the link: the first at the
  /// entry's place.
  void exported(llvm::StringRef name, const StructValue &value);

private:
  std::string array(llvm::StringRef name, llvm::ArrayRef<StructValue> rows, Place place);
  mlir::LLVM::GlobalOp create(mlir::Type type, llvm::StringRef name, mlir::Attribute value,
                              Place place = Place::Anywhere);
  mlir::Value emit(const FieldValue &field, mlir::Type type);
  mlir::Value emit(const StructValue &row);
  mlir::Value emit(mlir::Type type, llvm::ArrayRef<mlir::Value> elements);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::StringMap<std::string> known; // contents: name
  unsigned next = 0;
};

} // namespace kiln::codegen

#endif // KILN_CODEGEN_GLOBALS_H
