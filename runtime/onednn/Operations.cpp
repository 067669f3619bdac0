// The operations that models call, each with its arguments (lib/Extern/OneDNN), as primitives.
#include "Primitive.h"

#include <algorithm>
#include <numeric>

using namespace kiln;
using dnnl::memory;

static constexpr dnnl::prop_kind inference = dnnl::prop_kind::forward_inference;

#if DNNL_VERSION_MAJOR < 3
using PoolingForward = dnnl::pooling_v2_forward;
#else
using PoolingForward = dnnl::pooling_forward;
#endif

/// A normalisation, whose result is as its source.
template <typename Kind>
static Kind::primitive_desc describeNorm(const dnnl::primitive_attr &attributes, const Shape &from,
                                         [[maybe_unused]] const Shape &to, float epsilon,
                                         dnnl::normalization_flags flags) {
#if DNNL_VERSION_MAJOR < 3
  return describe<Kind>(attributes, inference, from.describe(), epsilon, flags);
#else
  return describe<Kind>(attributes, inference, from.describe(), to.describe(), epsilon, flags);
#endif
}

/// A vector of `size` numbers.
static memory::desc describeVector(int64_t size, memory::data_type type = memory::data_type::f32) {
  return {{size}, type, memory::dims{1}};
}

namespace {

/// matmul(source, weights, bias or None, whether weights are [n, k], post-ops): the source's dims
/// but the last are rows; or it and the weights have batches of the same sizes.
class Matmul : public Operation {
public:
  explicit Matmul(const kiln_extern_call &call)
      : Operation(call), arguments(call), source(arguments.tensor()), weights(arguments.tensor()),
        bias(arguments.tensor()), isTransposed(arguments.boolean()), post(arguments) {}

protected:
  Primitive make(const std::vector<Shape> &shapes) override {
    Shape from = shapes[source], with = shapes[weights], to = shapes[result()];
    if (with.sizes.size() == 2) {
      joinRows(from);
      joinRows(to);
    }
    if (isTransposed) {
      std::swap(with.sizes.end()[-1], with.sizes.end()[-2]);
      std::swap(with.strides.end()[-1], with.strides.end()[-2]);
    }
    Primitive made;
    dnnl::primitive_attr attributes = post.attach(made, shapes, to);
    made.add(DNNL_ARG_SRC, source, from.describe());
    made.add(DNNL_ARG_WEIGHTS, weights, with.describe());
    made.add(DNNL_ARG_DST, result(), to.describe());
    memory::desc added;
    if (bias >= 0) {
      memory::dims sizes(to.sizes.size(), 1), strides(to.sizes.size(), to.sizes.back());
      sizes.back() = to.sizes.back();
      strides.back() = 1;
      added = memory::desc(sizes, to.type, strides);
      made.add(DNNL_ARG_BIAS, bias, added);
    }
    auto description =
        describe<dnnl::matmul>(attributes, from.describe(), with.describe(), added, to.describe());
    made.finish<dnnl::matmul>(description);
    return made;
  }

private:
  /// All dims but the last as one.
  static void joinRows(Shape &shape) {
    int64_t columns = shape.sizes.back();
    int64_t rows = std::accumulate(shape.sizes.begin(), shape.sizes.end() - 1, int64_t(1),
                                   std::multiplies<>());
    shape = {{rows, columns}, {columns, 1}, shape.type};
  }

  Arguments arguments;
  int source, weights, bias;
  bool isTransposed;
  PostOps post;
};

/// convolution(source, weights, bias or None, strides, padding, dilation, groups, post-ops)
class Convolution : public Operation {
public:
  explicit Convolution(const kiln_extern_call &call)
      : Operation(call), arguments(call), source(arguments.tensor()), weights(arguments.tensor()),
        bias(arguments.tensor()), strides(arguments.integers()), padding(arguments.integers()),
        dilation(arguments.integers()), groups(arguments.integers().front()), post(arguments) {
    for (int64_t &step : dilation)
      --step; // oneDNN counts what is left out
  }

protected:
  Primitive make(const std::vector<Shape> &shapes) override {
    Shape with = shapes[weights];
    if (groups != 1) {
      with.sizes[0] /= groups;
      with.sizes.insert(with.sizes.begin(), groups);
      with.strides.insert(with.strides.begin(), with.sizes[1] * with.strides[0]);
    }
    const Shape &from = shapes[source], &to = shapes[result()];
    Primitive made;
    dnnl::primitive_attr attributes = post.attach(made, shapes, to);
    made.add(DNNL_ARG_SRC, source, from.describe());
    made.add(DNNL_ARG_WEIGHTS, weights, with.describe());
    made.add(DNNL_ARG_DST, result(), to.describe());
    memory::desc added;
    if (bias >= 0) {
      added = describeVector(to.sizes[1], to.type);
      made.add(DNNL_ARG_BIAS, bias, added);
    }
    auto description = describe<dnnl::convolution_forward>(
        attributes, inference, dnnl::algorithm::convolution_direct, from.describe(),
        with.describe(), added, to.describe(), strides, dilation, padding, padding);
    made.finish<dnnl::convolution_forward>(description);
    return made;
  }

private:
  Arguments arguments;
  int source, weights, bias;
  memory::dims strides, padding, dilation;
  int64_t groups;
  PostOps post;
};

/// pooling(source, "max", "avg" or "avg_inside", kernel, strides, padding, dilation)
class Pooling : public Operation {
public:
  explicit Pooling(const kiln_extern_call &call)
      : Operation(call), arguments(call), source(arguments.tensor()), kind(arguments.text()),
        kernel(arguments.integers()), strides(arguments.integers()), padding(arguments.integers()),
        dilation(arguments.integers()) {
    for (int64_t &step : dilation)
      --step;
  }

protected:
  Primitive make(const std::vector<Shape> &shapes) override {
    const Shape &from = shapes[source], &to = shapes[result()];
    dnnl::algorithm algorithm = kind == "max"   ? dnnl::algorithm::pooling_max
                                : kind == "avg" ? dnnl::algorithm::pooling_avg_include_padding
                                                : dnnl::algorithm::pooling_avg_exclude_padding;
    // Windows may end before or behind the padded image.
    memory::dims behind(padding);
    for (size_t i = 0; i < kernel.size(); ++i)
      behind[i] = std::max(padding[i], (to.sizes[i + 2] - 1) * strides[i] +
                                           (kernel[i] - 1) * (dilation[i] + 1) + 1 -
                                           from.sizes[i + 2] - padding[i]);
    Primitive made;
    dnnl::primitive_attr attributes = makeAttributes();
    made.add(DNNL_ARG_SRC, source, from.describe());
    made.add(DNNL_ARG_DST, result(), to.describe());
    auto description =
        describe<PoolingForward>(attributes, inference, algorithm, from.describe(), to.describe(),
                                 strides, kernel, dilation, padding, behind);
    made.finish<PoolingForward>(description);
    return made;
  }

private:
  Arguments arguments;
  int source;
  std::string kind;
  memory::dims kernel, strides, padding, dilation;
};

/// layer_norm(source, weight or None, bias or None, epsilon), over the last dim
class LayerNorm : public Operation {
public:
  explicit LayerNorm(const kiln_extern_call &call)
      : Operation(call), arguments(call), source(arguments.tensor()), weight(arguments.tensor()),
        bias(arguments.tensor()), epsilon(static_cast<float>(arguments.number())) {}

protected:
  Primitive make(const std::vector<Shape> &shapes) override {
    const Shape &from = shapes[source], &to = shapes[result()];
    auto flags = dnnl::normalization_flags::none;
    if (weight >= 0)
      flags |= dnnl::normalization_flags::use_scale;
    if (bias >= 0)
      flags |= dnnl::normalization_flags::use_shift;
    Primitive made;
    dnnl::primitive_attr attributes = makeAttributes();
    made.add(DNNL_ARG_SRC, source, from.describe());
    made.add(DNNL_ARG_DST, result(), to.describe());
    if (weight >= 0)
      made.add(DNNL_ARG_SCALE, weight, describeVector(from.sizes.back()));
    if (bias >= 0)
      made.add(DNNL_ARG_SHIFT, bias, describeVector(from.sizes.back()));
    auto description =
        describeNorm<dnnl::layer_normalization_forward>(attributes, from, to, epsilon, flags);
    made.finish<dnnl::layer_normalization_forward>(description);
    return made;
  }

private:
  Arguments arguments;
  int source, weight, bias;
  float epsilon;
};

/// batch_norm(source, weight, bias, mean, variance, epsilon, whether relu comes after it)
class BatchNorm : public Operation {
public:
  explicit BatchNorm(const kiln_extern_call &call)
      : Operation(call), arguments(call), source(arguments.tensor()), weight(arguments.tensor()),
        bias(arguments.tensor()), mean(arguments.tensor()), variance(arguments.tensor()),
        epsilon(static_cast<float>(arguments.number())), hasRelu(arguments.boolean()) {}

protected:
  Primitive make(const std::vector<Shape> &shapes) override {
    const Shape &from = shapes[source], &to = shapes[result()];
    auto flags = dnnl::normalization_flags::use_global_stats |
                 dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    Primitive made;
    dnnl::primitive_attr attributes = makeAttributes();
    if (hasRelu) {
      dnnl::post_ops post;
      appendElementwise(post, dnnl::algorithm::eltwise_relu);
      attributes.set_post_ops(post);
    }
    made.add(DNNL_ARG_SRC, source, from.describe());
    made.add(DNNL_ARG_DST, result(), to.describe());
    for (auto [argument, tensor] :
         {std::pair(DNNL_ARG_SCALE, weight), std::pair(DNNL_ARG_SHIFT, bias),
          std::pair(DNNL_ARG_MEAN, mean), std::pair(DNNL_ARG_VARIANCE, variance)})
      made.add(argument, tensor, describeVector(from.sizes[1]));
    auto description =
        describeNorm<dnnl::batch_normalization_forward>(attributes, from, to, epsilon, flags);
    made.finish<dnnl::batch_normalization_forward>(description);
    return made;
  }

private:
  Arguments arguments;
  int source, weight, bias, mean, variance;
  float epsilon;
  bool hasRelu;
};

} // namespace

std::unique_ptr<Operation> kiln::makeOperation(const kiln_extern_call &call) {
  std::string name = call.callee;
  if (name == "matmul")
    return std::make_unique<Matmul>(call);
  if (name == "convolution")
    return std::make_unique<Convolution>(call);
  if (name == "pooling")
    return std::make_unique<Pooling>(call);
  if (name == "layer_norm")
    return std::make_unique<LayerNorm>(call);
  if (name == "batch_norm")
    return std::make_unique<BatchNorm>(call);
  return nullptr;
}
