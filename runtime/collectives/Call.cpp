// Reads the description of a collective, and the sizes that a run gives it.
#include "Call.h"

#include "ExternArguments.h"

#include <algorithm>
#include <map>

using namespace kiln::collectives;

template <typename Value>
static Value find(const std::map<std::string, Value> &values, const std::string &name) {
  auto found = values.find(name);
  if (found == values.end())
    throw Failure{KILN_UNSUPPORTED, "libkiln_collectives.so has no " + name};
  return found->second;
}

Call::Call(const kiln_extern_call &call) : name(call.callee), type(call.tensors[0]) {
  kind = find<Kind>({{"all_reduce", Kind::AllReduce},
                     {"reduce_scatter", Kind::ReduceScatter},
                     {"all_gather", Kind::AllGather},
                     {"all_to_all", Kind::AllToAll},
                     {"broadcast", Kind::Broadcast}},
                    name);
  externs::Arguments arguments(call);
  arguments.tensor();
  group = arguments.text();
  ranks = arguments.integer();
  isStatic = arguments.boolean();
  if (!arguments.none())
    reduction = find<Reduction>({{"sum", Reduction::Sum},
                                 {"avg", Reduction::Average},
                                 {"min", Reduction::Min},
                                 {"max", Reduction::Max},
                                 {"product", Reduction::Product}},
                                arguments.text());
  if (!arguments.none())
    root = static_cast<int>(arguments.integer());
  hasParts = !arguments.none();
  itemBytes = type.bits / 8;
}

Sizes::Sizes(const Call &call, const int64_t *numbers) {
  uint32_t rank = call.type.rank;
  for (uint64_t *count : {&input, &result}) {
    int64_t stride = 1;
    bool hasGaps = false;
    for (uint32_t i = rank; i-- > 0;) {
      hasGaps |= numbers[i] > 1 && numbers[rank + i] != stride;
      stride *= numbers[i];
    }
    if (stride < 0 || (hasGaps && stride))
      throw Failure{KILN_INTERNAL, "its tensors have gaps"};
    *count = static_cast<uint64_t>(stride);
    numbers += ptrdiff_t(2) * rank;
  }
  if (!call.hasParts)
    return;
  // Elements of one row; without rows, all parts are empty.
  const int64_t *shape = numbers - ptrdiff_t(4) * rank;
  uint64_t row = shape[0] ? input / static_cast<uint64_t>(shape[0]) : 0;
  auto take = [&](std::vector<uint64_t> &parts, uint64_t unit) {
    for (int64_t i = 0; i < call.ranks; ++i)
      parts.push_back(static_cast<uint64_t>(std::max<int64_t>(*numbers++, 0)) * unit);
  };
  const int64_t *results = numbers - ptrdiff_t(2) * rank;
  if (!row && results[0])
    row = result / static_cast<uint64_t>(results[0]);
  take(send, row);
  take(receive, row);
}
