// Calls of libraries and of C functions: what runtime/extern.h describes, as constant data, and the
// call in main.
#include "HostProgram.h"
#include "kiln/Codegen/Globals.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

// Values of runtime/extern.h.
enum ExternKind : int64_t {
  externNone,
  externTensor,
  externItem,
  externInt,
  externNumber,
  externBool,
  externFloat,
  externComplex,
  externString,
  externDType,
  externDevice,
  externLayout,
  externMemoryFormat,
  externList,
  externDict
};

/// The fields of kiln_extern_call.
static constexpr StringLiteral callFields = "ppppppppiiiiiii";

namespace {

/// Flattens the arguments of one call: rows of kiln_extern_value, and the numbers of its run.
class ArgumentWriter {
public:
  explicit ArgumentWriter(Globals *globals) : globals(globals) {}

  SmallVector<SmallVector<Globals::Field>> rows;
  /// Values of symbolic integers, in the order of their numbers.
  SmallVector<sym::Expr> numbers;

  void write(Attribute attr) {
    if (isa<UnitAttr>(attr)) {
      row(externNone);
    } else if (auto tensor = dyn_cast<torch::ArgAttr>(attr)) {
      row(externTensor, tensor.getIndex());
    } else if (auto item = dyn_cast<torch::ScalarAttr>(attr)) {
      row(externItem, item.getIndex());
    } else if (auto expr = dyn_cast<sym::ExprAttr>(attr)) {
      row(externNumber, numbers.size());
      numbers.push_back(expr.getValue());
    } else if (auto boolean = dyn_cast<BoolAttr>(attr)) {
      row(externBool, boolean.getValue());
    } else if (auto integer = dyn_cast<IntegerAttr>(attr)) {
      row(externInt, integer.getInt());
    } else if (auto floating = dyn_cast<FloatAttr>(attr)) {
      row(externFloat, llvm::bit_cast<int64_t>(floating.getValueAsDouble()));
    } else if (auto complex = dyn_cast<torch::ComplexAttr>(attr)) {
      row(externComplex);
      write(complex.getReal());
      write(complex.getImag());
    } else if (auto text = dyn_cast<StringAttr>(attr)) {
      row(externString, 0, text.getValue());
    } else if (auto dtype = dyn_cast<torch::DTypeAttr>(attr)) {
      ElementCode element = describeElement(dtype.getType());
      row(externDType, 256 * element.code + element.bits);
    } else if (auto device = dyn_cast<torch::DeviceAttr>(attr)) {
      row(externDevice, 0, device.getName());
    } else if (auto layout = dyn_cast<torch::LayoutAttr>(attr)) {
      row(externLayout, 0, torch::stringify(layout.getValue()));
    } else if (auto format = dyn_cast<torch::MemoryFormatAttr>(attr)) {
      row(externMemoryFormat, 0, torch::stringify(format.getValue()));
    } else if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
      auto keys = dictionary.getAs<ArrayAttr>("keys"),
           values = dictionary.getAs<ArrayAttr>("values");
      row(externDict, 0, {}, keys.size());
      for (auto [key, value] : llvm::zip_equal(keys, values)) {
        write(key);
        write(value);
      }
    } else {
      auto list = cast<ArrayAttr>(attr); // lowering refuses everything else
      row(externList, 0, {}, list.size());
      for (Attribute element : list)
        write(element);
    }
  }

private:
  void row(int64_t kind, int64_t value = 0, std::optional<StringRef> text = {}, int64_t count = 0) {
    rows.push_back({kind, count, value, text ? globals->string(*text) : std::string()});
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

void HostProgram::emitExternCall(ExternCallOp call) {
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
  Value buffers = storeAddresses(call->getOperands());
  if (call.getLibrary() == torch::cLibrary || call.getLibrary() == torch::runtimeLibrary)
    return emitCustomCall(call, buffers, table);
  LLVM::LLVMFuncOp function = declare(runtimeName("extern"), i32Type, {ptr, i32Type, ptr, ptr});
  Value status = LLVM::CallOp::create(builder, loc, function,
                                      ValueRange{run, i32(externCalls.size()), buffers, table})
                     .getResult();
  externCalls.push_back(call);
  emitCheck(status);
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
                               LLVM::LLVMFunctionType::get(i32Type, {ptr, i64, ptr, i64, ptr}));
    std::string suffix = "custom_" + std::to_string(numCustomCalls++);
    description = globals->structs("kiln_extern_call_" + suffix, globals->structType(callFields),
                                   {describeCall(call, suffix, 0)});
  }
  // The runtime's functions take tensors in the host's memory, also in a model for a device.
  bool onCopies = isDevice() && call.getLibrary() == torch::runtimeLibrary;
  LLVM::LLVMFuncOp caller =
      declare(onCopies ? "kiln_rt_device_custom_on_host" : runtimeName("custom"), i32Type,
              {ptr, ptr, ptr, ptr, ptr});
  auto address = [&](StringRef symbol) -> Value {
    return LLVM::AddressOfOp::create(builder, loc, ptr, symbol);
  };
  emitCheck(
      LLVM::CallOp::create(builder, loc, caller,
                           ValueRange{run, address(description), address(name), buffers, numbers})
          .getResult());
}

/// A kiln_extern_call.
SmallVector<Globals::Field> HostProgram::describeCall(ExternCallOp call, StringRef suffix,
                                                      int64_t library) {
  auto add = [&](StringRef name, StringRef fields, auto &&rows) {
    return globals->structs((name + suffix).str(), globals->structType(fields), rows);
  };
  ArgumentWriter arguments(globals);
  for (Attribute attr : call.getArgs())
    arguments.write(attr);
  SmallVector<std::string> names;
  if (ArrayAttr given = call.getNamesAttr())
    for (auto name : given.getAsRange<StringAttr>())
      names.push_back(globals->string(name));
  SmallVector<SmallVector<Globals::Field>> tensors;
  for (Value buffer : call->getOperands()) {
    auto type = cast<BufferType>(buffer.getType());
    ElementCode element = describeElement(type.getElementType());
    tensors.push_back({element.code, element.bits, static_cast<int64_t>(type.getSizes().size())});
  }
  return {globals->string(call.getCallee()),
          globals->string(torch::describe(call.getLoc())),
          add("kiln_extern_values_", "iilp", arguments.rows),
          names.empty() ? std::string() : globals->pointers(names),
          add("kiln_extern_tensors_", "bbh", tensors),
          globals->numbers(call.getProjection()),
          globals->numbers(call.getSizes()),
          globals->numbers(call.getUpdates()),
          library,
          static_cast<int64_t>(call.getArgs().size()),
          static_cast<int64_t>(arguments.rows.size()),
          static_cast<int64_t>(call.getIns().size()),
          static_cast<int64_t>(call.getOuts().size()),
          static_cast<int64_t>(call.getUpdates().size()),
          static_cast<int64_t>(call.getSizes().size() / 2)};
}

std::string HostProgram::emitExterns() {
  if (externCalls.empty())
    return "";
  SmallVector<StringRef> libraries;
  SmallVector<SmallVector<Globals::Field>> calls;
  for (ExternCallOp call : externCalls) {
    auto *library = llvm::find(libraries, call.getLibrary());
    int64_t libraryNumber = library - libraries.begin();
    if (library == libraries.end())
      libraries.push_back(call.getLibrary());
    calls.push_back(describeCall(call, std::to_string(calls.size()), libraryNumber));
  }
  LLVM::LLVMFuncOp open = declare("kiln_rt_open_externs", i32Type, {ptr});
  LLVM::LLVMFuncOp close =
      declare("kiln_rt_close_externs", LLVM::LLVMVoidType::get(builder.getContext()), {ptr});
  LLVM::LLVMFuncOp drop =
      declare("kiln_rt_drop_kept", LLVM::LLVMVoidType::get(builder.getContext()), {ptr});
  SmallVector<std::string> libraryNames;
  for (StringRef library : libraries)
    libraryNames.push_back(globals->string(library));
  SmallVector<Globals::Field> externs = {
      globals->pointers(libraryNames),
      globals->structs("kiln_extern_calls", globals->structType(callFields), calls),
      static_cast<int64_t>(libraries.size()),
      static_cast<int64_t>(calls.size()),
      open.getName().str(),
      close.getName().str(),
      drop.getName().str()};
  SmallVector<SmallVector<Globals::Field>> rows = {externs};
  return globals->structs("kiln_externs", globals->structType("ppiippp"), rows);
}
