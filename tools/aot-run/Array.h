//===- Array.h - Arrays in memory and their dtypes --------------*- C++ -*-===//
#ifndef KILN_AOT_RUN_ARRAY_H
#define KILN_AOT_RUN_ARRAY_H

#include "kiln-c/model.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <complex>
#include <memory>
#include <optional>
#include <string>

namespace llvm {
struct fltSemantics;
}

namespace kiln::run {

/// A dtype under its three names: PyTorch's, DLPack's and numpy's.
struct DType {
  llvm::StringRef name;
  uint8_t code, bits;
  llvm::StringRef descr; // .npy; "|V2" and "|V1" for those that numpy lacks

  unsigned bytes() const { return bits / 8; }
  DLDataType dlpack() const { return {code, bits, 1}; }
};

const DType *findDType(llvm::StringRef name);
const DType *findDType(DLDataType type);
llvm::ArrayRef<DType> allDTypes();

/// The format of floats (or of the parts of complex numbers) of less than 32 bits; null: others.
const llvm::fltSemantics *getHalfSemantics(const DType &type);

/// 64-byte aligned memory that the array owns, in any (non-negative) strides.
struct Array {
  const DType *dtype = nullptr;
  llvm::SmallVector<int64_t> shape, strides; // in elements
  std::unique_ptr<char, void (*)(void *)> data{nullptr, ::free};
  size_t bytes = 0;

  /// Garbage contents, contiguous; an error if it is larger than memory.
  static llvm::Expected<Array> allocate(const DType &dtype, llvm::ArrayRef<int64_t> shape);

  /// A contiguous copy of a tensor in CPU memory.
  static llvm::Expected<Array> copy(const DLTensor &tensor);

  /// Element number `element` in memory, exactly.
  std::complex<long double> load(size_t element) const;
  size_t count() const { return bytes / dtype->bytes(); }

  /// Borrows the array.
  DLTensor tensor();
};

/// 'text' with whatever does not print escaped: names from files.
std::string quote(llvm::StringRef text);

/// "float32 [1, 128]"
std::string describe(const DType *dtype, llvm::ArrayRef<int64_t> shape);

} // namespace kiln::run

#endif // KILN_AOT_RUN_ARRAY_H
