//===- Npz.h - Arrays in .npz files -----------------------------*- C++ -*-===//
//
// A .npz file is a zip archive of .npy files; a .npy file is a magic number, a
// header that is the text of a Python dict, and the bytes of the array. Both are
// read strictly: whatever is not exactly an array of a known dtype is an error.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_AOT_RUN_NPZ_H
#define KILN_AOT_RUN_NPZ_H

#include "Array.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <map>

namespace kiln::run {

/// The dtype that a void array ("|V2", "|V1") is meant to have: numpy has no name
/// for bfloat16 and float8. `key` is the array's name, `bytes` its item's size.
using ResolveVoid = llvm::function_ref<const DType *(llvm::StringRef key, unsigned bytes)>;

/// All arrays of a file, by name without ".npy".
llvm::Expected<std::map<std::string, Array>> readNpz(const std::string &path, ResolveVoid resolve);

/// The array of a .npy file.
llvm::Expected<Array> readNpy(const std::string &path, ResolveVoid resolve);

/// Writes contiguous arrays, uncompressed, in this order. The file appears when
/// it is complete.
llvm::Error writeNpz(const std::string &path,
                     llvm::ArrayRef<std::pair<std::string, const Array *>> arrays);

} // namespace kiln::run

#endif // KILN_AOT_RUN_NPZ_H
