#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
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

/// The bytes of constants. Those of one value are looked up, or copied, once.
class ConstantData {
public:
  /// Nullopt: the module lacks them. (Of a constant without elements the address may be null.)
  std::optional<void *> find(ElementsAttr value) {
    auto entry = known.find(value);
    if (entry == known.end()) {
      std::optional<ConstantBytes> bytes = getConstantBytes(value);
      if (!bytes)
        return std::nullopt;
      entry = known.try_emplace(value, std::move(*bytes)).first;
    }
    return const_cast<char *>(entry->second.data().data()); // kernels do not write operands
  }

private:
  llvm::DenseMap<Attribute, ConstantBytes> known;
};

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
    // Users first: a constant may be all that uses another.
    SmallVector<ConstantOp> constants;
    getOperation()->walk([&](ConstantOp constant) { constants.push_back(constant); });
    for (ConstantOp constant : llvm::reverse(constants))
      if (constant->use_empty())
        constant->erase();
  }

  /// The maps to fold, in program order.
  SmallVector<MapOp> choose() {
    SmallVector<MapOp> chosen;
    llvm::DenseSet<Operation *> known;
    auto consider = [&](MapOp map) {
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
    };
    for (Operation &op : *getOperation().getBody())
      if (!isa<FuncOp>(op)) // the kernels of an earlier fold
        op.walk(consider);
    return chosen;
  }

  /// The kernel of each map, in `kernels`. Equal maps share one, as after outlining.
  SmallVector<FuncOp> createKernels(ArrayRef<MapOp> maps, ModuleOp kernels,
                                    const SymbolTable &symbols) {
    llvm::StringMap<FuncOp> known;
    SmallVector<FuncOp> kernelOf;
    OpBuilder builder(kernels.getBodyRegion());
    unsigned number = 0;
    for (MapOp map : maps) {
      builder.setInsertionPointToEnd(kernels.getBody());
      FuncOp func = createKernel(builder, map, getReadTensors(map), 0);
      auto [entry, isNew] = known.try_emplace(getFingerprint(func), func);
      kernelOf.push_back(entry->second);
      if (!isNew) {
        func.erase();
        continue;
      }
      std::string name;
      do
        name = ("fold_" + Twine(number++)).str();
      while (symbols.lookup(name));
      func.setSymName(name);
    }
    return kernelOf;
  }

  LogicalResult evaluate(ArrayRef<MapOp> maps) {
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(getOperation().getLoc());
    SymbolTable symbols(getOperation());
    SmallVector<FuncOp> kernelOf = createKernels(maps, *kernels, symbols);
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(jobs));
    llvm::Expected<std::unique_ptr<cpu::KernelJit>> jit = cpu::KernelJit::create();
    if (!jit)
      return fail(jit.takeError());
    cpu::CompileOptions options;
    options.jobs = jobs;
    if (llvm::Error error = (*jit)->add(*kernels, options))
      return fail(std::move(error));

    ConstantData data;
    torch::StateNames state(getOperation());
    for (auto [map, func] : llvm::zip_equal(maps, kernelOf)) {
      llvm::Expected<cpu::KernelJit::Kernel> kernel = (*jit)->lookup(func.getSymName());
      if (!kernel)
        return fail(kernel.takeError());
      SmallVector<Value> operands = getReadTensors(map);
      if (!llvm::all_of(operands, [](Value v) { return v.getDefiningOp<ConstantOp>(); }))
        continue; // an operand could not be folded
      SmallVector<void *> buffers;
      for (Value operand : operands) {
        std::optional<void *> bytes = data.find(operand.getDefiningOp<ConstantOp>().getValue());
        if (!bytes)
          return MapOp(map).emitError("an operand's constant data is missing");
        buffers.push_back(*bytes);
      }
      SmallVector<AsmResourceBlob> blobs;
      for (Value result : MapOp(map).getResults()) {
        blobs.push_back(
            HeapAsmResourceBlob::allocate(std::max<int64_t>(*getBytes(result), 1), /*align=*/64));
        buffers.push_back(blobs.back().getMutableData().data());
      }
      // A table looked up out of range stays in the program, which reports it when it runs.
      if (llvm::Error error = (*jit)->run(*kernel, buffers, {}, &pool)) {
        llvm::consumeError(std::move(error));
        continue;
      }
      bool canChange = llvm::any_of(operands, [&](Value operand) {
        auto constant = operand.getDefiningOp<ConstantOp>();
        return constant.getKernel() || state.contains(constant.getName());
      });
      if (canChange && !symbols.lookup(func.getSymName()))
        symbols.insert(func.clone());
      replace(map, blobs, canChange ? func.getSymNameAttr() : StringAttr(), operands);
    }
    return success();
  }

  LogicalResult fail(llvm::Error error) {
    return getOperation().emitError("cannot evaluate constants: ")
           << llvm::toString(std::move(error));
  }

  /// `kernel` is null if nothing that the constants are computed from can be replaced.
  void replace(MapOp map, MutableArrayRef<AsmResourceBlob> blobs, StringAttr kernel,
               ValueRange sources) {
    OpBuilder builder(map);
    for (auto [i, result, blob] : llvm::enumerate(map.getResults(), blobs)) {
      auto type = cast<RankedTensorType>(result.getType());
      auto value = DenseResourceElementsAttr::get(type, "folded", std::move(blob));
      auto constant = kernel ? ConstantOp::create(builder, map.getLoc(), type, value, StringAttr(),
                                                  FlatSymbolRefAttr::get(kernel),
                                                  builder.getI64IntegerAttr(i), sources)
                             : ConstantOp::create(builder, map.getLoc(), type, value, StringAttr());
      result.replaceAllUsesWith(constant);
    }
  }
};

} // namespace
