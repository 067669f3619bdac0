// The pass torch-lower-autocast. What ATen's autocast keys do for CPU tensors: two lists of
// operators, one computed in the type that the context names, one in f32. Everything else takes its
// operands as they are (`cat` and the like promote by themselves).
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHLOWERAUTOCAST
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {

const llvm::StringSet<> &lowerPrecision() {
  static const llvm::StringSet<> names = {"_addmm_activation",
                                          "_native_multi_head_attention",
                                          "addbmm",
                                          "addmm",
                                          "baddbmm",
                                          "bmm",
                                          "conv1d",
                                          "conv2d",
                                          "conv3d",
                                          "conv_tbc",
                                          "conv_transpose1d",
                                          "conv_transpose2d",
                                          "conv_transpose3d",
                                          "linalg_vecdot",
                                          "linear",
                                          "matmul",
                                          "mkldnn_rnn_layer",
                                          "mm",
                                          "prelu",
                                          "scaled_dot_product_attention"};
  return names;
}

const llvm::StringSet<> &singlePrecision() {
  static const llvm::StringSet<> names = {"_grid_sampler_2d_cpu_fallback",
                                          "_lu_with_info",
                                          "adaptive_avg_pool3d",
                                          "adaptive_max_pool3d",
                                          "avg_pool3d",
                                          "binary_cross_entropy",
                                          "binary_cross_entropy_with_logits",
                                          "cdist",
                                          "cholesky",
                                          "cholesky_inverse",
                                          "cholesky_solve",
                                          "cosine_embedding_loss",
                                          "cross_entropy_loss",
                                          "ctc_loss",
                                          "fake_quantize_per_tensor_affine",
                                          "fft_fft",
                                          "fft_fft2",
                                          "fft_fftn",
                                          "fft_hfft",
                                          "fft_ifft",
                                          "fft_ifft2",
                                          "fft_ifftn",
                                          "fft_ihfft",
                                          "fft_irfft",
                                          "fft_irfft2",
                                          "fft_irfftn",
                                          "fft_rfft",
                                          "fft_rfft2",
                                          "fft_rfftn",
                                          "fractional_max_pool2d",
                                          "fractional_max_pool3d",
                                          "geqrf",
                                          "grid_sampler",
                                          "grid_sampler_2d",
                                          "grid_sampler_3d",
                                          "hinge_embedding_loss",
                                          "huber_loss",
                                          "inverse",
                                          "kl_div",
                                          "l1_loss",
                                          "linalg_cholesky",
                                          "linalg_cholesky_ex",
                                          "linalg_cond",
                                          "linalg_eig",
                                          "linalg_eigh",
                                          "linalg_eigvals",
                                          "linalg_eigvalsh",
                                          "linalg_householder_product",
                                          "linalg_inv",
                                          "linalg_inv_ex",
                                          "linalg_lstsq",
                                          "linalg_matrix_rank",
                                          "linalg_qr",
                                          "linalg_solve",
                                          "linalg_svd",
                                          "linalg_svdvals",
                                          "linalg_tensorinv",
                                          "linalg_tensorsolve",
                                          "lu_solve",
                                          "margin_ranking_loss",
                                          "max_pool3d",
                                          "max_unpool2d",
                                          "max_unpool3d",
                                          "mse_loss",
                                          "multi_margin_loss",
                                          "multilabel_margin_loss",
                                          "multilabel_margin_loss_forward",
                                          "nanquantile",
                                          "nll_loss",
                                          "nll_loss2d",
                                          "orgqr",
                                          "ormqr",
                                          "pinverse",
                                          "poisson_nll_loss",
                                          "polar",
                                          "prod",
                                          "qr",
                                          "quantile",
                                          "reflection_pad1d",
                                          "reflection_pad2d",
                                          "replication_pad1d",
                                          "replication_pad2d",
                                          "replication_pad3d",
                                          "smooth_l1_loss",
                                          "soft_margin_loss",
                                          "stft",
                                          "svd",
                                          "trace",
                                          "triangular_solve",
                                          "triplet_margin_loss",
                                          "view_as_complex"};
  return names;
}

struct LowerAutocast : kiln::impl::TorchLowerAutocastBase<LowerAutocast> {
  void runOnOperation() override {
    symbols.emplace(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPublic())
        visit(function, Type());
  }

  /// `lower` is the type of the context that `function` runs in; null outside of any.
  void visit(func::FuncOp function, Type lower) {
    function.walk([&](Operation *op) {
      if (auto call = dyn_cast<CallOp>(op))
        castOperands(call, lower);
      else if (auto call = dyn_cast<HigherOrderOp>(op))
        visit(call, lower);
    });
  }

  void visit(HigherOrderOp call, Type lower) {
    ArrayRef<Attribute> args = call.getArgs().getValue();
    // The device, the type, whether enabled, whether to cache.
    constexpr unsigned first = 4;
    if (call.getTarget() == "wrap_with_autocast" && args.size() > first && !call.getNames()) {
      auto device = dyn_cast<StringAttr>(args[0]);
      auto type = dyn_cast<DTypeAttr>(args[1]);
      auto enabled = dyn_cast<BoolAttr>(args[2]);
      if (!device || !enabled || (!type && enabled.getValue()))
        return;
      // A context for another device leaves this one's alone.
      if (device.getValue() == "cpu")
        lower = enabled.getValue() ? type.getType() : Type();
      call.setTarget("wrap");
      call.setArgsAttr(ArrayAttr::get(&getContext(), args.drop_front(first)));
    }
    call.getArgs().walk([&](FlatSymbolRefAttr reference) {
      if (auto graph = symbols->lookup<func::FuncOp>(reference.getValue()))
        visit(graph, lower);
    });
  }

  /// A context around the whole export leaves no node. It shows where an operator gives a narrower
  /// type than its operands have, which it does in no other way.
  static Type ambientType(CallOp call) {
    auto elementOf = [](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      return type ? type.getElementType() : Type();
    };
    if (call->getNumResults() == 0 || call->getNumOperands() == 0)
      return Type();
    Type given = elementOf(call->getOperand(0)), result = elementOf(call->getResult(0));
    bool isNarrowed = given && given.isF32() && result && (result.isBF16() || result.isF16());
    return isNarrowed ? result : Type();
  }

  void castOperands(CallOp call, Type lower) {
    StringRef name = call.getTarget();
    if (!name.consume_front("aten."))
      return;
    name = name.split('.').first;
    if (!lower && lowerPrecision().contains(name))
      lower = ambientType(call);
    if (!lower)
      return;
    bool isDeprecated = call.getTarget() == "aten._convolution.deprecated";
    Type wanted;
    if (lowerPrecision().contains(name) || isDeprecated)
      wanted = lower;
    else if (singlePrecision().contains(name))
      wanted = Float32Type::get(&getContext());
    else
      return;
    OpBuilder builder(call);
    for (OpOperand &operand : call->getOpOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.get().getType());
      if (!type || !isa<FloatType>(type.getElementType()) || type.getElementType().isF64())
        continue;
      operand.set(castTo(builder, call.getLoc(), operand.get(), wanted, call.getNodeAttr()));
    }
  }

  std::optional<SymbolTable> symbols;
};

} // namespace
