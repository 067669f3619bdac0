// Finds the kernels of a program and the sizes to measure them at.
#include "KernelSet.h"
#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Sym/Hints.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Host/ModelInfo.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::tuning;

/// To be raised when the same key would stand for something else: what candidates there are, or how
/// they are timed.
static constexpr unsigned spaceVersion = 3;

void tuning::sayOf(kernel::FuncOp func, StringRef name, StringRef text, StringRef reason) {
  emitRemark(name == "Tuned" ? RemarkKind::Chosen : RemarkKind::NotDone, func.getRoot(), "autotune",
             name, [&] { return RemarkText{text.str(), reason.str()}; });
}

std::string tuning::describeTarget(const Target &target) {
  const codegen::CPUInfo &host = target.getHost();
  std::string text = target.getName().str() + " ";
  if (target.hasDevice())
    text += (target.getArchitecture() + " on ").str();
  text += host.cpu;
  if (!host.tuning.empty())
    text += " " + host.tuning;
  return text;
}

int64_t tuning::getWeightBytes(ModuleOp module) {
  int64_t bytes = 0;
  module.walk([&](wrapper::ConstantOp constant) {
    if (constant.getOffset())
      bytes += cast<wrapper::BufferType>(constant.getType()).getBytes().constant().value_or(0);
  });
  return bytes;
}

namespace {

class KernelFinder {
public:
  KernelFinder(ModuleOp module, const Target &target, StringRef compiler, const Options &options,
               size_t point)
      : module(module), options(options), point(point) {
    auto program = *module.getOps<wrapper::ProgramOp>().begin();
    if (DictionaryAttr table = program.getSymbolsAttr())
      symbols = table;
    module.walk([&](wrapper::HostFunctionOpInterface function) {
      definedByData.insert_range(wrapper::getDefinedSymbols(function));
    });
    const codegen::CPUInfo &host = target.getHost();
    llvm::raw_string_ostream stream(context);
    stream << "space " << spaceVersion << ", " << compiler << ", LLVM " << LLVM_VERSION_STRING
           << "\n"
           << describeTarget(target) << " " << host.features << "\n";
    for (NamedAttribute attr : module->getDiscardableAttrs())
      if (attr.getName().getValue().ends_with(".target"))
        stream << attr.getValue() << "\n";
  }

  std::vector<TunedKernel> find() {
    llvm::MapVector<Operation *, std::pair<wrapper::LaunchOp, SmallVector<unsigned>>> launches;
    unsigned place = 0;
    module.walk([&](wrapper::LaunchOp launch) {
      Operation *kernel =
          SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(launch, launch.getKernelAttr());
      if (kernel::isGroup(cast<kernel::FuncOp>(kernel)))
        return; // whose parts have to fit each other
      auto &[first, places] = launches[kernel];
      first = places.empty() ? launch : first;
      places.push_back(place++);
    });
    std::vector<TunedKernel> kernels;
    for (auto &[kernel, launch] : launches) {
      TunedKernel &found = kernels.emplace_back();
      found.func = cast<kernel::FuncOp>(kernel);
      found.launches = launch.second.size();
      found.places = launch.second;
      if (!findSizes(found) || !findBuffers(found, launch.first))
        kernels.pop_back();
      else
        found.key = makeKey(found);
    }
    return kernels;
  }

private:
  /// The values of the kernel's symbols; false: there are none.
  bool findSizes(TunedKernel &kernel) {
    sym::SymbolCollector used;
    used.add(kernel.func);
    for (sym::Expr symbol : used.symbols) {
      StringRef name = symbol.symbolName();
      if (definedByData.contains(symbol)) {
        refuse(kernel, ("data gives the size " + name + ", which nothing is known of").str());
        return false;
      }
      std::optional<int64_t> value = getSize(name);
      if (!value) {
        refuse(kernel, ("nothing says what the size " + name + " is (--autotune-size)").str());
        return false;
      }
      kernel.symbols[name] = *value;
    }
    return true;
  }

  /// As it is given, or as it was in the exported example.
  std::optional<int64_t> getSize(StringRef symbol) const {
    if (auto given = options.sizes.find(symbol); given != options.sizes.end())
      return given->second[std::min(point, given->second.size() - 1)];
    auto hints = module->getAttrOfType<DictionaryAttr>(sym::hintsAttrName);
    auto hint = hints ? hints.getAs<IntegerAttr>(symbol) : IntegerAttr();
    return hint ? std::optional(hint.getInt()) : std::nullopt;
  }

  void refuse(const TunedKernel &kernel, const std::string &reason) {
    kernel::FuncOp func = kernel.func;
    if (options.onWarning && point == 0)
      options.onWarning(("--autotune: kernel @" + func.getSymName() + " of " +
                         sym::describe(func.getRoot()->getLoc()) +
                         " keeps the schedule that was reckoned: " + reason)
                            .str());
  }

  bool findBuffers(TunedKernel &kernel, wrapper::LaunchOp launch) {
    kernel::FuncOp func = kernel.func;
    auto add = [&](Type type, Value buffer, bool isResult) {
      auto tensor = cast<RankedTensorType>(type);
      host::ElementCode element = host::describeElement(tensor.getElementType());
      Buffer made{element.code, element.bits, {}, isResult, false};
      made.isConstant = wrapper::getStorage(buffer).getDefiningOp<wrapper::ConstantOp>() != nullptr;
      for (sym::Expr size : sym::getShape(tensor))
        made.sizes.push_back(evaluate(kernel, size).value_or(-1));
      kernel.buffers.push_back(std::move(made));
    };
    for (auto [type, buffer] : llvm::zip_equal(func.getArgumentTypes(), launch.getIns()))
      add(type, buffer, false);
    for (auto [type, buffer] : llvm::zip_equal(func.getResultTypes(), launch.getOuts()))
      add(type, buffer, true);
    for (const Buffer &buffer : kernel.buffers)
      if (!buffer.getBytes()) {
        sayOf(func, "NotTuned", "not tuned", "a tensor would have an impossible size");
        return false;
      }
    return true;
  }

  static std::optional<int64_t> evaluate(const TunedKernel &kernel, sym::Expr size) {
    return size.evaluate([&](sym::Expr leaf) { return kernel.symbols.lookup(leaf.symbolName()); });
  }

  std::string makeKey(TunedKernel &kernel) {
    std::string text = context;
    llvm::raw_string_ostream stream(text);
    for (const Buffer &buffer : kernel.buffers)
      stream << (buffer.isConstant ? "w" : "t");
    sym::SymbolCollector used;
    used.add(kernel.func);
    for (sym::Expr symbol : used.symbols) {
      StringRef name = symbol.symbolName();
      stream << "\n" << name << " = " << kernel.symbols.lookup(name);
      if (symbols)
        stream << " of " << symbols.get(name);
    }
    stream << "\n" << kernel::getFingerprint(kernel.func);
    return llvm::toHex(llvm::BLAKE3::hash<16>(llvm::arrayRefFromStringRef(text)),
                       /*LowerCase=*/true);
  }

  ModuleOp module;
  const Options &options;
  size_t point;
  DictionaryAttr symbols;
  llvm::DenseSet<sym::Expr> definedByData;
  /// Everything that results depend on besides the kernel.
  std::string context;
};

} // namespace

std::vector<TunedKernel> tuning::findKernels(ModuleOp module, const Target &target,
                                             StringRef compiler, const Options &options,
                                             size_t point) {
  return KernelFinder(module, target, compiler, options, point).find();
}
