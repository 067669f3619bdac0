// Common parts of all calls of oneDNN: arguments, post-ops, and primitives by sizes.
#include "Primitive.h"

#include <algorithm>
#include <stdexcept>

using namespace kiln;
using dnnl::memory;

/// A model with sizes that change with every run keeps no more than these.
static constexpr size_t maxPrimitives = 64;

PostOps::PostOps(Arguments &arguments) {
  for (uint32_t left = arguments.list(); left; --left)
    ops.emplace_back(arguments.text(), -1);
  for (auto &[name, operand] : ops)
    if (name == "add")
      operand = arguments.tensor();
}

dnnl::primitive_attr PostOps::attach(Primitive &primitive, const std::vector<Shape> &shapes,
                                     const Shape &to) const {
  dnnl::primitive_attr attributes = makeAttributes();
  dnnl::post_ops list;
  for (const auto &[name, operand] : ops) {
    if (name == "relu") {
      appendElementwise(list, dnnl::algorithm::eltwise_relu);
    } else if (name == "gelu_erf") {
      appendElementwise(list, dnnl::algorithm::eltwise_gelu_erf);
    } else if (name == "gelu_tanh") {
      appendElementwise(list, dnnl::algorithm::eltwise_gelu_tanh);
    } else if (name == "add") {
      memory::desc other = shapes[operand].describe().reshape(to.sizes);
      primitive.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(list.len()) | DNNL_ARG_SRC_1, operand, other);
      list.append_binary(dnnl::algorithm::binary_add, other);
    } else {
      throw std::runtime_error("no post-op is called " + name);
    }
  }
  attributes.set_post_ops(list);
  return attributes;
}

static bool isBFloat(const kiln_extern_tensor &tensor) {
  return tensor.code == 4 && tensor.bits == 16;
}

Operation::Operation(const kiln_extern_call &call) : call(call) {
  constexpr auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  bool hasAVX512 = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
  for (uint32_t i = 0; i < countTensors(); ++i)
    if (isBFloat(call.tensors[i]) && !hasAVX512)
      throw dnnl::error(dnnl_unimplemented, "bf16 needs AVX-512");
}

bool Operation::isEmpty(const int64_t *numbers) const {
  for (uint32_t i = 0; i < countTensors(); ++i) {
    uint16_t rank = call.tensors[i].rank;
    if (i >= call.num_operands && std::count(numbers, numbers + rank, 0))
      return true;
    numbers += ptrdiff_t(2) * rank;
  }
  return false;
}

std::shared_ptr<const Primitive> Operation::get(const int64_t *numbers) {
  std::vector<int64_t> key;
  std::vector<Shape> shapes(countTensors());
  for (uint32_t i = 0; i < countTensors(); ++i) {
    const int64_t *sizes = numbers, *strides = numbers + call.tensors[i].rank;
    numbers = strides + call.tensors[i].rank;
    shapes[i].sizes.assign(sizes, strides);
    shapes[i].strides.assign(strides, numbers);
    shapes[i].type = isBFloat(call.tensors[i]) ? memory::data_type::bf16 : memory::data_type::f32;
    key.insert(key.end(), sizes, numbers);
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (auto known = primitives.find(key); known != primitives.end())
    return known->second;
  auto made = std::make_shared<const Primitive>(make(shapes));
  if (primitives.size() >= maxPrimitives)
    primitives.clear(); // runs on other threads hold on to theirs
  return primitives[key] = made;
}
