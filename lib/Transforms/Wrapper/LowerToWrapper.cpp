#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELLOWERTOWRAPPER
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

/// The type of the buffer for result `i` of `main`: its recorded strides, or row-major.
Type getOutputType(func::FuncOp main, unsigned i) {
  auto tensor = dyn_cast<RankedTensorType>(main.getResultTypes()[i]);
  if (!tensor)
    return NoneType::get(main.getContext());
  auto contiguous = BufferType::get(tensor);
  auto strides = main.getResultAttrOfType<sym::ShapeAttr>(i, torch::stridesAttrName);
  if (!strides)
    return contiguous;
  auto recorded = BufferType::get(main.getContext(), contiguous.getSizes(), strides.getSizes(),
                                  tensor.getElementType());
  // Strides of dimensions of size 1 are arbitrary: one form for what is the same.
  return recorded.isContiguous() ? contiguous : recorded;
}

class Lowering {
public:
  explicit Lowering(func::FuncOp main) : main(main), builder(main) {
    kernel::addSymbolRanges(main, known);
  }

  LogicalResult run() {
    if (failed(checkSignature()) || failed(createProgram()))
      return failure();
    assertGuards();
    claimOutputs();
    for (Operation &op : main.getBody().front()) {
      builder.setInsertionPointToEnd(&program.getBody().front());
      if (failed(lower(op)))
        return failure();
    }
    lowerFolds();
    main.erase();
    return success();
  }

private:
  LogicalResult checkSignature() {
    if (!main.getBody().hasOneBlock()) // C1
      return main.emitError("main has branches: not a program of kernel calls");
    Operation *terminator = main.getBody().front().getTerminator();
    if (!isa<func::ReturnOp>(terminator)) // C1
      return terminator->emitError("main does not end in func.return");
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      if (!main.getArgAttrOfType<StringAttr>(i, torch::nameAttrName)) // C2
        return main.emitError("argument ") << i << " has no torch.name";
      if (!isa<RankedTensorType>(main.getArgumentTypes()[i]))
        return main.emitError("argument ") << i << " is not a tensor";
    }
    for (unsigned i = 0; i < main.getNumResults(); ++i) {
      if (isOutput(i) && isa<RankedTensorType>(main.getResultTypes()[i]) &&
          !main.getResultAttrOfType<StringAttr>(i, torch::nameAttrName)) // C2
        return main.emitError("result ") << i << " has no torch.name";
      if (!isa<RankedTensorType, NoneType>(main.getResultTypes()[i]))
        return main.emitError("result ") << i << " is not a tensor";
    }
    return success();
  }

  /// Results that are the new value of something the program mutates are not outputs.
  bool isOutput(unsigned result) { return !main.getResultAttr(result, torch::mutatesAttrName); }

  LogicalResult createProgram() {
    SmallVector<Type> inputs, outputs;
    SmallVector<DictionaryAttr> inputAttrs, outputAttrs;
    llvm::StringSet<llvm::MallocAllocator> mutated;
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (auto name = main.getResultAttrOfType<StringAttr>(i, torch::mutatesAttrName))
        mutated.insert(name.getValue());
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      auto name = main.getArgAttrOfType<StringAttr>(i, torch::nameAttrName);
      NamedAttrList attrs;
      attrs.set("wrapper.name", name);
      if (mutated.contains(name.getValue()))
        attrs.set("wrapper.mutated", builder.getUnitAttr());
      inputs.push_back(BufferType::get(cast<RankedTensorType>(main.getArgumentTypes()[i])));
      inputAttrs.push_back(attrs.getDictionary(builder.getContext()));
    }
    for (unsigned i = 0; i < main.getNumResults(); ++i) {
      if (!isOutput(i))
        continue;
      outputNumbers[i] = outputs.size();
      outputs.push_back(getOutputType(main, i));
      auto name = main.getResultAttrOfType<StringAttr>(i, torch::nameAttrName);
      if (!name) // None
        name = builder.getStringAttr("output_" + Twine(i));
      outputAttrs.push_back(builder.getDictionaryAttr(builder.getNamedAttr("wrapper.name", name)));
    }
    auto symbols =
        main->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(torch::symbolsAttrName);
    program = ProgramOp::create(builder, main.getLoc(), main.getName(),
                                builder.getFunctionType(inputs, outputs), inputAttrs, outputAttrs,
                                symbols && !symbols.empty() ? symbols : DictionaryAttr());
    for (auto [value, buffer] : llvm::zip_equal(main.getArguments(), program.getArguments())) {
      buffer.setLoc(value.getLoc());
      buffers[value] = buffer;
    }
    return success();
  }

  /// Before anything else: what the program is right under.
  void assertGuards() {
    builder.setInsertionPointToEnd(&program.getBody().front());
    auto guards =
        program->getParentOfType<ModuleOp>()->getAttrOfType<ArrayAttr>(torch::guardsAttrName);
    if (!guards)
      return;
    for (auto guard : guards.getAsRange<DictionaryAttr>()) {
      auto message =
          builder.getStringAttr("expected " + guard.getAs<StringAttr>("text").getValue());
      AssertOp::create(builder, program.getLoc(), guard.getAs<sym::ExprAttr>("expr"), message);
    }
  }

  /// Decides which results of calls are computed in the caller's memory.
  void claimOutputs() {
    for (auto [i, value] : llvm::enumerate(main.getBody().front().getTerminator()->getOperands())) {
      if (!isOutput(i) || !isa_and_nonnull<kernel::CallOp, kernel::ExternOp>(value.getDefiningOp()))
        continue;
      if (cast<BufferType>(getOutputType(main, i)).isContiguous())
        claims.try_emplace(value, i);
    }
  }

  LogicalResult lower(Operation &op) {
    if (auto constant = dyn_cast<kernel::ConstantOp>(op)) {
      auto type = BufferType::get(cast<RankedTensorType>(constant.getType()));
      auto buffer = ConstantOp::create(builder, op.getLoc(), type, constant.getValue(),
                                       constant.getNameAttr(), IntegerAttr(), UnitAttr());
      if (constant.getName())
        constants.try_emplace(*constant.getName(), buffer);
      buffers[constant.getResult()] = buffer;
      if (constant.getKernel())
        computed.push_back(constant);
      return success();
    }
    if (auto call = dyn_cast<kernel::CallOp>(op))
      return lowerCall(call);
    if (auto call = dyn_cast<kernel::ExternOp>(op))
      return lowerExtern(call);
    if (auto define = dyn_cast<kernel::DefineOp>(op))
      return lowerDefine(define);
    if (auto assertion = dyn_cast<kernel::AssertOp>(op)) {
      AssertOp::create(builder, op.getLoc(), assertion.getExpr(), assertion.getMessage());
      return success();
    }
    if (auto check = dyn_cast<kernel::CheckOp>(op)) {
      CheckOp::create(builder, op.getLoc(), buffers.lookup(check.getCondition()),
                      check.getMessage());
      return success();
    }
    if (isa<torch::NoneOp>(op))
      return success();
    if (auto ret = dyn_cast<func::ReturnOp>(op))
      return lowerReturn(ret);
    return op.emitError("'") << op.getName() << "' is not part of a program of kernel calls"; // C1
  }

  /// Constants come before what is computed from them, and so do folds. The constants that one
  /// kernel makes of the same sources are one fold.
  void lowerFolds() {
    builder.setInsertionPointToEnd(&program.getBody().front());
    for (size_t first = 0; first < computed.size(); ++first) {
      kernel::ConstantOp constant = computed[first];
      if (!constant)
        continue;
      auto kernel =
          SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(constant, constant.getKernelAttr());
      SmallVector<Value> ins, outs(kernel.getResultTypes().size());
      for (Value source : constant.getSources())
        ins.push_back(buffers.lookup(source));
      for (kernel::ConstantOp &other : MutableArrayRef(computed).drop_front(first))
        if (other && other.getKernelAttr() == constant.getKernelAttr() &&
            other.getSources() == constant.getSources() && !outs[*other.getOutput()]) {
          outs[*other.getOutput()] = buffers.lookup(other.getResult());
          other = {};
        }
      // The kernel writes results that nobody reads, too.
      for (auto [out, type] : llvm::zip_equal(outs, kernel.getResultTypes()))
        if (!out)
          out = createUnread(constant.getLoc(), cast<RankedTensorType>(type));
      FoldOp::create(builder, constant.getLoc(), constant.getKernelAttr(), ins, outs);
    }
  }

  Value createUnread(Location loc, RankedTensorType type) {
    SmallVector<char> zero(kernel::getElementBytes(type.getElementType()));
    return ConstantOp::create(builder, loc, BufferType::get(type),
                              DenseElementsAttr::getFromRawBuffer(type, zero), StringAttr(),
                              IntegerAttr(), UnitAttr());
  }

  LogicalResult lowerDefine(kernel::DefineOp define) {
    if (!program.getSymbolsAttr() || !program.getSymbolsAttr().contains(define.getSymbol())) // C4
      return define.emitError("defines ")
             << define.getSymbol() << ", which is not in torch.symbols";
    Value data = define.getValue() ? buffers.lookup(define.getValue()) : Value();
    DefineOp::create(builder, define.getLoc(), define.getSymbolAttr(), data, define.getExprAttr());
    defined.insert(sym::Expr::symbol(define.getSymbol()));
    return success();
  }

  /// Sizes that data gives are what the data says: a negative one ends the run.
  void assertSizes(Location loc, BufferType type) {
    for (sym::Expr size : type.getSizes()) {
      bool isDefined = false;
      size.walkLeaves([&](sym::Expr leaf) { isDefined |= defined.contains(leaf); });
      if (isDefined && !known.isNonNegative(size) && asserted.insert(size).second)
        AssertOp::create(builder, loc, sym::ExprAttr::get(builder.getContext(), size),
                         builder.getStringAttr("a tensor's size, " + size.str() +
                                               ", is negative (" + torch::describe(loc) + ")"));
    }
  }

  LogicalResult lowerCall(kernel::CallOp call) {
    LaunchOp::create(builder, call.getLoc(), call.getKernelAttr(), getBuffers(call.getOperands()),
                     createBuffers(call));
    return success();
  }

  LogicalResult lowerExtern(kernel::ExternOp call) {
    ExternCallOp::create(builder, call.getLoc(), call.getLibraryAttr(), call.getCalleeAttr(),
                         call.getArgsAttr(), call.getNamesAttr(), getBuffers(call.getOperands()),
                         createBuffers(call), call.getProjectionAttr(), call.getUpdatesAttr());
    return success();
  }

  SmallVector<Value> getBuffers(ValueRange tensors) {
    return llvm::map_to_vector(tensors, [&](Value tensor) { return buffers.lookup(tensor); });
  }

  /// Memory for the results of a call: the caller's where they are outputs.
  SmallVector<Value> createBuffers(Operation *call) {
    SmallVector<Value> outs;
    for (Value result : call->getResults()) {
      assertSizes(call->getLoc(), BufferType::get(cast<RankedTensorType>(result.getType())));
      auto claim = claims.find(result);
      Value buffer;
      if (claim != claims.end())
        buffer = createOutput(call->getLoc(), claim->second);
      else
        buffer = createAlloc(call->getLoc(), result);
      outs.push_back(buffer);
      buffers[result] = buffer;
    }
    return outs;
  }

  Value createOutput(Location loc, unsigned result) {
    return OutputOp::create(builder, loc, getOutputType(main, result), outputNumbers[result]);
  }

  Value createAlloc(Location loc, Value tensor) {
    return AllocOp::create(builder, loc, BufferType::get(cast<RankedTensorType>(tensor.getType())));
  }

  LogicalResult lowerReturn(func::ReturnOp ret) {
    // Outputs first: they may return what a mutated input or buffer held before.
    for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
      auto claim = claims.find(value);
      if (!isOutput(i) || isa<NoneType>(value.getType()) ||
          (claim != claims.end() && claim->second == i))
        continue;
      CopyOp::create(builder, ret.getLoc(), buffers.lookup(value), createOutput(ret.getLoc(), i));
    }
    SmallVector<std::pair<Value, Value>> moves;
    for (auto [i, value] : llvm::enumerate(ret.getOperands()))
      if (!isOutput(i) && failed(addMove(ret, i, value, moves)))
        return failure();
    // A source that is itself written by one of these moves is saved before any is made.
    for (auto &[source, target] : moves)
      if (source != target && llvm::any_of(moves, [&](auto &other) {
            return other.second == source && other.first != source;
          })) {
        Value saved = AllocOp::create(builder, ret.getLoc(), cast<BufferType>(source.getType()));
        CopyOp::create(builder, ret.getLoc(), source, saved);
        source = saved;
      }
    for (auto [source, target] : moves)
      if (source != target)
        CopyOp::create(builder, ret.getLoc(), source, target);
    return success();
  }

  /// Result `i` is the new value of an input or of a buffer (C3).
  LogicalResult addMove(func::ReturnOp ret, unsigned i, Value value,
                        SmallVectorImpl<std::pair<Value, Value>> &moves) {
    auto name = main.getResultAttrOfType<StringAttr>(i, torch::mutatesAttrName);
    if (!name)
      return ret.emitError("torch.mutates of result ") << i << " is not a string";
    Value target;
    for (unsigned k = 0; k < main.getNumArguments() && !target; ++k)
      if (main.getArgAttr(k, torch::nameAttrName) == name)
        target = program.getArgument(k);
    if (!target) {
      auto constant = constants.find(name.getValue());
      // A buffer that nothing reads keeps no value that anybody could see.
      if (constant == constants.end())
        return success();
      constant->second.setMutated(true);
      target = constant->second;
    }
    Value source = buffers.lookup(value);
    if (!source || source.getType() != target.getType())
      return ret.emitError("result ")
             << i << " is the new value of '" << name.getValue() << "', which has another type";
    moves.push_back({source, target});
    return success();
  }

  func::FuncOp main;
  OpBuilder builder;
  ProgramOp program;
  DenseMap<Value, Value> buffers;
  DenseMap<Value, unsigned> claims; // value: the result of main in whose memory it is computed
  DenseMap<unsigned, unsigned> outputNumbers; // result of main: output of the program
  llvm::StringMap<ConstantOp> constants;
  SmallVector<kernel::ConstantOp> computed; // in program order
  llvm::DenseSet<sym::Expr> defined;        // symbols that have their value from a define
  llvm::DenseSet<sym::Expr> asserted;       // sizes
  sym::Assumptions known;
};

struct LowerToWrapper : kiln::impl::KernelLowerToWrapperBase<LowerToWrapper> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main) {
      getOperation().emitError("no function main");
      return signalPassFailure();
    }
    if (failed(Lowering(main).run()))
      signalPassFailure();
  }
};

} // namespace
