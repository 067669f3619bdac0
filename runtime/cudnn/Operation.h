// Calls that cuDNN runs, and the plans that they become for the sizes of a run.
#ifndef KILN_RUNTIME_CUDNN_OPERATION_H
#define KILN_RUNTIME_CUDNN_OPERATION_H

#include "ExternArguments.h"
#include "Graph.h"

#include <map>

namespace kiln::cudnn {

/// A number of a tensor that is none of the call's: zeros.
inline constexpr int zeros = -1;

/// A call for some sizes: a plan, and which of the call's tensors (operands, then results) its
/// tensors in memory are.
struct Program {
  std::unique_ptr<Plan> plan;
  std::vector<int> tensors;
  size_t zeroBytes = 0;
};

/// Makes plans for some sizes.
struct Planner {
  const Library &library;
  cudnnHandle_t handle;
  Conditions conditions;
  /// Throws where there is none. So many bytes of the workspace are not for the engine.
  std::unique_ptr<Plan> plan(Graph &graph, size_t reserved, const char *what) const;
};

/// A tensor of a call, dims in PyTorch's order.
struct Shape {
  Sizes sizes, strides;
};

class Operation {
public:
  explicit Operation(const kiln_extern_call &call) : call(call) {}
  virtual ~Operation() = default;
  void run(const kiln_extern_device &device, void *const *buffers, const int64_t *numbers);

protected:
  /// Tensors have elements.
  virtual Program make(Planner &planner, const std::vector<Shape> &shapes) const = 0;
  /// The notes of engines that are refused, from the words behind the operation's own arguments.
  void readNumerics(externs::Arguments &arguments);

  int result() const { return static_cast<int>(call.num_operands); }
  /// From a tensor's first element to behind its last one.
  size_t getBytes(int tensor, const std::vector<Shape> &shapes) const;
  /// CUDNN_DATA_; throws if it is none that this library has.
  int getType(int tensor) const;

  const kiln_extern_call &call;

private:
  struct Memory;
  std::vector<Shape> getShapes(const int64_t *numbers) const;
  std::shared_ptr<const Program> getProgram(const Library &library, cudnnHandle_t handle,
                                            const std::vector<Shape> &shapes, const Memory &memory,
                                            const kiln_extern_device &device);

  unsigned refusedNotes = 0;
  std::mutex mutex;
  std::map<std::vector<int64_t>, std::shared_ptr<const Program>> programs;
};

/// Null: this library has no such operation.
std::unique_ptr<Operation> makeOperation(const kiln_extern_call &call);
std::unique_ptr<Operation> makeConvolution(const kiln_extern_call &call);
std::unique_ptr<Operation> makeAttention(const kiln_extern_call &call);

} // namespace kiln::cudnn

#endif // KILN_RUNTIME_CUDNN_OPERATION_H
