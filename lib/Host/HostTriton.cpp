// Launches of Triton kernels: what runtime/cuda/device.h describes, as constant data, and the call in
// main. The numbers of a launch are its inputs, 0 for tensors, then the bytes of what it writes.
#include "HostProgram.h"
#include "kiln/Dialect/Kernel/Triton.h"
#include "kiln/Host/Device.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::host;
using namespace kiln::wrapper;

/// The value of an input that is a number; floats as the bits of a double.
static sym::Expr getNumber(Attribute arg) {
  if (auto expr = dyn_cast<sym::ExprAttr>(arg))
    return expr.getValue();
  if (auto boolean = dyn_cast<BoolAttr>(arg))
    return sym::Expr(static_cast<int64_t>(boolean.getValue()));
  if (auto integer = dyn_cast<IntegerAttr>(arg))
    return sym::Expr(integer.getInt());
  if (auto floating = dyn_cast<FloatAttr>(arg))
    return sym::Expr(llvm::bit_cast<int64_t>(floating.getValueAsDouble()));
  return sym::Expr(int64_t{0});
}

/// The buffer that an operand of the launch is to the kernel: the copy of one that it writes.
static int64_t getBuffer(ExternCallOp call, int64_t operand) {
  ArrayRef<int64_t> updates = call.getUpdates();
  const auto *update = llvm::find(updates, operand);
  return update == updates.end()
             ? operand
             : static_cast<int64_t>(call.getIns().size()) + (update - updates.begin());
}

static Row<kiln_rt_triton_parameter> describeParameter(ExternCallOp call, int64_t input,
                                                       Type type) {
  int64_t kind = KILN_RT_TRITON_NULL, bits = 64, index = 0;
  if (input >= 0 && isa<UnrankedTensorType>(type)) {
    kind = KILN_RT_TRITON_BUFFER;
    index = getBuffer(call, cast<sym::ArgAttr>(call.getArgs()[input]).getIndex());
  } else if (input >= 0) {
    kind = isa<FloatType>(type)       ? KILN_RT_TRITON_FLOAT
           : type.isUnsignedInteger() ? KILN_RT_TRITON_UNSIGNED
                                      : KILN_RT_TRITON_SIGNED;
    bits = type.getIntOrFloatBitWidth();
    index = input;
  }
  return makeRow<kiln_rt_triton_parameter>(KILN_FIELD(kiln_rt_triton_parameter, kind, kind),
                                           KILN_FIELD(kiln_rt_triton_parameter, bits, bits),
                                           KILN_FIELD(kiln_rt_triton_parameter, index, index));
}

std::string HostProgram::describeTritonConfigs(ExternCallOp call, StringRef suffix, size_t &count) {
  auto triton =
      program->getParentOfType<ModuleOp>().lookupSymbol<kernel::TritonOp>(call.getCallee());
  Rows<kiln_rt_triton_config> rows;
  for (auto [i, attr] : llvm::enumerate(triton.getConfigs())) {
    auto config = cast<kernel::TritonConfigAttr>(attr);
    Rows<kiln_rt_triton_parameter> parameters;
    for (auto [input, type] :
         llvm::zip_equal(config.getParameters().asArrayRef(), config.getTypes()))
      parameters.push_back(describeParameter(call, input, cast<TypeAttr>(type).getValue()));
    std::string table =
        globals->structs(("kiln_triton_parameters_" + suffix + "_" + Twine(i)).str(), parameters);
    for (unsigned image = 0; image < config.getImages().size(); ++image) {
      std::string kernel =
          declareData(getDeviceKernelSymbol(getTritonKernelName(call.getCallee(), i, image)));
      rows.push_back(makeRow<kiln_rt_triton_config>(
          KILN_FIELD(kiln_rt_triton_config, kernel, kernel),
          KILN_FIELD(kiln_rt_triton_config, parameters, table),
          KILN_FIELD(kiln_rt_triton_config, num_parameters, parameters.size()),
          KILN_FIELD(kiln_rt_triton_config, alignment, config.getAlignment()),
          KILN_FIELD(kiln_rt_triton_config, grid, config.getGrid().asArrayRef()),
          KILN_FIELD(kiln_rt_triton_config, reserved, 0)));
    }
  }
  count = rows.size();
  return globals->structs(("kiln_triton_configs_" + suffix).str(), rows);
}

void HostProgram::emitTritonLaunch(ExternCallOp call, Value buffers) {
  SmallVector<sym::Expr> numbers = llvm::map_to_vector(call.getArgs(), getNumber);
  SmallVector<int64_t> updates;
  for (auto [operand, out] :
       llvm::zip_equal(call.getUpdates(), call.getOuts().take_back(call.getUpdates().size()))) {
    updates.append({operand, static_cast<int64_t>(numbers.size())});
    numbers.push_back(cast<BufferType>(out.getType()).getBytes());
  }
  std::string suffix = std::to_string(numTritonLaunches++), description;
  size_t numConfigs = 0;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(program->getParentOfType<ModuleOp>().getBody());
    std::string where = globals->string(sym::describe(call.getLoc())),
                configs = describeTritonConfigs(call, suffix, numConfigs),
                updateTable = globals->numbers(updates);
    Rows<kiln_rt_triton> rows = {makeRow<kiln_rt_triton>(
        KILN_FIELD(kiln_rt_triton, where, where), KILN_FIELD(kiln_rt_triton, configs, configs),
        KILN_FIELD(kiln_rt_triton, updates, updateTable),
        KILN_FIELD(kiln_rt_triton, num_configs, numConfigs),
        KILN_FIELD(kiln_rt_triton, num_updates, call.getUpdates().size()),
        KILN_FIELD(kiln_rt_triton, first_update, call.getIns().size()),
        KILN_FIELD(kiln_rt_triton, reserved, 0))};
    description = globals->structs("kiln_triton_" + suffix, rows);
  }
  Value launch = LLVM::AddressOfOp::create(builder, loc, ptr, description);
  emitCheck(this->call(KILN_FUNCTION(kiln_rt_device_triton),
                       {run, launch, buffers, placeNumbers(numbers)})
                .getResult());
}
