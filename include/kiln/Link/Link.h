//===- Link.h - From objects and weights to a shared object -----*- C++ -*-===//
//
// The last step of a compilation: the generated object, the runtime (carried
// inside this library) and the weights become one shared object that exports
// the C ABI of kiln-c/model.h and needs libc.so.6 alone. Nothing is looked up on
// the compiling machine: no linker, no C library's development files.
//
// Weights can be much larger than all the rest. They are described as pieces of
// memory, typically of the mapped input archive, and each byte is written to its
// final place once: embedded weights are a segment of the shared object that the
// link leaves empty, appended to the file afterwards.
//
// The output is deterministic, and appears under its name only when complete.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LINK_LINK_H
#define KILN_LINK_LINK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"
#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// Bytes of the weights blob, from `offset` on.
struct WeightsPiece {
  uint64_t offset;
  llvm::ArrayRef<char> data;
};

/// Bytes of the weights blob as a tensor, for readers of the external file.
struct WeightsTensor {
  std::string name;
  /// As the safetensors format names it ("F32"), or empty: bytes that it has no name for.
  llvm::StringRef dtype;
  std::vector<int64_t> shape;
  uint64_t offset, bytes;
};

/// The weights blob: pieces in any order that do not overlap, zero in between.
struct WeightsBlob {
  uint64_t bytes = 0;
  llvm::ArrayRef<WeightsPiece> pieces;
  /// In any order, without overlaps, under names that differ.
  llvm::ArrayRef<WeightsTensor> tensors = {};
  /// Further entries of the external file's `__metadata__`, whose keys differ.
  llvm::ArrayRef<std::pair<std::string, std::string>> notes = {};
};

/// The place of a model's weights.
enum class WeightsPlace {
  /// Into the shared object, 4096-byte aligned and read-only. The generated
  /// object refers to them by the hidden symbol `kiln_weights`.
  Embedded,
  /// Into a file in the format of safetensors, see runtime/weights_file.h.
  External,
};

/// The path of the external weights of the shared object at `output`.
std::string getWeightsPath(llvm::StringRef output);

struct LinkOptions {
  /// Relocatable objects; one defines `kiln_program` (runtime/ir_interface.h).
  llvm::ArrayRef<llvm::MemoryBufferRef> objects;
  WeightsBlob weights;
  WeightsPlace weightsPlace = WeightsPlace::Embedded;
  /// kiln_rt_program.weights_hash, repeated in the external file.
  uint64_t weightsHash = 0;
  /// Objects, archives and shared libraries of the user's, which generated code refers to. With
  /// them the model is linked against the C library of this machine, and needs one that is not
  /// older; shared libraries are needed by name, and found in the model's folder too.
  std::vector<std::string> files;
  /// The folder of libraries that the object loads by name, besides the loader's own places
  /// (DT_RUNPATH); empty: none.
  std::string libraryFolder;
  /// A library of steps (`kiln_steps`, runtime/ir_interface.h): exports what runs them, too.
  bool exportSteps = false;
  /// Path of the shared object; replaced if it exists.
  std::string output;
};

/// Identifies a blob for LinkOptions::weightsHash (XXH3 over all pieces). Depends
/// on how the blob is cut into pieces, so hash the pieces that are linked.
uint64_t hashWeights(const WeightsBlob &weights);

/// Links. On an error (the objects do not fit together, the disk is full, the
/// output cannot be written) nothing is left behind and what was at the output
/// path before is still there. Calls from several threads wait for each other.
llvm::Error linkSharedObject(const LinkOptions &options);

/// The objects as one relocatable object, without the runtime, for a link of the
/// caller's own. Weights must be external.
llvm::Error linkRelocatableObject(const LinkOptions &options);

/// The bytes of a shared object made of one object, with all its symbols; what is undefined in it
/// its loader provides. (The emulator's form of a GPU's code.)
llvm::Expected<std::string> linkImage(llvm::MemoryBufferRef object);

} // namespace kiln

#endif // KILN_LINK_LINK_H
