// Verifiers, printers and parsers of the wrapper dialect's ops.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

#define GET_OP_CLASSES
#include "kiln/Dialect/Wrapper/WrapperOps.cpp.inc"

/// Sizes in `function` use only symbols of `symbols`, and no other is defined.
static LogicalResult verifySymbols(HostFunctionOpInterface function, DictionaryAttr symbols) {
  auto check = [&](Operation *op, ArrayRef<sym::Expr> exprs) -> LogicalResult {
    LogicalResult result = success();
    for (sym::Expr expr : exprs)
      expr.walkLeaves([&](sym::Expr leaf) {
        if (failed(result) || leaf.kind() != sym::Kind::Symbol ||
            (symbols && symbols.contains(leaf.symbolName())))
          return;
        result = op->emitOpError("uses symbol ")
                 << leaf.symbolName() << ", which the program lacks";
      });
    return result;
  };
  WalkResult walk = function->walk([&](Operation *op) {
    SmallVector<Type> types(op->getResultTypes());
    if (op == function)
      llvm::append_range(
          types, llvm::concat<const Type>(function.getArgumentTypes(), function.getResultTypes()));
    for (Type type : types)
      if (auto buffer = dyn_cast<BufferType>(type))
        if (failed(check(op, buffer.getSizes())) || failed(check(op, buffer.getStrides())))
          return WalkResult::interrupt();
    for (NamedAttribute attr : op->getAttrs())
      if (auto expr = dyn_cast<sym::ExprAttr>(attr.getValue()))
        if (failed(check(op, expr.getValue())))
          return WalkResult::interrupt();
    auto define = dyn_cast<DefineOp>(op);
    if (define && (!symbols || !symbols.contains(define.getSymbol()))) {
      define.emitOpError("defines ") << define.getSymbol() << ", which the program lacks";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

//===-- The program -------------------------------------------------------------------------===//

void ProgramOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type,
                      ArrayRef<DictionaryAttr> argAttrs, ArrayRef<DictionaryAttr> resAttrs,
                      DictionaryAttr symbols) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  if (symbols)
    state.addAttribute(getSymbolsAttrName(state.name), symbols);
  call_interface_impl::addArgAndResultAttrs(builder, state, argAttrs, resAttrs,
                                            getArgAttrsAttrName(state.name),
                                            getResAttrsAttrName(state.name));
  Block &block = state.addRegion()->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, state.location);
}

template <typename Function>
static ParseResult parseFunction(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, Function::getFunctionTypeAttrName(result.name),
      buildType, Function::getArgAttrsAttrName(result.name),
      Function::getResAttrsAttrName(result.name));
}

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<ProgramOp>(parser, result);
}

void ProgramOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

StringRef ProgramOp::getInputName(unsigned index) {
  return getArgAttrOfType<StringAttr>(index, nameAttrName).getValue();
}

StringRef ProgramOp::getOutputName(unsigned index) {
  return getResultAttrOfType<StringAttr>(index, nameAttrName).getValue();
}

bool ProgramOp::isMutated(unsigned input) {
  return static_cast<bool>(getArgAttr(input, wrapper::mutatedAttrName));
}

bool ProgramOp::isNone(unsigned output) { return isa<NoneType>(getResultTypes()[output]); }

LogicalResult ProgramOp::verify() {
  for (auto [i, type] : llvm::enumerate(getArgumentTypes())) {
    auto buffer = dyn_cast<BufferType>(type); // C1
    if (!buffer || !buffer.isContiguous())
      return emitOpError("input ") << i << " is not a contiguous buffer";
    if (!getArgAttrOfType<StringAttr>(i, nameAttrName)) // C2
      return emitOpError("input ") << i << " has no wrapper.name";
  }
  for (auto [i, type] : llvm::enumerate(getResultTypes())) {
    if (!isa<BufferType, NoneType>(type)) // C1
      return emitOpError("output ") << i << " is neither a buffer nor none";
    if (!getResultAttrOfType<StringAttr>(i, nameAttrName)) // C2
      return emitOpError("output ") << i << " has no wrapper.name";
  }
  return verifySymbols(*this, getSymbolsAttr()); // C3
}

//===-- Nested graphs -----------------------------------------------------------------------===//

void FuncOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getSymVisibilityAttrName(state.name), builder.getStringAttr("private"));
  Block &block = state.addRegion()->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, state.location);
}

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<FuncOp>(parser, result);
}

void FuncOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

bool FuncOp::isGiven(unsigned result) {
  return static_cast<bool>(getResultAttr(result, givenAttrName));
}

void FuncOp::setGiven(unsigned result) {
  setResultAttr(result, givenAttrName, UnitAttr::get(getContext()));
}

LogicalResult FuncOp::verify() {
  for (Type type : llvm::concat<const Type>(getArgumentTypes(), getResultTypes())) { // C1
    auto buffer = dyn_cast<BufferType>(type);
    if (!buffer || !buffer.isContiguous())
      return emitOpError("takes or gives ") << type << ", which is not a contiguous buffer";
  }
  if (auto module = (*this)->getParentOfType<ModuleOp>()) // C2
    for (auto program : module.getOps<ProgramOp>())
      return verifySymbols(*this, program.getSymbolsAttr());
  return success();
}

//===-- Uses of kernels ---------------------------------------------------------------------===//

static LogicalResult verifyContiguous(Operation *op) {
  for (Value buffer : op->getOperands())
    if (!cast<BufferType>(buffer.getType()).isContiguous())
      return op->emitOpError("buffer ") << buffer.getType() << " is not contiguous";
  return success();
}

/// `kernel` is a kernel.func with operands and results of the shapes and element types of `ins` and
/// `outs`.
static LogicalResult verifyKernelUse(
    Operation *op, FlatSymbolRefAttr kernel, ValueRange ins, ValueRange outs,
    SymbolTableCollection &symbols,
    llvm::function_ref<sym::Expr(sym::Expr)> fromKernel = [](sym::Expr e) { return e; }) {
  auto func = symbols.lookupNearestSymbolFrom<kernel::FuncOp>(op, kernel);
  if (!func)
    return op->emitOpError("'") << kernel.getValue() << "' is not a kernel.func";
  auto check = [&](ValueRange buffers, ArrayRef<Type> tensors, StringRef what) -> LogicalResult {
    if (buffers.size() != tensors.size())
      return op->emitOpError("gives ") << buffers.size() << " " << what << " to @"
                                       << kernel.getValue() << ", which has " << tensors.size();
    for (auto [i, buffer, tensor] : llvm::enumerate(buffers, tensors)) {
      auto type = cast<BufferType>(buffer.getType());
      auto want = dyn_cast<RankedTensorType>(tensor);
      if (!want || type.getElementType() != want.getElementType() ||
          type.getSizes() !=
              ArrayRef<sym::Expr>(llvm::map_to_vector(sym::getShape(want), fromKernel)))
        return op->emitOpError("gives ")
               << type << " for a " << tensor << " (" << what << " " << i << ")";
    }
    return success();
  };
  if (failed(check(ins, func.getArgumentTypes(), "operands")))
    return failure();
  return check(outs, func.getResultTypes(), "results");
}

//===-- Where buffers come from -------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  auto tensor = dyn_cast<RankedTensorType>(getValue().getType()); // C1
  if (!tensor || BufferType::get(tensor) != getResult().getType())
    return emitOpError("value of type ") << getValue().getType() << " in " << getType();
  if (IntegerAttr offset = getOffsetAttr()) // C2
    if (offset.getInt() < 0 || offset.getInt() % bufferAlignment)
      return emitOpError("offset ") << offset.getInt() << " is not a multiple of 64";
  return success();
}

LogicalResult FoldOp::verify() {
  if (failed(verifyContiguous(*this))) // C1
    return failure();
  for (Value buffer : getOperands()) // C2
    if (!buffer.getDefiningOp<ConstantOp>())
      return emitOpError("has an operand that is not a constant");
  for (Value buffer : getOuts()) {
    auto constant = buffer.getDefiningOp<ConstantOp>();
    auto makes = [&](OpOperand &use) {
      auto fold = dyn_cast<FoldOp>(use.getOwner());
      return fold && use.getOperandNumber() >= fold.getIns().size();
    };
    if (constant.getName() || constant.getMutated() || llvm::count_if(buffer.getUses(), makes) != 1)
      return emitOpError("makes a constant that has a name, is mutated or made twice");
  }
  return success();
}

LogicalResult FoldOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyKernelUse(*this, getKernelAttr(), getIns(), getOuts(), symbols); // C1
}

LogicalResult OutputOp::verify() {
  auto function = cast<HostFunctionOpInterface>((*this)->getParentOp());
  if (getIndex() >= function.getNumResults()) // C1
    return emitOpError("@") << function.getName() << " has " << function.getNumResults()
                            << " outputs";
  if (function.isNone(getIndex()))
    return emitOpError("output ") << getIndex() << " is None";
  if (function.isGiven(getIndex()))
    return emitOpError("output ") << getIndex() << " is memory of the function's own";
  if (function.getResultTypes()[getIndex()] != getType())
    return emitOpError("output ") << getIndex() << " is a "
                                  << function.getResultTypes()[getIndex()];
  return success();
}

LogicalResult AllocOp::verify() {
  if (!getType().isContiguous()) // C1
    return emitOpError("buffer is not contiguous");
  return success();
}

LogicalResult ReserveOp::verify() {
  if (static_cast<int64_t>(getSegment()) < 1) // C1
    return emitOpError("segment ") << getSegment() << " is not one that a program reserves";
  return success();
}

static LogicalResult verifyOwned(Operation *op, Value buffer) {
  if (!isa_and_nonnull<AllocOp, ReuseOp>(buffer.getDefiningOp()))
    return op->emitOpError("operand is neither allocated nor reused memory");
  return success();
}

LogicalResult GiveOp::verify() {
  auto function = cast<FuncOp>((*this)->getParentOp());
  if (getIndex() >= function.getNumResults() || !function.isGiven(getIndex()) ||
      function.getResultTypes()[getIndex()] != getBuffer().getType()) // C1
    return emitOpError("gives a ")
           << getBuffer().getType() << ", which is not what result " << getIndex() << " is";
  return verifyOwned(*this, getStorage(getBuffer())); // C1
}

LogicalResult FreeOp::verify() { return verifyOwned(*this, getBuffer()); } // C1

LogicalResult ReuseOp::verify() {
  if (failed(verifyOwned(*this, getBuffer()))) // C1
    return failure();
  sym::Expr have = cast<BufferType>(getBuffer().getType()).getBytes();
  if (!getType().isContiguous() || getType().getBytes() != have) // C2
    return emitOpError("needs ") << getType().getBytes().str() << " contiguous bytes of "
                                 << have.str();
  return success();
}

LogicalResult ViewOp::verify() {
  sym::Expr offset = getOffset().getValue() * getElementBytes(getType().getElementType());
  sym::Expr slack =
      cast<BufferType>(getBuffer().getType()).getBytes() - offset - getType().getBytes();
  bool empty = getType().getNumElements().isConstant(0);
  if (offset.constant().value_or(0) < 0 || (!empty && slack.constant().value_or(0) < 0)) // C1
    return emitOpError("lies outside the viewed buffer");
  return success();
}

//===-- Steps -------------------------------------------------------------------------------===//

static bool isOne(Value buffer, unsigned width) {
  auto type = cast<BufferType>(buffer.getType());
  return type.getNumElements().isConstant(1) && type.getElementType().isInteger(width);
}

static LogicalResult verifyDistinct(Operation *op, ValueRange outs) {
  SmallPtrSet<Value, 4> seen;
  for (Value buffer : outs)
    if (!seen.insert(buffer).second)
      return op->emitOpError("has one buffer for two results");
  return success();
}

void LaunchOp::build(OpBuilder &, OperationState &state, FlatSymbolRefAttr kernel, ValueRange ins,
                     ValueRange outs) {
  state.addOperands(ins);
  state.addOperands(outs);
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.kernel = kernel;
  llvm::copy(ArrayRef<int32_t>{static_cast<int32_t>(ins.size()), static_cast<int32_t>(outs.size())},
             properties.operandSegmentSizes.begin());
}

void LaunchOp::build(OpBuilder &builder, OperationState &state, StringRef kernel, ValueRange ins,
                     ValueRange outs) {
  build(builder, state, FlatSymbolRefAttr::get(builder.getContext(), kernel), ins, outs);
}

SmallVector<FlatSymbolRefAttr> LaunchOp::getKernels() {
  SmallVector<FlatSymbolRefAttr> kernels = {getKernelAttr()};
  if (ArrayAttr alternatives = getAlternativesAttr())
    llvm::append_range(kernels, alternatives.getAsRange<FlatSymbolRefAttr>());
  return kernels;
}

SmallVector<sym::Expr> LaunchOp::getConditions() {
  SmallVector<sym::Expr> conditions;
  if (ArrayAttr when = getWhenAttr())
    for (auto condition : when.getAsRange<sym::ExprAttr>())
      conditions.push_back(condition.getValue());
  return conditions;
}

LogicalResult LaunchOp::verify() {
  if (failed(verifyContiguous(*this))) // C2
    return failure();
  size_t conditions = getConditions().size();
  if (getKernels().size() != conditions + 1) // C4
    return emitOpError("has ") << getKernels().size() - 1 << " alternatives and " << conditions
                               << " expressions for them";
  if (DictionaryAttr symbols = getSymbolsAttr(); symbols && !symbols.empty()) // C5
    for (NamedAttribute symbol : symbols)
      if (conditions || !isa<sym::ExprAttr>(symbol.getValue()))
        return emitOpError("has ")
               << symbol.getValue() << " for the kernel's symbol " << symbol.getName().getValue()
               << (conditions ? ", and alternatives" : "");
  return verifyDistinct(*this, getOuts()); // C3
}

sym::Expr LaunchOp::fromKernel(sym::Expr expr) {
  DictionaryAttr symbols = getSymbolsAttr();
  if (!symbols)
    return expr;
  return expr.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
    if (leaf.kind() != sym::Kind::Symbol)
      return std::nullopt;
    auto value = symbols.getAs<sym::ExprAttr>(leaf.symbolName());
    return value ? std::optional(value.getValue()) : std::nullopt;
  });
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr kernel : getKernels())
    if (failed(verifyKernelUse(*this, kernel, getIns(), getOuts(), symbols,
                               [&](sym::Expr size) { return fromKernel(size); }))) // C1
      return failure();
  return success();
}

LogicalResult ExternCallOp::verify() {
  auto error = [&] { return emitOpError(); };
  if (failed(sym::verifyArguments(getArgs(), getIns().size(), error)) || // C1
      failed(sym::verifyResults(getProjection(), getSizes(), getUpdates(), getIns().size(),
                                getOuts().size(), error))) // C2, C3, C7
    return failure();
  OperandRange outs = getOuts();
  for (Value size : outs.slice(getProjection().size(), sym::countKept(getSizes()))) // C7
    if (!isOne(size, 64))
      return emitOpError("gives a size as a ") << size.getType();
  for (auto [operand, updated] :
       llvm::zip_equal(getUpdates(), outs.take_back(getUpdates().size()))) { // C4
    auto in = cast<BufferType>(getIns()[operand].getType());
    auto out = cast<BufferType>(updated.getType());
    if (in.getSizes() != out.getSizes() || in.getElementType() != out.getElementType())
      return emitOpError("updates a ") << in << " in a " << out;
  }
  if (getNames() && getNames()->size() != getArgs().size()) // C5
    return emitOpError("has ") << getNames()->size() << " names for " << getArgs().size()
                               << " arguments";
  return verifyDistinct(*this, getOuts()); // C6
}

LogicalResult CopyOp::verify() {
  auto source = cast<BufferType>(getSource().getType());
  auto target = cast<BufferType>(getTarget().getType());
  if (source.getSizes() != target.getSizes() ||
      source.getElementType() != target.getElementType()) // C1
    return emitOpError("copies between different sizes or element types");
  return success();
}

LogicalResult BindOp::verify() {
  auto argument = dyn_cast<BlockArgument>(getInput());
  auto type = cast<BufferType>(getInput().getType());
  if (!argument || argument.getOwner()->getParentOp() != getOperation()->getParentOp()) // C1
    return emitOpError("reads what is not an input");
  std::optional<uint64_t> dim = getSize() ? getSize() : getStride();
  if (getSize() && getStride()) // C1
    return emitOpError("reads both a size and a stride");
  if (dim && *dim >= type.getSizes().size()) // C1
    return emitOpError("reads dim ") << *dim << " of " << type;
  if (!dim && !(type.getSizes().empty() && type.getElementType().isInteger(64))) // C1
    return emitOpError("reads a number from ") << type;
  sym::Expr symbol = sym::Expr::symbol(getSymbol()), expr = getExpr().getValue();
  std::optional<sym::Linear> linear = sym::splitLinear(expr, symbol);
  if (!linear || !expr.dependsOn(symbol)) // C2
    return emitOpError("cannot solve ") << expr.str() << " for " << getSymbol();
  llvm::DenseSet<sym::Expr> bound;
  for (Operation *op = (*this)->getPrevNode(); op; op = op->getPrevNode())
    if (auto other = dyn_cast<BindOp>(op))
      bound.insert(sym::Expr::symbol(other.getSymbol()));
  if (bound.contains(symbol)) // C4
    return emitOpError("binds ") << getSymbol() << " again";
  bound.insert(symbol);
  LogicalResult result = success();
  expr.walkLeaves([&](sym::Expr leaf) {
    if (succeeded(result) && !bound.contains(leaf)) // C3
      result = emitOpError("needs ") << leaf.str() << ", which is not bound yet";
  });
  return result;
}

LogicalResult DefineOp::verify() {
  if (!getValue() == !getExpr()) // C1
    return emitOpError("needs either a buffer or an expression");
  if (getValue() && !isOne(getValue(), 64))
    return emitOpError("loads from ") << getValue().getType() << ", which is not one i64";
  return success();
}

LogicalResult CheckOp::verify() {
  if (!isOne(getCondition(), 1)) // C1
    return emitOpError("condition is ") << getCondition().getType() << ", which is not one i1";
  return success();
}

LogicalResult AssertOp::verify() {
  if (getExpr().getValue().constant().value_or(0) < 0) // C1
    return emitOpError("never holds: ") << getExpr().getValue().str() << " is below zero";
  return success();
}
