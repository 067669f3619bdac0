// Calls of libraries and of C functions: what runtime/extern.h describes, as constant data, and the
// call in main.
#include "HostProgram.h"
#include "kiln/Codegen/Globals.h"
#include "kiln/Dialect/Kernel/Triton.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

namespace {

/// Flattens the arguments of one call: rows of kiln_extern_value, and the numbers of its run.
class ArgumentWriter {
public:
  explicit ArgumentWriter(Globals *globals) : globals(globals) {}

  SmallVector<Row<kiln_extern_value>> rows;
  /// Values of symbolic integers, in the order of their numbers.
  SmallVector<sym::Expr> numbers;

  void write(Attribute attr) {
    if (isa<UnitAttr>(attr)) {
      row(KILN_EXTERN_NONE);
    } else if (auto tensor = dyn_cast<sym::ArgAttr>(attr)) {
      row(KILN_EXTERN_TENSOR, tensor.getIndex());
    } else if (auto item = dyn_cast<sym::ScalarAttr>(attr)) {
      row(KILN_EXTERN_ITEM, item.getIndex());
    } else if (auto expr = dyn_cast<sym::ExprAttr>(attr)) {
      row(KILN_EXTERN_NUMBER, numbers.size());
      numbers.push_back(expr.getValue());
    } else if (auto boolean = dyn_cast<BoolAttr>(attr)) {
      row(KILN_EXTERN_BOOL, boolean.getValue());
    } else if (auto integer = dyn_cast<IntegerAttr>(attr)) {
      row(KILN_EXTERN_INT, integer.getInt());
    } else if (auto floating = dyn_cast<FloatAttr>(attr)) {
      row(KILN_EXTERN_FLOAT, llvm::bit_cast<int64_t>(floating.getValueAsDouble()));
    } else if (auto complex = dyn_cast<sym::ComplexAttr>(attr)) {
      row(KILN_EXTERN_COMPLEX);
      write(complex.getReal());
      write(complex.getImag());
    } else if (auto text = dyn_cast<StringAttr>(attr)) {
      row(KILN_EXTERN_STRING, 0, text.getValue());
    } else if (auto dtype = dyn_cast<sym::DTypeAttr>(attr)) {
      ElementCode element = describeElement(dtype.getType());
      row(KILN_EXTERN_DTYPE, 256 * element.code + element.bits);
    } else if (auto device = dyn_cast<sym::DeviceAttr>(attr)) {
      row(KILN_EXTERN_DEVICE, 0, device.getName());
    } else if (auto layout = dyn_cast<sym::LayoutAttr>(attr)) {
      row(KILN_EXTERN_LAYOUT, 0, sym::stringify(layout.getValue()));
    } else if (auto format = dyn_cast<sym::MemoryFormatAttr>(attr)) {
      row(KILN_EXTERN_MEMORY_FORMAT, 0, sym::stringify(format.getValue()));
    } else if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
      auto keys = dictionary.getAs<ArrayAttr>("keys"),
           values = dictionary.getAs<ArrayAttr>("values");
      row(KILN_EXTERN_DICT, 0, {}, keys.size());
      for (auto [key, value] : llvm::zip_equal(keys, values)) {
        write(key);
        write(value);
      }
    } else {
      auto list = cast<ArrayAttr>(attr); // lowering refuses everything else
      row(KILN_EXTERN_LIST, 0, {}, list.size());
      for (Attribute element : list)
        write(element);
    }
  }

private:
  void row(int64_t kind, int64_t value = 0, std::optional<StringRef> text = {}, int64_t count = 0) {
    rows.push_back(makeRow<kiln_extern_value>(
        KILN_FIELD(kiln_extern_value, kind, kind), KILN_FIELD(kiln_extern_value, count, count),
        KILN_FIELD(kiln_extern_value, value, value),
        KILN_FIELD(kiln_extern_value, text, text ? globals->string(*text) : std::string())));
  }

  Globals *globals;
};

} // namespace

/// Sizes and strides of the buffers.
static void addLayouts(ValueRange buffers, SmallVectorImpl<sym::Expr> &numbers) {
  for (Value buffer : buffers) {
    auto type = cast<BufferType>(buffer.getType());
    llvm::append_range(numbers, type.getSizes());
    llvm::append_range(numbers, type.getStrides());
  }
}

Value HostProgram::emitNumbers(ExternCallOp call) {
  SmallVector<sym::Expr> numbers;
  addLayouts(call->getOperands(), numbers);
  ArgumentWriter writer(globals);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(program->getParentOfType<ModuleOp>().getBody());
    for (Attribute attr : call.getArgs())
      writer.write(attr);
  }
  llvm::append_range(numbers, writer.numbers);
  return placeNumbers(numbers);
}

Value HostProgram::placeNumbers(ArrayRef<sym::Expr> numbers) {
  Value table;
  if (llvm::all_of(numbers, [](sym::Expr expr) { return expr.isConstant(); })) {
    std::string name;
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(program->getParentOfType<ModuleOp>().getBody());
      name = globals->numbers(
          llvm::map_to_vector(numbers, [](sym::Expr expr) { return *expr.constant(); }));
    }
    table = name.empty() ? LLVM::ZeroOp::create(builder, loc, ptr).getResult()
                         : LLVM::AddressOfOp::create(builder, loc, ptr, name).getResult();
  } else {
    // At the function's entry: an alloca in a loop would grow the stack.
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(run);
    Value count = LLVM::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(numbers.size()));
    table = LLVM::AllocaOp::create(builder, loc, ptr, i64, count);
  }
  if (table.getDefiningOp<LLVM::AllocaOp>())
    storeNumbers(table, 0, numbers);
  return table;
}

void HostProgram::emitExternCall(ExternCallOp call) {
  bool isTriton = call.getLibrary() == kernel::tritonLibrary;
  Value table = isTriton ? Value() : emitNumbers(call);
  Value buffers = storeAddresses(call->getOperands());
  auto emit = [&] {
    if (isTriton)
      return emitTritonLaunch(call, buffers);
    if (isFunctionCall(call))
      return emitCustomCall(call, buffers, table);
    RuntimeFunction function =
        choose(KILN_FUNCTION(kiln_rt_extern), KILN_FUNCTION(kiln_rt_device_extern));
    Value status = this->call(function, {run, i32(externCalls.size()), buffers, table}).getResult();
    externCalls.push_back(call);
    emitCheck(status);
  };
  emitShown(call, call.getIns(), call.getOuts(), buffers,
            [&] { emitProfiledCall(call, buffers, emit); });
}

/// A C function: of a custom operator, which may be another object's, or the runtime's own.
void HostProgram::emitCustomCall(ExternCallOp call, Value buffers, Value numbers) {
  // LLVM takes the name as it is behind \01, so that nothing here has the same.
  std::string name = ("\01" + call.getCallee()).str(), description;
  auto module = program->getParentOfType<ModuleOp>();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    if (!module.lookupSymbol(name))
      LLVM::LLVMFuncOp::create(builder, loc, name,
                               CFunctionType<kiln_custom_op_fn>::get(builder.getContext()));
    std::string suffix = "custom_" + std::to_string(numCustomCalls++);
    SmallVector<Row<kiln_extern_call>> rows = {describeCall(call, suffix, 0)};
    description = globals->structs("kiln_extern_call_" + suffix, rows);
  }
  // The runtime's functions take tensors in the host's memory, also in a model for a device.
  bool onCopies = isDevice() && call.getLibrary() == torch::runtimeLibrary;
  RuntimeFunction caller =
      onCopies ? KILN_FUNCTION(kiln_rt_device_custom_on_host)
               : choose(KILN_FUNCTION(kiln_rt_custom), KILN_FUNCTION(kiln_rt_device_custom));
  auto address = [&](StringRef symbol) -> Value {
    return LLVM::AddressOfOp::create(builder, loc, ptr, symbol);
  };
  emitCheck(
      this->call(caller, {run, address(description), address(name), buffers, numbers}).getResult());
}

Row<kiln_extern_call> HostProgram::describeCall(ExternCallOp call, StringRef suffix,
                                                int64_t library) {
  ArgumentWriter arguments(globals);
  for (Attribute attr : call.getArgs())
    arguments.write(attr);
  SmallVector<std::string> names;
  if (ArrayAttr given = call.getNamesAttr())
    for (auto name : given.getAsRange<StringAttr>())
      names.push_back(globals->string(name));
  SmallVector<Row<kiln_extern_tensor>> tensors;
  for (Value buffer : call->getOperands()) {
    auto type = cast<BufferType>(buffer.getType());
    ElementCode element = describeElement(type.getElementType());
    tensors.push_back(
        makeRow<kiln_extern_tensor>(KILN_FIELD(kiln_extern_tensor, code, element.code),
                                    KILN_FIELD(kiln_extern_tensor, bits, element.bits),
                                    KILN_FIELD(kiln_extern_tensor, rank, type.getSizes().size())));
  }
  auto nameOf = [&](StringRef table) { return (table + suffix).str(); };
  // The names of equal texts and numbers are given in the order of the fields.
  std::string callee = globals->string(call.getCallee()),
              where = globals->string(sym::describe(call.getLoc())),
              values = globals->structs(nameOf("kiln_extern_values_"), arguments.rows),
              argumentNames = names.empty() ? std::string() : globals->pointers(names),
              types = globals->structs(nameOf("kiln_extern_tensors_"), tensors),
              projection = globals->numbers(call.getProjection()),
              sizes = globals->numbers(call.getSizes()),
              updates = globals->numbers(call.getUpdates());
  return makeRow<kiln_extern_call>(
      KILN_FIELD(kiln_extern_call, callee, callee), KILN_FIELD(kiln_extern_call, where, where),
      KILN_FIELD(kiln_extern_call, args, values),
      KILN_FIELD(kiln_extern_call, names, argumentNames),
      KILN_FIELD(kiln_extern_call, tensors, types),
      KILN_FIELD(kiln_extern_call, projection, projection),
      KILN_FIELD(kiln_extern_call, sizes, sizes), KILN_FIELD(kiln_extern_call, updates, updates),
      KILN_FIELD(kiln_extern_call, library, library),
      KILN_FIELD(kiln_extern_call, num_args, call.getArgs().size()),
      KILN_FIELD(kiln_extern_call, num_values, arguments.rows.size()),
      KILN_FIELD(kiln_extern_call, num_operands, call.getIns().size()),
      KILN_FIELD(kiln_extern_call, num_results, call.getOuts().size()),
      KILN_FIELD(kiln_extern_call, num_updates, call.getUpdates().size()),
      KILN_FIELD(kiln_extern_call, num_sizes, call.getSizes().size() / 2),
      KILN_FIELD(kiln_extern_call, reserved, 0));
}

std::string HostProgram::emitExterns() {
  if (externCalls.empty())
    return "";
  SmallVector<StringRef> libraries;
  SmallVector<Row<kiln_extern_call>> calls;
  for (ExternCallOp call : externCalls) {
    auto *library = llvm::find(libraries, call.getLibrary());
    int64_t libraryNumber = library - libraries.begin();
    if (library == libraries.end())
      libraries.push_back(call.getLibrary());
    calls.push_back(describeCall(call, std::to_string(calls.size()), libraryNumber));
  }
  LLVM::LLVMFuncOp open = declare(KILN_FUNCTION(kiln_rt_open_externs)),
                   close = declare(KILN_FUNCTION(kiln_rt_close_externs)),
                   drop = declare(KILN_FUNCTION(kiln_rt_drop_kept));
  SmallVector<std::string> libraryNames;
  for (StringRef library : libraries)
    libraryNames.push_back(globals->string(library));
  std::string libraryTable = globals->pointers(libraryNames),
              callTable = globals->structs("kiln_extern_calls", calls);
  SmallVector<Row<kiln_rt_externs>> rows = {
      makeRow<kiln_rt_externs>(KILN_FIELD(kiln_rt_externs, libraries, libraryTable),
                               KILN_FIELD(kiln_rt_externs, calls, callTable),
                               KILN_FIELD(kiln_rt_externs, num_libraries, libraries.size()),
                               KILN_FIELD(kiln_rt_externs, num_calls, calls.size()),
                               KILN_FIELD(kiln_rt_externs, open, open.getName().str()),
                               KILN_FIELD(kiln_rt_externs, close, close.getName().str()),
                               KILN_FIELD(kiln_rt_externs, drop, drop.getName().str()))};
  return globals->structs("kiln_externs", rows);
}
