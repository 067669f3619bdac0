// Writes planned kernels as a library of steps that aot-tune measures.
#include "KernelSet.h"
#include "kiln/Codegen/CPUFeatures.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Host/Passes.h"
#include "kiln/Host/Steps.h"
#include "kiln/Link/Link.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::tuning;

/// The instruction sets of a CPU.
static std::vector<std::string> getFeatures(const codegen::CPUInfo &host) {
  std::vector<std::string> features;
  if (host.name == "native") {
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      if (feature.second)
        features.push_back(feature.first().str());
  } else {
    SmallVector<StringRef> names;
    llvm::X86::getFeaturesForCPU(host.cpu, names);
    for (StringRef name : names)
      features.push_back(name.str());
  }
  llvm::sort(features);
  return features;
}

namespace {
/// Candidates may well be refused: nobody has to know.
class Silence {
public:
  explicit Silence(MLIRContext *context)
      : handler(context, [](Diagnostic &) { return success(); }) {}

private:
  ScopedDiagnosticHandler handler;
};
} // namespace

Bundler::Bundler(ModuleOp module, const Target &target, StringRef compiler, const Options &options,
                 const codegen::ObjectOptions &code)
    : module(module), target(target), compiler(compiler), options(options), code(code) {}

OwningOpRef<ModuleOp> Bundler::plan(kernel::FuncOp func, kernel::ScheduleAttrInterface schedule) {
  OwningOpRef<ModuleOp> planned = ModuleOp::create(module.getLoc());
  (*planned)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
  OpBuilder builder(planned->getBodyRegion());
  auto copy = cast<kernel::FuncOp>(builder.clone(*func));
  target.setTunedSchedule(copy, schedule);
  copy.removeLaunchAttr();
  Silence silence(module.getContext());
  PassManager pm(module.getContext());
  target.buildScheduleKernels(pm);
  if (failed(pm.run(*planned)) || getSchedule(copy) != schedule)
    return {};
  return planned;
}

void Bundler::setSchedule(kernel::FuncOp func, kernel::ScheduleAttrInterface schedule) {
  OwningOpRef<ModuleOp> planned = plan(func, schedule);
  target.setTunedSchedule(func, schedule);
  func.setLaunchAttr((*planned->getOps<kernel::FuncOp>().begin()).getLaunchAttr());
}

/// A program that launches each candidate once, on memory that nobody ever gives it.
OwningOpRef<ModuleOp> Bundler::makeProgram(ArrayRef<Entry> entries, Manifest &manifest) {
  MLIRContext *context = module.getContext();
  OwningOpRef<ModuleOp> made = ModuleOp::create(module.getLoc());
  (*made)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
  OpBuilder builder(made->getBodyRegion());
  auto source = *module.getOps<wrapper::ProgramOp>().begin();
  // The symbols are inputs, so that sizes can be made from them.
  DictionaryAttr symbols = source.getSymbolsAttr();
  auto number = wrapper::BufferType::getContiguous({}, builder.getI64Type());
  SmallVector<Type> inputs;
  SmallVector<DictionaryAttr> attrs;
  for (NamedAttribute symbol : symbols ? symbols.getValue() : ArrayRef<NamedAttribute>()) {
    auto expr = sym::ExprAttr::get(context, sym::Expr::symbol(symbol.getName()));
    inputs.push_back(number);
    attrs.push_back(
        builder.getDictionaryAttr({builder.getNamedAttr(wrapper::nameAttrName, symbol.getName()),
                                   builder.getNamedAttr(wrapper::valueAttrName, expr)}));
  }
  auto program = wrapper::ProgramOp::create(builder, module.getLoc(), "main",
                                            builder.getFunctionType(inputs, {}), attrs,
                                            ArrayRef<DictionaryAttr>(), symbols);
  program.setArenaBytesAttr(sym::ExprAttr::get(context, 0));
  for (const Entry &entry : entries) {
    Kernel &kernel = manifest.kernels.emplace_back();
    kernel.name = kernel::FuncOp(entry.kernel->func).getSymName().str();
    kernel.key = entry.kernel->key;
    kernel.buffers = entry.kernel->buffers;
    for (auto [i, candidate] : llvm::enumerate(entry.candidates)) {
      builder.setInsertionPointToEnd(made->getBody());
      auto copy = cast<kernel::FuncOp>(builder.clone(*candidate));
      // PTX has no names with points.
      copy.setSymName(
          (kernel.name + "_" + Twine(manifest.kernels.size() - 1) + "_" + Twine(i)).str());
      std::string schedule;
      llvm::raw_string_ostream(schedule) << getSchedule(copy);
      kernel.candidates.push_back({schedule, copy.getSymName().str(), {}});
      builder.setInsertionPointToEnd(&program.getBody().front());
      auto allocate = [&](TypeRange types) {
        SmallVector<Value> buffers;
        for (Type type : types)
          buffers.push_back(wrapper::AllocOp::create(
              builder, copy.getLoc(), wrapper::BufferType::get(cast<RankedTensorType>(type))));
        return buffers;
      };
      SmallVector<Value> ins = allocate(copy.getArgumentTypes()),
                         outs = allocate(copy.getResultTypes());
      wrapper::LaunchOp::create(builder, copy.getLoc(), copy.getSymName(), ins, outs);
    }
  }
  builder.setInsertionPointToStart(&program.getBody().front());
  for (auto [input, attr] : llvm::zip_equal(program.getArguments(), attrs)) {
    auto name = cast<StringAttr>(attr.get(wrapper::nameAttrName));
    wrapper::BindOp::create(builder, module.getLoc(), name, input, IntegerAttr(), IntegerAttr(),
                            cast<sym::ExprAttr>(attr.get(wrapper::valueAttrName)));
  }
  return made;
}

llvm::Error Bundler::write(ArrayRef<Entry> entries, StringRef path, std::vector<int64_t> sequence) {
  MLIRContext *context = module.getContext();
  Manifest manifest;
  manifest.compiler = compiler;
  manifest.target = describeTarget(target);
  manifest.features = getFeatures(target.getHost());
  manifest.architecture = target.getArchitecture();
  manifest.threads = options.threads;
  manifest.weightBytes = getWeightBytes(module);
  OwningOpRef<ModuleOp> made = makeProgram(entries, manifest);
  manifest.sequence = std::move(sequence);
  std::string message;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && message.empty())
      message = diagnostic.str();
    return success();
  });
  auto run = [&](std::unique_ptr<Pass> pass) {
    PassManager pm(context);
    pm.addPass(std::move(pass));
    return pm.run(*made);
  };
  auto fail = [&] { return llvm::createStringError("cannot write a tuning bundle: " + message); };
  if (failed(run(host::createWrapperMaterializeSizes())))
    return fail();
  // As many values as there are symbols, in the order of each step.
  host::Steps steps(*made);
  llvm::StringMap<const host::Step *> byName;
  for (const host::Step &step : steps.get())
    byName[step.name] = &step;
  for (auto [kernel, entry] : llvm::zip_equal(manifest.kernels, entries))
    for (Candidate &candidate : kernel.candidates)
      for (sym::Expr symbol : byName.lookup(candidate.step)->symbols)
        candidate.symbols.push_back(entry.kernel->symbols.lookup(symbol.symbolName()));

  CodeOptions options;
  options.object = code;
  llvm::Expected<Target::Objects> objects = target.compileKernels(*made, options);
  if (!objects)
    return objects.takeError();
  if (failed(run(host::createWrapperLowerToLLVM(
          {"tuning", target.getName().str(), compiler, target.hasDevice(),
           /*externalWeights=*/false,
           /*weightsHash=*/0, /*debugLevel=*/0, llvm::SmallVector<std::string>(),
           /*stepsAlone=*/true, /*stepsHash=*/0, target.getHost().cpu,
           codegen::getCodeFeatures(target.getHost(), target.usesTiles(*made))}))))
    return fail();
  auto host = codegen::compileToObject(*made, target.getHost(), code);
  if (!host)
    return host.takeError();
  objects->push_back(std::move(*host));
  std::vector<llvm::MemoryBufferRef> references;
  for (const std::unique_ptr<llvm::MemoryBuffer> &object : *objects)
    references.push_back(object->getMemBufferRef());
  LinkOptions link;
  link.objects = references;
  link.exportSteps = true;
  link.output = path.str();
  if (llvm::Error error = linkSharedObject(link))
    return error;
  return appendManifest(path, manifest);
}
