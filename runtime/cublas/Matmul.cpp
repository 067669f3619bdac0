// Products by cuBLASLt, whose matrices are in columns: the result's transpose is computed, weights first.
#include "Matmul.h"

#include <algorithm>
#include <kiln-c/model.h>
#include <limits>

using namespace kiln::cublas;

/// A model with sizes that change with every run keeps no more than these.
static constexpr size_t maxPlans = 64;
/// The library asks for it of its workspace, and no tensor needs more.
static constexpr uintptr_t maxAlignment = 256;
static constexpr int timedRuns = 3;

/// The layouts for some sizes, and the algorithm for them.
struct Matmul::Plan {
  explicit Plan(const Library &library) : library(library) {}
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {a, b, d})
      if (layout)
        library.cublasLtMatrixLayoutDestroy(layout);
  }
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  const Library &library;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  bool isFinal = true; // nothing is left to be timed
};

static int getType(const kiln_extern_tensor &tensor) {
  if (tensor.code == 2 && tensor.bits == 32)
    return CUDA_R_32F;
  if (tensor.code == 2 && tensor.bits == 16)
    return CUDA_R_16F;
  if (tensor.code == 4 && tensor.bits == 16)
    return CUDA_R_16BF;
  throw Failure{KILN_UNSUPPORTED, "it has no products of this dtype"};
}

Matmul::Matmul(const kiln_extern_call &call) : call(call) {
  externs::Arguments arguments(call);
  source = arguments.tensor();
  weights = arguments.tensor();
  bias = arguments.tensor();
  isTransposed = arguments.boolean();
  bool hasSum = false;
  for (uint32_t left = arguments.list(); left; --left) {
    std::string name = arguments.text();
    if (name == "add" && !hasSum && epilogue == CUBLASLT_EPILOGUE_DEFAULT)
      hasSum = true;
    else if (name == "relu" && epilogue == CUBLASLT_EPILOGUE_DEFAULT)
      epilogue = CUBLASLT_EPILOGUE_RELU;
    else if (name == "gelu_tanh" && epilogue == CUBLASLT_EPILOGUE_DEFAULT)
      epilogue = CUBLASLT_EPILOGUE_GELU;
    else
      throw Failure{KILN_UNSUPPORTED, name + " cannot come behind this product"};
  }
  if (hasSum)
    added = arguments.tensor();
  if (bias >= 0)
    epilogue = epilogue == CUBLASLT_EPILOGUE_DEFAULT ? CUBLASLT_EPILOGUE_BIAS
                                                     : epilogue | CUBLASLT_EPILOGUE_BIAS;
  wanted = static_cast<int>(arguments.integer());
  type = getType(call.tensors[call.num_operands]);
}

Matmul::Sizes Matmul::getSizes(const int64_t *numbers) const {
  std::vector<const int64_t *> tensors;
  for (uint32_t i = 0; i < call.num_operands + call.num_results; ++i) {
    tensors.push_back(numbers);
    numbers += ptrdiff_t(2) * call.tensors[i].rank;
  }
  const int64_t *from = tensors[source], *with = tensors[weights];
  int sourceRank = call.tensors[source].rank, rank = call.tensors[weights].rank;
  Sizes sizes = {1, 1, isTransposed ? with[rank - 2] : with[rank - 1], from[sourceRank - 1], 0};
  for (int i = 0; i < sourceRank - 1; ++i)
    (rank > 2 && i < sourceRank - 2 ? sizes.batch : sizes.m) *= from[i];
  if (call.num_results > 1)
    sizes.workspace = tensors.back()[0];
  return sizes;
}

cublasLtMatmulDesc_t Matmul::describe(const Library &library, const void *bias) const {
  cublasLtMatmulDesc_t made = nullptr;
  library.check(library.cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                "cublasLtMatmulDescCreate");
  auto set = [&](int attribute, const auto &value) {
    cublasStatus_t status = library.cublasLtMatmulDescSetAttribute(
        made, attribute, static_cast<const void *>(&value), sizeof value);
    if (status != CUBLAS_STATUS_SUCCESS)
      library.cublasLtMatmulDescDestroy(made);
    library.check(status, "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(isTransposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t(CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (bias)
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  return made;
}

/// The greatest power of two that the address is a multiple of, if that is no more than any needs.
static uint32_t getAlignment(const void *address) {
  auto bits = reinterpret_cast<uintptr_t>(address) | maxAlignment;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

void Matmul::launch(const Call &call, const Plan &plan,
                    const cublasLtMatmulAlgo_t &algorithm) const {
  const float one = 1, beta = added >= 0 ? 1 : 0;
  call.library.check(call.library.cublasLtMatmul(call.handle, call.description, &one, call.a,
                                                 plan.a, call.b, plan.b, &beta, call.c, plan.d,
                                                 call.d, plan.d, &algorithm, call.workspace,
                                                 call.workspaceBytes, call.stream),
                     "cublasLtMatmul");
}

size_t Matmul::findFastest(const Call &call, const Plan &plan,
                           const std::vector<cublasLtMatmulHeuristicResult_t> &found) const {
  Stopwatch watch(call.stream);
  size_t best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < found.size(); ++i) {
    launch(call, plan, found[i].algo); // what is loaded for the first run is no part of it
    for (int run = 0; run < timedRuns; ++run) {
      watch.start();
      launch(call, plan, found[i].algo);
      float time = watch.stop();
      if (time < least) {
        least = time;
        best = i;
      }
    }
  }
  return best;
}

std::shared_ptr<const Matmul::Plan> Matmul::makePlan(const Call &call, const Sizes &sizes,
                                                     bool isCaptured) const {
  const Library &library = call.library;
  auto plan = std::make_shared<Plan>(library);
  auto makeLayout = [&](cublasLtMatrixLayout_t *layout, int64_t rows, int64_t columns) {
    library.check(library.cublasLtMatrixLayoutCreate(layout, type, rows, columns, rows),
                  "cublasLtMatrixLayoutCreate");
    if (sizes.batch == 1)
      return;
    auto count = static_cast<int32_t>(sizes.batch);
    int64_t offset = rows * columns;
    library.check(library.cublasLtMatrixLayoutSetAttribute(
                      *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                  "cublasLtMatrixLayoutSetAttribute");
    library.check(library.cublasLtMatrixLayoutSetAttribute(
                      *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof offset),
                  "cublasLtMatrixLayoutSetAttribute");
  };
  if (sizes.batch > std::numeric_limits<int32_t>::max())
    throw Failure{KILN_UNSUPPORTED, "there are too many products in a batch"};
  makeLayout(&plan->a, isTransposed ? sizes.k : sizes.n, isTransposed ? sizes.n : sizes.k);
  makeLayout(&plan->b, sizes.k, sizes.m);
  makeLayout(&plan->d, sizes.n, sizes.m);

  cublasLtMatmulPreference_t made = nullptr;
  library.check(library.cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  std::unique_ptr<cublasLtMatmulPreference, cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      preference(made, library.cublasLtMatmulPreferenceDestroy);
  auto set = [&](int attribute, const auto &value) {
    library.check(
        library.cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(call.workspaceBytes));
  int attribute = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  for (const void *address : {call.a, call.b, call.c, static_cast<const void *>(call.d)})
    set(attribute++, getAlignment(address));

  int count = 0;
  std::vector<cublasLtMatmulHeuristicResult_t> found(isCaptured ? 1 : wanted);
  cublasStatus_t status = library.cublasLtMatmulAlgoGetHeuristic(
      call.handle, call.description, plan->a, plan->b, plan->d, plan->d, made,
      static_cast<int>(found.size()), found.data(), &count);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? std::max(count, 0) : 0);
  std::erase_if(found, [&](const cublasLtMatmulHeuristicResult_t &one) {
    return one.state != CUBLAS_STATUS_SUCCESS || one.workspaceSize > call.workspaceBytes;
  });
  if (found.empty())
    library.check(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status,
                  "cublasLtMatmulAlgoGetHeuristic");
  plan->isFinal = !isCaptured || wanted == 1;
  plan->algorithm = found[found.size() > 1 ? findFastest(call, *plan, found) : 0].algo;
  return plan;
}

std::shared_ptr<const Matmul::Plan> Matmul::getPlan(const Call &call, const Sizes &sizes,
                                                    const void *bias, bool isCaptured) {
  std::vector<int64_t> key = {sizes.batch, sizes.m, sizes.n, sizes.k};
  for (const void *address : {call.a, call.b, call.c, static_cast<const void *>(call.d), bias})
    key.push_back(getAlignment(address));
  std::lock_guard<std::mutex> lock(mutex);
  auto known = plans.find(key);
  if (known != plans.end() && (known->second->isFinal || isCaptured))
    return known->second;
  if (plans.size() >= maxPlans)
    plans.clear(); // runs on other threads hold on to theirs
  return plans[key] = makePlan(call, sizes, isCaptured);
}

void Matmul::run(const kiln_extern_device &device, void *const *buffers, const int64_t *numbers) {
  Sizes sizes = getSizes(numbers);
  // No matrix is without elements; there is nothing to write either.
  if (!sizes.batch || !sizes.m || !sizes.n)
    return;
  const Library &library = Library::get();
  const void *given = bias >= 0 ? buffers[bias] : nullptr;
  std::unique_ptr<cublasLtMatmulDesc, cublasStatus_t (*)(cublasLtMatmulDesc_t)> description(
      describe(library, given), library.cublasLtMatmulDescDestroy);
  void *result = buffers[call.num_operands];
  Call arguments = {library,
                    library.getHandle(device.ordinal),
                    description.get(),
                    buffers[weights],
                    buffers[source],
                    added >= 0 ? buffers[added] : result,
                    result,
                    nullptr,
                    0,
                    device.stream};
  if (sizes.workspace > 0) {
    auto *begin = static_cast<char *>(buffers[call.num_operands + 1]);
    auto skipped = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(begin) % maxAlignment);
    arguments.workspace = begin + skipped;
    arguments.workspaceBytes = std::max<int64_t>(sizes.workspace - skipped, 0);
  }
  std::shared_ptr<const Plan> plan = getPlan(arguments, sizes, given, device.is_captured);
  launch(arguments, *plan, plan->algorithm);
}
