#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Target/CPU/CPU.h"
#include "kiln/Target/CPU/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ThreadPool.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUFOLDCONSTANTS
#include "kiln/Target/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// A constant may grow by this much, and a map without operands may be this large; beyond,
/// computing it in every run is cheaper than carrying and reading it.
constexpr int64_t maxGrowth = 2, maxFree = 64 << 10, maxIota = 1 << 20;

std::optional<int64_t> getBytes(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.hasStaticShape())
    return std::nullopt;
  return getByteSize(type);
}

bool usesSymbols(Operation *op) {
  auto hasSymbol = [](ArrayRef<sym::Expr> exprs) {
    bool found = false;
    for (sym::Expr expr : exprs)
      expr.walkLeaves([&](sym::Expr leaf) { found |= leaf.kind() == sym::Kind::Symbol; });
    return found;
  };
  WalkResult result = op->walk([&](Operation *inner) {
    for (NamedAttribute attr : inner->getAttrs()) {
      auto map = dyn_cast<sym::MapAttr>(attr.getValue());
      auto sizes = dyn_cast<sym::ShapeAttr>(attr.getValue());
      if ((map && hasSymbol(map.getResults())) || (sizes && hasSymbol(sizes.getSizes())))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return result.wasInterrupted();
}

struct FoldConstants : kiln::cpu::impl::CpuFoldConstantsBase<FoldConstants> {
  using CpuFoldConstantsBase::CpuFoldConstantsBase;

  void runOnOperation() override {
    SmallVector<MapOp> folded = choose();
    if (folded.empty())
      return;
    if (failed(evaluate(folded)))
      return signalPassFailure();
    for (MapOp map : llvm::reverse(folded))
      if (map->use_empty())
        map->erase();
    getOperation()->walk([](ConstantOp constant) {
      if (constant->use_empty())
        constant->erase();
    });
  }

  /// The maps to fold, in program order.
  SmallVector<MapOp> choose() {
    SmallVector<MapOp> chosen;
    llvm::DenseSet<Operation *> known;
    getOperation()->walk([&](MapOp map) {
      SmallVector<Value> operands = getReadTensors(map);
      int64_t bytes = 0, resultBytes = 0;
      for (Value operand : operands) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || !(isa<ConstantOp>(producer) || known.contains(producer)) ||
            producer->hasAttr(mutatedAttrName))
          return;
        bytes += getBytes(operand).value_or(0);
      }
      for (Value result : map.getResults()) {
        std::optional<int64_t> size = getBytes(result);
        if (!size)
          return;
        resultBytes += *size;
      }
      int64_t limit = operands.empty() ? (views ? maxIota : 0) : maxGrowth * bytes + maxFree;
      if (resultBytes > limit || (!views && map.getView()) || usesSymbols(map))
        return;
      known.insert(map);
      chosen.push_back(map);
    });
    return chosen;
  }

  LogicalResult evaluate(ArrayRef<MapOp> maps) {
    // Equal maps share a kernel, as after outlining.
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(getOperation().getLoc());
    llvm::StringMap<std::string> names;
    SmallVector<std::string> kernelOf;
    OpBuilder builder(kernels->getBodyRegion());
    for (MapOp map : maps) {
      builder.setInsertionPointToEnd(kernels->getBody());
      FuncOp func = createKernel(builder, map, getReadTensors(map), names.size());
      auto [entry, isNew] = names.try_emplace(getFingerprint(func), func.getSymName().str());
      kernelOf.push_back(entry->second);
      if (!isNew)
        func.erase();
    }
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(jobs));
    llvm::Expected<std::unique_ptr<cpu::KernelJit>> jit = cpu::KernelJit::create();
    if (!jit)
      return fail(jit.takeError());
    cpu::CompileOptions options;
    options.jobs = jobs;
    if (llvm::Error error = (*jit)->add(*kernels, options))
      return fail(std::move(error));

    llvm::DenseMap<Attribute, ConstantBytes> copies;
    for (auto [i, name] : llvm::enumerate(kernelOf)) {
      MapOp map = maps[i];
      llvm::Expected<cpu::KernelJit::Kernel> kernel = (*jit)->lookup(name);
      if (!kernel)
        return fail(kernel.takeError());
      SmallVector<Value> operands = getReadTensors(map);
      if (!llvm::all_of(operands, [](Value v) { return v.getDefiningOp<ConstantOp>(); }))
        continue; // an operand could not be folded
      SmallVector<void *> buffers;
      for (Value operand : operands) {
        ElementsAttr value = operand.getDefiningOp<ConstantOp>().getValue();
        auto entry = copies.find(value);
        if (entry == copies.end()) {
          std::optional<ConstantBytes> bytes = getConstantBytes(value);
          if (!bytes)
            return map.emitError("an operand's constant data is missing");
          entry = copies.try_emplace(value, std::move(*bytes)).first;
        }
        buffers.push_back(const_cast<char *>(entry->second.data().data()));
      }
      SmallVector<AsmResourceBlob> blobs;
      for (Value result : map.getResults()) {
        blobs.push_back(
            HeapAsmResourceBlob::allocate(std::max<int64_t>(*getBytes(result), 1), /*align=*/64));
        buffers.push_back(blobs.back().getMutableData().data());
      }
      // A table looked up out of range stays in the program, which reports it when it runs.
      if (llvm::Error error = (*jit)->run(*kernel, buffers, {}, &pool)) {
        llvm::consumeError(std::move(error));
        continue;
      }
      replace(map, blobs);
    }
    return success();
  }

  LogicalResult fail(llvm::Error error) {
    return getOperation().emitError("cannot evaluate constants: ")
           << llvm::toString(std::move(error));
  }

  void replace(MapOp map, MutableArrayRef<AsmResourceBlob> blobs) {
    OpBuilder builder(map);
    for (auto [result, blob] : llvm::zip_equal(map.getResults(), blobs)) {
      auto type = cast<RankedTensorType>(result.getType());
      auto value = DenseResourceElementsAttr::get(type, "folded", std::move(blob));
      auto constant = ConstantOp::create(builder, map.getLoc(), type, value, StringAttr());
      result.replaceAllUsesWith(constant);
    }
  }
};

} // namespace
