//===- SortNetwork.h - A block's elements, sorted in registers --*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_ORDERED_SORTNETWORK_H
#define KILN_LIB_TARGETS_CUDA_ORDERED_SORTNETWORK_H

#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln::cuda {

/// A bitonic network (Batcher, 1968) over the elements of a block, each thread having a power of
/// two of them in registers. Stage s makes ascending and descending runs of 2^s elements in turns,
/// by steps that compare elements 2^(s-1), ..., 2, 1 places apart.
///
/// A step is within a thread as long as the bit in which the places differ is one of the thread's
/// own. So a stage goes through *layouts*: in layout k a thread has the 2^p places that differ in
/// the bits k to k+p-1. With 4096 places and 16 of them in each of 256 threads:
///
///     bit of the place   11 10  9  8 |  7  6  5  4 |  3  2  1  0
///     layout 8            element    |        thread              "striped"
///     layout 4             thread    |   element   |   thread
///     layout 0                  thread             |   element    "blocked"
///
/// Elements change layouts through shared memory, where a hole behind every 2^p places keeps lanes
/// from meeting in a bank. Layouts up to 5 give a warp the same places, in which case only the warp
/// has to meet.
///
/// An element is one integer or several, of which the first ones are compared, then the next ones.
class SortNetwork {
public:
  using Element = llvm::SmallVector<mlir::Value>;

  /// Places from which on a block may have a network, and elements that a thread may have.
  static constexpr int64_t leastPlaces = 256, leastElements = 4, mostElements = 32;
  /// Whether `threads` may have `places` of them.
  static bool mayHave(int64_t places, int64_t threads);

  /// Comes where all threads of the block do. Takes the shared memory that it needs.
  SortNetwork(DeviceFrame &frame, mlir::TypeRange types, int64_t perThread);

  /// The place of the thread's element number `i` in the striped layout: neighbouring threads have
  /// neighbouring places.
  mlir::Value getPlace(int64_t i);

  /// The thread's elements, which the caller sets.
  llvm::SmallVector<Element> elements;

  /// Sorts elements that lie in any way. They are striped then.
  void sort();
  /// Sorts striped elements that ascend up to some place and descend from there on. They are
  /// striped then.
  void merge();

  mlir::Value isGreater(const Element &x, const Element &y);

private:
  /// How runs ascend: all of them, or depending on bit `bit` of the element's number, or of the
  /// thread: where `descends` holds they do not.
  struct Direction {
    int64_t bit = -1;
    mlir::Value descends;
  };

  /// The first bit of chunk `chunk` of those that a place has, and the layout in which its bits are
  /// the thread's own.
  int64_t firstBit(int64_t chunk) const { return chunk * bits; }
  int64_t layoutOf(int64_t chunk) const;

  void sortThreads();
  void sortChunk(int64_t chunk);
  /// The steps that compare places apart by bits `last` to `first` of the element's number.
  void compareSteps(int64_t last, int64_t first, Direction direction);
  /// Leaves the lesser of two elements at `i`, or the greater where runs descend.
  void exchange(int64_t i, int64_t j, Direction direction);
  void changeLayout(int64_t from, int64_t to);
  void sync(bool ofWarp);
  mlir::Value address(unsigned value, int64_t layout, int64_t i);
  /// The place of the thread's element 0.
  mlir::Value firstPlace(int64_t layout);
  llvm::SmallVector<mlir::Value> flatten() const;
  void unflatten(mlir::ValueRange values);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::Value> shared; // a place for each value of an element
  int64_t bits, placeBits, numChunks;
  bool isBlockReading = false; // other warps may read what this one would write
};

/// Whether `value`, of an integer type, is known to be a sign-extended number of 32 bits.
bool fitsWord(mlir::Value value);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_ORDERED_SORTNETWORK_H
