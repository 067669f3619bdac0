// Graphs of cuDNN's operations, and the plans that its engines run them by.
#ifndef KILN_RUNTIME_CUDNN_GRAPH_H
#define KILN_RUNTIME_CUDNN_GRAPH_H

#include "Loaded.h"

#include <memory>
#include <optional>
#include <vector>

namespace kiln::cudnn {

using Sizes = std::vector<int64_t>;

/// The alignment of every tensor in memory, in bytes.
inline constexpr int64_t alignment = 16;

/// An object of the backend API, destroyed with its owner.
class Descriptor {
public:
  Descriptor(const Library &library, int kind);
  ~Descriptor();
  Descriptor(Descriptor &&other) noexcept;
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  Descriptor &operator=(Descriptor &&) = delete;

  template <typename Element> Descriptor &set(int name, int type, const Element &element) {
    return setArray(name, type, 1, &element);
  }
  Descriptor &set(int name, const Sizes &values);
  Descriptor &set(int name, const Descriptor &other);
  Descriptor &setArray(int name, int type, size_t count, const void *elements);
  /// Throws unless it succeeds.
  Descriptor &finalize();
  cudnnStatus_t tryFinalize();
  /// The number of elements read.
  int64_t read(int name, int type, int64_t wanted, void *elements) const;
  cudnnBackendDescriptor_t get() const { return made; }

private:
  const Library *library;
  cudnnBackendDescriptor_t made = nullptr;
};

/// A tensor in memory.
struct Tensor {
  Sizes sizes, strides;
  int type; // CUDNN_DATA_
};

/// A graph that an engine runs. Tensors are numbered in the order in which they are added.
class Plan {
public:
  size_t workspaceBytes = 0;
  /// `buffers[i]` is the memory of the graph's i-th tensor in memory.
  void run(cudnnHandle_t handle, const std::vector<void *> &buffers, void *workspace) const;

private:
  friend class Graph;
  explicit Plan(const Library &library) : library(library) {}

  const Library &library;
  std::vector<Descriptor> parts; // what the plan is made of
  std::optional<Descriptor> plan;
  std::vector<int64_t> inMemory;
  std::vector<std::pair<int64_t, float>> scalars;
};

/// Conditions on engines.
struct Conditions {
  unsigned refusedNotes; // bits of CUDNN_NUMERICAL_NOTE_
  size_t workspaceBytes;
};

class Graph {
public:
  explicit Graph(const Library &library) : library(library) {}

  int addTensor(const Tensor &tensor);
  /// A value in between, which is not in memory.
  int addValue(const Sizes &sizes, int type = CUDNN_DATA_FLOAT);
  /// A number, as a tensor of so many dims.
  int addScalar(float value, size_t rank);

  /// Sizes of windows and images; `x` has `w`'s channels once for each group.
  void convolve(int x, int w, int y, const Sizes &strides, const Sizes &padding,
                const Sizes &dilation);
  /// The elements of `y` by a function CUDNN_POINTWISE_ of those of `x`, of `b` (-1: none), and of the
  /// condition `t`.
  void apply(int mode, int y, int x, int b = -1, int t = -1, int type = CUDNN_DATA_FLOAT);
  /// The elements' own index in a dim.
  void index(int y, int x, int64_t dim);
  void multiply(int a, int b, int c);
  /// Over the last dim.
  void softmax(int x, int y);

  /// The plan of the first engine that can do it; null, with a reason: there is none. The graph is used
  /// up.
  std::unique_ptr<Plan> plan(cudnnHandle_t handle, const Conditions &conditions,
                             std::string *reason);

private:
  Descriptor &add(int kind) { return parts.emplace_back(library, kind); }
  int addNamed(Descriptor &tensor, const Sizes &sizes, const Sizes &strides, int type);

  const Library &library;
  std::vector<Descriptor> parts;
  std::vector<size_t> tensors, operations; // their places in `parts`
  std::vector<int64_t> inMemory;
  std::vector<std::pair<int64_t, float>> scalars;
};

} // namespace kiln::cudnn

#endif // KILN_RUNTIME_CUDNN_GRAPH_H
