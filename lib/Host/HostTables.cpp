// kiln_rt_program: the description of the model that the runtime reads.
#include "FoldLayout.h"
#include "HostProgram.h"
#include "kiln/Codegen/Globals.h"
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Dialect/Wrapper/Weights.h"
#include "kiln/Host/Device.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

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
  SmallVector<Row<kiln_rt_fold>> folds;
  llvm::SmallDenseSet<int64_t> made;
  for (auto [entry, fold] : getAllFolds()) {
    SmallVector<int64_t> constants;
    for (Value constant : fold.getOperands())
      constants.push_back(rows.lookup(constant));
    // Entries make the same data of the same weights.
    if (!made.insert(rows.lookup(fold.getOuts().front())).second)
      continue;
    auto kernel =
        entry == options.number
            ? kernels.lookup(fold.getKernelAttr().getAttr())
            : SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(fold, fold.getKernelAttr());
    SmallVector<int64_t> layout = getFoldLayout(kernel);
    std::string cells = globals->numbers(constants), layoutTable = globals->numbers(layout);
    folds.push_back(makeRow<kiln_rt_fold>(
        KILN_FIELD(kiln_rt_fold, kernel, declareKernel(kernel).getName().str()),
        KILN_FIELD(kiln_rt_fold, grid, *getGrid(kernel).constant()),
        KILN_FIELD(kiln_rt_fold, num_operands, fold.getIns().size()),
        KILN_FIELD(kiln_rt_fold, num_results, fold.getOuts().size()),
        KILN_FIELD(kiln_rt_fold, constants, cells), KILN_FIELD(kiln_rt_fold, layout, layoutTable),
        KILN_FIELD(kiln_rt_fold, num_dims, layout.size() / 4),
        KILN_FIELD(kiln_rt_fold, entry, entry), KILN_FIELD(kiln_rt_fold, reserved, 0)));
  }
  numFolds = folds.size();
  return globals->structs("kiln_folds", folds);
}

SmallVector<std::pair<int64_t, FoldOp>> HostProgram::getAllFolds() {
  SmallVector<std::pair<int64_t, FoldOp>> folds;
  for (auto [i, entry] : llvm::enumerate(options.getEntries(program)))
    for (FoldOp fold : getFolds(entry.program))
      folds.push_back({i, fold});
  return folds;
}

Row<kiln_rt_tensor> HostProgram::makeTensorRow(StringRef name, Type type, int64_t flags,
                                               ArrayRef<sym::Expr> strides) {
  constexpr auto atEntry = Globals::Place::Entry;
  auto buffer = dyn_cast<BufferType>(type);
  ElementCode element = buffer ? describeElement(buffer.getElementType()) : ElementCode();
  ArrayRef<sym::Expr> shape = buffer ? buffer.getSizes() : ArrayRef<sym::Expr>();
  if (!buffer)
    strides = {};
  std::string text = globals->string(name), sizeTable = sizes(shape, atEntry),
              strideTable = sizes(strides, atEntry);
  return makeRow<kiln_rt_tensor>(
      KILN_FIELD(kiln_rt_tensor, name, text), KILN_FIELD(kiln_rt_tensor, code, element.code),
      KILN_FIELD(kiln_rt_tensor, bits, element.bits),
      KILN_FIELD(kiln_rt_tensor, rank, shape.size()), KILN_FIELD(kiln_rt_tensor, flags, flags),
      KILN_FIELD(kiln_rt_tensor, shape, sizeTable),
      KILN_FIELD(kiln_rt_tensor, strides, strideTable));
}

SmallVector<Row<kiln_rt_tensor>> HostProgram::makeInputRows() {
  SmallVector<Row<kiln_rt_tensor>> rows;
  for (unsigned i = 0; i < program.getNumArguments(); ++i) {
    int64_t flags = program.isMutated(i) ? KILN_RT_MUTATED : 0;
    SmallVector<sym::Expr> strides;
    if (auto value = program.getArgAttrOfType<sym::ExprAttr>(i, valueAttrName)) {
      flags |= KILN_RT_VALUE;
      strides.push_back(value.getValue());
    } else if (auto wanted = program.getArgAttrOfType<sym::ShapeAttr>(i, stridesAttrName)) {
      flags |= KILN_RT_STRIDED;
      llvm::append_range(strides, wanted.getSizes());
    }
    rows.push_back(
        makeTensorRow(program.getInputName(i), program.getArgumentTypes()[i], flags, strides));
  }
  return rows;
}

SmallVector<Row<kiln_rt_tensor>> HostProgram::makeOutputRows() {
  SmallVector<Row<kiln_rt_tensor>> rows;
  for (unsigned i = 0; i < program.getNumResults(); ++i) {
    Type type = program.getResultTypes()[i];
    auto buffer = dyn_cast<BufferType>(type);
    int64_t flags = program.isNone(i) ? KILN_RT_NONE : isLate(i) ? KILN_RT_LATE : 0;
    bool isStrided = buffer && !buffer.isContiguous();
    rows.push_back(makeTensorRow(program.getOutputName(i), type, flags,
                                 isStrided ? buffer.getStrides() : ArrayRef<sym::Expr>()));
  }
  return rows;
}

Row<kiln_rt_constant> HostProgram::makeConstantRow(StringRef name, BufferType type,
                                                   ConstantOp constant, int64_t cell) {
  ElementCode element = describeElement(type.getElementType());
  bool isPlaced = constant && constant.getOffset();
  int64_t flags = !isPlaced ? KILN_RT_UNPLACED : constant.getMutated() ? KILN_RT_MUTABLE_BUFFER : 0;
  if (constant && constant.getName() && isLater(constant))
    flags |= KILN_RT_LATER;
  std::string text = globals->string(name),
              shape = sizes(type.getSizes(), Globals::Place::Anywhere);
  return makeRow<kiln_rt_constant>(
      KILN_FIELD(kiln_rt_constant, name, text), KILN_FIELD(kiln_rt_constant, code, element.code),
      KILN_FIELD(kiln_rt_constant, bits, element.bits),
      KILN_FIELD(kiln_rt_constant, rank, type.getSizes().size()),
      KILN_FIELD(kiln_rt_constant, flags, flags), KILN_FIELD(kiln_rt_constant, shape, shape),
      KILN_FIELD(kiln_rt_constant, offset, isPlaced ? constant.getOffsetAttr().getInt() : 0),
      KILN_FIELD(kiln_rt_constant, bytes, *type.getBytes().constant()),
      KILN_FIELD(kiln_rt_constant, cell, cell), KILN_FIELD(kiln_rt_constant, reserved, 0));
}

SmallVector<Row<kiln_rt_constant>>
HostProgram::makeConstantRows(DenseMap<Value, int64_t> &rowNumbers) {
  SmallVector<Row<kiln_rt_constant>> rows;
  llvm::StringMap<int64_t> namedRows; // of a program alone
  llvm::DenseMap<int64_t, int64_t> cellRows;
  // The row that is there for what has the same value.
  auto find = [&](ConstantOp constant) -> std::optional<int64_t> {
    if (options.cells) {
      auto row = cellRows.find(options.cells->lookup(constant));
      return row == cellRows.end() ? std::nullopt : std::optional(row->second);
    }
    if (auto row = rowNumbers.find(constant); row != rowNumbers.end())
      return row->second;
    auto named = namedRows.find(constant.getName().value_or(""));
    return named == namedRows.end() ? std::nullopt : std::optional(named->second);
  };
  // Tied names, and what folds read and make, are rows of one cell: the first of them.
  auto addRow = [&](StringRef name, BufferType type, ConstantOp constant) {
    int64_t cell = rows.size();
    if (constant) {
      std::optional<int64_t> known =
          options.cells || rowNumbers.contains(constant) ? find(constant) : std::nullopt;
      cell = rowNumbers[constant] = known.value_or(cell);
      if (options.cells)
        cellRows.try_emplace(options.cells->lookup(constant), cell);
      else if (constant.getName())
        namedRows.try_emplace(*constant.getName(), cell);
    }
    rows.push_back(makeConstantRow(name, type, constant, cell));
  };
  SmallVector<ModelEntry> entries = options.getEntries(program);
  for (const NamedConstant &constant :
       getNamedConstants(entries, options.cells ? *options.cells : ConstantCells()))
    addRow(constant.name, constant.type, constant.op);
  for (const ModelEntry &entry : entries)
    for (ConstantOp constant : getConstants(entry.program)) {
      bool isState = constant.getMutated() && !constant.getName();
      if (std::optional<int64_t> row = find(constant))
        rowNumbers[constant] = *row; // of another function
      else if (isState || llvm::any_of(constant->getUsers(), llvm::IsaPred<FoldOp>))
        addRow("", constant.getType(), constant);
    }
  return rows;
}

SmallVector<Row<kiln_rt_symbol>> HostProgram::makeSymbolRows() {
  SmallVector<Row<kiln_rt_symbol>> rows;
  for (NamedAttribute symbol : getSymbols()) {
    // The program checks what it defines itself.
    bool isDefined = definedSymbols.contains(sym::Expr::symbol(symbol.getName()));
    auto bound = [&](StringRef name, int64_t none) {
      return isDefined ? none : getSymbolBound(symbol, name).value_or(none);
    };
    rows.push_back(
        makeRow<kiln_rt_symbol>(KILN_FIELD(kiln_rt_symbol, name, globals->string(symbol.getName())),
                                KILN_FIELD(kiln_rt_symbol, min, bound("min", INT64_MIN)),
                                KILN_FIELD(kiln_rt_symbol, max, bound("max", INT64_MAX))));
  }
  return rows;
}

SmallVector<std::string> HostProgram::emitFailures() {
  SmallVector<std::string> failures;
  auto module = program->getParentOfType<ModuleOp>();
  if (auto messages = module->getAttrOfType<ArrayAttr>(kernel::failuresAttrName))
    for (StringRef message : messages.getAsValueRange<StringAttr>())
      failures.push_back(globals->string(message));
  return failures;
}

std::string HostProgram::declareWeights() {
  // Made by the link (kiln/Link/Link.h).
  auto blob = LLVM::GlobalOp::create(builder, loc, builder.getI8Type(), /*isConstant=*/true,
                                     LLVM::Linkage::External, "kiln_weights", Attribute());
  blob.setVisibility_(LLVM::Visibility::Hidden);
  blob.setDsoLocal(true);
  return "kiln_weights";
}

/// An entry's but the first's kiln_rt_program.
static std::string getProgramSymbol(StringRef entry) { return (entry + "$kiln_program").str(); }

void HostProgram::emitTables() {
  auto module = program->getParentOfType<ModuleOp>();
  auto moduleEnd = [&] { builder.setInsertionPointToEnd(module.getBody()); };
  moduleEnd();
  constexpr auto atEntry = Globals::Place::Entry;
  DenseMap<Value, int64_t> constantNumbers;
  Rows<kiln_rt_tensor> inputs = makeInputRows(), outputs = makeOutputRows();
  // Those of the first entry are of all.
  bool isFirst = options.number == 0;
  Rows<kiln_rt_constant> constants;
  if (isFirst)
    constants = makeConstantRows(constantNumbers);
  Rows<kiln_rt_symbol> symbols = makeSymbolRows();
  Rows<kiln_rt_step> stepRows;
  if (options.stepsAlone)
    stepRows = makeStepRows();
  // The rows have numbered the expressions.
  SmallVector<std::string> expressionTexts;
  for (sym::Expr expr : expressions)
    expressionTexts.push_back(globals->string(expr.str()));
  if (!expressions.empty()) {
    emitEval("kiln_eval", expressions);
    placeAtEntry(function);
  }
  std::string profile = emitProfile();
  moduleEnd();
  std::string externs = emitExterns();
  std::string folds = isFirst ? emitFolds(constantNumbers) : "";
  SmallVector<std::string> failures = emitFailures();
  int64_t weightsBytes = !isFirst        ? 0
                         : options.cells ? options.knownBytes
                                         : getKnownWeightsBytes(program);
  int64_t laterBytes = isFirst ? program.getWeightsBytes().value_or(0) - weightsBytes : 0;
  bool isEmbedded = weightsBytes && !options.externalWeights;
  std::string weights = isEmbedded ? declareWeights() : "";
  int64_t flags =
      KILN_RT_HAS_EXPRESSIONS | (weightsBytes && !isEmbedded ? KILN_RT_EXTERNAL_WEIGHTS : 0);
  // One after the other, since each may get the next free name.
  SmallVector<ModelEntry> entries = options.getEntries(program);
  std::string info =
      isFirst ? globals->string(describeModel(
                    entries, options.cells ? *options.cells : ConstantCells(), options.info))
              : "";
  SmallVector<std::string> others;
  for (const ModelEntry &other : ArrayRef(entries).drop_front())
    if (isFirst)
      others.push_back(declareData(getProgramSymbol(other.name)));
  std::string otherTable = globals->pointers(others);
  std::string entry = globals->string(entries[options.number].name),
              inputTable = globals->structs("kiln_inputs", inputs, atEntry),
              outputTable = globals->structs("kiln_outputs", outputs, atEntry),
              constantTable = globals->structs("kiln_constants", constants),
              symbolTable = globals->structs("kiln_symbols", symbols, atEntry),
              expressionTable = globals->pointers(expressionTexts),
              device = isDevice() ? declareData(getEntrySymbol(module, deviceTableName)) : "",
              failureTable = globals->pointers(failures),
              cpu = options.cpu.empty() ? "" : globals->string(options.cpu);
  std::string bind = symbols.empty() ? "" : "kiln_bind",
              eval = expressions.empty() ? "" : "kiln_eval";
  globals->exported(
      isFirst ? "kiln_program" : getProgramSymbol(entries[options.number].name),
      makeRow<kiln_rt_program>(
          KILN_FIELD(kiln_rt_program, abi, KILN_RT_ABI),
          KILN_FIELD(kiln_rt_program, num_inputs, inputs.size()),
          KILN_FIELD(kiln_rt_program, num_outputs, outputs.size()),
          KILN_FIELD(kiln_rt_program, num_constants, constants.size()),
          KILN_FIELD(kiln_rt_program, num_symbols, symbols.size()),
          KILN_FIELD(kiln_rt_program, flags, flags), KILN_FIELD(kiln_rt_program, info, info),
          KILN_FIELD(kiln_rt_program, entry, entry),
          KILN_FIELD(kiln_rt_program, inputs, inputTable),
          KILN_FIELD(kiln_rt_program, outputs, outputTable),
          KILN_FIELD(kiln_rt_program, constants, constantTable),
          KILN_FIELD(kiln_rt_program, symbols, symbolTable),
          KILN_FIELD(kiln_rt_program, weights, weights),
          KILN_FIELD(kiln_rt_program, weights_bytes, weightsBytes),
          KILN_FIELD(kiln_rt_program, weights_hash, options.weightsHash),
          KILN_FIELD(kiln_rt_program, scratch_bytes, scratchBytes),
          KILN_FIELD(kiln_rt_program, bind, bind), KILN_FIELD(kiln_rt_program, eval, eval),
          KILN_FIELD(kiln_rt_program, sizes, "kiln_sizes"),
          KILN_FIELD(kiln_rt_program, main, "kiln_main"),
          KILN_FIELD(kiln_rt_program, num_expressions, expressions.size()),
          KILN_FIELD(kiln_rt_program, num_folds, numFolds),
          KILN_FIELD(kiln_rt_program, expressions, expressionTable),
          KILN_FIELD(kiln_rt_program, folds, folds),
          KILN_FIELD(kiln_rt_program, num_segments, numSegments),
          KILN_FIELD(kiln_rt_program, num_failures, failures.size()),
          KILN_FIELD(kiln_rt_program, externs, externs),
          KILN_FIELD(kiln_rt_program, device, device),
          KILN_FIELD(kiln_rt_program, failures, failureTable),
          KILN_FIELD(kiln_rt_program, profile, profile),
          KILN_FIELD(kiln_rt_program, later_bytes, laterBytes),
          KILN_FIELD(kiln_rt_program, cpu_features, static_cast<int64_t>(options.cpuFeatures)),
          KILN_FIELD(kiln_rt_program, cpu, cpu), KILN_FIELD(kiln_rt_program, others, otherTable),
          KILN_FIELD(kiln_rt_program, num_others, others.size()),
          KILN_FIELD(kiln_rt_program, reserved, 0)));
  if (options.stepsAlone)
    emitStepTable(stepRows);
}
