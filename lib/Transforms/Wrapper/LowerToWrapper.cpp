// kernel-lower-to-wrapper: turns calls of kernels and of nested graphs into steps on buffers.
#include "kiln/Dialect/Kernel/Collective.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Kernel/GraphCalls.h"
#include "kiln/Dialect/Torch/Mutations.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELLOWERTOWRAPPER
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

/// The type of the buffer for result `i` of `function`: its recorded strides, or row-major.
Type getOutputType(func::FuncOp function, unsigned i) {
  auto tensor = dyn_cast<RankedTensorType>(function.getResultTypes()[i]);
  if (!tensor)
    return NoneType::get(function.getContext());
  auto contiguous = BufferType::get(tensor);
  auto strides = function.getResultAttrOfType<sym::ShapeAttr>(i, torch::stridesAttrName);
  if (!strides || function.isPrivate())
    return contiguous;
  auto recorded = BufferType::get(function.getContext(), contiguous.getSizes(), strides.getSizes(),
                                  tensor.getElementType());
  // Strides of dimensions of size 1 are arbitrary: one form for what is the same.
  return recorded.isContiguous() ? contiguous : recorded;
}

/// Those results of each nested graph whose size its caller cannot know.
using GivenResults = llvm::StringMap<llvm::BitVector>;

GivenResults findGivenResults(ModuleOp module) {
  GivenResults given;
  for (auto graph : module.getOps<func::FuncOp>()) {
    llvm::SetVector<sym::Expr> defined = kernel::getDefinedSymbols(graph);
    llvm::BitVector &results = given[graph.getName()];
    for (Type type : graph.getResultTypes()) {
      SymbolCollector used;
      used.walker.walk(type);
      results.push_back(
          llvm::any_of(used.symbols, [&](sym::Expr symbol) { return defined.contains(symbol); }));
    }
  }
  return given;
}

/// Lowers one function: the program, or a nested graph.
class Lowering {
public:
  Lowering(func::FuncOp source, const GivenResults &given)
      : source(source), builder(source), given(given) {
    kernel::addSymbolRanges(source, known);
  }

  LogicalResult run() {
    if (failed(checkSignature()) || failed(source.isPrivate() ? createGraph() : createProgram()))
      return failure();
    for (auto [value, buffer] : llvm::zip_equal(source.getArguments(), target.getArguments())) {
      buffer.setLoc(value.getLoc());
      buffers[value] = buffer;
    }
    if (!source.isPrivate())
      assertGuards();
    claimOutputs();
    builder.setInsertionPointToEnd(&target.getFunctionBody().front());
    for (Operation &op : source.getBody().front())
      if (failed(lower(op)))
        return failure();
    lowerFolds();
    source.erase();
    return success();
  }

private:
  LogicalResult checkSignature() {
    StringRef name = source.getName();
    if (!source.getBody().hasOneBlock()) // C1
      return source.emitError() << name << " has branches: not a program of kernel calls";
    Operation *terminator = source.getBody().front().getTerminator();
    if (!isa<func::ReturnOp>(terminator)) // C1
      return terminator->emitError() << name << " does not end in func.return";
    bool isNested = source.isPrivate();
    for (unsigned i = 0; i < source.getNumArguments(); ++i) {
      if (!isNested && !source.getArgAttrOfType<StringAttr>(i, torch::nameAttrName)) // C2
        return source.emitError("argument ") << i << " has no torch.name";
      if (!isa<RankedTensorType>(source.getArgumentTypes()[i]))
        return source.emitError("argument ") << i << " is not a tensor";
    }
    for (unsigned i = 0; i < source.getNumResults(); ++i) {
      bool isTensor = isa<RankedTensorType>(source.getResultTypes()[i]);
      if (!isNested && isOutput(i) && isTensor &&
          !source.getResultAttrOfType<StringAttr>(i, torch::nameAttrName)) // C2
        return source.emitError("result ") << i << " has no torch.name";
      if (!isTensor && (isNested || !isa<NoneType>(source.getResultTypes()[i])))
        return source.emitError("result ") << i << " is not a tensor";
    }
    return success();
  }

  /// Results that are the new value of something the program mutates are not outputs.
  bool isOutput(unsigned result) { return !source.getResultAttr(result, torch::mutatesAttrName); }

  LogicalResult createGraph() {
    SmallVector<Type> inputs, outputs;
    for (Type type : source.getArgumentTypes())
      inputs.push_back(BufferType::get(cast<RankedTensorType>(type)));
    for (unsigned i = 0; i < source.getNumResults(); ++i) {
      outputNumbers[i] = i;
      outputs.push_back(getOutputType(source, i));
    }
    auto graph = FuncOp::create(builder, source.getLoc(), source.getName(),
                                builder.getFunctionType(inputs, outputs));
    for (unsigned i = 0; i < source.getNumResults(); ++i)
      if (isGiven(source.getName(), i))
        graph.setGiven(i);
    target = graph;
    return success();
  }

  LogicalResult createProgram() {
    SmallVector<Type> inputs, outputs;
    SmallVector<DictionaryAttr> inputAttrs, outputAttrs;
    llvm::StringSet<llvm::MallocAllocator> mutated;
    for (unsigned i = 0; i < source.getNumResults(); ++i)
      if (StringAttr name = torch::getMutated(source, i, torch::State::Input))
        mutated.insert(name.getValue());
    for (unsigned i = 0; i < source.getNumArguments(); ++i) {
      auto name = source.getArgAttrOfType<StringAttr>(i, torch::nameAttrName);
      NamedAttrList attrs;
      attrs.set(nameAttrName, name);
      if (mutated.contains(name.getValue()))
        attrs.set(wrapper::mutatedAttrName, builder.getUnitAttr());
      if (Attribute strides = source.getArgAttr(i, torch::stridesAttrName))
        attrs.set(stridesAttrName, strides);
      if (Attribute checked = source.getArgAttr(i, torch::checkStridesAttrName))
        attrs.set(checkStridesAttrName, checked);
      if (Attribute value = source.getArgAttr(i, torch::valueAttrName))
        attrs.set(valueAttrName, value);
      if (Attribute number = source.getArgAttr(i, torch::numberAttrName))
        attrs.set(numberAttrName, number);
      inputs.push_back(BufferType::get(cast<RankedTensorType>(source.getArgumentTypes()[i])));
      inputAttrs.push_back(attrs.getDictionary(builder.getContext()));
    }
    for (unsigned i = 0; i < source.getNumResults(); ++i) {
      if (!isOutput(i))
        continue;
      outputNumbers[i] = outputs.size();
      outputs.push_back(getOutputType(source, i));
      auto name = source.getResultAttrOfType<StringAttr>(i, torch::nameAttrName);
      if (!name) // None
        name = builder.getStringAttr("output_" + Twine(i));
      outputAttrs.push_back(builder.getDictionaryAttr(builder.getNamedAttr(nameAttrName, name)));
    }
    auto symbols =
        source->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName);
    target = ProgramOp::create(builder, source.getLoc(), source.getName(),
                               builder.getFunctionType(inputs, outputs), inputAttrs, outputAttrs,
                               symbols && !symbols.empty() ? symbols : DictionaryAttr());
    return success();
  }

  /// Before anything else: what the program is right under.
  void assertGuards() {
    builder.setInsertionPointToEnd(&target.getFunctionBody().front());
    auto guards =
        target->getParentOfType<ModuleOp>()->getAttrOfType<ArrayAttr>(torch::guardsAttrName);
    if (!guards)
      return;
    for (auto guard : guards.getAsRange<DictionaryAttr>()) {
      auto message =
          builder.getStringAttr("expected " + guard.getAs<StringAttr>("text").getValue());
      AssertOp::create(builder, target.getLoc(), guard.getAs<sym::ExprAttr>("expr"), message);
    }
  }

  /// Decides which results of calls are computed in the caller's memory.
  void claimOutputs() {
    for (auto [i, value] :
         llvm::enumerate(source.getBody().front().getTerminator()->getOperands())) {
      Operation *producer = value.getDefiningOp();
      if (!isOutput(i) || !isa_and_nonnull<kernel::CallOp, kernel::ExternOp, kernel::CollectiveOp,
                                           kernel::GraphCallOpInterface>(producer))
        continue;
      if (source.isPrivate() && isGiven(source.getName(), i))
        continue;
      if (cast<BufferType>(getOutputType(source, i)).isContiguous())
        claims.try_emplace(value, i);
    }
  }

  /// As runtime/collectives reads them.
  ArrayAttr getArguments(kernel::CollectiveOp op) {
    Attribute none = builder.getUnitAttr();
    auto list = [&](sym::ShapeAttr sizes) -> Attribute {
      if (!sizes)
        return none;
      return builder.getArrayAttr(
          llvm::map_to_vector(sizes.getSizes(), [&](sym::Expr size) -> Attribute {
            return sym::ExprAttr::get(builder.getContext(), size);
          }));
    };
    return builder.getArrayAttr({sym::ArgAttr::get(builder.getContext(), 0), op.getGroupAttr(),
                                 op.getRanksAttr(), builder.getBoolAttr(op.isStatic()),
                                 op.getReductionAttr() ? op.getReductionAttr() : none,
                                 op.getRootAttr() ? op.getRootAttr() : none, list(op.getSendAttr()),
                                 list(op.getReceiveAttr())});
  }

  LogicalResult lower(Operation &op) {
    Location loc = op.getLoc();
    return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
        .Case<kernel::ConstantOp>([&](auto constant) {
          auto type = BufferType::get(cast<RankedTensorType>(constant.getType()));
          auto buffer = ConstantOp::create(builder, loc, type, constant.getValue(),
                                           constant.getNameAttr(), IntegerAttr(), UnitAttr());
          if (constant.getName())
            constants.try_emplace(*constant.getName(), buffer);
          buffers[constant.getResult()] = buffer;
          if (constant.getKernel())
            computed.push_back(constant);
          return success();
        })
        .Case<kernel::CallOp>([&](auto call) {
          LaunchOp::create(builder, loc, call.getKernelAttr(), lookUp(call.getOperands()),
                           createResults(call));
          return success();
        })
        .Case<kernel::SpanOp>([&](auto span) {
          auto type = BufferType::get(cast<RankedTensorType>(span.getType()));
          buffers[span.getResult()] =
              ViewOp::create(builder, loc, type, buffers.lookup(span.getTensor()), span.getFirst());
          return success();
        })
        .Case<kernel::BitcastOp>([&](auto cast) {
          auto type = BufferType::get(mlir::cast<RankedTensorType>(cast.getType()));
          buffers[cast.getResult()] =
              ViewOp::create(builder, loc, type, buffers.lookup(cast.getTensor()),
                             sym::ExprAttr::get(builder.getContext(), 0));
          return success();
        })
        .Case<kernel::ExternOp>([&](auto call) {
          ExternCallOp::create(builder, loc, call.getLibraryAttr(), call.getCalleeAttr(),
                               call.getArgsAttr(), call.getNamesAttr(), lookUp(call.getOperands()),
                               createResults(call), call.getProjectionAttr(), call.getSizesAttr(),
                               call.getUpdatesAttr());
          return success();
        })
        .Case<kernel::CollectiveOp>([&](auto op) {
          ExternCallOp::create(
              builder, loc, builder.getStringAttr(kernel::collectivesLibrary), op.getKindAttr(),
              getArguments(op), ArrayAttr(), lookUp(op->getOperands()), createResults(op),
              builder.getDenseI64ArrayAttr(0), DenseI64ArrayAttr(), DenseI64ArrayAttr());
          return success();
        })
        .Case<kernel::DefineOp>([&](auto define) { return lowerDefine(define); })
        .Case<kernel::AssertOp>([&](auto assertion) {
          AssertOp::create(builder, loc, assertion.getExpr(), assertion.getMessage());
          return success();
        })
        .Case<kernel::CheckOp>([&](auto check) {
          CheckOp::create(builder, loc, buffers.lookup(check.getCondition()), check.getMessage());
          return success();
        })
        .Case<kernel::InvokeOp>([&](auto call) {
          SmallVector<Type> given;
          SmallVector<Value> ins = lookUp(call.getInvariants());
          SmallVector<Value> outs = createResults(call, given);
          auto run = CallOp::create(builder, loc, given, call.getGraphAttr(), ins, outs, Value());
          copyGiven(call, run.getGiven());
          return success();
        })
        .Case<kernel::CondOp>([&](auto cond) {
          SmallVector<Type> given;
          SmallVector<Value> ins = lookUp(cond.getInvariants());
          SmallVector<Value> outs = createResults(cond, given);
          auto branch = IfOp::create(builder, loc, given, cond.getWhenAttr(),
                                     buffers.lookup(cond.getPredicate()), cond.getThenGraphAttr(),
                                     cond.getElseGraphAttr(), ins, outs, Value());
          copyGiven(cond, branch.getGiven());
          return success();
        })
        .Case<kernel::WhileOp>([&](auto loop) {
          SmallVector<Value> results = createResults(loop), spare = createSpare(loop.getCarried());
          auto symbol = SymbolTable::lookupNearestSymbolFrom<FunctionOpInterface>(
              source, loop.getConditionAttr());
          Type flag = symbol.getResultTypes()[0]; // of a graph that has been lowered, or not yet
          if (auto tensor = dyn_cast<RankedTensorType>(flag))
            flag = BufferType::get(tensor);
          WhileOp::create(builder, loc, loop.getConditionAttr(), loop.getBodyAttr(),
                          lookUp(loop.getCarried()), lookUp(loop.getInvariants()), results, spare,
                          AllocOp::create(builder, loc, cast<BufferType>(flag)), Value());
          return success();
        })
        .Case<kernel::ForOp>([&](auto loop) {
          SmallVector<Value> results = createResults(loop), spare = createSpare(loop.getCarried());
          ForOp::create(builder, loc, loop.getBodyAttr(), loop.getLengthAttr(),
                        lookUp(loop.getCarried()), lookUp(loop.getSliced()),
                        lookUp(loop.getInvariants()), results, spare, Value());
          return success();
        })
        .Case<torch::NoneOp>([](auto) { return success(); })
        .Case<func::ReturnOp>([&](auto ret) { return lowerReturn(ret); })
        .Default([](Operation *other) { // C1
          return other->emitError("'") << other->getName() << "' is not part of a program of "
                                       << "kernel calls";
        });
  }

  /// Constants come before what is computed from them, and so do folds. The constants that one
  /// kernel makes of the same sources are one fold.
  void lowerFolds() {
    builder.setInsertionPointToEnd(&target.getFunctionBody().front());
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
    auto symbols =
        target->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName);
    if (!symbols || !symbols.contains(define.getSymbol())) // C4
      return define.emitError("defines ") << define.getSymbol() << ", which is not in sym.symbols";
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
                                               ", is negative (" + sym::describe(loc) + ")"));
    }
  }

  SmallVector<Value> lookUp(ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return buffers.lookup(value); });
  }

  /// Buffers for the results of `op`, in the caller's memory where they are claimed.
  SmallVector<Value> createResults(Operation *op) { return createBuffers(op, op->getResults()); }

  /// Buffers for those results of a call that the graphs write; `given` are the types of the
  /// others.
  SmallVector<Value> createResults(kernel::GraphCallOpInterface call,
                                   SmallVectorImpl<Type> &given) {
    SmallVector<Value> written;
    for (OpResult result : call->getResults()) {
      if (isGiven(call, result))
        given.push_back(BufferType::get(cast<RankedTensorType>(result.getType())));
      else
        written.push_back(result);
    }
    return createBuffers(call, written);
  }

  bool isGiven(StringRef graph, unsigned result) { return given.lookup(graph).test(result); }

  bool isGiven(kernel::GraphCallOpInterface call, OpResult result) {
    // A loop's slices and carried values have sizes that the caller knows.
    return isa<kernel::CondOp, kernel::InvokeOp>(call) &&
           isGiven(call.getGraphs().front().getValue(), result.getResultNumber());
  }

  /// Results of graphs are in memory of theirs, and are copied before they run again. Its symbols
  /// are known from here on.
  void copyGiven(kernel::GraphCallOpInterface call, ValueRange given) {
    for (OpResult result : call->getResults()) {
      if (!isGiven(call, result))
        continue;
      for (sym::Expr size : cast<BufferType>(given.front().getType()).getSizes())
        size.walkLeaves([&](sym::Expr leaf) { defined.insert(leaf); });
      CopyOp::create(builder, call.getLoc(), given.front(),
                     createBuffers(call, ValueRange(result)).front());
      given = given.drop_front();
    }
  }

  SmallVector<Value> createBuffers(Operation *op, ValueRange results) {
    SmallVector<Value> outs;
    for (Value result : results) {
      assertSizes(op->getLoc(), BufferType::get(cast<RankedTensorType>(result.getType())));
      auto claim = claims.find(result);
      outs.push_back(claim != claims.end() ? createOutput(op->getLoc(), claim->second)
                                           : createAlloc(op->getLoc(), result));
      buffers[result] = outs.back();
    }
    return outs;
  }

  /// The buffers that rounds of a loop write to while the results hold the values that they read.
  SmallVector<Value> createSpare(ValueRange carried) {
    return llvm::map_to_vector(carried,
                               [&](Value value) { return createAlloc(value.getLoc(), value); });
  }

  Value createOutput(Location loc, unsigned result) {
    return OutputOp::create(builder, loc, getOutputType(source, result), outputNumbers[result]);
  }

  Value createAlloc(Location loc, Value tensor) {
    return AllocOp::create(builder, loc, BufferType::get(cast<RankedTensorType>(tensor.getType())));
  }

  LogicalResult lowerReturn(func::ReturnOp ret) {
    // Outputs first: they may return what a mutated input or buffer held before.
    for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
      if (source.isPrivate() && isGiven(source.getName(), i)) {
        GiveOp::create(builder, ret.getLoc(), getOwned(buffers.lookup(value)), i);
        continue;
      }
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
    for (auto &[from, to] : moves)
      if (from != to && llvm::any_of(moves, [&](auto &other) {
            return other.second == from && other.first != from;
          })) {
        Value saved = AllocOp::create(builder, ret.getLoc(), cast<BufferType>(from.getType()));
        CopyOp::create(builder, ret.getLoc(), from, saved);
        from = saved;
      }
    for (auto [from, to] : moves)
      if (from != to)
        CopyOp::create(builder, ret.getLoc(), from, to);
    return success();
  }

  /// `buffer`, or a copy of it in memory of this function's.
  Value getOwned(Value buffer) {
    if (buffer.getDefiningOp<AllocOp>())
      return buffer;
    Value owned = AllocOp::create(builder, buffer.getLoc(), cast<BufferType>(buffer.getType()));
    CopyOp::create(builder, buffer.getLoc(), buffer, owned);
    return owned;
  }

  /// The buffer of this name; null: nothing reads it, neither here nor in other programs.
  ConstantOp findBuffer(StringAttr name) {
    auto [place, isNew] = constants.try_emplace(name.getValue());
    if (!isNew)
      return place->second;
    auto shared = source->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(
        torch::sharedStateAttrName);
    if (auto value = shared ? shared.getAs<ElementsAttr>(name) : ElementsAttr()) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&target->getRegion(0).front());
      auto type = BufferType::get(cast<RankedTensorType>(value.getType()));
      place->second = ConstantOp::create(builder, source.getLoc(), type, value, name, IntegerAttr(),
                                         UnitAttr());
    }
    return place->second;
  }

  /// Result `i` is the new value of an input or of a buffer (C3).
  LogicalResult addMove(func::ReturnOp ret, unsigned i, Value value,
                        SmallVectorImpl<std::pair<Value, Value>> &moves) {
    StringAttr name = torch::getMutated(source, i, torch::State::Input);
    Value to;
    for (unsigned k = 0; name && k < source.getNumArguments() && !to; ++k)
      if (source.getArgAttr(k, torch::nameAttrName) == name)
        to = target.getArguments()[k];
    if (!to) {
      name = torch::getMutated(source, i, torch::State::Buffer);
      if (!name)
        return ret.emitError("torch.mutates of result ") << i << " names no input, and no buffer";
      ConstantOp buffer = findBuffer(name);
      // A buffer that nothing reads keeps no value that anybody could see.
      if (!buffer)
        return success();
      buffer.setMutated(true);
      to = buffer;
    }
    Value from = buffers.lookup(value);
    if (!from || from.getType() != to.getType())
      return ret.emitError("result ")
             << i << " is the new value of '" << name.getValue() << "', which has another type";
    moves.push_back({from, to});
    return success();
  }

  func::FuncOp source;
  OpBuilder builder;
  const GivenResults &given;
  HostFunctionOpInterface target;
  DenseMap<Value, Value> buffers;
  DenseMap<Value, unsigned> claims;           // value: the result in whose memory it is computed
  DenseMap<unsigned, unsigned> outputNumbers; // result of the function: output of the target
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
    GivenResults given = findGivenResults(getOperation());
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (failed(Lowering(function, given).run()))
        return signalPassFailure();
    getOperation()->removeAttr(torch::sharedStateAttrName);
  }
};

} // namespace
