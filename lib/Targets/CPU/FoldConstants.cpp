// Runs the maps of constants when the model is compiled, each once however often it stands there.
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Targets/CPU/CPU.h"
#include "kiln/Targets/CPU/FoldCache.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ThreadPool.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUFOLDCONSTANTS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using cpu::FoldCache;

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

/// The results of a kernel of constants, and the ops that hold them, by the graph they are in.
struct Results {
  SmallVector<ElementsAttr> values;
  /// Null if nothing that they are computed from can be replaced.
  StringAttr kernel;
  llvm::DenseMap<Block *, SmallVector<ConstantOp>> constants;
};

struct FoldConstants : kiln::cpu::impl::CpuFoldConstantsBase<FoldConstants> {
  using CpuFoldConstantsBase::CpuFoldConstantsBase;

  void runOnOperation() override {
    SmallVector<MapOp> folded = choose();
    if (!folded.empty()) {
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
    eraseUncalled();
  }

  /// Erases the kernels of folds, earlier ones above all, whose results nothing reads any more.
  void eraseUncalled() {
    SymbolTableCollection tables;
    SymbolUserMap users(tables, getOperation());
    for (FuncOp kernel : llvm::make_early_inc_range(getOperation().getOps<FuncOp>()))
      if (users.useEmpty(kernel))
        kernel.erase();
  }

  /// The maps to fold, in program order.
  SmallVector<MapOp> choose() {
    SmallVector<MapOp> chosen;
    llvm::DenseSet<Operation *> known;
    auto consider = [&](MapOp map) {
      SmallVector<Value> operands = getReadTensors(map);
      for (Value operand : operands) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || !(isa<ConstantOp>(producer) || known.contains(producer)))
          return; // it is not a map of constants
      }
      if (const char *reason = whyNot(map, operands)) {
        // The last run leaves the others to every run of the program.
        if (views && !map.getView())
          emitRemark(RemarkKind::NotDone, map, getArgument(), "NotFolded",
                     [&] { return RemarkText{"computed of constants in every run", reason}; });
        return;
      }
      known.insert(map);
      chosen.push_back(map);
    };
    for (Operation &op : *getOperation().getBody())
      if (!isa<FuncOp>(op)) // the kernels of an earlier fold
        op.walk(consider);
    return chosen;
  }

  /// Null if this map of constants is to be computed now.
  const char *whyNot(MapOp map, ArrayRef<Value> operands) {
    int64_t bytes = 0, resultBytes = 0;
    for (Value operand : operands) {
      if (operand.getDefiningOp()->hasAttr(mutatedAttrName))
        return "the program writes a buffer that it reads";
      bytes += getBytes(operand).value_or(0);
    }
    for (Value result : map.getResults()) {
      std::optional<int64_t> size = getBytes(result);
      if (!size)
        return "its size is known in a run only";
      resultBytes += *size;
    }
    if (!views && map.getView())
      return "it is a view";
    if (usesSymbols(map))
      return "it computes with a size that is known in a run only";
    int64_t limit = operands.empty() ? (views ? maxIota : 0) : maxGrowth * bytes + maxFree;
    if (resultBytes > limit && !map->hasAttr(cpu::foldedAttrName))
      return "it is much larger than what it is computed of, which takes less time to read";
    return nullptr;
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
    torch::StateNames state(getOperation());
    llvm::DenseSet<Operation *> later = takeLater(maps, kernelOf, state, symbols);

    // By kernel and operands: what is computed again, here or in another graph, is the same.
    DenseMap<Attribute, Results> known;
    auto keep = [&](MapOp map, FuncOp func, Results &results) {
      bool isReplaceable = llvm::any_of(getReadTensors(map), [&](Value tensor) {
        auto operand = tensor.getDefiningOp<ConstantOp>();
        return operand.getKernel() || state.contains(operand.getName());
      });
      if (isReplaceable && !results.kernel) {
        results.kernel = func.getSymNameAttr();
        if (!symbols.lookup(func.getSymName()))
          symbols.insert(func.clone());
      }
      replace(map, results);
    };
    // Other programs may have computed it: kernels are compiled for the rest alone.
    SmallVector<std::pair<MapOp, FuncOp>> rest;
    OwningOpRef<ModuleOp> needed = ModuleOp::create(getOperation().getLoc());
    for (auto [map, kernel] : llvm::zip_equal(maps, kernelOf)) {
      FuncOp func = kernel;
      std::optional<SmallVector<ConstantOp>> operands = getOperands(map);
      FoldCache::Values *values =
          operands && cache && !later.contains(map) ? &getCached(func, *operands) : nullptr;
      if (values && !values->empty()) {
        Results &results = known[identify(func, *operands)];
        results.values = *values;
        keep(map, func, results);
        continue;
      }
      rest.push_back({map, func});
      if (!later.contains(map) && func->getParentOp() != *needed)
        func->moveBefore(needed->getBody(), needed->getBody()->end());
    }
    if (rest.empty())
      return success();
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(jobs));
    FailureOr<std::unique_ptr<cpu::KernelJit>> jit = compile(*needed);
    if (failed(jit))
      return failure();

    ConstantData data;
    for (auto [map, func] : rest) {
      std::optional<SmallVector<ConstantOp>> operands = getOperands(map);
      if (!operands)
        continue; // one of them could not be folded
      Results &results = known[identify(func, *operands)];
      if (!results.values.empty()) {
        replace(map, results);
        continue;
      }
      if (later.contains(map)) {
        for (Value result : MapOp(map).getResults())
          results.values.push_back(
              makeLaterConstant(cast<RankedTensorType>(result.getType()), "folded"));
        results.kernel = func.getSymNameAttr();
        replace(map, results);
        continue;
      }
      llvm::Expected<cpu::KernelJit::Kernel> kernel = (*jit)->lookup(func.getSymName());
      if (!kernel)
        return fail(kernel.takeError());
      SmallVector<AsmResourceBlob> blobs;
      SmallVector<void *> buffers;
      if (failed(allocate(map, *operands, data, blobs, buffers)))
        return failure();
      // A table looked up out of range stays in the program, which reports it when it runs.
      if (llvm::Error error = (*jit)->run(*kernel, buffers, {}, &pool)) {
        std::string reason = llvm::toString(std::move(error));
        emitRemark(RemarkKind::NotDone, map, getArgument(), "NotFolded",
                   [&] { return RemarkText{"computed of constants in every run", reason}; });
        continue;
      }
      for (auto [result, blob] : llvm::zip_equal(MapOp(map).getResults(), blobs))
        results.values.push_back(DenseResourceElementsAttr::get(
            cast<RankedTensorType>(result.getType()), "folded", std::move(blob)));
      if (cache)
        getCached(func, *operands) = results.values;
      keep(map, func, results);
    }
    return success();
  }

  /// The constants that a map reads; nothing if one of its operands is none.
  static std::optional<SmallVector<ConstantOp>> getOperands(MapOp map) {
    SmallVector<ConstantOp> operands;
    for (Value operand : getReadTensors(map))
      operands.push_back(operand.getDefiningOp<ConstantOp>());
    if (llvm::is_contained(operands, nullptr))
      return std::nullopt;
    return operands;
  }

  FoldCache::Values &getCached(FuncOp func, ArrayRef<ConstantOp> operands) {
    SmallVector<Attribute> values;
    for (ConstantOp operand : operands)
      values.push_back(operand.getValue());
    return cache->get(getFingerprint(func), ArrayAttr::get(&getContext(), values));
  }

  /// The maps of constants that the host gives later, which only the library's own kernels compute:
  /// those are moved there.
  static llvm::DenseSet<Operation *> takeLater(ArrayRef<MapOp> maps, ArrayRef<FuncOp> kernelOf,
                                               const torch::StateNames &state,
                                               SymbolTable &symbols) {
    llvm::DenseSet<Operation *> later, now;
    for (auto [map, func] : llvm::zip_equal(maps, kernelOf)) {
      bool isLater = llvm::any_of(getReadTensors(map), [&](Value operand) {
        auto constant = operand.getDefiningOp<ConstantOp>();
        if (!constant)
          return later.contains(operand.getDefiningOp());
        return !hasConstantBytes(constant.getValue()) &&
               (constant.getKernel() || state.contains(constant.getName()));
      });
      if (isLater)
        later.insert(map);
      else
        now.insert(func);
    }
    for (auto [map, kernel] : llvm::zip_equal(maps, kernelOf)) {
      FuncOp func = kernel;
      if (!later.contains(map) || symbols.lookup(func.getSymName()))
        continue;
      FuncOp moved = now.contains(func) ? func.clone() : func;
      moved->remove();
      symbols.insert(moved);
    }
    return later;
  }

  FailureOr<std::unique_ptr<cpu::KernelJit>> compile(ModuleOp kernels) {
    FailureOr<codegen::CPUInfo> target = cpu::getTarget(getOperation());
    if (failed(target))
      return failure();
    if (Attribute given = getOperation()->getAttr(cpu::targetAttrName))
      kernels->setAttr(cpu::targetAttrName, given);
    llvm::Expected<std::unique_ptr<cpu::KernelJit>> jit = cpu::KernelJit::create(target->name);
    if (!jit)
      return fail(jit.takeError());
    codegen::ObjectOptions options;
    options.jobs = jobs;
    if (!kernels.getBody()->empty())
      if (llvm::Error error = (*jit)->add(kernels, options))
        return fail(std::move(error));
    return std::move(*jit);
  }

  /// The addresses of the operands, and of memory for the results.
  static LogicalResult allocate(MapOp map, ArrayRef<ConstantOp> operands, ConstantData &data,
                                SmallVectorImpl<AsmResourceBlob> &blobs,
                                SmallVectorImpl<void *> &buffers) {
    for (ConstantOp operand : operands) {
      std::optional<void *> bytes = data.find(operand.getValue());
      if (!bytes)
        return map.emitError("an operand's constant data is missing");
      buffers.push_back(*bytes);
    }
    for (Value result : map.getResults()) {
      blobs.push_back(
          HeapAsmResourceBlob::allocate(std::max<int64_t>(*getBytes(result), 1), /*align=*/64));
      buffers.push_back(blobs.back().getMutableData().data());
    }
    return success();
  }

  static Attribute identify(FuncOp func, ArrayRef<ConstantOp> operands) {
    SmallVector<Attribute> call = {func.getSymNameAttr()};
    for (ConstantOp operand : operands)
      call.push_back(identify(operand));
    return ArrayAttr::get(func.getContext(), call);
  }

  /// Equal for constants that stay equal whatever is replaced.
  static Attribute identify(ConstantOp constant) {
    MLIRContext *context = constant.getContext();
    SmallVector<Attribute> parts;
    if (constant.getKernel()) {
      parts = {constant.getKernelAttr(), constant.getOutputAttr()};
      for (Value source : constant.getSources())
        parts.push_back(identify(source.getDefiningOp<ConstantOp>()));
    } else {
      parts = {constant.getValue()};
      if (constant.getName())
        parts.push_back(constant.getNameAttr());
    }
    return ArrayAttr::get(context, parts);
  }

  LogicalResult fail(llvm::Error error) {
    return getOperation().emitError("cannot evaluate constants: ")
           << llvm::toString(std::move(error));
  }

  /// Constants in place of `map`. Those of its graph are shared.
  static void replace(MapOp map, Results &results) {
    SmallVector<ConstantOp> &constants = results.constants[map->getBlock()];
    if (constants.empty()) {
      OpBuilder builder(map);
      SmallVector<Value> sources = getReadTensors(map);
      for (auto [i, value] : llvm::enumerate(results.values))
        constants.push_back(
            results.kernel
                ? ConstantOp::create(builder, map.getLoc(), value.getType(), value, StringAttr(),
                                     FlatSymbolRefAttr::get(results.kernel),
                                     builder.getI64IntegerAttr(i), sources)
                : ConstantOp::create(builder, map.getLoc(), value.getType(), value, StringAttr()));
    }
    for (auto [result, constant] : llvm::zip_equal(map.getResults(), constants))
      result.replaceAllUsesWith(constant);
  }

public:
  FoldCache *cache = nullptr; // null: there is none
};

} // namespace

std::unique_ptr<Pass> cpu::createCpuFoldConstants(const CpuFoldConstantsOptions &options,
                                                  FoldCache *cache) {
  auto pass = std::make_unique<FoldConstants>(options);
  pass->cache = cache;
  return pass;
}
