// A product, its sum with a tensor, and a function of it.
#ifndef KILN_RUNTIME_CUBLAS_MATMUL_H
#define KILN_RUNTIME_CUBLAS_MATMUL_H

#include "ExternArguments.h"
#include "Loaded.h"

#include <map>
#include <memory>
#include <mutex>

namespace kiln::cublas {

/// matmul(source, weights, bias or None, whether weights are [n, k], post-ops, the operand of "add" if
/// that is the first of them, how many algorithms are timed). The source's dims but the last are
/// rows; or it and the weights have batches of the same sizes.
class Matmul {
public:
  explicit Matmul(const kiln_extern_call &call);
  void run(const kiln_extern_device &device, void *const *buffers, const int64_t *numbers);

private:
  struct Sizes {
    int64_t batch, m, n, k, workspace;
  };
  struct Plan;
  /// The arguments of a run.
  struct Call {
    const Library &library;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t description;
    const void *a, *b, *c;
    void *d, *workspace;
    size_t workspaceBytes;
    void *stream;
  };

  Sizes getSizes(const int64_t *numbers) const;
  cublasLtMatmulDesc_t describe(const Library &library, const void *bias) const;
  std::shared_ptr<const Plan> getPlan(const Call &call, const Sizes &sizes, const void *bias,
                                      bool isCaptured);
  std::shared_ptr<const Plan> makePlan(const Call &call, const Sizes &sizes, bool isCaptured) const;
  void launch(const Call &call, const Plan &plan, const cublasLtMatmulAlgo_t &algorithm) const;
  size_t findFastest(const Call &call, const Plan &plan,
                     const std::vector<cublasLtMatmulHeuristicResult_t> &found) const;

  const kiln_extern_call &call;
  int source, weights, bias, added = -1;
  bool isTransposed;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int type, wanted;
  std::mutex mutex;
  std::map<std::vector<int64_t>, std::shared_ptr<const Plan>> plans;
};

} // namespace kiln::cublas

#endif // KILN_RUNTIME_CUBLAS_MATMUL_H
