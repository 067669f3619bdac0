// The pass torch-lower-auto-functionalized. In `auto_functionalized_v2` an argument x that the
// operator writes is not there; `_x_base_index` says which of `_all_bases` it is, or is a view of:
//
//   nothing else, or `_x_alias`                     the base itself
//   `_x_slice_dim`, `_x_slice_start`, `_x_slice_end`  a slice of it
//   `_x_size`, `_x_stride`, `_x_storage_offset`       any view
//
// For a list `_xs_length` says of how many, and `_xs_0_base_index` and so on of each. The results
// are those of the operator (none, if it returns nothing) and the bases as they are then.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHLOWERAUTOFUNCTIONALIZED
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {

/// One call in its new form.
class CallBuilder {
public:
  explicit CallBuilder(HigherOrderOp op) : op(op), builder(op) {}

  LogicalResult run() {
    if (failed(readArguments()))
      return failure();
    unsigned numReturned = op->getNumResults() - bases.size();
    SmallVector<Type> types(op->getResults().take_front(numReturned).getTypes());
    for (const Written &written : allWritten)
      types.push_back(operands[written.operand].getType());
    SmallVector<int64_t> updates =
        llvm::map_to_vector(allWritten, [](const Written &written) { return written.operand; });
    ArrayAttr defines = op.getDefinesAttr(), values = op.getValuesAttr();
    if (values) {
      SmallVector<Attribute> entries(values.getValue().take_front(numReturned));
      entries.append(updates.size(), builder.getUnitAttr());
      values = builder.getArrayAttr(entries);
    }
    auto call = CallOp::create(builder, op.getLoc(), types, builder.getStringAttr(target), operands,
                               builder.getArrayAttr(args), op.getNodeAttr(), defines, values,
                               builder.getArrayAttr(names), builder.getDenseI64ArrayAttr(updates));
    for (auto [i, written] : llvm::enumerate(allWritten))
      bases[written.base] = writeBack(written, call->getResult(numReturned + i));
    for (unsigned i = 0; i < numReturned; ++i)
      op->getResult(i).replaceAllUsesWith(call->getResult(i));
    for (auto [old, now] : llvm::zip_equal(op->getResults().drop_front(numReturned), bases))
      old.replaceAllUsesWith(now);
    op->erase();
    return success();
  }

private:
  /// An argument that is written: what it is of its base.
  struct Written {
    int64_t operand, base;
    enum { Whole, Slice, Strided } kind;
    SmallVector<Attribute> view; // arguments of the operator that makes it
  };

  LogicalResult refuse(const Twine &reason) {
    return op.emitError() << target << ": " << reason << " (" << describe(op.getLoc()) << ")";
  }

  Attribute find(const Twine &name) {
    for (auto [given, value] :
         llvm::zip_equal(op.getNames()->getAsValueRange<StringAttr>(), op.getArgs()))
      if (given == name.str())
        return value;
    return {};
  }

  LogicalResult readArguments() {
    if (!op.getNames() || op.getArgs().empty() || !isa<OperatorAttr>(op.getArgs()[0]))
      return op.emitError("lacks its operator");
    target = cast<OperatorAttr>(op.getArgs()[0]).getTarget();
    if (lookupSchema(target))
      return refuse("arguments by name for a known schema");
    auto list = dyn_cast_or_null<ArrayAttr>(find("_all_bases"));
    if (!list || list.size() > op->getNumResults())
      return refuse("its bases are not known");
    for (Attribute base : list) {
      auto operand = dyn_cast<ArgAttr>(base);
      if (!operand)
        return refuse("a base that is no tensor");
      bases.push_back(op->getOperand(operand.getIndex()));
    }
    for (unsigned i = 1; i < op.getArgs().size(); ++i) {
      StringRef name = cast<StringAttr>((*op.getNames())[i]).getValue();
      if (name == "_all_bases")
        continue;
      if (StringRef written = name;
          written.consume_front("_") && written.consume_back("_length") &&
          (find(name.drop_back(7) + "_0_base_index") || isZero(op.getArgs()[i]))) {
        if (failed(addList(written, op.getArgs()[i])))
          return failure();
      } else if (StringRef single = name;
                 single.consume_front("_") && single.consume_back("_base_index")) {
        if (isOfList(single))
          continue;
        FailureOr<Attribute> value = addWritten("_" + single.str());
        if (failed(value))
          return failure();
        add(single, *value);
      } else if (!isPartOfView(name)) {
        add(name, copyArgument(op.getArgs()[i]));
      }
    }
    return success();
  }

  void add(StringRef name, Attribute value) {
    names.push_back(builder.getStringAttr(name));
    args.push_back(value);
  }

  static bool isZero(Attribute attr) {
    auto number = dyn_cast<IntegerAttr>(attr);
    return number && number.getInt() == 0;
  }

  /// `xs_0`, where `_xs_length` is there.
  bool isOfList(StringRef name) {
    auto [list, number] = name.rsplit('_');
    unsigned index;
    return !number.getAsInteger(10, index) && find("_" + list + "_length");
  }

  /// Arguments that describe one with a `_base_index`.
  bool isPartOfView(StringRef name) {
    for (StringRef end : {"_alias", "_slice_dim", "_slice_start", "_slice_end", "_size", "_stride",
                          "_storage_offset"})
      if (StringRef argument = name; argument.consume_back(end) && find(argument + "_base_index"))
        return true;
    return false;
  }

  LogicalResult addList(StringRef name, Attribute length) {
    auto count = dyn_cast<IntegerAttr>(length);
    if (!count || count.getInt() < 0 || count.getInt() > int64_t(op.getArgs().size()))
      return refuse("a list of unknown length");
    SmallVector<Attribute> elements;
    for (int64_t i = 0; i < count.getInt(); ++i) {
      FailureOr<Attribute> element = addWritten("_" + name.str() + "_" + std::to_string(i));
      if (failed(element))
        return failure();
      elements.push_back(*element);
    }
    add(name, builder.getArrayAttr(elements));
    return success();
  }

  /// The argument that `prefix` is about, which may be None.
  FailureOr<Attribute> addWritten(const std::string &prefix) {
    Attribute index = find(prefix + "_base_index");
    if (index && isa<UnitAttr>(index))
      return index;
    auto number = dyn_cast_or_null<IntegerAttr>(index);
    if (!number || number.getInt() < 0 || number.getInt() >= int64_t(bases.size()))
      return refuse("a base that it does not have");
    int64_t base = number.getInt();
    Written written{int64_t(operands.size()), base, Written::Whole, {}};
    Value value = bases[base];
    if (Attribute dim = find(prefix + "_slice_dim")) {
      written.kind = Written::Slice;
      written.view = {dim, find(prefix + "_slice_start"), find(prefix + "_slice_end"),
                      builder.getI64IntegerAttr(1)};
      auto type = sliceType(cast<RankedTensorType>(value.getType()), written.view);
      if (failed(type))
        return refuse("a slice that is not one");
      value = view("aten.slice.Tensor", {value}, written, *type);
    } else if (Attribute size = find(prefix + "_size")) {
      written.kind = Written::Strided;
      written.view = {size, find(prefix + "_stride"), find(prefix + "_storage_offset")};
      FailureOr<SmallVector<sym::Expr>> sizes = readList(size);
      if (failed(sizes) || !written.view[1] || !written.view[2])
        return refuse("a view of unknown sizes");
      auto element = cast<RankedTensorType>(value.getType()).getElementType();
      value =
          view("aten.as_strided.default", {value}, written, sym::getTensorType(*sizes, element));
    }
    for (const Written &other : allWritten)
      if (other.base == base && !areDisjoint(other, written))
        return refuse("it writes two tensors that share memory");
    allWritten.push_back(written);
    operands.push_back(value);
    return Attribute(ArgAttr::get(op.getContext(), written.operand));
  }

  /// No element of one view is one of the other, for all values of the symbols.
  static bool areDisjoint(const Written &a, const Written &b) {
    if (a.kind != b.kind || a.kind == Written::Whole)
      return false;
    auto isBefore = [](std::optional<sym::Expr> last, std::optional<sym::Expr> first) {
      return last && first && isAtLeast(*first - *last, 1);
    };
    if (a.kind == Written::Slice) {
      auto last = [](const Written &slice) {
        std::optional<sym::Expr> end = readInt(slice.view[2]);
        return end ? std::optional(*end - 1) : std::nullopt;
      };
      return a.view[0] == b.view[0] &&
             (isBefore(last(a), readInt(b.view[1])) || isBefore(last(b), readInt(a.view[1])));
    }
    std::optional<Places> one = placesOf(a), other = placesOf(b);
    if (!one || !other)
      return false;
    if (isBefore(one->last(), other->offset) || isBefore(other->last(), one->offset))
      return true;
    // Side by side, as columns of a matrix are.
    return llvm::any_of(one->strides, [&](sym::Expr row) {
      std::optional<Places> left = one->inRow(row), right = other->inRow(row);
      return left && right &&
             (isBefore(left->last(), right->offset) || isBefore(right->last(), left->offset));
    });
  }

  static bool isAtLeast(sym::Expr expr, int64_t least) {
    return expr.isConstant() && *expr.constant() >= least;
  }

  /// The places of a strided view's elements.
  struct Places {
    SmallVector<sym::Expr> sizes, strides;
    sym::Expr offset;

    sym::Expr last() const {
      sym::Expr address = offset;
      for (auto [size, stride] : llvm::zip_equal(sizes, strides))
        address = address + (size - 1) * stride;
      return address;
    }

    /// The same in rows of `length` elements; nullopt if a run of them goes on in the next row.
    std::optional<Places> inRow(sym::Expr length) const {
      if (!isAtLeast(length, 1))
        return std::nullopt;
      Places inside{{}, {}, offset.mod(length)};
      for (auto [size, stride] : llvm::zip_equal(sizes, strides))
        if (!stride.mod(length).isConstant(0)) {
          inside.sizes.push_back(size);
          inside.strides.push_back(stride);
        }
      return isAtLeast(length - inside.last(), 1) ? std::optional(inside) : std::nullopt;
    }
  };

  /// Null for a view with sizes or strides that may be negative.
  static std::optional<Places> placesOf(const Written &written) {
    FailureOr<SmallVector<sym::Expr>> sizes = readList(written.view[0]),
                                      strides = readList(written.view[1]);
    std::optional<sym::Expr> offset = readInt(written.view[2]);
    auto isNegative = [](sym::Expr expr) { return expr.isConstant() && *expr.constant() < 0; };
    if (failed(sizes) || failed(strides) || !offset || sizes->size() != strides->size() ||
        llvm::any_of(*sizes, isNegative) || llvm::any_of(*strides, isNegative))
      return std::nullopt;
    return Places{*sizes, *strides, *offset};
  }

  /// A call of an operator of views, which takes the tensors and then what the view is.
  Value view(StringRef name, ArrayRef<Value> tensors, const Written &written, Type type) {
    SmallVector<Attribute> all;
    for (size_t i = 0; i < tensors.size(); ++i)
      all.push_back(ArgAttr::get(op.getContext(), i));
    llvm::append_range(all, written.view);
    auto call = CallOp::create(builder, op.getLoc(), type, name, tensors, all, op.getNodeAttr());
    for (StringRef memory : {stridesAttrName, storageOffsetAttrName})
      if (auto ofBases = op->getAttrOfType<ArrayAttr>(memory);
          ofBases && written.kind == Written::Strided && written.base < int64_t(ofBases.size()))
        call->setAttr(memory, ofBases[written.base]);
    return call->getResult(0);
  }

  /// The base, where what is in `value` was written.
  Value writeBack(const Written &written, Value value) {
    Value base = bases[written.base];
    if (written.kind == Written::Whole)
      return value;
    StringRef name = written.kind == Written::Slice ? "aten.slice_scatter.default"
                                                    : "aten.as_strided_scatter.default";
    return view(name, {base, value}, written, base.getType());
  }

  /// An argument that is only read, over the new call's operands.
  Attribute copyArgument(Attribute attr) {
    auto addOperand = [&](int64_t old) {
      operands.push_back(op->getOperand(old));
      return int64_t(operands.size()) - 1;
    };
    if (auto tensor = dyn_cast<ArgAttr>(attr))
      return ArgAttr::get(op.getContext(), addOperand(tensor.getIndex()));
    if (auto number = dyn_cast<ScalarAttr>(attr))
      return ScalarAttr::get(op.getContext(), addOperand(number.getIndex()));
    if (auto list = dyn_cast<ArrayAttr>(attr))
      return builder.getArrayAttr(llvm::map_to_vector(
          list, [&](Attribute element) -> Attribute { return copyArgument(element); }));
    return attr;
  }

  static std::optional<sym::Expr> readInt(Attribute attr) {
    if (auto expr = dyn_cast_or_null<sym::ExprAttr>(attr))
      return expr.getValue();
    if (auto number = dyn_cast_or_null<IntegerAttr>(attr))
      return sym::Expr(number.getInt());
    return std::nullopt;
  }

  static FailureOr<SmallVector<sym::Expr>> readList(Attribute attr) {
    SmallVector<sym::Expr> list;
    auto entries = dyn_cast<ArrayAttr>(attr);
    if (!entries)
      return failure();
    for (Attribute entry : entries) {
      std::optional<sym::Expr> size = readInt(entry);
      if (!size)
        return failure();
      list.push_back(*size);
    }
    return list;
  }

  /// The type of a slice whose bounds lie in the tensor.
  static FailureOr<RankedTensorType> sliceType(RankedTensorType type, ArrayRef<Attribute> view) {
    std::optional<sym::Expr> dim = readInt(view[0]), start = readInt(view[1]),
                             end = readInt(view[2]);
    if (!dim || !dim->isConstant() || !start || !end)
      return failure();
    int64_t at = *dim->constant();
    SmallVector<sym::Expr> sizes = sym::getShape(type);
    if (at < 0 || at >= int64_t(sizes.size()))
      return failure();
    sizes[at] = sym::Expr::min(*end, sizes[at]) - *start;
    return sym::getTensorType(sizes, type.getElementType());
  }

  HigherOrderOp op;
  OpBuilder builder;
  StringRef target;
  SmallVector<Value> bases, operands;
  SmallVector<Attribute> args, names;
  SmallVector<Written> allWritten;
};

struct TorchLowerAutoFunctionalized
    : kiln::impl::TorchLowerAutoFunctionalizedBase<TorchLowerAutoFunctionalized> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto op : llvm::make_early_inc_range(function.getOps<HigherOrderOp>()))
        if (op.getTarget() == "auto_functionalized_v2" && failed(CallBuilder(op).run()))
          return signalPassFailure();
  }
};
} // namespace
