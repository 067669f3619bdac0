// Mutations of JSON trees: values are removed, doubled, exchanged, or replaced by others of the document and by extreme ones.
#ifndef KILN_TEST_FUZZ_JSONMUTATOR_H
#define KILN_TEST_FUZZ_JSONMUTATOR_H

#include "llvm/Support/JSON.h"
#include <random>
#include <vector>

namespace detail {
struct Place {
  llvm::json::Value *value;
  llvm::json::Value *parent; // null: the root
};

inline void collect(llvm::json::Value &value, llvm::json::Value *parent,
                    std::vector<Place> &places) {
  places.push_back({&value, parent});
  if (llvm::json::Array *array = value.getAsArray())
    for (llvm::json::Value &item : *array)
      collect(item, &value, places);
  if (llvm::json::Object *object = value.getAsObject())
    for (auto &[key, item] : *object)
      collect(item, &value, places);
}

inline void erase(const Place &place) {
  if (llvm::json::Array *array = place.parent->getAsArray()) {
    array->erase(array->begin() + (place.value - &array->front()));
    return;
  }
  llvm::json::Object &object = *place.parent->getAsObject();
  for (auto &[key, item] : object)
    if (&item == place.value)
      return (void)object.erase(llvm::StringRef(key));
}

template <typename Random> void replace(llvm::json::Value &value, Random &random) {
  static const llvm::json::Value extremes[] = {nullptr,
                                               true,
                                               0,
                                               -1,
                                               1,
                                               1LL << 31,
                                               -(1LL << 31),
                                               INT64_MAX,
                                               INT64_MIN,
                                               1.5,
                                               -0.0,
                                               1e308,
                                               "",
                                               "x",
                                               "s0",
                                               "-1",
                                               "Integer(0)",
                                               llvm::json::Array(),
                                               llvm::json::Object(),
                                               llvm::json::Object{{"as_int", -1}},
                                               llvm::json::Object{{"as_none", true}}};
  std::optional<int64_t> integer = value.getAsInteger();
  if (integer && random() % 2) {
    const int64_t others[] = {*integer / 2, *integer / -2, int64_t(uint64_t(*integer) * 2),
                              int64_t(uint64_t(*integer) + 1), int64_t(uint64_t(*integer) - 1)};
    value = others[random() % std::size(others)];
  } else {
    value = extremes[random() % std::size(extremes)];
  }
}
} // namespace detail

inline void mutateJson(llvm::json::Value &document, unsigned seed) {
  std::minstd_rand random(seed);
  for (unsigned round = 0, rounds = 1 + random() % 3; round < rounds; ++round) {
    std::vector<detail::Place> places;
    detail::collect(document, nullptr, places);
    const detail::Place &place = places[random() % places.size()];
    const detail::Place &other = places[random() % places.size()];
    if (!place.parent)
      continue;
    switch (random() % 5) {
    case 0:
      detail::erase(place);
      break;
    case 1:
      detail::replace(*place.value, random);
      break;
    case 2: {
      llvm::json::Value copy = *other.value;
      *place.value = std::move(copy);
      break;
    }
    case 3:
      if (llvm::json::Array *array = place.parent->getAsArray()) {
        llvm::json::Value copy = *place.value;
        array->insert(array->begin() + random() % (array->size() + 1), std::move(copy));
      }
      break;
    default:
      if (llvm::json::Array *array = place.parent->getAsArray())
        std::swap(*place.value, (*array)[random() % array->size()]);
    }
  }
}

#endif // KILN_TEST_FUZZ_JSONMUTATOR_H
