// Stretches of bytes that have one owner and one state.
#include "MemoryImage.h"
#include <algorithm>
#include <iterator>

using namespace kiln::wrapper;

/// Makes `at` the first byte of a stretch.
void MemoryImage::splitAt(int64_t at) {
  if (at <= 0 || at >= size)
    return;
  auto stretch = std::prev(stretches.upper_bound(at));
  if (stretch->first == at)
    return;
  stretches[at] = stretch->second;
  stretch->second.end = at;
}

void MemoryImage::assign(int64_t begin, int64_t end, Owner owner, bool isWritten) {
  if (begin >= end)
    return;
  splitAt(begin);
  splitAt(end);
  stretches.erase(stretches.lower_bound(begin), stretches.lower_bound(end));
  auto here = stretches.insert({begin, {end, owner, isWritten}}).first;
  auto join = [&](auto left, auto right) {
    if (left->second.owner != right->second.owner ||
        left->second.isWritten != right->second.isWritten)
      return left;
    left->second.end = right->second.end;
    stretches.erase(right);
    return left;
  };
  if (auto next = std::next(here); next != stretches.end())
    join(here, next);
  if (here != stretches.begin())
    join(std::prev(here), here);
}

template <typename Test>
std::optional<int64_t> MemoryImage::find(int64_t begin, int64_t end, Test &&test) const {
  if (begin >= end)
    return std::nullopt;
  if (begin < 0 || begin >= size)
    return begin;
  for (auto stretch = std::prev(stretches.upper_bound(begin));
       stretch != stretches.end() && stretch->first < end; ++stretch)
    if (test(stretch->second))
      return std::max(begin, stretch->first);
  return end > size ? std::optional(size) : std::nullopt;
}

std::optional<int64_t> MemoryImage::findForeign(int64_t begin, int64_t end, Owner owner) const {
  return find(begin, end, [&](const Stretch &stretch) { return stretch.owner != owner; });
}

std::optional<int64_t> MemoryImage::findUnwritten(int64_t begin, int64_t end) const {
  return find(begin, end, [](const Stretch &stretch) { return !stretch.isWritten; });
}
