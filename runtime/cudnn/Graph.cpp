// Describes graphs to cuDNN, and asks its heuristics for engines.
#include "Graph.h"

#include <algorithm>
#include <utility>

using namespace kiln::cudnn;

//===-- Descriptors ---------------------------------------------------------------------------===//

Descriptor::Descriptor(const Library &library, int kind) : library(&library) {
  library.check(library.cudnnBackendCreateDescriptor(kind, &made), "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (made)
    library->cudnnBackendDestroyDescriptor(made);
}

Descriptor::Descriptor(Descriptor &&other) noexcept
    : library(other.library), made(std::exchange(other.made, nullptr)) {}

Descriptor &Descriptor::setArray(int name, int type, size_t count, const void *elements) {
  library->check(
      library->cudnnBackendSetAttribute(made, name, type, static_cast<int64_t>(count), elements),
      "cudnnBackendSetAttribute");
  return *this;
}

Descriptor &Descriptor::set(int name, const Sizes &values) {
  return setArray(name, CUDNN_TYPE_INT64, values.size(), values.data());
}

Descriptor &Descriptor::set(int name, const Descriptor &other) {
  return setArray(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.made);
}

Descriptor &Descriptor::finalize() {
  library->check(tryFinalize(), "cudnnBackendFinalize");
  return *this;
}

cudnnStatus_t Descriptor::tryFinalize() { return library->cudnnBackendFinalize(made); }

int64_t Descriptor::read(int name, int type, int64_t wanted, void *elements) const {
  int64_t count = 0;
  library->check(library->cudnnBackendGetAttribute(made, name, type, wanted, &count, elements),
                 "cudnnBackendGetAttribute");
  return std::min(count, wanted);
}

//===-- Tensors -------------------------------------------------------------------------------===//

/// Numbers of tensors are their places in the list, from 1.
int Graph::addNamed(Descriptor &tensor, const Sizes &sizes, const Sizes &strides, int type) {
  auto number = static_cast<int64_t>(tensors.size());
  tensors.push_back(parts.size() - 1);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Sizes{number + 1})
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Sizes{alignment})
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .finalize();
  return static_cast<int>(number);
}

int Graph::addTensor(const Tensor &tensor) {
  inMemory.push_back(static_cast<int64_t>(tensors.size()) + 1);
  return addNamed(add(CUDNN_BACKEND_TENSOR_DESCRIPTOR), tensor.sizes, tensor.strides, tensor.type);
}

static Sizes pack(const Sizes &sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * sizes[i + 1];
  return strides;
}

int Graph::addValue(const Sizes &sizes, int type) {
  Descriptor &tensor = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  return addNamed(tensor, sizes, pack(sizes), type);
}

int Graph::addScalar(float value, size_t rank) {
  scalars.emplace_back(static_cast<int64_t>(tensors.size()) + 1, value);
  Descriptor &tensor = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  return addNamed(tensor, Sizes(rank, 1), Sizes(rank, 1), CUDNN_DATA_FLOAT);
}

//===-- Operations ----------------------------------------------------------------------------===//

void Graph::convolve(int x, int w, int y, const Sizes &strides, const Sizes &padding,
                     const Sizes &dilation) {
  size_t windows = parts.size();
  add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, int(CUDNN_DATA_FLOAT))
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
           int(CUDNN_CROSS_CORRELATION))
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Sizes{static_cast<int64_t>(strides.size())})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation)
      .finalize();
  operations.push_back(parts.size());
  add(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, parts[windows])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, parts[tensors[x]])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, parts[tensors[w]])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, parts[tensors[y]])
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0F)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0F)
      .finalize();
}

void Graph::apply(int mode, int y, int x, int b, int t, int type) {
  size_t function = parts.size();
  add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type)
      .finalize();
  operations.push_back(parts.size());
  Descriptor &operation = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts[function])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts[tensors[x]])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts[tensors[y]]);
  if (b >= 0)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts[tensors[b]]);
  if (t >= 0)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, parts[tensors[t]]);
  operation.finalize();
}

void Graph::index(int y, int x, int64_t dim) {
  size_t function = parts.size();
  add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, int(CUDNN_POINTWISE_GEN_INDEX))
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, int(CUDNN_DATA_INT32))
      .set(CUDNN_ATTR_POINTWISE_AXIS, Sizes{dim})
      .finalize();
  operations.push_back(parts.size());
  add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parts[function])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts[tensors[x]])
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts[tensors[y]])
      .finalize();
}

void Graph::multiply(int a, int b, int c) {
  size_t product = parts.size();
  add(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
      .set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, int(CUDNN_DATA_FLOAT))
      .finalize();
  operations.push_back(parts.size());
  add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, parts[product])
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, parts[tensors[a]])
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, parts[tensors[b]])
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, parts[tensors[c]])
      .finalize();
}

void Graph::softmax(int x, int y) {
  operations.push_back(parts.size());
  add(CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_SOFTMAX_XDESC, parts[tensors[x]])
      .set(CUDNN_ATTR_OPERATION_SOFTMAX_YDESC, parts[tensors[y]])
      .finalize();
}

//===-- Engines -------------------------------------------------------------------------------===//

/// More than any heuristic names in practice.
static constexpr int64_t maxEngines = 64;
static constexpr int64_t maxNotes = 32;

static unsigned readNotes(const Library &library, const Descriptor &config) {
  Descriptor engine(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t into = engine.get();
  config.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &into);
  int notes[maxNotes] = {};
  int64_t count =
      engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, maxNotes, notes);
  unsigned bits = 0;
  for (int64_t i = 0; i < count; ++i)
    bits |= notes[i] >= 0 && notes[i] < maxNotes ? 1U << notes[i] : 0;
  return bits;
}

/// The configurations of engines that a heuristic names for the graph, the best one first.
static std::vector<Descriptor> askHeuristic(const Library &library, const Descriptor &graph,
                                            int mode, std::string *reason) {
  Descriptor heuristic(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (cudnnStatus_t status = heuristic.tryFinalize()) {
    *reason = library.describe(status);
    return {};
  }
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> into;
  for (int64_t i = 0; i < maxEngines; ++i)
    into.push_back(configs.emplace_back(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  int64_t count = heuristic.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 maxEngines, into.data());
  while (static_cast<int64_t>(configs.size()) > count)
    configs.pop_back();
  return configs;
}

std::unique_ptr<Plan> Graph::plan(cudnnHandle_t handle, const Conditions &conditions,
                                  std::string *reason) {
  std::vector<cudnnBackendDescriptor_t> listed;
  for (size_t operation : operations)
    listed.push_back(parts[operation].get());
  Descriptor &graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle)
      .setArray(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, listed.size(),
                listed.data());
  *reason = "there is no engine for it";
  if (cudnnStatus_t status = graph.tryFinalize()) {
    *reason = library.describe(status);
    return nullptr;
  }
  size_t place = parts.size() - 1;
  for (int mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (Descriptor &config : askHeuristic(library, parts[place], mode, reason)) {
      if (readNotes(library, config) & conditions.refusedNotes) {
        *reason = "no engine has the numerics that were asked for";
        continue;
      }
      Descriptor made(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      made.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      if (cudnnStatus_t status = made.tryFinalize()) {
        *reason = library.describe(status);
        continue;
      }
      int64_t bytes = 0;
      made.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
      if (bytes < 0 || static_cast<size_t>(bytes) > conditions.workspaceBytes) {
        *reason = "its engine needs a workspace of " + std::to_string(bytes) + " bytes, of which " +
                  std::to_string(conditions.workspaceBytes) + " are there";
        continue;
      }
      std::unique_ptr<Plan> plan(new Plan(library));
      plan->workspaceBytes = static_cast<size_t>(bytes);
      plan->parts = std::move(parts);
      plan->parts.push_back(std::move(config));
      plan->plan.emplace(std::move(made));
      plan->inMemory = std::move(inMemory);
      plan->scalars = std::move(scalars);
      return plan;
    }
  return nullptr;
}

void Plan::run(cudnnHandle_t handle, const std::vector<void *> &buffers, void *workspace) const {
  std::vector<int64_t> numbers = inMemory;
  std::vector<void *> pointers = buffers;
  for (const auto &[number, value] : scalars) {
    numbers.push_back(number);
    pointers.push_back(const_cast<float *>(&value)); // cuDNN only reads it
  }
  Descriptor variants(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  variants.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers)
      .setArray(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.size(),
                pointers.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
      .finalize();
  library.check(library.cudnnBackendExecute(handle, plan->get(), variants.get()),
                "cudnnBackendExecute");
}
