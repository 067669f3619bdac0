// kiln_rt_program: the description of the model that the runtime reads.
#include "HostProgram.h"
#include "kiln/Codegen/Globals.h"
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Host/Device.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

// Values of runtime/ir_interface.h.
enum {
  rtAbi = 1,
  rtMutated = 1,
  rtNone = 2,
  rtLate = 8,
  rtStrided = 16,
  rtValue = 32,
  rtUnplaced = 2,
  rtMutableBuffer = 4,
  rtExternalWeights = 1,
  rtHasExpressions = 2
};

int64_t HostProgram::encode(sym::Expr size) {
  if (std::optional<int64_t> constant = size.constant(); constant && *constant >= 0)
    return *constant;
  auto [entry, isNew] = expressionNumbers.try_emplace(size, expressions.size());
  if (isNew)
    expressions.push_back(size);
  return -(entry->second + 1);
}

std::string HostProgram::sizes(ArrayRef<sym::Expr> exprs, Globals::Place place) {
  SmallVector<int64_t> numbers;
  for (sym::Expr expr : exprs)
    numbers.push_back(encode(expr));
  return globals->numbers(numbers, place);
}

//===-- kiln_program ------------------------------------------------------------------------===//

std::string HostProgram::emitFolds(const DenseMap<Value, int64_t> &rows) {
  SmallVector<SmallVector<Globals::Field>> folds;
  for (FoldOp fold : getFolds(program)) {
    kernel::FuncOp kernel = kernels.lookup(fold.getKernelAttr().getAttr());
    SmallVector<int64_t> constants;
    for (Value constant : fold.getOperands())
      constants.push_back(rows.lookup(constant));
    folds.push_back({declareKernel(kernel).getName().str(), *getGrid(kernel).constant(),
                     static_cast<int64_t>(fold.getIns().size()),
                     static_cast<int64_t>(fold.getOuts().size()), globals->numbers(constants)});
  }
  return globals->structs("kiln_folds", globals->structType("pliip"), folds);
}

HostProgram::Row HostProgram::makeTensorRow(StringRef name, Type type, int64_t flags,
                                            ArrayRef<sym::Expr> strides) {
  auto buffer = dyn_cast<BufferType>(type);
  if (!buffer)
    return {globals->string(name), 0, 0, 0, flags, std::string(), std::string()};
  constexpr auto atEntry = Globals::Place::Entry;
  ElementCode element = describeElement(buffer.getElementType());
  return {globals->string(name),
          element.code,
          element.bits,
          static_cast<int64_t>(buffer.getSizes().size()),
          flags,
          sizes(buffer.getSizes(), atEntry),
          strides.empty() ? std::string() : sizes(strides, atEntry)};
}

SmallVector<HostProgram::Row> HostProgram::makeInputRows() {
  SmallVector<Row> rows;
  for (unsigned i = 0; i < program.getNumArguments(); ++i) {
    int64_t flags = program.isMutated(i) ? rtMutated : 0;
    SmallVector<sym::Expr> strides;
    if (auto value = program.getArgAttrOfType<sym::ExprAttr>(i, valueAttrName)) {
      flags |= rtValue;
      strides.push_back(value.getValue());
    } else if (auto wanted = program.getArgAttrOfType<sym::ShapeAttr>(i, stridesAttrName)) {
      flags |= rtStrided;
      llvm::append_range(strides, wanted.getSizes());
    }
    rows.push_back(
        makeTensorRow(program.getInputName(i), program.getArgumentTypes()[i], flags, strides));
  }
  return rows;
}

SmallVector<HostProgram::Row> HostProgram::makeOutputRows() {
  SmallVector<Row> rows;
  for (unsigned i = 0; i < program.getNumResults(); ++i) {
    Type type = program.getResultTypes()[i];
    auto buffer = dyn_cast<BufferType>(type);
    int64_t flags = program.isNone(i) ? rtNone : isLate(i) ? rtLate : 0;
    bool isStrided = buffer && !buffer.isContiguous();
    rows.push_back(makeTensorRow(program.getOutputName(i), type, flags,
                                 isStrided ? buffer.getStrides() : ArrayRef<sym::Expr>()));
  }
  return rows;
}

SmallVector<HostProgram::Row> HostProgram::makeConstantRows(DenseMap<Value, int64_t> &rowNumbers) {
  SmallVector<Row> rows;
  llvm::StringMap<int64_t> namedRows;
  // Tied names, and what folds read and make, are rows of one cell: the first of them.
  auto addRow = [&](StringRef name, BufferType type, ConstantOp constant) {
    ElementCode element = describeElement(type.getElementType());
    bool isPlaced = constant && constant.getOffset();
    int64_t flags = !isPlaced ? rtUnplaced : constant.getMutated() ? rtMutableBuffer : 0;
    int64_t cell = rows.size();
    if (constant) {
      cell = rowNumbers.try_emplace(constant, cell).first->second;
      if (constant.getName())
        namedRows.try_emplace(*constant.getName(), cell);
    }
    rows.push_back({globals->string(name), element.code, element.bits,
                    static_cast<int64_t>(type.getSizes().size()), flags,
                    sizes(type.getSizes(), Globals::Place::Anywhere),
                    isPlaced ? constant.getOffsetAttr().getInt() : 0, *type.getBytes().constant(),
                    cell, 0});
  };
  for (const NamedConstant &constant : getNamedConstants(program))
    addRow(constant.name, constant.type, constant.op);
  for (ConstantOp constant : getConstants(program)) {
    auto named = namedRows.find(constant.getName().value_or(""));
    bool isState = constant.getMutated() && !constant.getName();
    if (named != namedRows.end())
      rowNumbers[constant] = named->second; // of another function
    else if (!rowNumbers.contains(constant) &&
             (isState || llvm::any_of(constant->getUsers(), llvm::IsaPred<FoldOp>)))
      addRow("", constant.getType(), constant);
  }
  return rows;
}

SmallVector<HostProgram::Row> HostProgram::makeSymbolRows() {
  SmallVector<Row> rows;
  for (NamedAttribute symbol : getSymbols()) {
    // The program checks what it defines itself.
    bool isDefined = definedSymbols.contains(sym::Expr::symbol(symbol.getName()));
    auto bound = [&](StringRef name, int64_t none) {
      return isDefined ? none : getSymbolBound(symbol, name).value_or(none);
    };
    rows.push_back(
        {globals->string(symbol.getName()), bound("min", INT64_MIN), bound("max", INT64_MAX)});
  }
  return rows;
}

void HostProgram::emitTables() {
  auto module = program->getParentOfType<ModuleOp>();
  auto moduleEnd = [&] { builder.setInsertionPointToEnd(module.getBody()); };
  moduleEnd();
  constexpr auto atEntry = Globals::Place::Entry;
  DenseMap<Value, int64_t> constantNumbers;
  SmallVector<Row> inputs = makeInputRows(), outputs = makeOutputRows(),
                   constants = makeConstantRows(constantNumbers), symbols = makeSymbolRows();
  // The rows have numbered the expressions.
  SmallVector<std::string> expressionTexts;
  for (sym::Expr expr : expressions)
    expressionTexts.push_back(globals->string(expr.str()));
  if (!expressions.empty())
    emitEval(expressions);
  moduleEnd();
  std::string externs = emitExterns();
  std::string folds = emitFolds(constantNumbers);
  SmallVector<std::string> failures;
  if (auto messages = module->getAttrOfType<ArrayAttr>(kernel::failuresAttrName))
    for (StringRef message : messages.getAsValueRange<StringAttr>())
      failures.push_back(globals->string(message));
  LLVM::LLVMStructType tensor = globals->structType("pbbhipp");
  int64_t weightsBytes = program.getWeightsBytes().value_or(0);
  bool embedded = weightsBytes && !options.externalWeights;
  if (embedded) {
    // Made by the link (kiln/Link/Link.h).
    auto blob = LLVM::GlobalOp::create(builder, loc, builder.getI8Type(), /*isConstant=*/true,
                                       LLVM::Linkage::External, "kiln_weights", Attribute());
    blob.setVisibility_(LLVM::Visibility::Hidden);
    blob.setDsoLocal(true);
  }
  int64_t flags = rtHasExpressions | (weightsBytes && !embedded ? rtExternalWeights : 0);
  Row fields = {rtAbi,
                static_cast<int64_t>(inputs.size()),
                static_cast<int64_t>(outputs.size()),
                static_cast<int64_t>(constants.size()),
                static_cast<int64_t>(symbols.size()),
                flags,
                globals->string(describeModel(program, options.info)),
                globals->structs("kiln_inputs", tensor, inputs, atEntry),
                globals->structs("kiln_outputs", tensor, outputs, atEntry),
                globals->structs("kiln_constants", globals->structType("pbbhipllii"), constants),
                globals->structs("kiln_symbols", globals->structType("pll"), symbols, atEntry),
                std::string(embedded ? "kiln_weights" : ""),
                weightsBytes,
                static_cast<int64_t>(options.weightsHash),
                scratchBytes,
                std::string(symbols.empty() ? "" : "kiln_bind"),
                std::string(expressions.empty() ? "" : "kiln_eval"),
                std::string("kiln_sizes"),
                std::string("kiln_main"),
                static_cast<int64_t>(expressions.size()),
                static_cast<int64_t>(getFolds(program).size()),
                globals->pointers(expressionTexts),
                folds,
                numSegments,
                static_cast<int64_t>(failures.size()),
                externs,
                isDevice() ? declareData(deviceTableName.str()) : "",
                globals->pointers(failures)};
  globals->exported("kiln_program", globals->structType("iiiiiipppppplllppppiippiippp"), fields);
}
