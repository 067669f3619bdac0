// The arguments of a call of a library, read in order.
#ifndef KILN_RUNTIME_EXTERNARGUMENTS_H
#define KILN_RUNTIME_EXTERNARGUMENTS_H

#include "extern.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace kiln::externs {

class Arguments {
public:
  explicit Arguments(const kiln_extern_call &call)
      : next(call.args), end(call.args + call.num_values) {}

  /// The number of an operand; -1: None.
  int tensor() {
    if (next != end && next->kind == KILN_EXTERN_NONE)
      return ++next, -1;
    return static_cast<int>(take(KILN_EXTERN_TENSOR).value);
  }
  /// Skips a None; false if something else comes next.
  bool none() {
    bool isNone = next != end && next->kind == KILN_EXTERN_NONE;
    next += isNone;
    return isNone;
  }
  bool boolean() { return take(KILN_EXTERN_BOOL).value != 0; }
  int64_t integer() { return take(KILN_EXTERN_INT).value; }
  double number() {
    int64_t bits = take(KILN_EXTERN_FLOAT).value;
    double value;
    static_assert(sizeof value == sizeof bits);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  std::string text() { return take(KILN_EXTERN_STRING).text; }
  std::vector<int64_t> integers() {
    std::vector<int64_t> values(list());
    for (int64_t &value : values)
      value = integer();
    return values;
  }
  /// The number of values of a list that come next.
  uint32_t list() { return take(KILN_EXTERN_LIST).count; }

private:
  const kiln_extern_value &take(uint32_t kind) {
    if (next == end || next->kind != kind)
      throw std::runtime_error("its arguments are not those of this library's operation");
    return *next++;
  }

  const kiln_extern_value *next, *end;
};

} // namespace kiln::externs

#endif // KILN_RUNTIME_EXTERNARGUMENTS_H
