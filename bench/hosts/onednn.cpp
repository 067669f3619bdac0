// One product or convolution through oneDNN's own interface, weights in the order that oneDNN likes best: made so once, before
// anything is timed.
//   matmul BATCH M N K TRANSPOSED BIAS CONSTANT
//   convolution GROUPS BIAS RANK SOURCE... WEIGHTS... RESULT... STRIDES... PADDING... DILATION...   (sizes from the batch on)
#include "protocol.h"

#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

using dnnl::memory;
using Dims = memory::dims;

static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
static dnnl::stream stream(engine);
static dnnl::primitive primitive;
static std::unordered_map<int, memory> arguments;

/// Sizes in row-major order.
static memory::desc rows(const Dims &sizes) {
  Dims strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * sizes[i];
  return {sizes, memory::data_type::f32, strides};
}

static memory::desc any(const Dims &sizes) {
  return {sizes, memory::data_type::f32, memory::format_tag::any};
}

static memory filled(const memory::desc &description) {
  memory made(description, engine);
  auto *values = static_cast<float *>(made.get_data_handle());
  for (size_t i = 0; i < description.get_size() / sizeof(float); ++i)
    values[i] = 0.01F * static_cast<float>(i % 17) - 0.08F;
  return made;
}

template <typename Kind, typename... Args>
static typename Kind::primitive_desc describe(const Args &...args) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Kind::desc(args...), engine};
#else
  return {engine, args...};
#endif
}

template <typename Kind>
static void prepare(const typename Kind::primitive_desc &description, const memory::desc &source,
                    const memory::desc &weights, const memory::desc &bias,
                    const memory::desc &result) {
  memory given = filled(weights), ordered(description.weights_desc(), engine);
  dnnl::reorder(given, ordered).execute(stream, given, ordered);
  arguments = {
      {DNNL_ARG_SRC, filled(source)}, {DNNL_ARG_WEIGHTS, ordered}, {DNNL_ARG_DST, filled(result)}};
  if (bias.get_size())
    arguments.emplace(DNNL_ARG_BIAS, filled(bias));
  stream.wait();
  primitive = Kind(description);
}

static void matmul(const std::function<int64_t()> &next) {
  int64_t batch = next(), m = next(), n = next(), k = next();
  bool isTransposed = next(), hasBias = next(), isConstant = next();
  auto with = [&](int64_t first, int64_t second) {
    return batch ? Dims{batch, first, second} : Dims{first, second};
  };
  memory::desc source = rows(with(m, k)), weights = rows(with(k, n)), result = rows(with(m, n)),
               bias;
  if (isTransposed) {
    Dims strides = batch ? Dims{n * k, 1, k} : Dims{1, k};
    weights = {with(k, n), memory::data_type::f32, strides};
  }
  if (hasBias)
    bias = rows(batch ? Dims{1, 1, n} : Dims{1, n});
  prepare<dnnl::matmul>(
      describe<dnnl::matmul>(source, isConstant ? any(with(k, n)) : weights, bias, result), source,
      weights, bias, result);
}

static void convolution(const std::function<int64_t()> &next) {
  int64_t groups = next();
  bool hasBias = next();
  int64_t rank = next();
  auto list = [&](int64_t count) {
    Dims values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(next());
    return values;
  };
  Dims source = list(rank), weights = list(rank), result = list(rank), strides = list(rank - 2),
       padding = list(rank - 2), dilation = list(rank - 2);
  for (int64_t &step : dilation)
    --step;
  memory::desc bias;
  if (hasBias)
    bias = rows({weights[0]});
  if (groups != 1) {
    weights[0] /= groups;
    weights.insert(weights.begin(), groups);
  }
  prepare<dnnl::convolution_forward>(
      describe<dnnl::convolution_forward>(
          dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, rows(source),
          any(weights), bias, rows(result), strides, dilation, padding, padding),
      rows(source), rows(weights), bias, rows(result));
}

static void runOnce() {
  primitive.execute(stream, arguments);
  stream.wait();
}

int main(int argc, char **argv) {
  if (argc < 2)
    die("onednn", "expected the operation and its sizes");
  int i = 2;
  auto next = [&]() -> int64_t {
    if (i == argc)
      die("onednn", "expected more numbers");
    return atoll(argv[i++]);
  };
  try {
    if (std::string(argv[1]) == "matmul")
      matmul(next);
    else
      convolution(next);
    runOnce();
    return serve(runOnce);
  } catch (const dnnl::error &error) {
    die("onednn", error.message);
  }
}
