// Arguments of a call: from the model's description to values for the dispatcher.
#ifndef KILN_RUNTIME_TORCH_ARGUMENTS_H
#define KILN_RUNTIME_TORCH_ARGUMENTS_H

#include "../extern.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <vector>

namespace kiln::torch_library {

/// The first value behind `value` and all that belongs to it.
const kiln_extern_value *skip(const kiln_extern_value *value);

/// A dtype in DLPack's terms.
at::ScalarType scalarType(uint8_t code, uint8_t bits);

class ArgumentReader {
public:
  const std::vector<at::Tensor> &tensors;
  const int64_t *numbers;

  /// The value at `value`, as an argument of this type; `value` moves behind it. Throws c10::Error.
  c10::IValue read(const kiln_extern_value *&value, const c10::Type &type) const;

private:
  /// As a Python program would hand it over.
  c10::IValue readPlain(const kiln_extern_value *&value) const;
};

} // namespace kiln::torch_library

#endif // KILN_RUNTIME_TORCH_ARGUMENTS_H
