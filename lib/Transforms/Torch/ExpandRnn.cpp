// A layer's products with its input are one for all steps; what is left for each step goes into the
// graph of a scan. Equations: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html and
// GRU.html; the gates lie one after the other in the rows of the weights.
#include "CallBuilder.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHEXPANDRNN
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;
using sym::Expr;

namespace {

enum class Cell { Lstm, Gru, Tanh, Relu };

struct Kind {
  Cell cell;
  bool isSequence; // many steps in layers, not one step of a cell

  int64_t numGates() const { return cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1; }
};

std::optional<Kind> getKind(StringRef target) {
  return llvm::StringSwitch<std::optional<Kind>>(target)
      .Case("aten.lstm.input", Kind{Cell::Lstm, true})
      .Case("aten.gru.input", Kind{Cell::Gru, true})
      .Case("aten.rnn_tanh.input", Kind{Cell::Tanh, true})
      .Case("aten.rnn_relu.input", Kind{Cell::Relu, true})
      .Case("aten.lstm_cell.default", Kind{Cell::Lstm, false})
      .Case("aten.gru_cell.default", Kind{Cell::Gru, false})
      .Case("aten.rnn_tanh_cell.default", Kind{Cell::Tanh, false})
      .Case("aten.rnn_relu_cell.default", Kind{Cell::Relu, false})
      .Default(std::nullopt);
}

} // namespace

bool torch::isRnn(StringRef target) { return getKind(target).has_value(); }

namespace {

/// One layer in one direction.
struct Weights {
  Value input, hidden, inputBias, hiddenBias; // no biases: null
  Value projection;                           // of an LSTM's hidden state; may be null

  /// As they go to the graph of a step.
  SmallVector<Value> ofStep() const {
    SmallVector<Value> values;
    for (Value value : {hidden, hiddenBias, projection})
      if (value)
        values.push_back(value);
    return values;
  }
};

/// State after a step, the hidden state first; `gates` is what the input gives.
SmallVector<Value> buildStep(CallBuilder &b, Cell cell, Value gates, ArrayRef<Value> state,
                             const Weights &weights, int64_t size) {
  Value hidden = b.linear(state[0], weights.hidden, weights.hiddenBias);
  if (cell == Cell::Tanh || cell == Cell::Relu)
    return {b.unary(cell == Cell::Tanh ? "aten.tanh.default" : "aten.relu.default",
                    b.add(hidden, gates))};
  auto sigmoid = [&](Value x) { return b.unary("aten.sigmoid.default", x); };
  auto tanh = [&](Value x) { return b.unary("aten.tanh.default", x); };
  if (cell == Cell::Gru) {
    auto sum = [&](int64_t i) { return b.add(b.part(hidden, i, size), b.part(gates, i, size)); };
    Value reset = sigmoid(sum(0)), update = sigmoid(sum(1));
    Value next = tanh(b.add(b.multiply(b.part(hidden, 2, size), reset), b.part(gates, 2, size)));
    return {b.add(b.multiply(b.subtract(state[0], next), update), next)};
  }
  Value sum = b.add(hidden, gates);
  auto gate = [&](int64_t i) { return b.part(sum, i, size); };
  Value input = sigmoid(gate(0)), forget = sigmoid(gate(1)), next = tanh(gate(2));
  Value memory = b.add(b.multiply(forget, state[1]), b.multiply(input, next));
  Value output = b.multiply(sigmoid(gate(3)), tanh(memory));
  if (weights.projection)
    output = b.linear(output, weights.projection, Value());
  return {output, memory};
}

struct ExpandRnn : kiln::impl::TorchExpandRnnBase<ExpandRnn> {
  void runOnOperation() override {
    symbols.emplace(getOperation());
    SmallVector<CallOp> calls;
    getOperation().walk([&](CallOp call) {
      if (getKind(call.getTarget()))
        calls.push_back(call);
    });
    for (CallOp call : calls) {
      Kind kind = *getKind(call.getTarget());
      // Calls that do not fit stay, and lowering refuses them.
      (void)(kind.isSequence ? expandSequence(call, kind) : expandCell(call, kind));
    }
  }

  //===-- Arguments --------------------------------------------------------------------------===//

  /// False unless all of them are tensors of this rank.
  static bool getTensors(CallOp call, Attribute attr, unsigned rank,
                         SmallVectorImpl<Value> &tensors) {
    auto list = dyn_cast<ArrayAttr>(attr);
    if (!list)
      return false;
    for (Attribute element : list)
      tensors.push_back(getTensor(call, element, rank));
    return !llvm::is_contained(tensors, Value());
  }

  /// Size of the hidden state before projection; nullopt if the weights are not those of one cell.
  static std::optional<int64_t> getSize(const Weights &weights, Kind kind) {
    std::optional<int64_t> rows = shapeOf(weights.hidden).front().constant();
    if (!rows || *rows % kind.numGates() != 0 || shapeOf(weights.input).front() != Expr(*rows))
      return std::nullopt;
    return *rows / kind.numGates();
  }

  static bool getBool(Attribute attr) {
    auto flag = dyn_cast<BoolAttr>(attr);
    return flag && flag.getValue();
  }

  //===-- One step ---------------------------------------------------------------------------===//

  LogicalResult expandCell(CallOp call, Kind kind) {
    ArrayRef<Attribute> args = call.getArgs().getValue();
    bool hasMemory = kind.cell == Cell::Lstm;
    SmallVector<Value> state;
    if (hasMemory ? !getTensors(call, args[1], 2, state) || state.size() != 2
                  : !state.emplace_back(getTensor(call, args[1], 2)))
      return failure();
    Value input = getTensor(call, args[0], 2);
    Weights weights{getTensor(call, args[2], 2), getTensor(call, args[3], 2),
                    getTensor(call, args[4], 1), getTensor(call, args[5], 1), Value()};
    auto isMissing = [&](unsigned i, Value value) { return !value && !isa<UnitAttr>(args[i]); };
    if (!input || !weights.input || !weights.hidden || isMissing(4, weights.inputBias) ||
        isMissing(5, weights.hiddenBias) || call->getNumResults() != (hasMemory ? 2 : 1))
      return failure();
    std::optional<int64_t> size = getSize(weights, kind);
    if (!size)
      return failure();
    CallBuilder b(OpBuilder(call), call);
    Value gates = b.linear(input, weights.input, weights.inputBias);
    for (auto [i, value] : llvm::enumerate(buildStep(b, kind.cell, gates, state, weights, *size)))
      b.replace(i, value);
    call.erase();
    return success();
  }

  //===-- Layers of steps --------------------------------------------------------------------===//

  LogicalResult expandSequence(CallOp call, Kind kind) {
    ArrayRef<Attribute> args = call.getArgs().getValue();
    bool hasMemory = kind.cell == Cell::Lstm;
    Value input = getTensor(call, args[0], 3);
    SmallVector<Value> initial; // [layers * directions, batch, size] of each state
    if (!input || (hasMemory ? !getTensors(call, args[1], 3, initial) || initial.size() != 2
                             : !initial.emplace_back(getTensor(call, args[1], 3))))
      return failure();
    auto numLayers = dyn_cast<IntegerAttr>(args[4]);
    auto dropout = dyn_cast<FloatAttr>(args[5]);
    bool hasBiases = getBool(args[3]), train = getBool(args[6]);
    int64_t directions = getBool(args[7]) ? 2 : 1;
    bool batchFirst = getBool(args[8]);
    auto params = dyn_cast<ArrayAttr>(args[2]);
    if (!numLayers || !params || !dropout || (train && dropout.getValueAsDouble() != 0) ||
        numLayers.getInt() <= 0 || numLayers.getInt() > static_cast<int64_t>(params.size()) ||
        call->getNumResults() != initial.size() + 1)
      return failure();
    int64_t parts = numLayers.getInt() * directions;
    int64_t each = static_cast<int64_t>(params.size()) / parts, plain = hasBiases ? 4 : 2;
    bool projected = hasMemory && each == plain + 1;
    if (each * parts != static_cast<int64_t>(params.size()) || (each != plain && !projected) ||
        llvm::any_of(initial,
                     [&](Value value) { return !shapeOf(value).front().isConstant(parts); }))
      return failure();
    SmallVector<Weights> layers;
    for (int64_t i = 0; i < parts; ++i) {
      auto param = [&](int64_t j, unsigned rank) {
        return getTensor(call, params[i * each + j], rank);
      };
      Weights weights{param(0, 2), param(1, 2), Value(), Value(), Value()};
      if (hasBiases) {
        weights.inputBias = param(2, 1);
        weights.hiddenBias = param(3, 1);
      }
      if (projected)
        weights.projection = param(plain, 2);
      if (!weights.input || !weights.hidden || !getSize(weights, kind) ||
          (hasBiases && (!weights.inputBias || !weights.hiddenBias)) ||
          (projected && !weights.projection))
        return failure();
      layers.push_back(weights);
    }

    CallBuilder b(OpBuilder(call), call);
    Value steps = batchFirst ? b.transpose(input, 0, 1) : input;
    SmallVector<SmallVector<Value>> last(initial.size());
    for (int64_t layer = 0; layer < numLayers.getInt(); ++layer) {
      SmallVector<Value> outputs;
      for (int64_t direction = 0; direction < directions; ++direction) {
        int64_t number = layer * directions + direction;
        SmallVector<Value> state;
        for (Value value : initial)
          state.push_back(b.select(value, number));
        Value from = direction == 0 ? steps : b.flip(steps);
        Value output = expandLayer(b, kind, from, state, layers[number]);
        outputs.push_back(direction == 0 ? output : b.flip(output));
        for (auto [all, value] : llvm::zip_equal(last, state))
          all.push_back(value);
      }
      steps = directions == 1 ? outputs.front() : b.concatenate(outputs);
    }
    b.replace(0, batchFirst ? b.transpose(steps, 0, 1) : steps);
    for (auto [i, values] : llvm::enumerate(last))
      b.replace(i + 1, b.stack(values));
    call.erase();
    return success();
  }

  /// The hidden states of all steps; `state` becomes that after the last one.
  Value expandLayer(CallBuilder &b, Kind kind, Value steps, SmallVectorImpl<Value> &state,
                    const Weights &weights) {
    Value gates = b.linear(steps, weights.input, weights.inputBias);
    SmallVector<Value> operands(state.begin(), state.end());
    operands.push_back(gates);
    llvm::append_range(operands, weights.ofStep());
    func::FuncOp graph = createGraph(b, kind, operands, state.size(), weights);

    auto list = [&](size_t begin, size_t end) {
      SmallVector<Attribute> attrs;
      for (size_t i = begin; i < end; ++i)
        attrs.push_back(b.arg(i));
      return b.b.getArrayAttr(attrs);
    };
    size_t numStates = state.size();
    ArrayAttr args =
        b.b.getArrayAttr({FlatSymbolRefAttr::get(graph.getSymNameAttr()), list(0, numStates),
                          list(numStates, numStates + 1), list(numStates + 1, operands.size())});
    SmallVector<Type> types(ValueRange(state).getTypes());
    SmallVector<Expr> shape = shapeOf(state.front());
    shape.insert(shape.begin(), shapeOf(steps).front());
    types.push_back(sym::getTensorType(shape, elementOf(steps)));
    auto scan =
        HigherOrderOp::create(b.b, b.origin.getLoc(), types, b.b.getStringAttr("scan"), operands,
                              args, b.origin.getNodeAttr(), ArrayAttr(), ArrayAttr(), ArrayAttr());
    state.assign(scan->result_begin(), std::prev(scan->result_end()));
    return scan->getResults().back();
  }

  /// (state, gates of a step, weights) -> (state, hidden state)
  func::FuncOp createGraph(CallBuilder &outside, Kind kind, ArrayRef<Value> operands,
                           size_t numStates, const Weights &weights) {
    SmallVector<Type> types(ValueRange(operands).getTypes());
    SmallVector<Expr> slice = shapeOf(operands[numStates]);
    slice.erase(slice.begin());
    types[numStates] = sym::getTensorType(slice, elementOf(operands[numStates]));
    SmallVector<Type> results(ArrayRef(types).take_front(numStates));
    results.push_back(types.front());

    OpBuilder builder(&getContext());
    Location loc = outside.origin.getLoc();
    auto graph =
        func::FuncOp::create(builder, loc, "rnn_step", builder.getFunctionType(types, results));
    graph.setPrivate();
    symbols->insert(graph);
    Block *block = graph.addEntryBlock();
    builder.setInsertionPointToStart(block);
    CallBuilder b(builder, outside.origin);
    ArrayRef<BlockArgument> arguments = block->getArguments();
    SmallVector<Value> state(arguments.take_front(numStates));
    ArrayRef<BlockArgument> rest = arguments.drop_front(numStates + 1);
    Weights inside;
    for (auto [from, to] : {std::pair(weights.hidden, &inside.hidden),
                            std::pair(weights.hiddenBias, &inside.hiddenBias),
                            std::pair(weights.projection, &inside.projection)})
      if (from) {
        *to = rest.front();
        rest = rest.drop_front();
      }
    SmallVector<Value> next =
        buildStep(b, kind.cell, arguments[numStates], state, inside, *getSize(weights, kind));
    next.push_back(next.front());
    func::ReturnOp::create(b.b, loc, next);
    return graph;
  }

  std::optional<SymbolTable> symbols;
};

} // namespace
