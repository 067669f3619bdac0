// Calls that oneDNN runs, and the primitives that they become for the sizes of a run.
#ifndef KILN_RUNTIME_ONEDNN_PRIMITIVE_H
#define KILN_RUNTIME_ONEDNN_PRIMITIVE_H

#include "ExternArguments.h"

#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

namespace kiln {

using externs::Arguments;

/// A tensor of one run: row-major unless `strides` say otherwise.
struct Shape {
  dnnl::memory::dims sizes, strides;
  dnnl::memory::data_type type;
  dnnl::memory::desc describe() const { return {sizes, type, strides}; }
};

/// A primitive with what it is given: operand or result number `tensors[i].second`, operands first,
/// as argument `tensors[i].first` of oneDNN's, in the form `descriptions[i]`.
struct Primitive {
  dnnl::primitive primitive;
  dnnl::memory::desc scratchpad;
  std::vector<std::pair<int, int>> tensors;
  std::vector<dnnl::memory::desc> descriptions;

  void add(int argument, int tensor, const dnnl::memory::desc &description) {
    tensors.emplace_back(argument, tensor);
    descriptions.push_back(description);
  }
  /// Once everything is added.
  template <typename Kind> void finish(const Kind::primitive_desc &description) {
    scratchpad = description.scratchpad_desc();
    primitive = Kind(description);
  }
};

/// One call of a model.
class Operation {
public:
  /// Throws if its dtypes are none that this CPU has.
  explicit Operation(const kiln_extern_call &call);
  virtual ~Operation() = default;

  /// A primitive for these sizes, kept for the next run with them.
  std::shared_ptr<const Primitive> get(const int64_t *numbers);
  /// The results have no elements.
  bool isEmpty(const int64_t *numbers) const;
  uint32_t countTensors() const { return call.num_operands + call.num_results; }

protected:
  virtual Primitive make(const std::vector<Shape> &shapes) = 0;
  int result() const { return static_cast<int>(call.num_operands); }

  const kiln_extern_call &call;

private:
  std::mutex mutex;
  std::map<std::vector<int64_t>, std::shared_ptr<const Primitive>> primitives;
};

/// An operation on a result before it is written: "relu", "gelu_erf", "gelu_tanh", or "add", for
/// which an operand comes behind the list.
class PostOps {
public:
  explicit PostOps(Arguments &arguments);
  /// Attributes of a primitive whose result is `to`; operands become arguments of `primitive`.
  dnnl::primitive_attr attach(Primitive &primitive, const std::vector<Shape> &shapes,
                              const Shape &to) const;

private:
  std::vector<std::pair<std::string, int>> ops;
};

dnnl::engine &getEngine();

/// The attributes that all primitives have: several threads may run one, so no memory is the library's own.
inline dnnl::primitive_attr makeAttributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// The description of a primitive. oneDNN 2 describes its operation first.
template <typename Kind, typename... Args>
Kind::primitive_desc describe(const dnnl::primitive_attr &attributes, const Args &...args) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Kind::desc(args...), attributes, getEngine()};
#else
  return {getEngine(), args..., attributes};
#endif
}

/// One that works on each element of a result.
inline void appendElementwise(dnnl::post_ops &list, dnnl::algorithm algorithm) {
#if DNNL_VERSION_MAJOR < 3
  list.append_eltwise(1, algorithm, 0, 0);
#else
  list.append_eltwise(algorithm, 0, 0);
#endif
}

/// Null: this library has no such operation.
std::unique_ptr<Operation> makeOperation(const kiln_extern_call &call);

} // namespace kiln

#endif // KILN_RUNTIME_ONEDNN_PRIMITIVE_H
