// A launch of a Triton kernel: its tensors are put into memory as export has recorded their strides,
// with which the kernel computes addresses; what it writes are copies, which are its results.
#include "Core/Triton.h"
#include "kiln/Dialect/Kernel/Triton.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// How a tensor lies in memory, as a row-major tensor of more elements: dims of the tensor from the
/// outermost to the innermost, each with the number of places that it has there.
struct Layout {
  struct Dim {
    int64_t dim; // of the tensor; -1: the gap behind an element
    Expr places;
  };
  SmallVector<Dim> dims;
  bool repeats = false; // dims of stride 0 are left out
};

/// Finds the layout of strides. Elements lie `step` apart in the innermost dim that is left to
/// place, so that places of a dim are the quotient of two strides.
class LayoutFinder {
public:
  LayoutFinder(ArrayRef<Expr> sizes, ArrayRef<Expr> strides, KernelBuilder &kernels)
      : sizes(sizes), strides(strides), kernels(kernels) {}

  std::optional<Layout> find() {
    if (isRowMajor()) {
      Layout layout;
      for (auto [dim, size] : llvm::enumerate(sizes))
        layout.dims.push_back({static_cast<int64_t>(dim), size});
      return layout;
    }
    SmallVector<int64_t> rest;
    bool repeats = false;
    for (auto [dim, size] : llvm::enumerate(sizes)) {
      bool isRepeated = strides[dim].isConstant(0) && !size.isConstant(1);
      repeats |= isRepeated;
      if (!isRepeated && !size.isConstant(1))
        rest.push_back(dim);
    }
    inner = {{-1, Expr(1)}};
    step = 1;
    if (!place(rest))
      return std::nullopt;
    Layout layout;
    layout.repeats = repeats;
    llvm::append_range(layout.dims, llvm::reverse(inner));
    if (layout.dims.back().places.isConstant(1))
      layout.dims.pop_back();
    return layout;
  }

private:
  /// Strides of dims of size 1 mean nothing.
  bool isRowMajor() {
    SmallVector<Expr> rowMajor = sym::rowMajorStrides(sizes);
    return llvm::all_of(llvm::seq<size_t>(0, sizes.size()), [&](size_t i) {
      return sizes[i].isConstant(1) || kernels.isSame(strides[i], rowMajor[i]);
    });
  }

  /// Places the dims of `rest` around those that have been placed.
  bool place(ArrayRef<int64_t> rest) {
    if (rest.empty())
      return true;
    // The dense one first: of several that fit, it is the right one nearly always.
    for (bool dense : {true, false})
      for (int64_t dim : llvm::reverse(rest)) {
        Layout::Dim &last = inner.back();
        Expr size = last.dim < 0 ? Expr(1) : sizes[last.dim], places = size;
        if (dense != kernels.isSame(strides[dim], step * size))
          continue;
        if (!dense) {
          places = kernels.known().simplify(strides[dim].floorDiv(step));
          if (!kernels.known().isMultipleOf(strides[dim], step) ||
              !kernels.known().isLessOrEqual(size, places))
            continue;
        }
        Layout::Dim before = last;
        Expr stepBefore = step;
        last.places = places;
        inner.push_back({dim, sizes[dim]});
        step = strides[dim];
        SmallVector<int64_t> others(rest);
        llvm::erase(others, dim);
        if (place(others))
          return true;
        inner.pop_back();
        inner.back() = before;
        step = stepBefore;
      }
    return false;
  }

  ArrayRef<Expr> sizes, strides;
  KernelBuilder &kernels;
  SmallVector<Layout::Dim> inner; // from the innermost on
  Expr step;
};

class TritonCall {
public:
  TritonCall(torch::HigherOrderOp op, KernelBuilder &kernels) : op(op), kernels(kernels) {}

  LogicalResult run() {
    auto reference = op->getAttrOfType<FlatSymbolRefAttr>(tritonAttrName);
    if (!reference)
      return refuse("the archive has no code for it: pack it with python -m kiln.pack");
    triton = SymbolTable::lookupNearestSymbolFrom<TritonOp>(op, reference);
    if (!triton)
      return refuse("its kernel is not there");
    if (failed(readWrites()) || failed(readInputs()))
      return failure();
    for (auto config : triton.getConfigs().getAsRange<TritonConfigAttr>())
      if (failed(check(config)))
        return failure();
    createCall(reference.getValue());
    return success();
  }

private:
  LogicalResult refuse(const Twine &reason) {
    kernels.fail(reason);
    return failure();
  }

  StringRef nameOf(int64_t input) { return cast<StringAttr>(triton.getInputs()[input]).getValue(); }
  LogicalResult refuse(int64_t input, const Twine &reason) {
    return refuse("argument '" + nameOf(input) + "': " + reason);
  }

  /// The inputs that the kernel writes are named behind them.
  LogicalResult readWrites() {
    ArrayRef<Attribute> args = op.getArgs().getValue();
    size_t count = triton.getInputs().size();
    if (args.size() < count || !op.getNames())
      return refuse("it has " + Twine(args.size()) + " arguments, its kernel " + Twine(count));
    for (auto [name, value] : llvm::drop_begin(llvm::zip_equal(*op.getNames(), args), count)) {
      if (cast<StringAttr>(name).getValue() != "output_indices")
        continue;
      auto list = dyn_cast<ArrayAttr>(value);
      for (Attribute element : list ? list.getValue() : ArrayRef<Attribute>()) {
        auto index = dyn_cast<IntegerAttr>(element);
        if (!index || index.getInt() < 0 || index.getInt() >= static_cast<int64_t>(count) ||
            llvm::is_contained(written, index.getInt()))
          return refuse("output_indices do not name its arguments");
        written.push_back(index.getInt());
      }
    }
    if (written.size() != op->getNumResults())
      return refuse("it writes " + Twine(written.size()) + " arguments and has " +
                    Twine(op->getNumResults()) + " results");
    return success();
  }

  /// Makes an operand of each tensor.
  LogicalResult readInputs() {
    auto strides = op->getAttrOfType<ArrayAttr>(torch::stridesAttrName);
    unsigned tensors = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(triton.getInputs().size()); ++i) {
      Attribute arg = op.getArgs()[i];
      auto tensor = dyn_cast<torch::ArgAttr>(arg);
      if (llvm::is_contained(written, i) && !tensor)
        return refuse(i, "it is written and no tensor");
      if (!tensor) {
        if (!isa<IntegerAttr, FloatAttr, sym::ExprAttr, UnitAttr>(arg))
          return refuse(i, "it is neither a tensor nor a number that is known before the run");
        args.push_back(arg);
        layouts.emplace_back();
        continue;
      }
      auto recorded = strides && tensors < strides.size()
                          ? dyn_cast<sym::ShapeAttr>(strides[tensors++])
                          : sym::ShapeAttr();
      Value value = op->getOperand(tensor.getIndex());
      if (!recorded || recorded.getSizes().size() != static_cast<size_t>(rankOf(value)))
        return refuse(i, "its strides are not known");
      if (failed(addTensor(i, value, recorded.getSizes())))
        return failure();
    }
    return success();
  }

  LogicalResult addTensor(int64_t input, Value value, ArrayRef<Expr> strides) {
    std::optional<Layout> layout = LayoutFinder(shapeOf(value), strides, kernels).find();
    if (!layout) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      llvm::interleaveComma(strides, stream, [&](Expr stride) { stream << stride.str(); });
      return refuse(input, "memory of the strides [" + text +
                               "], in which elements overlap or whose "
                               "order is not known");
    }
    if (layout->repeats && llvm::is_contained(written, input))
      return refuse(input, "it is written and has several elements in one place");
    args.push_back(torch::ArgAttr::get(op.getContext(), operands.size()));
    operands.push_back(layIn(value, *layout));
    layouts.push_back(*layout);
    return success();
  }

  /// The elements as they lie in memory, with zeros between them.
  Value layIn(Value value, const Layout &layout) {
    Exprs sizes = shapeOf(value), places;
    bool isPlain = static_cast<int64_t>(layout.dims.size()) == rankOf(value);
    for (auto [i, dim] : llvm::enumerate(layout.dims)) {
      places.push_back(dim.places);
      isPlain &= dim.dim == static_cast<int64_t>(i) && kernels.isSame(dim.places, sizes[i]);
    }
    if (isPlain)
      return value;
    return kernels.map(places, elementType(value), [&](BodyBuilder &body) {
      Exprs index(sizes.size(), Expr(0)), bounded, bounds;
      for (auto [i, dim] : llvm::enumerate(layout.dims)) {
        Expr bound = dim.dim < 0 ? Expr(1) : sizes[dim.dim];
        if (dim.dim >= 0)
          index[dim.dim] = body.dim(i);
        if (!kernels.isSame(bound, dim.places)) {
          bounded.push_back(body.dim(i));
          bounds.push_back(bound);
        }
      }
      if (bounded.empty())
        return body.read(value, index);
      return body.read(value, index, body.inside(bounded, bounds),
                       body.constant(elementType(value), 0));
    });
  }

  /// The tensor that lies so in memory.
  Value layOut(Value memory, Type type, const Layout &layout) {
    if (memory.getType() == type && llvm::all_of(llvm::enumerate(layout.dims), [](auto dim) {
          return dim.value().dim == static_cast<int64_t>(dim.index());
        }))
      return memory;
    return kernels.view(memory, sym::getShape(cast<RankedTensorType>(type)),
                        [&](ArrayRef<Expr> dims) {
                          return llvm::map_to_vector(layout.dims, [&](const Layout::Dim &dim) {
                            return dim.dim < 0 ? Expr(0) : dims[dim.dim];
                          });
                        });
  }

  /// The launch gives each parameter what it is of.
  LogicalResult check(TritonConfigAttr config) {
    for (int64_t input : config.getGrid().asArrayRef())
      if (auto number = dyn_cast<IntegerAttr>(args[input]);
          !isa<sym::ExprAttr>(args[input]) && (!number || number.getType().isInteger(1)))
        return refuse(input, "a number of blocks is no integer");
    for (auto [input, attr] :
         llvm::zip_equal(config.getParameters().asArrayRef(), config.getTypes())) {
      if (input < 0)
        continue;
      Type type = cast<TypeAttr>(attr).getValue();
      Attribute arg = args[input];
      auto pointer = dyn_cast<UnrankedTensorType>(type);
      if (auto tensor = dyn_cast<torch::ArgAttr>(arg)) {
        Type element = elementType(operands[tensor.getIndex()]);
        if (!pointer || pointer.getElementType() != element)
          return refuse(input, "its kernel has been compiled for " + text(type) +
                                   ", not for a tensor of " + text(element));
        continue;
      }
      bool fits = isa<FloatAttr>(arg) ? type.isF32() || type.isF64()
                                      : type.isInteger() && isa<IntegerAttr, sym::ExprAttr>(arg);
      if (pointer || !fits)
        return refuse(input,
                      "its kernel has been compiled for " + text(type) + ", not for " + text(arg));
    }
    return success();
  }

  template <typename T> static std::string text(T value) {
    std::string text;
    llvm::raw_string_ostream(text) << value;
    return text;
  }

  void createCall(StringRef callee) {
    ImplicitLocOpBuilder &b = kernels.b();
    SmallVector<int64_t> updates;
    SmallVector<Type> types;
    for (int64_t input : written) {
      updates.push_back(cast<torch::ArgAttr>(args[input]).getIndex());
      types.push_back(operands[updates.back()].getType());
    }
    // One that writes nothing is left for what it may do else.
    auto call = ExternOp::create(b, types, tritonLibrary, callee, operands, b.getArrayAttr(args),
                                 ArrayAttr(), /*projection=*/ArrayRef<int64_t>(),
                                 /*sizes=*/ArrayRef<int64_t>(), updates,
                                 /*impure=*/written.empty());
    for (auto [input, result, memory] :
         llvm::zip_equal(written, op->getResults(), call.getResults()))
      if (!result.use_empty())
        result.replaceAllUsesWith(layOut(memory, result.getType(), layouts[input]));
  }

  torch::HigherOrderOp op;
  KernelBuilder &kernels;
  TritonOp triton;
  SmallVector<int64_t> written; // inputs, in the order of the results
  SmallVector<Attribute> args;  // of the kernel.extern
  SmallVector<Value> operands;
  SmallVector<Layout> layouts; // of each input
};

} // namespace

LogicalResult lowering::lowerTriton(torch::HigherOrderOp op, KernelBuilder &kernels) {
  return TritonCall(op, kernels).run();
}
