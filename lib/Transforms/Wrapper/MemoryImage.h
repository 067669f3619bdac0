// Memory as a run of a host program leaves it: for each byte its owner, and whether it was written.
#ifndef KILN_TRANSFORMS_WRAPPER_MEMORYIMAGE_H
#define KILN_TRANSFORMS_WRAPPER_MEMORYIMAGE_H

#include <cstdint>
#include <map>
#include <optional>

namespace kiln::wrapper {

/// Says whose a byte is. Every buffer that a run makes has a number of its own.
using Owner = unsigned;

/// One piece of memory, such as an arena or an input. Bytes of one kind are kept as one stretch, so the
/// costs are those of buffers and not of bytes.
class MemoryImage {
public:
  struct Stretch {
    int64_t end;
    Owner owner;
    bool isWritten;
  };

  MemoryImage(int64_t size, Owner owner, bool isWritten) : size(size) {
    if (size > 0)
      stretches[0] = {size, owner, isWritten};
  }

  int64_t getSize() const { return size; }

  /// [begin, end) gets an owner. It has to lie inside.
  void assign(int64_t begin, int64_t end, Owner owner, bool isWritten);

  /// The first byte of [begin, end) that is not the owner's, or lies outside.
  std::optional<int64_t> findForeign(int64_t begin, int64_t end, Owner owner) const;

  /// The first byte of [begin, end) that nothing has written.
  std::optional<int64_t> findUnwritten(int64_t begin, int64_t end) const;

private:
  template <typename Test>
  std::optional<int64_t> find(int64_t begin, int64_t end, Test &&test) const;
  void splitAt(int64_t at);

  int64_t size;
  std::map<int64_t, Stretch> stretches; // by first byte; they cover all of the memory
};

} // namespace kiln::wrapper

#endif // KILN_TRANSFORMS_WRAPPER_MEMORYIMAGE_H
