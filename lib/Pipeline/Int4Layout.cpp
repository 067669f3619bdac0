// Tells lowering how int4 weights lie in the archive.
#include "Int4Layout.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Lowering/Int4.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace kiln;

/// Products with weights that another machine may have packed.
static SmallVector<torch::CallOp> findProducts(ModuleOp module) {
  SmallVector<torch::CallOp> products;
  module.walk([&](torch::CallOp call) {
    if (call.getTarget() != "aten._weight_int4pack_mm_for_cpu.default")
      return;
    auto pack = call->getOperand(1).getDefiningOp<torch::CallOp>();
    if (!pack || pack.getTarget() != "aten._convert_weight_to_int4pack_for_cpu.default")
      products.push_back(call);
  });
  return products;
}

namespace {
/// A packed weight that is a constant, [columns, sums / 2], whose columns have a scale for each `group` sums.
struct Weight {
  int64_t columns, sums, group;
  ArrayRef<char> bytes;

  static std::optional<Weight> get(torch::CallOp product) {
    auto constant = product->getOperand(1).getDefiningOp<torch::ConstantOp>();
    auto value = constant ? dyn_cast<DenseResourceElementsAttr>(constant.getValue())
                          : DenseResourceElementsAttr();
    auto group = dyn_cast<IntegerAttr>(product.getArgs()[2]);
    if (!value || !value.getData().data() || !group || value.getType().getRank() != 2)
      return std::nullopt;
    ArrayRef<int64_t> shape = value.getType().getShape();
    Weight weight{shape[0], shape[1] * 2, group.getInt(), value.getData()};
    bool isWhole = weight.columns % 16 == 0 && weight.group > 0 &&
                   weight.sums % weight.group == 0 && weight.columns > 0 && weight.sums > 0 &&
                   static_cast<int64_t>(weight.bytes.size()) * 2 == weight.columns * weight.sums;
    return isWhole ? std::optional(weight) : std::nullopt;
  }

  /// The number of groups, among the first of the first columns, that have both the least and the greatest number.
  int64_t countFullGroups(StringRef layout, int64_t mostColumns, int64_t mostGroups) const {
    SmallVector<lowering::Int4Part, 2> parts = lowering::getInt4Parts(columns, sums, layout);
    int64_t full = 0;
    for (int64_t n = 0; n < std::min(columns, mostColumns); ++n) {
      const lowering::Int4Part &part = n < parts.front().columns ? parts.front() : parts.back();
      for (int64_t first = 0; first < std::min(sums, mostGroups * group); first += group) {
        unsigned seen = 0; // a bit for each number
        for (int64_t k = first; k < first + group; ++k) {
          auto [at, half] = part.locate(n, k);
          auto byte = static_cast<unsigned char>(bytes[*at.constant()]);
          seen |= 1U << (*half.constant() ? byte >> 4 : byte & 15);
        }
        full += (seen & 1) && (seen >> 15);
      }
    }
    return full;
  }
};
} // namespace

/// The layout that the weights themselves tell; empty if they do not. A scale that is made from the least and the
/// greatest weight of a group gives these the numbers 0 and 15, so that nearly all groups have both; with other vectors
/// a group has numbers of several. A CPU without AVX2 puts the same columns elsewhere, which no group tells.
static StringRef findLayout(ArrayRef<torch::CallOp> products) {
  constexpr int64_t mostColumns = 128, mostGroups = 4;
  int64_t all = 0, wide = 0, narrow = 0;
  for (torch::CallOp product : products)
    if (std::optional<Weight> weight = Weight::get(product)) {
      all += std::min(weight->columns, mostColumns) *
             std::min(weight->sums / weight->group, mostGroups);
      wide += weight->countFullGroups("avx512", mostColumns, mostGroups);
      narrow += weight->countFullGroups("avx2", mostColumns, mostGroups);
    }
  if (wide == narrow || std::max(wide, narrow) * 100 < all * 99)
    return {};
  return wide > narrow ? "avx512" : "avx2";
}

void kiln::setInt4Layout(ModuleOp module, const CompileOptions &options) {
  std::string layout = options.int4Layout;
  SmallVector<torch::CallOp> products = findProducts(module);
  if (layout == "native" && !products.empty())
    if (StringRef found = findLayout(products); !found.empty())
      layout = found.str();
  if (layout == "native") {
    // PyTorch packs by the real CPU, even if `native` is something else to a test.
    llvm::StringMap<bool> has = llvm::sys::getHostCPUFeatures();
    auto hasAll = [&](ArrayRef<StringRef> sets) {
      return llvm::all_of(sets, [&](StringRef set) { return has.lookup(set); });
    };
    layout = hasAll({"avx512f", "avx512bw", "avx512dq", "avx512vl"}) ? "avx512"
             : hasAll({"avx2", "fma"})                               ? "avx2"
                                                                     : "none";
    if (!products.empty() && options.onWarning)
      options.onWarning(
          torch::describe(products.front().getLoc()) +
          ": neither the archive nor the int4 weight says on which CPU it was packed: "
          "taken to be '" +
          layout + "' as here (--int4-layout)");
  }
  if (layout != "avx512") // the default
    module->setAttr(lowering::int4LayoutAttrName, StringAttr::get(module.getContext(), layout));
}
