// cuda-pack-operands: lays out weights so that the steps of products are consecutive.
#include "CUDA/Contract/ContractPlan.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDAPACKOPERANDS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct PackOperands : kiln::cuda::impl::CudaPackOperandsBase<PackOperands> {
  void runOnOperation() override {
    getOperation().walk([](ContractOp contract) {
      cuda::ContractDims dims(contract);
      if (contract.getNumK() == 0)
        return;
      sym::Expr lastStep = sym::Expr::dim(contract.getExtents().size() - 1);
      // Steps or rows: blocks take either, but of bytes.
      if (!dims.lhsAlongM || dims.areBytes())
        kernel::moveLast(contract, contract.getLhs(), lastStep);
      if (!dims.rhsAlongN || dims.areBytes())
        kernel::moveLast(contract, contract.getRhs(), lastStep);
    });
  }
};

} // namespace
