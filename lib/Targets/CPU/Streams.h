// Rows of memory that are read a few at a time, far along each of them, as processors fetch ahead: those of a matrix, or planes of
// an image. A few columns of all of its rows would touch a page in each, whose lines share sets of the caches where rows lie a
// multiple of a quarter page apart.
#ifndef KILN_LIB_TARGETS_CPU_STREAMS_H
#define KILN_LIB_TARGETS_CPU_STREAMS_H

#include <cstdint>
#include <optional>

namespace kiln::cpu {

/// Rows that are read side by side, no more than a set of level 1 cache has lines.
static constexpr int64_t streamedRows = 8;

/// Rows of so many columns, elements of `bytes`; `stride` elements from row to row, if that is known.
struct Rows {
  int64_t rows, columns, bytes;
  std::optional<int64_t> stride;

  int64_t allBytes() const { return rows * columns * bytes; }
  /// Enough of both to stream.
  bool areMany() const;
  /// More than caches have lines and pages for, wherever rows lie.
  bool areLarge() const;
  /// Their lines at a column are in a few sets of the caches.
  bool shareSets() const;
};

/// The fewest of `columns` that a task streams: far enough to be fetched ahead.
int64_t fewestStreamedColumns(int64_t columns);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_STREAMS_H
