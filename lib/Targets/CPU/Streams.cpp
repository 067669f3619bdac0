// The rows that are worth streaming; the numbers are those of a Zen 3.
#include "CPU/Streams.h"

using namespace kiln;
using namespace kiln::cpu;

bool Rows::areMany() const {
  constexpr int64_t fewestColumns = 256;
  return columns >= fewestColumns && rows >= 2 * streamedRows;
}

bool Rows::areLarge() const {
  constexpr int64_t large = 12 << 20;
  return allBytes() >= large;
}

bool Rows::shareSets() const {
  constexpr int64_t quarterPage = 1024;
  return stride && *stride != 0 && *stride * bytes % quarterPage == 0;
}

int64_t cpu::fewestStreamedColumns(int64_t columns) {
  constexpr int64_t narrow = 512, wide = 1024;
  return columns < 4 * wide ? narrow : wide;
}
