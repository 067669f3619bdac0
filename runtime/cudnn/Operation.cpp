// Runs calls: plans for sizes are kept, and tensors that begin where cuDNN's cannot are copied into the
// workspace.
#include "Operation.h"

#include <algorithm>
#include <functional>
#include <numeric>

using namespace kiln;
using namespace kiln::cudnn;

/// A model with sizes that change with every run keeps no more than these.
static constexpr size_t maxPrograms = 64;
/// The alignment that engines ask of a workspace.
static constexpr size_t workspaceAlignment = 256;

int Operation::getType(int tensor) const {
  const kiln_extern_tensor &type = call.tensors[tensor];
  if (type.code == 2 && type.bits == 32)
    return CUDNN_DATA_FLOAT;
  if (type.code == 2 && type.bits == 16)
    return CUDNN_DATA_HALF;
  if (type.code == 4 && type.bits == 16)
    return CUDNN_DATA_BFLOAT16;
  throw Failure{KILN_UNSUPPORTED, "it has no operations of this dtype"};
}

void Operation::readNumerics(externs::Arguments &arguments) {
  auto refuse = [&](auto... notes) { ((refusedNotes |= 1U << notes), ...); };
  refuse(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  // These mix neighbours: NaN and infinity spread.
  if (bool isFinite = arguments.boolean(); !isFinite)
    refuse(CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
           CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
           CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
  bool hasTF32 = arguments.boolean(), isSingle = getType(result()) == CUDNN_DATA_FLOAT;
  if (!hasTF32 || !isSingle)
    refuse(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  if (!hasTF32 && isSingle)
    refuse(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

std::vector<Shape> Operation::getShapes(const int64_t *numbers) const {
  std::vector<Shape> shapes;
  for (uint32_t i = 0; i < call.num_operands + call.num_results; ++i) {
    int rank = call.tensors[i].rank;
    Shape shape = {{numbers, numbers + rank}, {numbers + rank, numbers + ptrdiff_t(2) * rank}};
    numbers += ptrdiff_t(2) * rank;
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

size_t Operation::getBytes(int tensor, const std::vector<Shape> &shapes) const {
  const Shape &shape = shapes[tensor];
  int64_t last = 0;
  for (size_t i = 0; i < shape.sizes.size(); ++i)
    last += (shape.sizes[i] - 1) * shape.strides[i];
  return static_cast<size_t>(last + 1) * (call.tensors[tensor].bits / 8);
}

static size_t align(size_t bytes) {
  return (bytes + workspaceAlignment - 1) / workspaceAlignment * workspaceAlignment;
}

std::unique_ptr<Plan> Planner::plan(Graph &graph, size_t reserved, const char *what) const {
  Conditions left = conditions;
  left.workspaceBytes -= std::min(left.workspaceBytes, align(reserved));
  std::string reason;
  if (std::unique_ptr<Plan> plan = graph.plan(handle, left, &reason))
    return plan;
  throw Failure{KILN_UNSUPPORTED, "cuDNN " + library.getVersion() + " has no engine for " + what +
                                      " of these sizes: " + reason};
}

static bool hasElements(const Shape &shape) { return std::ranges::count(shape.sizes, 0) == 0; }

/// The memory of a run. What is taken of the workspace is taken from its end.
struct Operation::Memory {
  std::vector<void *> tensors; // as cuDNN sees them
  std::vector<bool> isCopied;
  char *workspace = nullptr;
  size_t left = 0;

  char *take(size_t bytes) {
    bytes = align(bytes);
    if (bytes > left)
      throw Failure{KILN_UNSUPPORTED, "its workspace is too small for copies of its tensors; "
                                      "cudnn{workspace=BYTES} makes it larger"};
    left -= bytes;
    return workspace + left;
  }
};

namespace {
/// The driver's.
struct Driver {
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
  int (*set)(uint64_t to, unsigned value, size_t count, void *stream);
};
} // namespace

static const Driver &getDriver() {
  static const Driver driver = [] {
    Driver found = {};
    externs::findInDriver(found.copy, "cuMemcpyDtoDAsync_v2");
    externs::findInDriver(found.set, "cuMemsetD32Async");
    return found;
  }();
  return driver;
}

static void check(int error) {
  if (error)
    throw Failure{KILN_DEVICE_ERROR,
                  "cannot copy a tensor (CUDA error " + std::to_string(error) + ")"};
}

static void copy(void *to, const void *from, size_t bytes, void *stream) {
  check(getDriver().copy(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes,
                         stream));
}

std::shared_ptr<const Program> Operation::getProgram(const Library &library, cudnnHandle_t handle,
                                                     const std::vector<Shape> &shapes,
                                                     const Memory &memory,
                                                     const kiln_extern_device &device) {
  // The rest of the workspace decides which engines can be taken.
  Sizes key = {device.ordinal, static_cast<int64_t>(memory.left)};
  for (const Shape &shape : shapes) {
    key.insert(key.end(), shape.sizes.begin(), shape.sizes.end());
    key.insert(key.end(), shape.strides.begin(), shape.strides.end());
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (auto known = programs.find(key); known != programs.end())
    return known->second;
  if (device.is_captured)
    throw Failure{KILN_UNSUPPORTED, "the stream is being captured, and cuDNN has no plan for these "
                                    "sizes yet; run the model once with them before"};
  Planner planner = {library, handle, {refusedNotes, memory.left}};
  auto program = std::make_shared<const Program>(make(planner, shapes));
  if (programs.size() >= maxPrograms)
    programs.clear(); // runs on other threads hold on to theirs
  return programs[key] = program;
}

void Operation::run(const kiln_extern_device &device, void *const *buffers,
                    const int64_t *numbers) {
  std::vector<Shape> shapes = getShapes(numbers);
  // No tensor of cuDNN's is without elements; there is nothing to write either.
  if (!hasElements(shapes[result()]))
    return;
  size_t count = result() + 1;
  Memory memory;
  if (call.num_results > 1) {
    memory.left =
        static_cast<size_t>(shapes.back().sizes[0]) / workspaceAlignment * workspaceAlignment;
    auto begin = reinterpret_cast<uintptr_t>(buffers[count]);
    size_t skipped = -begin % workspaceAlignment;
    memory.workspace = static_cast<char *>(buffers[count]) + skipped;
    if (skipped)
      memory.left -= std::min(memory.left, workspaceAlignment);
  }
  shapes.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (!hasElements(shapes[i]))
      throw Failure{KILN_UNSUPPORTED, "it has no tensors without elements"};
    bool isCopied = reinterpret_cast<uintptr_t>(buffers[i]) % alignment != 0;
    memory.isCopied.push_back(isCopied);
    memory.tensors.push_back(isCopied ? memory.take(getBytes(static_cast<int>(i), shapes))
                                      : buffers[i]);
  }

  const Library &library = Library::get();
  Lease lease = library.lease(device.ordinal, device.stream, device.is_captured);
  std::shared_ptr<const Program> program =
      getProgram(library, lease.handle, shapes, memory, device);
  void *zeroVector = nullptr;
  if (program->zeroBytes) {
    zeroVector = memory.take(program->zeroBytes);
    check(getDriver().set(reinterpret_cast<uintptr_t>(zeroVector), 0, (program->zeroBytes + 3) / 4,
                          device.stream));
  }
  for (size_t i = 0; i + 1 < count; ++i)
    if (memory.isCopied[i])
      copy(memory.tensors[i], buffers[i], getBytes(static_cast<int>(i), shapes), device.stream);
  std::vector<void *> given;
  for (int tensor : program->tensors)
    given.push_back(tensor == zeros ? zeroVector : memory.tensors[tensor]);
  program->plan->run(lease.handle, given, memory.workspace);
  if (memory.isCopied[result()])
    copy(buffers[result()], memory.tensors[result()], getBytes(result(), shapes), device.stream);
}

std::unique_ptr<Operation> cudnn::makeOperation(const kiln_extern_call &call) {
  std::string name = call.callee;
  if (name == "convolution")
    return makeConvolution(call);
  if (name == "attention")
    return makeAttention(call);
  return nullptr;
}
