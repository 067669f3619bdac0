//===- Globals.h - Constant data in the LLVM dialect ------------*- C++ -*-===//
#ifndef KILN_CODEGEN_GLOBALS_H
#define KILN_CODEGEN_GLOBALS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include <variant>

namespace kiln::codegen {

/// Adds constants with local linkage to a module. Equal strings and arrays are made once.
class Globals {
public:
  Globals(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  /// Data that the runtime reads before every run, when they may be in no cache, lie together.
  enum class Place { Anywhere, Entry };

  /// A field of a struct: a number (of whatever integer type the struct has there), the address of
  /// a symbol, or with an empty name the null pointer.
  using Field = std::variant<int64_t, std::string>;

  /// Each returns the name of the constant, or "" (null) for an empty array.
  std::string string(llvm::StringRef text); // with a terminating zero
  std::string numbers(llvm::ArrayRef<int64_t> values, Place place = Place::Anywhere);
  std::string pointers(llvm::ArrayRef<std::string> symbols);
  std::string structs(llvm::StringRef name, mlir::LLVM::LLVMStructType type,
                      llvm::ArrayRef<llvm::SmallVector<Field>> rows, Place place = Place::Anywhere);
  /// One struct under its own name, visible to the other objects of the link: the first at the
  /// entry's place.
  void exported(llvm::StringRef name, mlir::LLVM::LLVMStructType type,
                llvm::ArrayRef<Field> fields);

  /// `i8`, `i16`, `i32`, `i64` and `ptr` fields by their letters b, h, i, l and p.
  mlir::LLVM::LLVMStructType structType(llvm::StringRef fields);

private:
  mlir::LLVM::GlobalOp create(mlir::Type type, llvm::StringRef name, mlir::Attribute value,
                              Place place = Place::Anywhere);
  mlir::Value emit(const Field &field, mlir::Type type);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::StringMap<std::string> known; // contents: name
  unsigned next = 0;
};

} // namespace kiln::codegen

#endif // KILN_CODEGEN_GLOBALS_H
