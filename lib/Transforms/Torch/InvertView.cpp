// Writes through a view: the whole tensor that results when a part seen through it is replaced.
#include "InvertView.h"
#include "kiln/Dialect/Torch/CallArgs.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {
class ViewInverter {
public:
  ViewInverter(ImplicitLocOpBuilder &builder, CallOp view, unsigned result, Value source,
               Value value)
      : builder(builder), view(view), args(view), target(view.getTarget()),
        name(target.drop_front(target.find('.') + 1).split('.').first), result(result),
        source(source), value(value), type(cast<RankedTensorType>(source.getType())) {}

  Value run() {
    if (Value result = invertPermutation())
      return result;
    if (Value result = invertSelection())
      return result;
    if (Value result = invertPart())
      return result;
    if (Value result = invertReinterpretation())
      return result;
    return invertReshape();
  }

private:
  Attribute arg(unsigned index) { return ArgAttr::get(builder.getContext(), index); }
  Attribute number(int64_t value) { return builder.getI64IntegerAttr(value); }
  Attribute number(sym::Expr value) {
    if (auto constant = value.constant())
      return number(*constant);
    return sym::ExprAttr::get(builder.getContext(), value);
  }

  Value emit(StringRef target, ValueRange operands, ArrayRef<Attribute> args, Type type) {
    OperationState state(builder.getLoc(), CallOp::getOperationName());
    state.addOperands(operands);
    state.addTypes(type);
    state.addAttribute("target", builder.getStringAttr(target));
    state.addAttribute("args", builder.getArrayAttr(args));
    state.addAttribute("node", view.getNodeAttr());
    return builder.create(state)->getResult(0);
  }

  /// The operator of the view, which is its own inverse, with other arguments.
  Value viewBack(ArrayRef<Attribute> rest) {
    SmallVector<Attribute> all = {arg(0)};
    llvm::append_range(all, rest);
    return emit(target, value, all, type);
  }

  /// `value` written into `source` by `scatter`.
  Value writeInto(StringRef scatter, ArrayRef<Attribute> rest) {
    SmallVector<Attribute> all = {arg(0), arg(1)};
    llvm::append_range(all, rest);
    return emit(scatter, {source, value}, all, type);
  }

  Value writeSlice(Attribute dim, sym::Expr begin, sym::Expr end) {
    return writeInto("aten.slice_scatter.default",
                     {dim, number(begin), number(end), number(int64_t(1))});
  }

  /// Views of all elements in another order of dims.
  Value invertPermutation() {
    if (name == "transpose" || name == "swapaxes" || name == "swapdims")
      return viewBack({args.get(1), args.get(2)});
    if (name == "t" || name == "numpy_T" || name == "mT" || name == "adjoint" || name == "mH" ||
        name == "matrix_H" || name == "conj" || name == "_conj")
      return viewBack({});
    if (name == "movedim" || name == "moveaxis")
      return viewBack({args.get(2), args.get(1)});
    if (name != "permute")
      return Value();
    SmallVector<int64_t> perm = args.intList(1), inverse(perm.size());
    for (auto [i, dim] : llvm::enumerate(perm))
      inverse[dim < 0 ? dim + perm.size() : dim] = i;
    return viewBack({builder.getI64ArrayAttr(inverse)});
  }

  /// Views of some elements that ATen has an operator to write.
  Value invertSelection() {
    if (name == "select")
      return writeInto("aten.select_scatter.default", {args.get(1), args.get(2)});
    if (name == "slice")
      return writeInto("aten.slice_scatter.default",
                       {args.get(1), args.get(2), args.get(3), args.get(4)});
    if (name == "diagonal" || name == "linalg_diagonal")
      return writeInto("aten.diagonal_scatter.default", {args.get(1), args.get(2), args.get(3)});
    if (name == "unfold")
      return invertUnfold();
    if (name != "as_strided")
      return Value();
    Value written =
        writeInto("aten.as_strided_scatter.default", {args.get(1), args.get(2), args.get(3)});
    for (StringRef attribute : {stridesAttrName, storageOffsetAttrName})
      if (Attribute recorded = view->getAttr(attribute))
        written.getDefiningOp()->setAttr(attribute, recorded);
    return written;
  }

  /// A tensor of equal elements, which may be written in any order.
  static bool isFill(Value value) {
    auto call = value.getDefiningOp<CallOp>();
    if (!call)
      return false;
    if (call.getTarget() == "aten.copy.default")
      return cast<RankedTensorType>(call->getOperand(1).getType()).getRank() == 0;
    return llvm::is_contained({"aten.fill.Scalar", "aten.fill.Tensor", "aten.zero.default"},
                              call.getTarget());
  }

  /// The first elements of all windows, the second ones, and so on. Windows that overlap may only
  /// be filled: the order in which eager mode writes other elements depends on their strides.
  Value invertUnfold() {
    constexpr int64_t maxSize = 64;
    int64_t dim = args.integer(1), size = args.integer(2), step = args.integer(3);
    if (type.getRank() == 0 || size > maxSize || (size > step && !isFill(value)))
      return Value();
    dim += dim < 0 ? type.getRank() : 0;
    SmallVector<sym::Expr> shape = sym::getShape(value);
    shape.pop_back();
    Type places = sym::getTensorType(shape, type.getElementType());
    Value whole = source;
    for (int64_t i = 0; i < size; ++i) {
      Value elements =
          emit("aten.select.int", value, {arg(0), number(int64_t(-1)), number(i)}, places);
      sym::Expr end = i + (shape[dim] - 1) * step + 1;
      whole = emit("aten.slice_scatter.default", {whole, elements},
                   {arg(0), arg(1), number(dim), number(i), number(end), number(step)}, type);
    }
    return whole;
  }

  /// The dim of a view of neighbouring slices.
  int64_t partDim() {
    if (name == "hsplit")
      return type.getRank() == 1 ? 0 : 1;
    if (name == "vsplit" || name == "dsplit")
      return name == "vsplit" ? 0 : 2;
    int64_t dim = args.integer(2);
    return dim < 0 ? dim + type.getRank() : dim;
  }

  /// The place in a dim that a number from either end means.
  static sym::Expr fromStart(sym::Expr index, sym::Expr size) {
    return index + size * sym::Expr::min(1, sym::Expr::max(0, -index));
  }

  /// Views of neighbouring slices, of which this is one.
  Value invertPart() {
    if (name == "unbind")
      return writeInto("aten.select_scatter.default", {args.get(1), number(int64_t(result))});
    name.consume_front("unsafe_");
    if (llvm::is_contained(
            {"split", "split_with_sizes", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit"},
            name)) {
      int64_t dim = partDim();
      sym::Expr begin = 0;
      if (target.ends_with(".indices") || target.ends_with(".array")) {
        // The slices begin where the program says, which need not be in order.
        sym::Expr size = sym::getShape(type)[dim];
        if (result > 0)
          begin = sym::Expr::min(fromStart(args.symIntList(1)[result - 1], size), size);
      } else {
        for (unsigned i = 0; i < result; ++i)
          begin = begin + sym::getShape(view->getResult(i))[dim];
      }
      return writeSlice(number(dim), begin, begin + sym::getShape(view->getResult(result))[dim]);
    }
    if (target == "aten.narrow.default") {
      int64_t dim = args.integer(1);
      sym::Expr size = sym::getShape(type)[dim < 0 ? dim + type.getRank() : dim];
      sym::Expr begin = fromStart(args.symInt(2), size);
      return writeSlice(args.get(1), begin, begin + args.symInt(3));
    }
    return Value();
  }

  /// Views of the same memory as another dtype.
  Value invertReinterpretation() {
    if (name == "view_as_real")
      return emit("aten.view_as_complex.default", value, {arg(0)}, type);
    if (name == "view_as_complex")
      return emit("aten.view_as_real.default", value, {arg(0)}, type);
    if (name == "real" && source.getType() == value.getType())
      return value;
    if (name == "real" || name == "imag") {
      bool isReal = name == "real";
      Value other = emit(isReal ? "aten.imag.default" : "aten.real.default", source, {arg(0)},
                         value.getType());
      return emit("aten.complex.default", {isReal ? value : other, isReal ? other : value},
                  {arg(0), arg(1)}, type);
    }
    if (target == "aten.view.dtype")
      return viewBack(DTypeAttr::get(builder.getContext(), type.getElementType()));
    return Value();
  }

  bool hasSameElements() {
    return sym::product(sym::getShape(value)) == sym::product(sym::getShape(type));
  }

  /// Views of all elements in their order, and those that are the tensor itself.
  Value invertReshape() {
    bool isReshape = llvm::StringSwitch<bool>(name)
                         .Cases({"view", "view_as", "_unsafe_view", "unflatten"}, true)
                         .Cases({"unsqueeze", "squeeze"}, true)
                         .Cases({"reshape", "reshape_as", "contiguous", "flatten"}, true)
                         .Cases({"ravel", "_reshape_alias"}, true)
                         .Cases({"atleast_1d", "atleast_2d", "atleast_3d"}, true)
                         // Eager mode does not write either where an element shows twice.
                         .Cases({"expand", "expand_as", "broadcast_to"}, hasSameElements())
                         .Default(false);
    if (isReshape) {
      SmallVector<Attribute> sizes;
      for (sym::Expr size : sym::getShape(type))
        sizes.push_back(number(size));
      return emit("aten.view.default", value, {arg(0), builder.getArrayAttr(sizes)}, type);
    }
    bool isIdentity = llvm::StringSwitch<bool>(name)
                          .Cases({"alias", "detach", "lift_fresh", "to", "type_as"}, true)
                          .Cases({"dropout", "feature_dropout", "alpha_dropout", "positive"}, true)
                          .Cases({"feature_alpha_dropout", "conj_physical"}, true)
                          .Default(false);
    return isIdentity && value.getType() == type ? value : Value();
  }

  ImplicitLocOpBuilder &builder;
  CallOp view;
  CallArgs args;
  StringRef target, name;
  unsigned result;
  Value source, value;
  RankedTensorType type;
};
} // namespace

Value torch::invertView(ImplicitLocOpBuilder &builder, CallOp view, unsigned result, Value source,
                        Value value) {
  return ViewInverter(builder, view, result, source, value).run();
}
