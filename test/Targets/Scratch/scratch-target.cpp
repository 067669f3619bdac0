// A target in one file, outside of Kiln's: it compiles kernel.map, one element after the other,
// prints the schedule that it gives each kernel, and refuses other ops. docs/adding-a-target.md
// explains it.
// Call: scratch-target MODEL.pt2 OUT.so ROWS; or with SCRATCH_PLUGIN, a plug-in with this target.
#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Codegen/Passes.h"
#include "kiln/Pipeline/Compile.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Pipeline/Plugin.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

namespace {

struct RowsStorage : AttributeStorage {
  using KeyTy = int64_t;
  explicit RowsStorage(int64_t rows) : rows(rows) {}
  bool operator==(KeyTy key) const { return rows == key; }
  static RowsStorage *construct(AttributeStorageAllocator &allocator, KeyTy key) {
    return new (allocator.allocate<RowsStorage>()) RowsStorage(key);
  }
  int64_t rows;
};

/// A task computes this many rows, which the first dim numbers.
class RowsAttr : public Attribute::AttrBase<RowsAttr, Attribute, RowsStorage,
                                            kernel::ScheduleAttrInterface::Trait> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RowsAttr)
  static constexpr StringLiteral name = "scratch.rows";
  using Base::Base;
  int64_t getRows() const { return getImpl()->rows; }
  bool appliesTo(Operation *root) const { return isa<kernel::MapOp>(root); }
};

class ScratchDialect : public Dialect {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ScratchDialect)
  static constexpr StringLiteral getDialectNamespace() { return "scratch"; }
  explicit ScratchDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context, TypeID::get<ScratchDialect>()) {
    addAttributes<RowsAttr>();
  }
  void printAttribute(Attribute attribute, DialectAsmPrinter &printer) const override {
    printer << "rows<" << cast<RowsAttr>(attribute).getRows() << '>';
  }
};

struct Plan : PassWrapper<Plan, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Plan)
  explicit Plan(int64_t rows) : rows(rows) {}
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<ScratchDialect>();
  }

  void runOnOperation() override {
    getOperation().walk(
        [&](kernel::FuncOp func) { failed(plan(func)) ? signalPassFailure() : void(); });
  }
  LogicalResult plan(kernel::FuncOp func) {
    Operation *root = func.getRoot();
    if (!isa<kernel::MapOp>(root))
      return root->emitError("cannot be compiled for the target scratch: no code for ")
             << root->getName();
    SmallVector<sym::Expr> extents = cast<kernel::StructuredOpInterface>(root).getExtents();
    sym::Expr grid = extents.empty() ? sym::Expr(1) : extents.front().ceilDiv(rows);
    func.setScheduleAttr(RowsAttr::get(&getContext(), rows));
    func.setLaunchAttr(kernel::LaunchAttr::get(sym::ExprAttr::get(&getContext(), grid)));
    llvm::outs() << func.getName() << ": " << func.getScheduleAttr() << '\n';
    return codegen::verifyValueTypes(root);
  }
  int64_t rows;
};

class MapEmitter {
public:
  MapEmitter(codegen::KernelFrame &frame, kernel::MapOp map)
      : frame(frame), map(map), body(frame, map.getBody()), extents(map.getExtents()) {
    body.setLanes(1);
  }

  void emit() {
    if (extents.empty())
      return emitElement();
    int64_t rows = codegen::getSchedule<RowsAttr>(frame.func).getRows();
    sym::Expr first = rows * frame.addVariable(frame.task, extents[0].ceilDiv(rows));
    emitLoop(frame.simplifyAndEmit(first),
             frame.simplifyAndEmit(sym::Expr::min(first + rows, extents[0])));
  }

  /// Over the next dim, and those inside it.
  void emitLoop(Value begin, Value end) {
    frame.emitLoop(begin, end, 1, {}, [&](Value index, ValueRange) -> SmallVector<Value> {
      codegen::BodyEmitter::Scope scope(body);
      unsigned dim = position.size();
      position.push_back(frame.addVariable(index, extents[dim]));
      body.setDim(dim, position.back());
      // Whatever does not depend on the dims inside is computed here.
      body.emitAvailable();
      if (position.size() == extents.size())
        emitElement();
      else
        emitLoop(frame.constant(0), frame.simplifyAndEmit(extents[dim + 1]));
      position.pop_back();
      return {};
    });
  }

  void emitElement() {
    sym::Expr offset = frame.assumptions.simplify(sym::linearize(position, extents));
    for (auto [i, value] : llvm::enumerate(body.emitYield())) {
      Type element = cast<RankedTensorType>(map.getResult(i).getType()).getElementType();
      body.store(frame.resultBuffer(i), element, offset, value);
    }
  }

  codegen::KernelFrame &frame;
  kernel::MapOp map;
  codegen::BodyEmitter body;
  SmallVector<sym::Expr> extents, position;
};

struct Options : PassPipelineOptions<Options> {
  Option<int64_t> rows{*this, "rows", llvm::cl::desc("rows of a task"), llvm::cl::init(1)};
};

class ScratchTarget : public Target {
public:
  ScratchTarget(int64_t rows, codegen::CPUInfo host)
      : Target("scratch", std::move(host)), rows(rows) {}

  void buildPrepareKernels(OpPassManager &) const override {}
  void buildScheduleKernels(OpPassManager &pm) const override {
    pm.addPass(std::make_unique<Plan>(rows));
  }

  llvm::Expected<Objects> compileKernels(ModuleOp module,
                                         const CodeOptions &options) const override {
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
    (*kernels)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
    for (auto func : module.getOps<kernel::FuncOp>())
      kernels->push_back(func.clone());
    PassManager pm(module.getContext());
    pm.addNestedPass<LLVM::LLVMFuncOp>(codegen::createCodegenExpandMath());
    pm.addNestedPass<LLVM::LLVMFuncOp>(createCSEPass());
    pm.addNestedPass<LLVM::LLVMFuncOp>(codegen::createCodegenConvertToLLVM());
    pm.addNestedPass<LLVM::LLVMFuncOp>(codegen::createCodegenExpandSmallFloats());
    auto emit = [&](kernel::FuncOp func, LLVM::LLVMFuncOp &function) -> LogicalResult {
      codegen::KernelFrame frame(func, getHost());
      function = frame.function;
      MapEmitter(frame, cast<kernel::MapOp>(func.getRoot())).emit();
      frame.emitFailures();
      LLVM::ReturnOp::create(frame.builder, frame.loc, ValueRange());
      return success();
    };
    if (failed(codegen::replaceKernels(*kernels, emit)) || failed(pm.run(*kernels)))
      return llvm::createStringError("cannot lower the kernels");
    Objects objects(1);
    llvm::Error error =
        codegen::compileToObject(*kernels, getHost(), options.object).moveInto(objects[0]);
    return error ? llvm::Expected<Objects>(std::move(error)) : std::move(objects);
  }

  int64_t rows;
};

TargetRegistration makeRegistration() {
  TargetRegistration target;
  target.name = "scratch";
  target.summary = "one element after the other";
  target.create = [](StringRef text, auto host) -> llvm::Expected<std::unique_ptr<Target>> {
    auto options = parseTargetOptions<Options>(text);
    if (!options)
      return options.takeError();
    return std::make_unique<ScratchTarget>((*options)->rows, std::move(host));
  };
  target.registerDialects = [](DialectRegistry &registry) { registry.insert<ScratchDialect>(); };
  return target;
}

} // namespace

#ifdef SCRATCH_PLUGIN
KILN_PLUGIN("scratch", [](PluginRegistry &registry) { registry.addTarget(makeRegistration()); })
#else
int main(int, char **argv) {
  registerTargets();
  registerTarget(makeRegistration());
  CompileOptions options;
  options.input = argv[1];
  options.output = argv[2];
  options.target = "scratch{rows=" + std::string(argv[3]) + "}";
  llvm::Error error = compile(options);
  bool failed = static_cast<bool>(error);
  llvm::logAllUnhandledErrors(std::move(error), llvm::errs());
  return failed;
}
#endif // SCRATCH_PLUGIN
