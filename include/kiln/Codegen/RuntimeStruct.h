//===- RuntimeStruct.h - The C structs of the runtime, as data --*- C++ -*-===//
//
// The types of generated data and functions, taken from the headers that the runtime itself is
// compiled with (runtime/ir_interface.h, which whoever names one of its types includes). A row
// names each field of its struct once, in the struct's order:
//
//   makeRow<kiln_rt_symbol>(KILN_FIELD(kiln_rt_symbol, name, globals.string("n")),
//                           KILN_FIELD(kiln_rt_symbol, min, 1),
//                           KILN_FIELD(kiln_rt_symbol, max, 64))
//
// A field that is missing, comes twice or is out of order does not compile.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_CODEGEN_RUNTIMESTRUCT_H
#define KILN_CODEGEN_RUNTIMESTRUCT_H

#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "llvm/ADT/SmallVector.h"
#include <cstddef>
#include <string>
#include <type_traits>
#include <variant>

namespace kiln::codegen {

/// The value of a field: a number (of whatever integer type the field has), the address of a
/// symbol, or with an empty name the null pointer.
using FieldValue = std::variant<int64_t, std::string>;

/// A value as LLVM has it: an integer of this many bits, or a pointer.
struct ScalarType {
  unsigned bits = 0;
  bool isPointer = false;

  mlir::Type get(mlir::MLIRContext *context) const {
    if (isPointer)
      return mlir::LLVM::LLVMPointerType::get(context);
    return mlir::IntegerType::get(context, bits);
  }
};

template <typename T> constexpr ScalarType getScalarTypeOf() {
  static_assert(std::is_integral_v<T> || std::is_pointer_v<T>, "integers and pointers alone");
  return {8 * sizeof(T), std::is_pointer_v<T>};
}

/// A field of a C struct, with its value. Fields that are arrays have a value for each element.
template <typename Struct, typename Member, size_t Offset> struct RuntimeField {
  static constexpr size_t offset = Offset, bytes = sizeof(Member),
                          elements = std::is_array_v<Member> ? std::extent_v<Member> : 1;

  RuntimeField(const char *name, int64_t number) : name(name), values{number} {
    static_assert(std::is_integral_v<Member>, "a number for a field that is none");
  }
  RuntimeField(const char *name, std::string symbol) : name(name), values{std::move(symbol)} {
    static_assert(std::is_pointer_v<Member>, "an address for a field that is no pointer");
  }
  RuntimeField(const char *name, llvm::ArrayRef<int64_t> numbers)
      : name(name), values(numbers.begin(), numbers.end()) {
    static_assert(std::is_array_v<Member>, "several numbers for a field that is no array");
  }

  const char *name;
  llvm::SmallVector<FieldValue, 1> values;
};

#define KILN_FIELD(type, member, ...)                                                              \
  ::kiln::codegen::RuntimeField<type, decltype(type::member), offsetof(type, member)>(             \
      #type "." #member, __VA_ARGS__)

/// True if these are the fields of the struct: each begins where the one before ends, and the last
/// ends with the struct. (A struct with padding has to give it a name.)
template <typename Struct, typename... Fields> constexpr bool isWholeStruct() {
  size_t end = 0;
  bool isInOrder = true;
  ((isInOrder = isInOrder && Fields::offset == end, end += Fields::bytes), ...);
  return isInOrder && end == sizeof(Struct);
}

/// The value of a struct of the runtime.
struct StructValue {
  llvm::SmallVector<ScalarType> types;
  llvm::SmallVector<FieldValue> values;

  mlir::LLVM::LLVMStructType getType(mlir::MLIRContext *context) const;
  /// An internal error if a number does not fit its field or an array has another length.
  void add(const char *name, ScalarType type, size_t elements,
           llvm::ArrayRef<FieldValue> elementValues);
};

/// The same, of this struct: what an array of such structs is made of.
template <typename Struct> struct Row : StructValue {};

template <typename Struct, typename... Members, size_t... Offsets>
Row<Struct> makeRow(const RuntimeField<Struct, Members, Offsets> &...fields) {
  static_assert(isWholeStruct<Struct, RuntimeField<Struct, Members, Offsets>...>(),
                "each field of the struct once, in its order");
  Row<Struct> row;
  (row.add(fields.name, getScalarTypeOf<std::remove_extent_t<Members>>(), fields.elements,
           fields.values),
   ...);
  return row;
}

/// The LLVM type of a C function that takes and returns integers and pointers.
template <typename Function> struct CFunctionType;
template <typename Result, typename... Arguments> struct CFunctionType<Result(Arguments...)> {
  static mlir::LLVM::LLVMFunctionType get(mlir::MLIRContext *context) {
    mlir::Type result = mlir::LLVM::LLVMVoidType::get(context);
    if constexpr (!std::is_void_v<Result>)
      result = getScalarTypeOf<Result>().get(context);
    llvm::SmallVector<mlir::Type> arguments = {getScalarTypeOf<Arguments>().get(context)...};
    return mlir::LLVM::LLVMFunctionType::get(result, arguments);
  }
};
template <typename Function> struct CFunctionType<Function *> : CFunctionType<Function> {};

/// A function of the runtime that generated code calls.
struct RuntimeFunction {
  llvm::StringRef name;
  mlir::LLVM::LLVMFunctionType (*getType)(mlir::MLIRContext *context);
};

#define KILN_FUNCTION(name)                                                                        \
  ::kiln::codegen::RuntimeFunction { #name, ::kiln::codegen::CFunctionType<decltype(::name)>::get }

} // namespace kiln::codegen

#endif // KILN_CODEGEN_RUNTIMESTRUCT_H
